// Changes by reflection, so that new fields of the schema are covered without being named here.
#include "Mutator.h"

#include <google/protobuf/descriptor.h>

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

namespace colossal::runtime {

void Mutator::mutate(Message &message) {
  std::vector<const FieldDescriptor *> present;
  const auto *reflection = message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor *field = message.GetDescriptor()->field(i);
    if (field->is_repeated()
            ? reflection->FieldSize(message, field) > 0
            : field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || reflection->HasField(message, field))
      present.push_back(field);
  }
  if (present.empty())
    return;
  const FieldDescriptor *field = present[pick(present.size())];
  if (field->is_repeated()) {
    const int size = reflection->FieldSize(message, field),
              index = static_cast<int>(pick(static_cast<size_t>(size)));
    switch (pick(12)) {
    case 0: return reflection->RemoveLast(&message, field);
    case 1:
      return reflection->SwapElements(&message, field, index,
                                      static_cast<int>(pick(static_cast<size_t>(size))));
    default: break;
    }
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE)
      return mutate(*reflection->MutableRepeatedMessage(&message, field, index));
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_UINT64)
      return reflection->SetRepeatedUInt64(&message, field, index, number());
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_UINT32)
      return reflection->SetRepeatedUInt32(&message, field, index, static_cast<uint32_t>(number()));
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64)
      return reflection->SetRepeatedInt64(&message, field, index, static_cast<int64_t>(number()));
    return;
  }
  switch (field->cpp_type()) {
  case FieldDescriptor::CPPTYPE_MESSAGE:
    if (pick(16) == 0)
      return reflection->ClearField(&message, field);
    return mutate(*reflection->MutableMessage(&message, field));
  case FieldDescriptor::CPPTYPE_UINT64: return reflection->SetUInt64(&message, field, number());
  case FieldDescriptor::CPPTYPE_UINT32:
    return reflection->SetUInt32(&message, field, static_cast<uint32_t>(number()));
  case FieldDescriptor::CPPTYPE_INT64:
    return reflection->SetInt64(&message, field, static_cast<int64_t>(number()));
  case FieldDescriptor::CPPTYPE_ENUM:
    return reflection->SetEnumValue(&message, field, static_cast<int>(pick(16)));
  case FieldDescriptor::CPPTYPE_BOOL:
    return reflection->SetBool(&message, field, !reflection->GetBool(message, field));
  case FieldDescriptor::CPPTYPE_STRING:
    return reflection->SetString(&message, field, std::string(pick(40), 'x'));
  default: return;
  }
}

uint64_t Mutator::number() {
  switch (pick(6)) {
  case 0: return random() % 8;
  case 1: return random() % 64 * 4;
  case 2: return random() % 5000;
  case 3: return uint64_t(1) << pick(64);
  case 4: return ~uint64_t(0) - random() % 8;
  default: return (uint64_t(1) << pick(64)) - 1 - random() % 3;
  }
}

} // namespace colossal::runtime

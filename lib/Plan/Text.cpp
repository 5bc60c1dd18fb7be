//===- Text.cpp - the text of a plan is UTF-8 -------------------------------===//
#include "colossal/Plan/Emit.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/JSON.h"

#include <map>
#include <vector>

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

/// Whether messages of the type have text, or messages in them do.
static bool mayHaveText(const Descriptor *type) {
  llvm::SmallSetVector<const Descriptor *, 16> types;
  types.insert(type);
  for (size_t t = 0; t < types.size(); ++t)
    for (int i = 0; i < types[t]->field_count(); ++i) {
      const FieldDescriptor *field = types[t]->field(i);
      if (field->type() == FieldDescriptor::TYPE_STRING)
        return true;
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE)
        types.insert(field->message_type());
    }
  return false;
}

namespace {
class Repairer {
public:
  void repair(Message &message);

private:
  void repairString(Message &message, const FieldDescriptor *field, int i);
  /// The fields of a message that are text, or may have some; most of a plan is numbers.
  llvm::ArrayRef<const FieldDescriptor *> getFields(const Descriptor *type) {
    auto [entry, isNew] = known.try_emplace(type);
    if (isNew)
      for (int i = 0; i < type->field_count(); ++i) {
        const FieldDescriptor *field = type->field(i);
        if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE
                ? mayHaveText(field->message_type())
                : field->type() == FieldDescriptor::TYPE_STRING)
          entry->second.push_back(field);
      }
    return entry->second;
  }

  std::map<const Descriptor *, std::vector<const FieldDescriptor *>> known;
};
} // namespace

void Repairer::repairString(Message &message, const FieldDescriptor *field, int i) {
  const auto *reflection = message.GetReflection();
  std::string copy;
  const std::string &text = field->is_repeated()
                                ? reflection->GetRepeatedStringReference(message, field, i, &copy)
                                : reflection->GetStringReference(message, field, &copy);
  if (llvm::json::isUTF8(text))
    return;
  std::string fixed = llvm::json::fixUTF8(text);
  if (field->is_repeated())
    reflection->SetRepeatedString(&message, field, i, std::move(fixed));
  else
    reflection->SetString(&message, field, std::move(fixed));
}

void Repairer::repair(Message &message) {
  const auto *reflection = message.GetReflection();
  for (const FieldDescriptor *field : getFields(message.GetDescriptor())) {
    const bool isMessage = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (!field->is_repeated() && !reflection->HasField(message, field))
      continue;
    int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i)
      if (!isMessage)
        repairString(message, field, i);
      else
        repair(field->is_repeated() ? *reflection->MutableRepeatedMessage(&message, field, i)
                                    : *reflection->MutableMessage(&message, field));
  }
}

void colossal::plan::repairText(Message &message) {
  Repairer().repair(message);
}

//===- Text.cpp - the text of a plan is UTF-8 -------------------------------===//
#include "colossal/Plan/Emit.h"

#include "llvm/Support/JSON.h"

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

void colossal::plan::repairText(Message &message) {
  const auto *reflection = message.GetReflection();
  std::vector<const FieldDescriptor *> fields; // that are set
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor *field : fields) {
    int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        repairText(field->is_repeated() ? *reflection->MutableRepeatedMessage(&message, field, i)
                                        : *reflection->MutableMessage(&message, field));
      } else if (field->type() == FieldDescriptor::TYPE_STRING) {
        std::string text = field->is_repeated() ? reflection->GetRepeatedString(message, field, i)
                                                : reflection->GetString(message, field);
        if (llvm::json::isUTF8(text))
          continue;
        text = llvm::json::fixUTF8(text);
        if (field->is_repeated())
          reflection->SetRepeatedString(&message, field, i, text);
        else
          reflection->SetString(&message, field, text);
      }
    }
  }
}

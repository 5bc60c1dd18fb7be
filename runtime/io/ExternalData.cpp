// A walk through the messages of ONNX's schema (onnx.proto) that lead to tensors.
#include "runtime/io/ExternalData.h"

#include "runtime/io/MappedFile.h"
#include "runtime/io/OnnxReaders.h"
#include "runtime/io/WireFields.h"

#include <set>

namespace colossal::runtime {

using namespace wire;

namespace {

enum class Message { Model, Graph, Function, Node, Attribute, Sparse, Tensor, Other };

/// What a field of a message is.
Message inner(Message message, uint32_t number) {
  switch (message) {
  case Message::Model:
    return number == 7 ? Message::Graph : number == 25 ? Message::Function : Message::Other;
  case Message::Graph:
    return number == 1    ? Message::Node
           : number == 5  ? Message::Tensor
           : number == 15 ? Message::Sparse
                          : Message::Other;
  case Message::Function: return number == 7 ? Message::Node : Message::Other;
  case Message::Node: return number == 5 ? Message::Attribute : Message::Other;
  case Message::Attribute:
    return number == 5 || number == 10    ? Message::Tensor
           : number == 6 || number == 11  ? Message::Graph
           : number == 22 || number == 23 ? Message::Sparse
                                          : Message::Other;
  case Message::Sparse: return number == 1 || number == 2 ? Message::Tensor : Message::Other;
  default: return Message::Other;
  }
}

/// The value of a pair of strings whose key is "location"; else empty. False: it is damaged.
bool readLocation(std::string_view pair, std::string &location) {
  std::string key, value;
  for (Field part; !pair.empty();) {
    if (!readField(pair, part))
      return false;
    (part.number == 1 ? key : value) = part.payload;
  }
  if (key == "location")
    location = value;
  return true;
}

/// Adds the locations that a message names; false: it is damaged.
bool collect(std::string_view text, Message message, std::set<std::string> &locations) {
  constexpr uint32_t externalData = 13;
  for (Field field; !text.empty();) {
    if (!readField(text, field))
      return false;
    if (!field.isLengthDelimited())
      continue;
    std::string location;
    if (message == Message::Tensor && field.number == externalData && !readLocation(field.payload, location))
      return false;
    if (!location.empty())
      locations.insert(location);
    const Message next = inner(message, field.number);
    if (next != Message::Other && !collect(field.payload, next, locations))
      return false;
  }
  return true;
}

} // namespace

std::string externalPath(const std::string &model, const std::string &location) {
  return !location.empty() && location[0] == '/' ? location
                                                 : model.substr(0, model.rfind('/') + 1) + location;
}

Status listExternalData(const std::string &model, std::vector<std::string> &files) {
  MappedFile source;
  COLOSSAL_RETURN_IF_ERROR(MappedFile::open(model, source));
  std::set<std::string> locations;
  if (!collect({reinterpret_cast<const char *>(source.data()), source.size()}, Message::Model, locations))
    return {Code::InvalidArgument, model + ": " + damagedModel().message()};
  for (const std::string &location : locations)
    files.push_back(externalPath(model, location));
  return {};
}

} // namespace colossal::runtime

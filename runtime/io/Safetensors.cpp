// The header by nlohmann's JSON; the tensors are bytes of the mapped file.
#include "runtime/io/Safetensors.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>

namespace colossal::runtime {

namespace {

using nlohmann::json;

constexpr std::pair<plan::DataType, const char *> typeNames[] = {
    {plan::F64, "F64"},   {plan::F32, "F32"},          {plan::F16, "F16"},       {plan::BF16, "BF16"},
    {plan::I64, "I64"},   {plan::I32, "I32"},          {plan::I16, "I16"},       {plan::I8, "I8"},
    {plan::U64, "U64"},   {plan::U32, "U32"},          {plan::U16, "U16"},       {plan::U8, "U8"},
    {plan::BOOL, "BOOL"}, {plan::F8E4M3FN, "F8_E4M3"}, {plan::F8E5M2, "F8_E5M2"}};

// As the format's own library has it.
constexpr uint64_t mostHeaderBytes = 100000000;

Status readEntry(const json &row, uint64_t begin, uint64_t size, SafetensorsFile::Entry &entry) {
  const std::string name = row.at("dtype").get<std::string>();
  const auto *known = std::find_if(std::begin(typeNames), std::end(typeNames),
                                   [&](const auto &type) { return name == type.second; });
  if (known == std::end(typeNames))
    return {Code::Unsupported, "it has type " + name + ", which is not known here"};
  entry.type = known->first;
  entry.shape = row.at("shape").get<std::vector<uint64_t>>();
  const auto places = row.at("data_offsets").get<std::vector<uint64_t>>();
  uint64_t elements = 0;
  if (entry.shape.size() > 32 || !tensorElements(entry.type, entry.shape, elements))
    return {Code::InvalidArgument, "its shape is out of range"};
  entry.bytes = elements * plan::elementBytes(entry.type);
  if (places.size() != 2 || places[0] > places[1] || places[1] - places[0] != entry.bytes ||
      places[1] > size - begin)
    return {Code::InvalidArgument,
            "its place is not one of " + std::to_string(entry.bytes) + " bytes in the file"};
  entry.offset = begin + places[0];
  return {};
}

} // namespace

const char *safetensorsType(plan::DataType type) {
  for (const auto &[known, name] : typeNames)
    if (known == type)
      return name;
  return nullptr;
}

Status SafetensorsFile::open(const std::string &path, SafetensorsFile &opened) {
  opened = SafetensorsFile();
  COLOSSAL_RETURN_IF_ERROR(MappedFile::open(path, opened.file));
  const auto bad = [&](const std::string &why) {
    return Status(Code::InvalidArgument, path + " is not a readable .safetensors file: " + why);
  };
  const uint64_t size = opened.file.size();
  uint64_t length = 0;
  if (size < 8)
    return bad("it has " + std::to_string(size) + " bytes");
  std::memcpy(&length, opened.file.data(), 8);
  if (length > mostHeaderBytes || length > size - 8)
    return bad("its header is said to have " + std::to_string(length) + " bytes");
  const char *text = reinterpret_cast<const char *>(opened.file.data()) + 8;
  const json header = json::parse(text, text + length, nullptr, false);
  if (!header.is_object())
    return bad("its header is no JSON object");
  std::vector<std::pair<uint64_t, uint64_t>> places;
  for (const auto &[name, row] : header.items()) {
    if (name == "__metadata__")
      continue;
    Entry entry;
    Status status;
    try {
      status = readEntry(row, 8 + length, size, entry);
    } catch (const json::exception &) {
      status = {Code::InvalidArgument, "its type, shape or place is missing"};
    }
    if (!status.ok())
      return bad("tensor '" + name + "': " + status.message());
    if (entry.bytes > 0)
      places.push_back({entry.offset, entry.offset + entry.bytes});
    opened.table.emplace(name, std::move(entry));
  }
  std::sort(places.begin(), places.end());
  for (size_t i = 1; i < places.size(); ++i)
    if (places[i].first < places[i - 1].second)
      return bad("two tensors lie in one place");
  return {};
}

std::string safetensorsHeader(const std::vector<SafetensorsTensor> &tensors,
                              const std::map<std::string, std::string> &metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  uint64_t at = 0;
  for (const SafetensorsTensor &tensor : tensors) {
    uint64_t bytes = plan::elementBytes(tensor.type);
    for (uint64_t extent : tensor.shape)
      bytes *= extent;
    header[tensor.name] = {
        {"dtype", safetensorsType(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  std::string text = header.dump(-1, ' ', false, json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char *>(&length), 8) + text;
}

} // namespace colossal::runtime

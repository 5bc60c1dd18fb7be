// What --data names: arrays of NumPy, streams of tokens, constants.
#include "colossal/Plan/Training.h"
#include "runtime/io/MappedFile.h"
#include "runtime/io/Npy.h"
#include "runtime/io/StoredEntries.h"
#include "runtime/training/Data.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace colossal::runtime {

namespace {

/// Elements that lie in a mapped file as they are.
class MappedArray : public DataArray {
public:
  std::shared_ptr<const MappedFile> file;
  uint64_t offset = 0;
  void read(uint64_t first, uint64_t count, std::byte *elements) const override {
    const uint64_t size = plan::elementBytes(type);
    std::memcpy(elements, file->data() + offset + first * size, count * size);
  }
};

/// An array that had to be read as a whole.
class HeldArray : public DataArray {
public:
  std::vector<std::byte> bytes;
  void read(uint64_t first, uint64_t count, std::byte *elements) const override {
    const uint64_t size = plan::elementBytes(type);
    std::memcpy(elements, bytes.data() + first * size, count * size);
  }
};

class ConstantArray : public DataArray {
public:
  std::byte value[8] = {};
  bool isConstant() const override { return true; }
  void read(uint64_t, uint64_t count, std::byte *elements) const override {
    const uint64_t size = plan::elementBytes(type);
    for (uint64_t e = 0; e < count; ++e)
      std::memcpy(elements + e * size, value, size);
  }
};

bool endsWith(const std::string &text, const std::string &end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

const plan::Binding *findInput(const plan::Program &program, const std::string &name) {
  for (const plan::Binding &input : program.inputs())
    if (input.name() == name)
      return &input;
  return nullptr;
}

template <class T>
void put(double value, std::byte *to) {
  const T number = static_cast<T>(value);
  std::memcpy(to, &number, sizeof number);
}

Status openConstant(const std::string &text, const plan::Binding &input, std::shared_ptr<DataArray> &array) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return {Code::InvalidArgument, "'" + text + "' is no number"};
  auto made = std::make_shared<ConstantArray>();
  made->type = input.type();
  made->origin = "fill:" + text;
  const bool isInteger = !plan::isFloat(input.type());
  if (isInteger && value != static_cast<double>(static_cast<int64_t>(value)))
    return {Code::InvalidArgument, "'" + text + "' is no integer"};
  switch (input.type()) {
  case plan::F32: put<float>(value, made->value); break;
  case plan::F64: put<double>(value, made->value); break;
  case plan::I8: put<int8_t>(value, made->value); break;
  case plan::I16: put<int16_t>(value, made->value); break;
  case plan::I32: put<int32_t>(value, made->value); break;
  case plan::I64: put<int64_t>(value, made->value); break;
  case plan::U8: put<uint8_t>(value, made->value); break;
  case plan::U16: put<uint16_t>(value, made->value); break;
  case plan::U32: put<uint32_t>(value, made->value); break;
  case plan::U64: put<uint64_t>(value, made->value); break;
  case plan::BOOL: put<uint8_t>(value != 0, made->value); break;
  default:
    return {Code::Unsupported, std::string("inputs of type ") + plan::dataTypeName(input.type()) +
                                   " cannot be filled with a constant"};
  }
  array = std::move(made);
  return {};
}

Status openStream(const std::string &path, const std::string &typeName, const plan::Binding &input,
                  std::shared_ptr<DataArray> &array) {
  constexpr std::pair<const char *, plan::DataType> types[] = {
      {"u8", plan::U8},   {"i8", plan::I8},   {"u16", plan::U16}, {"i16", plan::I16},
      {"u32", plan::U32}, {"i32", plan::I32}, {"i64", plan::I64}, {"f32", plan::F32}};
  auto made = std::make_shared<MappedArray>();
  const auto *known = std::find_if(std::begin(types), std::end(types),
                                   [&](const auto &type) { return typeName == type.first; });
  if (known == std::end(types))
    return {Code::InvalidArgument,
            "'" + typeName + "' is no type of a stream: u8, i8, u16, i16, u32, i32, i64, f32"};
  made->type = known->second;
  auto file = std::make_shared<MappedFile>();
  COLOSSAL_RETURN_IF_ERROR(MappedFile::open(path, *file));
  made->file = file;
  const uint64_t size = plan::elementBytes(made->type);
  if (file->size() % size != 0)
    return {Code::InvalidArgument, path + " has " + std::to_string(file->size()) +
                                       " bytes, which are no whole number of " + typeName};
  made->shape.assign(input.shape().begin(), input.shape().end());
  uint64_t sample = 1;
  for (size_t d = 1; d < made->shape.size(); ++d)
    sample *= made->shape[d];
  if (made->shape.empty() || sample == 0)
    return {Code::InvalidArgument,
            "input '" + input.name() + "' has no samples that a stream could be cut into"};
  made->shape[0] = file->size() / size / sample;
  made->origin = path;
  array = std::move(made);
  return {};
}

std::shared_ptr<DataArray> hold(Tensor tensor, const std::string &origin) {
  auto made = std::make_shared<HeldArray>();
  made->type = tensor.type;
  made->shape = std::move(tensor.shape);
  made->bytes = std::move(tensor.bytes);
  made->origin = origin;
  return made;
}

/// An array that lies at [offset, offset + bytes) of a mapped file, in .npy's format. Other byte orders and
/// Fortran's order are read; else it is mapped.
Status openNpy(const std::shared_ptr<const MappedFile> &file, uint64_t offset, uint64_t bytes,
               const std::string &origin, std::shared_ptr<DataArray> &array) {
  NpyHeader header;
  const std::string_view text(reinterpret_cast<const char *>(file->data()) + offset, bytes);
  if (Status status = parseNpyHeader(text, header); !status.ok())
    return {status.code(), origin + ": " + status.message()};
  if (header.type == plan::STRING)
    return {Code::Unsupported, origin + " holds strings, which no step takes"};
  if (header.swapped || header.fortran) {
    Tensor tensor;
    COLOSSAL_RETURN_IF_ERROR(parseNpy(std::string(text), tensor));
    array = hold(std::move(tensor), origin);
    return {};
  }
  auto made = std::make_shared<MappedArray>();
  made->file = file;
  made->type = header.type;
  made->shape = header.shape;
  made->offset = offset + header.begin;
  made->origin = origin;
  array = std::move(made);
  return {};
}

/// All arrays of an archive, by name. One that is deflated is read as a whole.
Status openNpz(const std::string &path, std::map<std::string, std::shared_ptr<DataArray>> &arrays) {
  auto file = std::make_shared<MappedFile>();
  COLOSSAL_RETURN_IF_ERROR(MappedFile::open(path, *file));
  std::vector<StoredEntry> entries;
  if (!listStoredEntries({reinterpret_cast<const char *>(file->data()), file->size()}, entries)) {
    Tensors read;
    COLOSSAL_RETURN_IF_ERROR(readNpz(path, read));
    for (auto &[name, tensor] : read)
      arrays[name] = hold(std::move(tensor), name + " of " + path);
    return {};
  }
  for (const StoredEntry &entry : entries) {
    const std::string name =
        endsWith(entry.name, ".npy") ? entry.name.substr(0, entry.name.size() - 4) : entry.name;
    std::shared_ptr<DataArray> &array = arrays[name];
    if (array)
      return {Code::InvalidArgument, path + ": array '" + name + "' is given twice"};
    COLOSSAL_RETURN_IF_ERROR(openNpy(file, entry.offset, entry.bytes, name + " of " + path, array));
  }
  return {};
}

} // namespace

Status openData(const std::string &argument, const plan::Program &program, const plan::Training &training,
                std::map<std::string, std::shared_ptr<DataArray>> &arrays, std::vector<std::string> &files) {
  const auto add = [&](const std::string &name, std::shared_ptr<DataArray> array) {
    return arrays.emplace(name, std::move(array)).second
               ? Status()
               : Status(Code::InvalidArgument, "input '" + name + "' is given twice");
  };
  const size_t equals = argument.find('=');
  const std::string name = equals == std::string::npos ? "" : argument.substr(0, equals);
  const std::string value = argument.substr(equals == std::string::npos ? 0 : equals + 1);
  if (endsWith(value, ".npz")) {
    std::map<std::string, std::shared_ptr<DataArray>> read;
    files.push_back(value);
    COLOSSAL_RETURN_IF_ERROR(openNpz(value, read));
    if (!name.empty()) {
      auto found = read.find(name);
      if (found == read.end() && read.size() == 1)
        found = read.begin();
      if (found == read.end())
        return {Code::InvalidArgument,
                "it holds " + std::to_string(read.size()) + " arrays, and none has the name '" + name + "'"};
      return add(name, std::move(found->second));
    }
    for (auto &[array, data] : read)
      COLOSSAL_RETURN_IF_ERROR(add(array, std::move(data)));
    return {};
  }
  const plan::Binding *input = findInput(program, name);
  std::shared_ptr<DataArray> array;
  const size_t colon = value.rfind(':');
  const bool isFill = value.compare(0, 5, "fill:") == 0,
             isStream = colon != std::string::npos && endsWith(value.substr(0, colon), ".bin");
  if (name.empty() || (!isFill && !isStream && !endsWith(value, ".npy")))
    return {Code::InvalidArgument, "expected NAME=FILE.npy, NAME=FILE.npz, FILE.npz, NAME=FILE.bin:u16 "
                                   "(or another type) or NAME=fill:VALUE"};
  if (!input || getMadeInputs(training).count(name) > 0)
    return {Code::InvalidArgument, "there is no input '" + name + "'. Program '" + program.name() +
                                       "' takes\n" + describeInputs(program, getMadeInputs(training))};
  Status status;
  if (isFill) {
    status = openConstant(value.substr(5), *input, array);
  } else if (isStream) {
    files.push_back(value.substr(0, colon));
    status = openStream(value.substr(0, colon), value.substr(colon + 1), *input, array);
  } else {
    files.push_back(value);
    auto file = std::make_shared<MappedFile>();
    status = MappedFile::open(value, *file);
    if (status.ok())
      status = openNpy(file, 0, file->size(), value, array);
  }
  return status.ok() ? add(name, std::move(array)) : status;
}

} // namespace colossal::runtime

//===- ModelFile.cpp - an ONNX file and the bytes of its tensors ------------===//
//
// The reduced copy of the file that protobuf parses holds, in place of a large payload, an unknown-to-ONNX
// varint field (number kPlaceField of TensorProto) with the payload's number in a list of places. Protobuf
// keeps unknown fields, so that the mark stays with its tensor wherever that tensor is moved or copied.
//
//===----------------------------------------------------------------------===//
#include "ModelFile.h"

#include "colossal/Import/ParameterRoles.h"
#include "colossal/Output/OutputFile.h"
#include "google/protobuf/io/coded_stream.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include <algorithm>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace llvm;

namespace colossal::onnx_import {

template <typename... Args>
static Error fail(const char *format, const Args &...args) {
  return createStringError(std::errc::invalid_argument, format, args...);
}

/// The same of a file that is not there, may not be read or is cut short.
template <typename... Args>
static Error failToRead(const char *format, const Args &...args) {
  noteUnusableInput();
  return fail(format, args...);
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

Expected<std::unique_ptr<MappedFile>> MappedFile::map(int descriptor, const std::string &path) {
  struct stat status;
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(descriptor);
    return failToRead("'%s' is not a regular file", path.c_str());
  }
  std::unique_ptr<MappedFile> file(new MappedFile);
  file->size = status.st_size;
  if (file->size) {
    void *address = mmap(nullptr, file->size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (address == MAP_FAILED) {
      close(descriptor);
      return failToRead("cannot map '%s': %s", path.c_str(), strerror(errno));
    }
    file->data = static_cast<const uint8_t *>(address);
  }
  close(descriptor);
  return file;
}

MappedFile::~MappedFile() {
  if (data)
    munmap(const_cast<uint8_t *>(data), size);
}

Expected<std::unique_ptr<MappedFile>> MappedFile::open(const std::string &path) {
  noteInput(path);
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0)
    return failToRead("cannot open '%s': %s", path.c_str(), strerror(errno));
  return map(descriptor, path);
}

Expected<std::unique_ptr<MappedFile>> MappedFile::openBelow(const std::string &folder, StringRef relative,
                                                            bool *absent) {
  std::string shown = relative.str();
  if (relative.empty() || relative.starts_with("/") || relative.contains('\0'))
    return fail("external data path '%s' is not a relative path", shown.c_str());
  for (StringRef part : llvm::split(relative, '/'))
    if (part == "..")
      return fail("external data path '%s' leaves the model's folder", shown.c_str());
  int current = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (current < 0)
    return failToRead("cannot open the model's folder '%s': %s", folder.c_str(), strerror(errno));
  while (true) {
    auto [part, rest] = relative.split('/');
    relative = rest;
    bool last = relative.empty();
    if (part.empty() || part == ".") {
      if (!last)
        continue;
      close(current);
      return fail("external data path '%s' names no file", shown.c_str());
    }
    int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (last ? 0 : O_DIRECTORY);
    int next = openat(current, part.str().c_str(), flags);
    int error = errno;
    close(current);
    if (next < 0 && error == ENOENT && absent) {
      *absent = true;
      return nullptr;
    }
    if (next < 0 && error == ELOOP)
      return fail("cannot open external data '%s': it is, or lies behind, a symbolic link", shown.c_str());
    if (next < 0)
      return failToRead("cannot open external data '%s': %s", shown.c_str(), strerror(error));
    current = next;
    if (last)
      break;
  }
  struct stat status;
  if (fstat(current, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink != 1) {
    close(current);
    return fail("external data '%s' has several names (hard links)", shown.c_str());
  }
  noteInput((folder.empty() ? "" : folder + "/") + shown);
  return map(current, shown);
}

//===----------------------------------------------------------------------===//
// The wire format
//===----------------------------------------------------------------------===//

namespace {

constexpr unsigned kPlaceField = 536870911; // the greatest field number; ONNX uses small ones
constexpr uint64_t kLargePayload = 1;       // smaller payloads are parsed in place
constexpr uint64_t kMostReserved = 1 << 24; // bytes for a message, which may be weights for the most part

/// Which messages lie in a field of a message: the walk descends to tensors, and copies all else.
enum class Message { Other, Model, Graph, Node, Attribute, Tensor };

Message getField(Message message, unsigned number) {
  switch (message) {
  case Message::Model: return number == 7 ? Message::Graph : Message::Other;
  case Message::Graph: return number == 1 ? Message::Node : number == 5 ? Message::Tensor : Message::Other;
  case Message::Node: return number == 5 ? Message::Attribute : Message::Other;
  case Message::Attribute: return number == 5 ? Message::Tensor : Message::Other;
  default: return Message::Other;
  }
}

/// Whether nobody asks for a field. Exporters note on each node where it comes from in their sources, which
/// is most of a file without weights; who wants the boundary needs no node.
bool isLeftOut(ModelFile::Part part, Message message, unsigned number) {
  return (message == Message::Node && (number == 6 || number == 9)) || // doc_string, metadata_props
         (part == ModelFile::Part::Boundary && message == Message::Graph && (number == 1 || number == 13));
}

/// Copies a message without its large payloads, and without what is left out. What stays as it is is copied
/// in runs of fields: deep models have hundreds of thousands of small ones.
class WireReducer {
public:
  WireReducer(ArrayRef<uint8_t> file, ModelFile::Part part,
              std::vector<std::pair<uint64_t, uint64_t>> &places)
      : file(file), part(part), places(places) {}

  bool reduce(Message message, uint64_t begin, uint64_t end, std::string &out) {
    uint64_t at = begin, kept = begin; // what lies before `kept` is copied, or left out
    while (at < end) {
      uint64_t start = at, tag, length = 0;
      if (!readVarint(at, end, tag))
        return false;
      unsigned number = tag >> 3;
      switch (tag & 7) {
      case 0:
        if (!readVarint(at, end, length))
          return false;
        break;
      case 1: at += 8; break;
      case 5: at += 4; break;
      case 2:
        if (!readVarint(at, end, length) || length > end - at)
          return false;
        if (!isKept(message, number, at, length)) {
          copy(kept, start, out);
          if (!copyField(message, number, at, length, out))
            return false;
          kept = at + length;
        }
        at += length;
        continue;
      default: // groups are not used by ONNX
        return false;
      }
      if (at > end)
        return false;
      if (number == kPlaceField) {
        copy(kept, start, out);
        kept = at;
      }
    }
    copy(kept, end, out);
    return true;
  }

private:
  bool readVarint(uint64_t &at, uint64_t end, uint64_t &value) {
    if (at < end && file[at] < 0x80) { // as nearly all are
      value = file[at++];
      return true;
    }
    value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at >= end)
        return false;
      uint8_t byte = file[at++];
      value |= uint64_t(byte & 0x7f) << shift;
      if (!(byte & 0x80))
        return true;
    }
    return false;
  }

  void copy(uint64_t begin, uint64_t end, std::string &out) {
    out.append(reinterpret_cast<const char *>(file.data()) + begin, end - begin);
  }

  /// Whether a field, whose `length` bytes lie at `at`, is copied as it is.
  bool isKept(Message message, unsigned number, uint64_t at, uint64_t length) {
    if (isLeftOut(part, message, number))
      return false;
    switch (getField(message, number)) {
    case Message::Other: return !isPayload(message, number, length);
    case Message::Attribute: return !mayHoldTensor(at, at + length);
    default: return false;
    }
  }

  static bool isPayload(Message message, unsigned number, uint64_t length) {
    // float_data 4, raw_data 9, double_data 10
    return message == Message::Tensor && (number == 9 || number == 4 || number == 10) &&
           length >= kLargePayload;
  }

  /// Of an attribute; of one whose encoding is damaged, or which has a mark of its own, too.
  bool mayHoldTensor(uint64_t at, uint64_t end) {
    while (at < end) {
      uint64_t tag, value;
      if (!readVarint(at, end, tag))
        return true;
      const unsigned number = tag >> 3;
      if ((tag & 7) == 1 || number == kPlaceField || getField(Message::Attribute, number) != Message::Other)
        return true;
      if ((tag & 7) == 5) {
        value = 4;
      } else if (((tag & 7) != 0 && (tag & 7) != 2) || !readVarint(at, end, value)) {
        return true;
      } else if ((tag & 7) == 0) {
        continue;
      }
      if (value > end - at)
        return true;
      at += value;
    }
    return false;
  }

  static void writeVarint(uint64_t value, std::string &out) {
    while (value >= 0x80) {
      out.push_back(char(value | 0x80));
      value >>= 7;
    }
    out.push_back(char(value));
  }

  /// The length of what was appended behind `at`, which there is room for, where it is not above what it was
  /// made for: a longer way to write a number is one, too.
  static void patchLength(size_t at, size_t room, std::string &out) {
    uint64_t length = out.size() - at - room;
    if (room < 10 && length >> (7 * room)) {
      std::string longer;
      writeVarint(length, longer);
      out.replace(at, room, longer);
      return;
    }
    for (size_t i = 0; i < room; ++i, length >>= 7)
      out[at + i] = char((length & 0x7f) | (i + 1 < room ? 0x80 : 0));
  }

  bool copyField(Message message, unsigned number, uint64_t at, uint64_t length, std::string &out) {
    Message inner = getField(message, number);
    if (isLeftOut(part, message, number))
      return true;
    if (inner != Message::Other) {
      writeVarint((uint64_t(number) << 3) | 2, out);
      // Messages get shorter, most of them.
      const size_t place = out.size();
      writeVarint(length, out);
      const size_t room = out.size() - place;
      if (!reduce(inner, at, at + length, out))
        return false;
      patchLength(place, room, out);
      return true;
    }
    writeVarint(uint64_t(kPlaceField) << 3, out);
    writeVarint(places.size(), out);
    places.push_back({at, length});
    return true;
  }

  ArrayRef<uint8_t> file;
  ModelFile::Part part;
  std::vector<std::pair<uint64_t, uint64_t>> &places;
};

} // namespace

Expected<std::unique_ptr<ModelFile>> ModelFile::open(const std::string &path, Part part) {
  auto file = MappedFile::open(path);
  if (!file)
    return file.takeError();
  std::unique_ptr<ModelFile> model(new ModelFile);
  model->file = std::move(*file);
  size_t slash = path.rfind('/');
  model->folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  ArrayRef<uint8_t> bytes = model->file->bytes();
  std::string reduced;
  reduced.reserve(std::min<uint64_t>(bytes.size(), kMostReserved));
  if (!WireReducer(bytes, part, model->places).reduce(Message::Model, 0, bytes.size(), reduced))
    return fail("'%s' is not an ONNX model: its encoding is damaged", path.c_str());
  if (reduced.size() >= (uint64_t(1) << 31))
    return fail("'%s' holds more than 2 GiB besides its weights", path.c_str());
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t *>(reduced.data()),
                                                reduced.size());
  stream.SetTotalBytesLimit(INT_MAX);
  if (!model->model->ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage())
    return fail("'%s' is not an ONNX model: it cannot be parsed", path.c_str());
  if (!model->model->has_graph() || model->model->opset_import_size() == 0)
    return fail("'%s' is not an ONNX model: it has no graph or no operator set", path.c_str());
  return model;
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

// torch.onnx writes beside an initializer's shape what torch.export knows of it: a parameter of the module, a
// buffer, or a tensor that its code holds. What the exporter has folded has a name of its own, of which
// nothing is said.
StringRef ModelFile::getModuleRole(StringRef name) {
  if (!moduleRoles) {
    moduleRoles.emplace();
    for (const onnx::ValueInfoProto &value : model->graph().value_info())
      for (const onnx::StringStringEntryProto &entry : value.metadata_props()) {
        if (entry.key() != "pkg.torch.export.graph_signature.InputSpec.kind")
          continue;
        const StringRef role = StringSwitch<StringRef>(entry.value())
                                   .Case("PARAMETER", kIsModuleParameter)
                                   .Cases({"BUFFER", "CONSTANT_TENSOR"}, kIsModuleBuffer)
                                   .Default("");
        if (!role.empty())
          (*moduleRoles)[value.name()] = role;
      }
  }
  return moduleRoles->lookup(name);
}

unsigned getElementBits(int32_t type) {
  switch (type) {
  case onnx::TensorProto::INT2:
  case onnx::TensorProto::UINT2: return 2;
  case onnx::TensorProto::INT4:
  case onnx::TensorProto::UINT4:
  case onnx::TensorProto::FLOAT4E2M1: return 4;
  case onnx::TensorProto::FLOAT8E4M3FN:
  case onnx::TensorProto::FLOAT8E4M3FNUZ:
  case onnx::TensorProto::FLOAT8E5M2:
  case onnx::TensorProto::FLOAT8E5M2FNUZ:
  case onnx::TensorProto::FLOAT8E8M0:
  case onnx::TensorProto::BOOL:
  case onnx::TensorProto::INT8:
  case onnx::TensorProto::UINT8: return 8;
  case onnx::TensorProto::INT16:
  case onnx::TensorProto::UINT16:
  case onnx::TensorProto::FLOAT16:
  case onnx::TensorProto::BFLOAT16: return 16;
  case onnx::TensorProto::INT32:
  case onnx::TensorProto::UINT32:
  case onnx::TensorProto::FLOAT: return 32;
  case onnx::TensorProto::INT64:
  case onnx::TensorProto::UINT64:
  case onnx::TensorProto::DOUBLE: return 64;
  default: return 0;
  }
}

int64_t getDataBytes(int32_t type, int64_t count) {
  return (count * int64_t(getElementBits(type)) + 7) / 8;
}

Expected<int64_t> countElements(const onnx::TensorProto &tensor) {
  int64_t count = 1;
  bool empty = false;
  for (int64_t dim : tensor.dims()) {
    if (dim < 0)
      return fail("tensor '%s' has a negative dimension", tensor.name().c_str());
    empty |= dim == 0;
    if (dim && count > (int64_t(1) << 40) / dim)
      return fail("tensor '%s' has too many elements", tensor.name().c_str());
    count *= dim ? dim : 1;
  }
  return empty ? 0 : count;
}

static Expected<int64_t> parseEntry(const onnx::TensorProto &tensor, StringRef value) {
  int64_t number;
  if (value.getAsInteger(10, number) || number < 0)
    return fail("external data of tensor '%s': '%s' is not an offset or length", tensor.name().c_str(),
                value.str().c_str());
  return number;
}

/// The mark that stands for the tensor's data: the number of its payload, below `places`; none where it has
/// none.
static Expected<std::optional<uint64_t>> findMark(const onnx::TensorProto &tensor, uint64_t places) {
  std::optional<uint64_t> mark;
  // The schema is compiled for protobuf's lite runtime, which keeps unknown fields as their encoding.
  const std::string &unknown = tensor.unknown_fields();
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t *>(unknown.data()),
                                                unknown.size());
  while (uint32_t tag = stream.ReadTag()) {
    uint64_t place;
    if (tag != kPlaceField << 3) {
      // Fields of a newer ONNX: skipped.
      uint32_t length;
      bool skipped = (tag & 7) == 0   ? stream.ReadVarint64(&place)
                     : (tag & 7) == 1 ? stream.Skip(8)
                     : (tag & 7) == 5 ? stream.Skip(4)
                                      : (tag & 7) == 2 && stream.ReadVarint32(&length) && stream.Skip(length);
      if (!skipped)
        break;
      continue;
    }
    if (!stream.ReadVarint64(&place) || place >= places)
      break;
    if (mark)
      return fail("tensor '%s' holds its data twice", tensor.name().c_str());
    mark = place;
  }
  return mark;
}

Expected<std::optional<TensorBytes>> ModelFile::findBytes(const onnx::TensorProto &tensor) {
  auto count = countElements(tensor);
  if (!count)
    return count.takeError();
  int64_t expected = getDataBytes(tensor.data_type(), *count);
  TensorBytes found;
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) {
    int64_t length = -1;
    for (const auto &entry : tensor.external_data()) {
      if (entry.key() == "location") {
        found.file = entry.value();
      } else if (entry.key() == "offset" || entry.key() == "length") {
        auto number = parseEntry(tensor, entry.value());
        if (!number)
          return number.takeError();
        (entry.key() == "offset" ? found.offset : length) = *number;
      }
    }
    auto [place, isNew] = external.try_emplace(found.file);
    if (isNew || (!place->second && !allowMissing)) {
      bool absent = false;
      auto opened = MappedFile::openBelow(folder, found.file, allowMissing ? &absent : nullptr);
      if (!opened) {
        external.erase(place);
        return fail("tensor '%s': %s", tensor.name().c_str(), toString(opened.takeError()).c_str());
      }
      place->second = std::move(*opened);
    }
    const std::unique_ptr<MappedFile> &mapped = place->second;
    if (length >= 0 && length != expected)
      return fail("tensor '%s' needs %lld bytes, its external data gives %lld", tensor.name().c_str(),
                  (long long)expected, (long long)length);
    if (!mapped) {
      found.missing = true;
      return std::optional<TensorBytes>(found);
    }
    int64_t size = mapped->bytes().size();
    if (found.offset > size || expected > size - found.offset)
      return failToRead("tensor '%s': external data '%s' is too short", tensor.name().c_str(),
                        found.file.c_str());
    found.bytes = mapped->bytes().slice(found.offset, expected);
    return std::optional<TensorBytes>(found);
  }
  auto mark = findMark(tensor, places.size());
  if (!mark)
    return mark.takeError();
  if (!*mark)
    return std::nullopt;
  auto [offset, length] = places[**mark];
  if (int64_t(length) != expected)
    return fail("tensor '%s' needs %lld bytes, the file gives %llu", tensor.name().c_str(),
                (long long)expected, (unsigned long long)length);
  found.offset = offset;
  found.bytes = file->bytes().slice(offset, length);
  return std::optional<TensorBytes>(found);
}

} // namespace colossal::onnx_import

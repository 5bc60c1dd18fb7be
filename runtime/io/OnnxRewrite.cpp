// The wire format, read field by field: of ONNX's schema (onnx.proto) only the fields are
// known that lead to tensors, and those of tensors.
#include "runtime/io/OnnxRewrite.h"

#include "colossal/Plan/OutputFile.h"
#include "runtime/comm/Reduce.h"
#include "runtime/io/ExternalData.h"
#include "runtime/io/MappedFile.h"
#include "runtime/io/OnnxReaders.h"
#include "runtime/io/WireFields.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <set>
#include <string_view>

namespace colossal::runtime {

using namespace wire;

namespace {

/// onnx.TensorProto.DataType; undefined for what no state is.
plan::DataType onnxType(uint64_t type) {
  switch (type) {
  case 1: return plan::F32;
  case 2: return plan::U8;
  case 3: return plan::I8;
  case 4: return plan::U16;
  case 5: return plan::I16;
  case 6: return plan::I32;
  case 7: return plan::I64;
  case 9: return plan::BOOL;
  case 10: return plan::F16;
  case 11: return plan::F64;
  case 12: return plan::U32;
  case 13: return plan::U64;
  case 16: return plan::BF16;
  default: return plan::DATA_TYPE_UNSPECIFIED;
  }
}

bool isPlainFloat(plan::DataType type) {
  return type == plan::F32 || type == plan::F64 || type == plan::F16 || type == plan::BF16;
}

/// Floats to another type of floats.
void convertFloats(plan::DataType from, const std::vector<std::byte> &in, plan::DataType to, std::byte *out) {
  Tensor tensor;
  tensor.type = from;
  tensor.bytes = in;
  const std::vector<double> values = toDoubles(tensor);
  for (size_t e = 0; e < values.size(); ++e) {
    const auto narrow = static_cast<float>(values[e]);
    const uint16_t bits = to == plan::F16 ? floatToHalf(narrow) : floatToBfloat(narrow);
    switch (to) {
    case plan::F64: std::memcpy(out + e * 8, &values[e], 8); break;
    case plan::F32: std::memcpy(out + e * 4, &narrow, 4); break;
    default: std::memcpy(out + e * 2, &bits, 2); break;
    }
  }
}

/// What goes into the data file, or into the model: bytes of a file, or a new value.
struct Chunk {
  std::string_view bytes;
  const NewTensor *value = nullptr;
  plan::DataType type = plan::F32; ///< as `value` is written
  uint64_t offset = 0, size = 0;   ///< in the data file
};

constexpr uint64_t pieceElements = 1 << 20;

/// Calls `put` with a chunk's bytes, piece by piece.
Status produce(const Chunk &chunk, const std::function<Status(const void *, uint64_t)> &put) {
  if (!chunk.value)
    return put(chunk.bytes.data(), chunk.bytes.size());
  const NewTensor &value = *chunk.value;
  const uint64_t from = plan::elementBytes(value.type), to = plan::elementBytes(chunk.type),
                 elements = chunk.size / to;
  std::vector<std::byte> read, converted;
  for (uint64_t first = 0; first < elements; first += pieceElements) {
    const uint64_t count = std::min(pieceElements, elements - first);
    read.resize(count * from);
    COLOSSAL_RETURN_IF_ERROR(value.read(first, count, read.data()));
    if (value.type == chunk.type) {
      COLOSSAL_RETURN_IF_ERROR(put(read.data(), read.size()));
      continue;
    }
    converted.resize(count * to);
    convertFloats(value.type, read, chunk.type, converted.data());
    COLOSSAL_RETURN_IF_ERROR(put(converted.data(), converted.size()));
  }
  return {};
}

class Rewriter {
public:
  Rewriter(std::string from, std::string to, const std::map<std::string, NewTensor> &values)
      : from(std::move(from)), to(std::move(to)), values(values), readers(values) {}

  Status run();

private:
  Status model(std::string_view text, std::string &out);
  Status graph(std::string_view text, bool main, std::string &out);
  /// The initializers that are beside others, or copies of them.
  Status addSeparated(std::string &out);
  Status function(std::string_view text, std::string &out);
  Status node(std::string_view text, bool main, std::string &out);
  Status attribute(std::string_view text, const NewTensor *value, std::string &out);
  Status sparse(std::string_view text, std::string &out);
  Status tensor(std::string_view text, const NewTensor *value, bool byName, std::string &out);
  /// Maps a file of external data; `location` is relative to the model's folder.
  Status external(const std::string &location, const MappedFile *&file);
  const NewTensor *find(const std::string &name);

  /// Rewrites each field of a message by `visit(field, rewritten)`, which says whether it did.
  template <class Visit>
  Status each(std::string_view text, std::string &out, Visit visit);

  const std::string from, to;
  const std::map<std::string, NewTensor> &values;
  std::set<std::string> met;
  OnnxReaders readers;
  std::map<std::string, std::unique_ptr<MappedFile>> files;
  std::vector<Chunk> chunks;
  uint64_t dataBytes = 0;
};

template <class Visit>
Status Rewriter::each(std::string_view text, std::string &out, Visit visit) {
  while (!text.empty()) {
    Field field;
    if (!readField(text, field))
      return damagedModel();
    bool rewritten = false;
    std::string inner;
    if (field.isLengthDelimited())
      COLOSSAL_RETURN_IF_ERROR(visit(field, rewritten, inner));
    if (rewritten)
      putField(field.number, inner, out);
    else
      out += field.raw;
  }
  return {};
}

const NewTensor *Rewriter::find(const std::string &name) {
  const auto found = values.find(name);
  if (found == values.end())
    return nullptr;
  met.insert(name);
  return &found->second;
}

Status Rewriter::model(std::string_view text, std::string &out) {
  return each(text, out, [&](const Field &field, bool &rewritten, std::string &inner) -> Status {
    rewritten = field.number == 7 || field.number == 25;
    if (field.number == 7)
      return graph(field.payload, true, inner);
    return field.number == 25 ? function(field.payload, inner) : Status();
  });
}

Status Rewriter::function(std::string_view text, std::string &out) {
  return each(text, out, [&](const Field &field, bool &rewritten, std::string &inner) -> Status {
    rewritten = field.number == 7;
    return rewritten ? node(field.payload, false, inner) : Status();
  });
}

Status Rewriter::graph(std::string_view text, bool main, std::string &out) {
  if (main) {
    COLOSSAL_RETURN_IF_ERROR(readers.find(text));
    met.insert(readers.found().begin(), readers.found().end());
  }
  size_t number = 0;
  COLOSSAL_RETURN_IF_ERROR(
      each(text, out, [&](const Field &field, bool &rewritten, std::string &inner) -> Status {
        rewritten = field.number == 1 || field.number == 5 || field.number == 15;
        switch (field.number) {
        case 1:
          if (const size_t at = number++; main && readers.isRedirected(at))
            return node(readers.redirect(at, out), main, inner);
          return node(field.payload, main, inner);
        case 5: return tensor(field.payload, nullptr, main, inner);
        case 15: return sparse(field.payload, inner);
        default: return {};
        }
      }));
  return main ? addSeparated(out) : Status();
}

Status Rewriter::addSeparated(std::string &out) {
  for (const std::string &name : readers.found()) {
    const NewTensor &value = values.at(name);
    std::string text = readers.initializerBeside(name), written;
    if (text.empty()) { // beside a Constant's value
      for (uint64_t extent : value.shape)
        putNumber(1, extent, text);
      for (uint64_t type = 1; type <= 16; ++type)
        if (onnxType(type) == value.type)
          putNumber(2, type, text);
      putField(8, name, text);
    }
    COLOSSAL_RETURN_IF_ERROR(tensor(text, &value, false, written));
    putField(5, written, out);
    // Before version 4 of the format, initializers are inputs, too.
    if (const std::string input = readers.inputBeside(name); !input.empty())
      putField(11, input, out);
  }
  for (const auto &[name, of] : readers.kept()) {
    std::string written;
    COLOSSAL_RETURN_IF_ERROR(tensor(readers.initializerBeside(name), nullptr, false, written));
    putField(5, written, out);
    if (const std::string input = readers.inputBeside(name); !input.empty())
      putField(11, input, out);
  }
  return {};
}

Status Rewriter::node(std::string_view text, bool main, std::string &out) {
  // A Constant's value goes by the name of the node's output.
  std::string output, kind;
  std::string_view rest = text;
  for (Field field; !rest.empty();) {
    if (!readField(rest, field))
      return damagedModel();
    if (field.number == 2 && output.empty())
      output = field.payload;
    if (field.number == 4)
      kind = field.payload;
  }
  const NewTensor *value = main && kind == "Constant" ? find(output) : nullptr;
  return each(text, out, [&](const Field &field, bool &rewritten, std::string &inner) -> Status {
    rewritten = field.number == 5;
    return rewritten ? attribute(field.payload, value, inner) : Status();
  });
}

Status Rewriter::attribute(std::string_view text, const NewTensor *value, std::string &out) {
  return each(text, out, [&](const Field &field, bool &rewritten, std::string &inner) -> Status {
    rewritten = true;
    switch (field.number) {
    case 5: return tensor(field.payload, value, false, inner);
    case 10: return tensor(field.payload, nullptr, false, inner);
    case 6:
    case 11: return graph(field.payload, false, inner);
    case 22:
    case 23: return sparse(field.payload, inner);
    default: rewritten = false; return {};
    }
  });
}

Status Rewriter::sparse(std::string_view text, std::string &out) {
  return each(text, out, [&](const Field &field, bool &rewritten, std::string &inner) -> Status {
    rewritten = field.number == 1 || field.number == 2;
    return rewritten ? tensor(field.payload, nullptr, false, inner) : Status();
  });
}

Status Rewriter::external(const std::string &location, const MappedFile *&file) {
  std::unique_ptr<MappedFile> &mapped = files[location];
  if (!mapped) {
    mapped = std::make_unique<MappedFile>();
    COLOSSAL_RETURN_IF_ERROR(MappedFile::open(externalPath(from, location), *mapped));
  }
  file = mapped.get();
  return {};
}

Status Rewriter::tensor(std::string_view text, const NewTensor *value, bool byName, std::string &out) {
  std::vector<uint64_t> shape;
  uint64_t type = 0, location = 0;
  std::string name, kept, path;
  uint64_t offset = 0, length = 0;
  bool hasLength = false;
  std::string_view rest = text;
  for (Field field; !rest.empty();) {
    if (!readField(rest, field))
      return damagedModel();
    switch (field.number) {
    case 1:
      if (field.type == 0)
        shape.push_back(field.varint);
      for (std::string_view packed = field.payload; field.isLengthDelimited() && !packed.empty();) {
        shape.emplace_back();
        if (!readVarint(packed, shape.back()))
          return damagedModel();
      }
      break;
    case 2: type = field.varint; break;
    case 8: name = field.payload; break;
    case 14: location = field.varint; break;
    case 13: {
      std::string key, entry;
      std::string_view pair = field.payload;
      for (Field part; !pair.empty();) {
        if (!readField(pair, part))
          return damagedModel();
        (part.number == 1 ? key : entry) = part.payload;
      }
      const auto number = [&](uint64_t &to) {
        return std::from_chars(entry.data(), entry.data() + entry.size(), to).ec == std::errc();
      };
      if (key == "location")
        path = entry;
      if ((key == "offset" && !number(offset)) || (key == "length" && !number(length)))
        return damagedModel();
      hasLength |= key == "length";
      break;
    }
    default: break;
    }
    const bool isData = (field.number >= 4 && field.number <= 7) ||
                        (field.number >= 9 && field.number <= 11) || field.number == 13 || field.number == 14;
    if (!isData)
      kept += field.raw;
  }
  if (byName)
    value = find(name);
  const bool outside = location == 1;
  if (!value && !outside) {
    out = text;
    return {};
  }
  Chunk chunk;
  if (value) {
    chunk.value = value;
    chunk.type = onnxType(type);
    if (shape != value->shape || plan::elementBytes(chunk.type) == 0 ||
        (chunk.type != value->type && !(isPlainFloat(chunk.type) && isPlainFloat(value->type))))
      return {Code::InvalidArgument, "tensor '" + name + "' is " + describeType(chunk.type, shape) +
                                         " there, and " + describeType(value->type, value->shape) +
                                         " in the checkpoint: it is of another model"};
    chunk.size = plan::elementBytes(chunk.type);
    for (uint64_t extent : shape)
      chunk.size *= extent;
  } else {
    const MappedFile *file = nullptr;
    COLOSSAL_RETURN_IF_ERROR(external(path, file));
    if (offset > file->size() || (hasLength && length > file->size() - offset))
      return {Code::InvalidArgument, "tensor '" + name + "' lies outside " + file->path()};
    chunk.size = hasLength ? length : file->size() - offset;
    chunk.bytes = {reinterpret_cast<const char *>(file->data()) + offset, chunk.size};
  }
  out = std::move(kept);
  if (!outside) {
    std::string bytes;
    bytes.reserve(chunk.size);
    COLOSSAL_RETURN_IF_ERROR(produce(chunk, [&](const void *data, uint64_t size) {
      bytes.append(static_cast<const char *>(data), size);
      return Status();
    }));
    putField(9, bytes, out);
    return {};
  }
  constexpr uint64_t alignment = 4096; // as ONNX advises, for those who map the file
  chunk.offset = dataBytes = (dataBytes + alignment - 1) / alignment * alignment;
  dataBytes += chunk.size;
  for (const auto &[key, entry] :
       {std::pair<std::string, std::string>("location", to.substr(to.rfind('/') + 1) + ".data"),
        {"offset", std::to_string(chunk.offset)},
        {"length", std::to_string(chunk.size)}}) {
    std::string pair;
    putField(1, key, pair);
    putField(2, entry, pair);
    putField(13, pair, out);
  }
  putNumber(14, 1, out);
  chunks.push_back(chunk);
  return {};
}

Status Rewriter::run() {
  MappedFile source;
  COLOSSAL_RETURN_IF_ERROR(MappedFile::open(from, source));
  std::string text;
  if (Status status = model({reinterpret_cast<const char *>(source.data()), source.size()}, text);
      !status.ok())
    return {status.code(), from + ": " + status.message()};
  std::string missing;
  for (const auto &[name, value] : values)
    if (met.count(name) == 0)
      missing += (missing.empty() ? "'" : ", '") + name + "'";
  if (!missing.empty())
    return {Code::NotFound, from + " has no tensor " + missing.substr(0, 300) + ": it is another model"};
  if (text.size() >= uint64_t(1) << 31)
    return {Code::Unsupported, to + " would have " + std::to_string(text.size()) +
                                   " bytes, and no ONNX file has more than 2 GiB without external data"};
  // Also where all of it gets new values: the model would be left without its own.
  std::vector<std::string> read = {from};
  COLOSSAL_RETURN_IF_ERROR(listExternalData(from, read));
  COLOSSAL_RETURN_IF_ERROR(plan::checkOutput(to, read));
  if (!chunks.empty()) {
    const std::string path = to + ".data";
    COLOSSAL_RETURN_IF_ERROR(plan::checkOutput(path, read));
    COLOSSAL_RETURN_IF_ERROR(plan::replaceFile(path, [&](int descriptor) -> Status {
      uint64_t at = 0;
      for (const Chunk &chunk : chunks) {
        const std::string gap(chunk.offset - at, '\0');
        COLOSSAL_RETURN_IF_ERROR(plan::writeAll(descriptor, gap.data(), gap.size(), path));
        COLOSSAL_RETURN_IF_ERROR(produce(chunk, [&](const void *data, uint64_t size) {
          return plan::writeAll(descriptor, data, size, path);
        }));
        at = chunk.offset + chunk.size;
      }
      return {};
    }));
  }
  return plan::writeFile(to, text);
}

} // namespace

Status rewriteOnnx(const std::string &from, const std::string &to,
                   const std::map<std::string, NewTensor> &values) {
  return Rewriter(from, to, values).run();
}

} // namespace colossal::runtime

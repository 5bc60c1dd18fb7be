// The wire format of Protocol Buffers, read field by field: of ONNX's schema (onnx.proto) only the fields are
// known that lead to tensors, and those of tensors.
#include "runtime/io/OnnxRewrite.h"

#include "colossal/Plan/OutputFile.h"
#include "runtime/comm/Reduce.h"
#include "runtime/io/MappedFile.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <set>
#include <string_view>

namespace colossal::runtime {

namespace {

/// A field of a message.
struct Field {
  uint32_t number = 0;
  unsigned wire = 0;
  uint64_t varint = 0;      ///< wire type 0
  std::string_view payload; ///< wire type 2
  std::string_view raw;     ///< with its tag
};
constexpr unsigned lengthDelimited = 2;

bool readVarint(std::string_view &rest, uint64_t &value) {
  value = 0;
  for (unsigned shift = 0; shift < 64 && !rest.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(rest[0]);
    rest.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80)
      return true;
  }
  return false;
}

/// Takes the next field off `rest`.
bool readField(std::string_view &rest, Field &field) {
  const std::string_view begin = rest;
  uint64_t tag = 0, length = 0;
  if (!readVarint(rest, tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX)
    return false;
  field.number = static_cast<uint32_t>(tag >> 3);
  field.wire = tag & 7;
  switch (field.wire) {
  case 0:
    if (!readVarint(rest, field.varint))
      return false;
    break;
  case 1: length = 8; break;
  case lengthDelimited:
    if (!readVarint(rest, length))
      return false;
    break;
  case 5: length = 4; break;
  default: return false; // groups are not in ONNX
  }
  if (length > rest.size())
    return false;
  field.payload = rest.substr(0, length);
  rest.remove_prefix(length);
  field.raw = begin.substr(0, begin.size() - rest.size());
  return true;
}

void putVarint(uint64_t value, std::string &to) {
  for (; value >= 0x80; value >>= 7)
    to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

void putField(uint32_t number, std::string_view payload, std::string &to) {
  putVarint(uint64_t(number) << 3 | lengthDelimited, to);
  putVarint(payload.size(), to);
  to += payload;
}

void putNumber(uint32_t number, uint64_t value, std::string &to) {
  putVarint(uint64_t(number) << 3, to);
  putVarint(value, to);
}

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

/// A node of the main graph.
struct GraphNode {
  std::string_view text;
  std::string name, kind;
  std::vector<std::string> inputs, outputs;
};

/// Whether a node only moves what its first input holds.
bool isMovement(const std::string &kind) {
  static const std::set<std::string> kinds = {"Cast",  "Expand",  "Flatten",   "Identity", "Reshape",
                                              "Slice", "Squeeze", "Transpose", "Unsqueeze"};
  return kinds.count(kind) > 0;
}

class Rewriter {
public:
  Rewriter(std::string from, std::string to, const std::map<std::string, NewTensor> &values)
      : from(std::move(from)), to(std::move(to)), values(values) {}

  Status run();

private:
  Status model(std::string_view text, std::string &out);
  Status graph(std::string_view text, bool main, std::string &out);
  /// Reads what of the main graph says where tensors of their own are read.
  Status survey(std::string_view text);
  /// A node that reads an initializer, by which inputs, and the value of its own that it gets; empty: not
  /// known yet.
  struct Reader {
    size_t node = 0;
    std::vector<size_t> inputs;
    std::string state;
  };
  /// Finds which inputs of which nodes read which of the values that have taken the place of one.
  Status findReaders(const std::string &of, bool isStatistic);
  /// The reader that is meant where the compiler has called one after the node `called`; -1: not plain.
  int findReader(const std::string &called, const std::vector<Reader> &readers) const;
  /// Steps from a node to one that its values go into, at most `most`; -1: none.
  int distance(size_t from, size_t to, int most) const;
  /// The producers, first to last, by which `input` is the tensor `of` moved about; false: it is something
  /// else.
  bool trace(const std::string &input, const std::string &of, std::vector<size_t> &path) const;
  /// A node that reads tensors of their own; `before` gets the nodes that move these.
  Status separated(size_t node, std::string &before, std::string &out);
  /// The initializers that are beside others.
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
  std::vector<GraphNode> nodes;
  std::map<std::string, size_t> producers; ///< by output
  std::map<std::string, std::string_view> initializers, inputs;
  std::map<size_t, std::map<size_t, std::string>> redirected; ///< by node and input: what it reads
  std::set<std::string> moved;                                ///< outputs of nodes that were added
  std::map<std::string, std::unique_ptr<MappedFile>> files;
  std::vector<Chunk> chunks;
  uint64_t dataBytes = 0;
};

Status damaged() {
  return {Code::InvalidArgument, "it is no ONNX model, or damaged"};
}

template <class Visit>
Status Rewriter::each(std::string_view text, std::string &out, Visit visit) {
  while (!text.empty()) {
    Field field;
    if (!readField(text, field))
      return damaged();
    bool rewritten = false;
    std::string inner;
    if (field.wire == lengthDelimited)
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
  if (main)
    COLOSSAL_RETURN_IF_ERROR(survey(text));
  size_t number = 0;
  COLOSSAL_RETURN_IF_ERROR(
      each(text, out, [&](const Field &field, bool &rewritten, std::string &inner) -> Status {
        rewritten = field.number == 1 || field.number == 5 || field.number == 15;
        switch (field.number) {
        case 1:
          if (const size_t at = number++; main && redirected.count(at) > 0)
            return separated(at, out, inner);
          return node(field.payload, main, inner);
        case 5: return tensor(field.payload, nullptr, main, inner);
        case 15: return sparse(field.payload, inner);
        default: return {};
        }
      }));
  return main ? addSeparated(out) : Status();
}

Status Rewriter::survey(std::string_view text) {
  const auto isSeparated = [](const auto &entry) { return !entry.second.beside.empty(); };
  if (std::none_of(values.begin(), values.end(), isSeparated))
    return {};
  const auto nameIn = [](std::string_view message, uint32_t number) -> std::string {
    for (Field field; !message.empty() && readField(message, field);)
      if (field.number == number && field.wire == lengthDelimited)
        return std::string(field.payload);
    return "";
  };
  for (Field field; !text.empty();) {
    if (!readField(text, field))
      return damaged();
    if (field.wire != lengthDelimited)
      continue;
    if (field.number == 5)
      initializers[nameIn(field.payload, 8)] = field.payload;
    if (field.number == 11)
      inputs[nameIn(field.payload, 1)] = field.payload;
    if (field.number != 1)
      continue;
    GraphNode read;
    read.text = field.payload;
    std::string_view rest = field.payload;
    for (Field part; !rest.empty();) {
      if (!readField(rest, part))
        return damaged();
      if (part.number == 1)
        read.inputs.emplace_back(part.payload);
      if (part.number == 2)
        read.outputs.emplace_back(part.payload);
      if (part.number == 3)
        read.name = part.payload;
      if (part.number == 4)
        read.kind = part.payload;
    }
    for (const std::string &output : read.outputs)
      producers[output] = nodes.size();
    nodes.push_back(std::move(read));
  }
  std::set<std::pair<std::string, bool>> families;
  for (const auto &[name, value] : values)
    if (!value.beside.empty() && families.emplace(value.beside, value.isStatistic).second)
      COLOSSAL_RETURN_IF_ERROR(findReaders(value.beside, value.isStatistic));
  return {};
}

bool Rewriter::trace(const std::string &input, const std::string &of, std::vector<size_t> &path) const {
  std::string at = input;
  while (at != of) {
    const auto producer = producers.find(at);
    if (producer == producers.end() || !isMovement(nodes[producer->second].kind) ||
        nodes[producer->second].inputs.empty() || path.size() > nodes.size())
      return false;
    path.insert(path.begin(), producer->second);
    at = nodes[producer->second].inputs[0];
  }
  return true;
}

int Rewriter::distance(size_t from, size_t to, int most) const {
  std::set<size_t> reached = {to};
  for (int steps = 0; steps <= most; ++steps) {
    if (reached.count(from) > 0)
      return steps;
    std::set<size_t> next;
    for (size_t n : reached)
      for (const std::string &input : nodes[n].inputs)
        if (const auto producer = producers.find(input); producer != producers.end())
          next.insert(producer->second);
    reached = std::move(next);
  }
  return -1;
}

int Rewriter::findReader(const std::string &called, const std::vector<Reader> &readers) const {
  // Of what is computed as one operation the first node has given the name: what it reads is read by that
  // node, or near behind it, or near before it.
  constexpr int longestPattern = 12;
  const auto named = std::find_if(nodes.begin(), nodes.end(), [&](const GraphNode &node) {
    return node.name == called ||
           (node.name.empty() && !node.outputs.empty() && node.kind + ":" + node.outputs[0] == called);
  });
  if (named == nodes.end())
    return -1;
  const auto at = static_cast<size_t>(named - nodes.begin());
  for (size_t r = 0; r < readers.size(); ++r)
    if (readers[r].node == at)
      return static_cast<int>(r);
  for (bool isBehind : {true, false}) {
    int nearest = -1, least = longestPattern + 1;
    bool isOnly = true;
    for (size_t r = 0; r < readers.size(); ++r) {
      const int steps = readers[r].state.empty() ? distance(isBehind ? at : readers[r].node,
                                                            isBehind ? readers[r].node : at, longestPattern)
                                                 : -1;
      if (steps < 0 || steps > least)
        continue;
      isOnly = steps < least;
      least = steps;
      nearest = static_cast<int>(r);
    }
    if (nearest >= 0)
      return isOnly ? nearest : -1;
  }
  return -1;
}

Status Rewriter::findReaders(const std::string &of, bool isStatistic) {
  std::vector<Reader> readers;
  for (size_t n = 0; n < nodes.size(); ++n) {
    Reader reader{n, {}, ""};
    for (size_t i = 0; !isMovement(nodes[n].kind) && i < nodes[n].inputs.size(); ++i)
      if (std::vector<size_t> path; !nodes[n].inputs[i].empty() && trace(nodes[n].inputs[i], of, path) &&
                                    (nodes[n].kind == "BatchNormalization" && i >= 3) == isStatistic)
        reader.inputs.push_back(i);
    if (!reader.inputs.empty())
      readers.push_back(std::move(reader));
  }
  // Those that are called after the very node first, as the others take what is left.
  size_t states = 0, found = 0;
  for (bool isExact : {true, false})
    for (const auto &[name, value] : values) {
      if (value.isStatistic != isStatistic || (name != of && value.beside != of))
        continue;
      states += isExact;
      if (value.beside.empty() || met.count(name) > 0)
        continue;
      int reader = findReader(value.node, readers);
      if (const size_t dot = value.node.rfind('.'); reader < 0 && isStatistic && dot != std::string::npos)
        reader = findReader(value.node.substr(0, dot), readers); // NAME@NODE.mean
      if (reader < 0 || !readers[static_cast<size_t>(reader)].state.empty())
        continue;
      Reader &taken = readers[static_cast<size_t>(reader)];
      const GraphNode &node = nodes[taken.node];
      const std::string &after = value.node;
      const bool isVery = node.name.empty() ? node.kind + ":" + node.outputs.at(0) == after
                                            : after.compare(0, node.name.size(), node.name) == 0;
      if (isExact && !isVery)
        continue;
      taken.state = name;
      for (size_t i : taken.inputs)
        redirected[taken.node][i] = name;
      met.insert(name);
      ++found;
    }
  // The value that kept the name is read by the one that is left.
  const bool keepsOne = values.count(of) > 0 && values.at(of).isStatistic == isStatistic;
  if (found + keepsOne == states && readers.size() == states)
    return {};
  return {Code::Unsupported,
          "it has '" + of +
              "' once for several nodes, each has trained its own, and not all of them are found in its main "
              "graph: write --safetensors, or compile with --tie '" +
              of + "' to train it as one"};
}

Status Rewriter::separated(size_t number, std::string &before, std::string &out) {
  // What an input is called that was `from`.
  const auto rename = [](std::string_view text, const std::map<size_t, std::string> &inputs,
                         const std::string &suffix, std::string &to) {
    size_t input = 0;
    for (Field field; !text.empty() && readField(text, field);) {
      const bool isNamed = field.number == 2 || field.number == 3; // an output, or the node
      if (field.number == 1) {
        const auto found = inputs.find(input++);
        putField(1, found == inputs.end() ? field.payload : std::string_view(found->second), to);
      } else if (isNamed && !suffix.empty()) {
        putField(field.number, std::string(field.payload) + suffix, to);
      } else {
        to += field.raw;
      }
    }
  };
  const GraphNode &reader = nodes[number];
  std::map<size_t, std::string> renamed;
  for (const auto &[i, name] : redirected[number]) {
    std::vector<size_t> path;
    trace(reader.inputs[i], values.at(name).beside, path);
    std::string at = name;
    for (size_t n : path) {
      const std::string suffix = "@" + name, output = nodes[n].outputs[0] + suffix;
      if (moved.insert(output).second) {
        std::string copy;
        rename(nodes[n].text, {{0, at}}, suffix, copy);
        putField(1, copy, before);
      }
      at = output;
    }
    renamed[i] = at;
  }
  std::string changed;
  rename(reader.text, renamed, "", changed);
  return node(changed, true, out);
}

Status Rewriter::addSeparated(std::string &out) {
  for (const auto &[name, value] : values) {
    if (value.beside.empty() || met.count(name) == 0)
      continue;
    // As the one that it was, but for its name.
    const auto copyNamed = [&name = name](std::string_view text, uint32_t number, std::string &to) {
      for (Field field; !text.empty() && readField(text, field);)
        if (field.number != number)
          to += field.raw;
      putField(number, name, to);
    };
    std::string text, written;
    if (const auto found = initializers.find(value.beside); found != initializers.end()) {
      copyNamed(found->second, 8, text);
    } else {
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
    if (const auto found = inputs.find(value.beside); found != inputs.end()) {
      std::string input;
      copyNamed(found->second, 1, input);
      putField(11, input, out);
    }
  }
  return {};
}

Status Rewriter::node(std::string_view text, bool main, std::string &out) {
  // A Constant's value goes by the name of the node's output.
  std::string output, kind;
  std::string_view rest = text;
  for (Field field; !rest.empty();) {
    if (!readField(rest, field))
      return damaged();
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
    const std::string folder = from.substr(0, from.rfind('/') + 1);
    COLOSSAL_RETURN_IF_ERROR(MappedFile::open(location[0] == '/' ? location : folder + location, *mapped));
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
      return damaged();
    switch (field.number) {
    case 1:
      if (field.wire == 0)
        shape.push_back(field.varint);
      for (std::string_view packed = field.payload; field.wire == lengthDelimited && !packed.empty();) {
        shape.emplace_back();
        if (!readVarint(packed, shape.back()))
          return damaged();
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
          return damaged();
        (part.number == 1 ? key : entry) = part.payload;
      }
      const auto number = [&](uint64_t &to) {
        return std::from_chars(entry.data(), entry.data() + entry.size(), to).ec == std::errc();
      };
      if (key == "location")
        path = entry;
      if ((key == "offset" && !number(offset)) || (key == "length" && !number(length)))
        return damaged();
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
  std::vector<std::string> read = {from};
  for (const auto &[location, file] : files)
    read.push_back(file->path());
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

//===- Tensors.cpp - tensors of a model as attributes -----------------------===//
//
// Element types, and the values of tensors in any of ONNX's encodings, of .npy files and of literals.
//
//===----------------------------------------------------------------------===//
#include "Importer.h"

#include "dialects/Colossal/NarrowTypes.h"
#include "llvm/Support/xxhash.h"

#include <cstring>

using namespace mlir;

namespace colossal::onnx_import {

template <typename... Args>
static llvm::Error fail(const char *format, const Args &...args) {
  return llvm::createStringError(std::errc::invalid_argument, format, args...);
}

Type getElementType(MLIRContext *context, int32_t onnxType) {
  auto integer = [&](unsigned width, bool isUnsigned = false) -> Type {
    return IntegerType::get(context, width, isUnsigned ? IntegerType::Unsigned : IntegerType::Signless);
  };
  switch (onnxType) {
  case onnx::TensorProto::FLOAT: return Float32Type::get(context);
  case onnx::TensorProto::DOUBLE: return Float64Type::get(context);
  case onnx::TensorProto::FLOAT16: return Float16Type::get(context);
  case onnx::TensorProto::BFLOAT16: return BFloat16Type::get(context);
  case onnx::TensorProto::BOOL: return integer(1);
  case onnx::TensorProto::INT8: return integer(8);
  case onnx::TensorProto::INT16: return integer(16);
  case onnx::TensorProto::INT32: return integer(32);
  case onnx::TensorProto::INT64: return integer(64);
  case onnx::TensorProto::UINT8: return integer(8, true);
  case onnx::TensorProto::UINT16: return integer(16, true);
  case onnx::TensorProto::UINT32: return integer(32, true);
  case onnx::TensorProto::UINT64: return integer(64, true);
  case onnx::TensorProto::FLOAT8E4M3FN: return Float8E4M3FNType::get(context);
  case onnx::TensorProto::FLOAT8E4M3FNUZ: return Float8E4M3FNUZType::get(context);
  case onnx::TensorProto::FLOAT8E5M2: return Float8E5M2Type::get(context);
  case onnx::TensorProto::FLOAT8E5M2FNUZ: return Float8E5M2FNUZType::get(context);
  case onnx::TensorProto::FLOAT8E8M0: return Float8E8M0FNUType::get(context);
  case onnx::TensorProto::FLOAT4E2M1: return Float4E2M1FNType::get(context);
  case onnx::TensorProto::INT4: return integer(4);
  case onnx::TensorProto::UINT4: return integer(4, true);
  case onnx::TensorProto::INT2: return integer(2);
  case onnx::TensorProto::UINT2: return integer(2, true);
  case onnx::TensorProto::STRING: return IntegerType::get(context, 64, IntegerType::Signed);
  default: return {};
  }
}

int64_t digestText(StringRef text) {
  return text.empty() ? 0 : int64_t(llvm::xxh3_64bits(text));
}

/// Elements of a narrow type from raw data, where those of less than a byte are packed from the lowest bits
/// on.
static DenseElementsAttr fromPacked(RankedTensorType type, ArrayRef<uint8_t> bytes) {
  Type element = type.getElementType();
  unsigned width = element.getIntOrFloatBitWidth();
  SmallVector<APInt> values;
  for (int64_t i = 0, count = type.getNumElements(); i < count; ++i)
    values.push_back(APInt(width, uint64_t(bytes[i * width / 8] >> (i * width % 8)) & ((1u << width) - 1)));
  auto floats = dyn_cast<FloatType>(element);
  if (!floats)
    return DenseElementsAttr::get(type, values);
  return DenseElementsAttr::get(type, llvm::map_to_vector(values, [&](const APInt &bits) {
                                  return APFloat(floats.getFloatSemantics(), bits);
                                }));
}

static DenseElementsAttr fromBytes(RankedTensorType type, ArrayRef<uint8_t> bytes) {
  if (isNarrow(type.getElementType()))
    return fromPacked(type, bytes);
  if (type.getElementType().isInteger(1)) {
    SmallVector<bool> values;
    for (uint8_t byte : bytes)
      values.push_back(byte != 0);
    return DenseElementsAttr::get(type, ArrayRef<bool>(values));
  }
  ArrayRef<char> raw(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  return DenseElementsAttr::getFromRawBuffer(type, raw);
}

/// Packs values of a typed field of the proto into dense bytes of `width` bytes each.
template <typename Field>
static std::vector<uint8_t> pack(const Field &field, int64_t width) {
  std::vector<uint8_t> bytes(field.size() * width);
  for (int i = 0; i < field.size(); ++i) {
    uint64_t value = 0;
    auto element = field.Get(i);
    std::memcpy(&value, &element, sizeof(element));
    std::memcpy(bytes.data() + i * width, &value, width);
  }
  return bytes;
}

llvm::Expected<DenseElementsAttr> readTensor(MLIRContext *context, const onnx::TensorProto &tensor,
                                             const std::optional<TensorBytes> &bytes) {
  Type element = getElementType(context, tensor.data_type());
  if (!element)
    return fail("tensor '%s' has element type %s, which is not supported", tensor.name().c_str(),
                onnx::TensorProto::DataType_Name(onnx::TensorProto::DataType(tensor.data_type())).c_str());
  auto count = countElements(tensor);
  if (!count)
    return count.takeError();
  auto type = RankedTensorType::get(ArrayRef<int64_t>(tensor.dims().data(), tensor.dims_size()), element);
  if (bytes && bytes->missing)
    return fail("the value of tensor '%s' shapes the computation, but its external data '%s' is not there",
                tensor.name().c_str(), bytes->file.c_str());
  if (bytes)
    return fromBytes(type, bytes->bytes);
  if (isString(element)) {
    if (tensor.string_data_size() != *count)
      return fail("tensor '%s' has %d strings, its shape needs %lld", tensor.name().c_str(),
                  tensor.string_data_size(), (long long)*count);
    SmallVector<APInt> digests;
    for (const std::string &text : tensor.string_data())
      digests.push_back(APInt(64, uint64_t(digestText(text))));
    return DenseElementsAttr::get(type, digests);
  }
  int64_t width = std::max(8u, getElementBits(tensor.data_type())) / 8;
  std::vector<uint8_t> packed;
  // Each type has its field; what stands in another one is not this tensor's data.
  if (tensor.has_raw_data()) {
    packed.assign(tensor.raw_data().begin(), tensor.raw_data().end());
  } else {
    switch (tensor.data_type()) {
    case onnx::TensorProto::FLOAT: packed = pack(tensor.float_data(), width); break;
    case onnx::TensorProto::DOUBLE: packed = pack(tensor.double_data(), width); break;
    case onnx::TensorProto::INT64: packed = pack(tensor.int64_data(), width); break;
    case onnx::TensorProto::UINT32:
    case onnx::TensorProto::UINT64: packed = pack(tensor.uint64_data(), width); break;
    default: packed = pack(tensor.int32_data(), width); break;
    }
  }
  if (int64_t needed = getDataBytes(tensor.data_type(), *count); int64_t(packed.size()) != needed)
    return fail("tensor '%s' needs %lld bytes, its data has %zu", tensor.name().c_str(), (long long)needed,
                packed.size());
  return fromBytes(type, packed);
}

//===----------------------------------------------------------------------===//
// Contents given by the user
//===----------------------------------------------------------------------===//

namespace {

/// Parses `3`, `true`, `[1, 2]`, `[[0.5], [1.5]]`.
class LiteralParser {
public:
  explicit LiteralParser(StringRef text) : rest(text) {}

  bool parse() {
    if (!parseLevel(0))
      return false;
    rest = rest.ltrim();
    return rest.empty();
  }
  SmallVector<int64_t> shape;
  std::vector<double> floats;
  std::vector<int64_t> ints;
  bool integral = true;

private:
  bool parseLevel(unsigned level) {
    constexpr unsigned kMostDims = 32;
    rest = rest.ltrim();
    if (!rest.consume_front("["))
      return level == shape.size() && parseNumber();
    if (level == kMostDims)
      return false;
    bool known = shape.size() > level;
    if (!known) {
      if (!floats.empty())
        return false;
      shape.push_back(-1);
    }
    int64_t count = 0;
    rest = rest.ltrim();
    if (!rest.consume_front("]")) {
      do {
        if (!parseLevel(level + 1))
          return false;
        ++count;
        rest = rest.ltrim();
      } while (rest.consume_front(","));
      if (!rest.consume_front("]"))
        return false;
    }
    if (shape[level] >= 0 && shape[level] != count)
      return false;
    shape[level] = count;
    return true;
  }

  bool parseNumber() {
    StringRef token = rest.take_while([](char c) { return c != ',' && c != ']' && !isspace(c); });
    rest = rest.drop_front(token.size());
    double value;
    int64_t whole;
    if (token == "true" || token == "false") {
      value = whole = token == "true";
    } else if (!token.getAsInteger(10, whole)) {
      value = double(whole);
    } else {
      if (token.getAsDouble(value))
        return false;
      integral = false;
      whole = 0;
    }
    floats.push_back(value);
    ints.push_back(whole);
    return true;
  }

  StringRef rest;
};

} // namespace

static llvm::Expected<DenseElementsAttr> readNpy(StringRef path, ArrayRef<uint8_t> bytes, Type element) {
  StringRef text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  std::string name = path.str();
  if (!text.starts_with("\x93NUMPY") || text.size() < 12)
    return fail("'%s' is not a .npy file", name.c_str());
  uint64_t start = bytes[6] == 1 ? 10 : 12;
  uint64_t length = bytes[8] | bytes[9] << 8;
  if (bytes[6] != 1)
    length |= uint64_t(bytes[10]) << 16 | uint64_t(bytes[11]) << 24;
  if (length > text.size() - start)
    return fail("'%s' is cut short", name.c_str());
  StringRef header = text.substr(start, length), data = text.substr(start + length);
  auto field = [&](StringRef key) {
    StringRef value = header.substr(header.find(key));
    return value.substr(value.find(':') + 1).ltrim();
  };
  StringRef description = field("'descr'").drop_front(1).take_until([](char c) { return c == '\''; });
  if (!isComputable(element))
    return fail("'%s': a .npy file holds no elements of the input's type; give a TensorProto file",
                name.c_str());
  bool isFloat = isa<FloatType>(element);
  auto integer = dyn_cast<IntegerType>(element);
  char kind = isFloat ? 'f' : integer.getWidth() == 1 ? 'b' : integer.isUnsigned() ? 'u' : 'i';
  unsigned width = std::max(1u, element.getIntOrFloatBitWidth() / 8);
  std::string wanted = std::string(1, kind) + std::to_string(width);
  if (description.size() != 3 || description[0] == '>' || description.drop_front(1) != wanted)
    return fail("'%s' holds '%s', the input needs '%s'", name.c_str(), description.str().c_str(),
                wanted.c_str());
  if (!field("'fortran_order'").starts_with("False"))
    return fail("'%s' is in column-major order", name.c_str());
  SmallVector<int64_t> shape;
  uint64_t count = width;
  StringRef dims = field("'shape'").drop_front(1).take_until([](char c) { return c == ')'; });
  while (!(dims = dims.ltrim(", ")).empty()) {
    uint64_t size;
    if (dims.consumeInteger(10, size) || (size && count > data.size() / size))
      return fail("'%s' is cut short or has a bad shape", name.c_str());
    count *= size;
    shape.push_back(size);
  }
  if (!isPossibleShape(shape))
    return fail("'%s' has a bad shape", name.c_str());
  if (count != data.size())
    return fail("'%s' has %zu bytes of data, its shape needs %llu", name.c_str(), data.size(),
                (unsigned long long)count);
  return fromBytes(RankedTensorType::get(shape, element), bytes.take_back(data.size()));
}

static llvm::Expected<DenseElementsAttr> readProto(StringRef serialized, Type element,
                                                   std::set<std::string> &texts) {
  onnx::TensorProto tensor;
  if (serialized.size() > INT_MAX || !tensor.ParseFromArray(serialized.data(), int(serialized.size())))
    return fail("the contents are not a serialized TensorProto");
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL)
    return fail("the contents lie in another file");
  auto attr = readTensor(element.getContext(), tensor, std::nullopt);
  if (attr && attr->getElementType() != element)
    return fail("the contents have another element type than the input");
  texts.insert(tensor.string_data().begin(), tensor.string_data().end());
  return attr;
}

llvm::Expected<DenseElementsAttr> readContents(const InputContents &contents, Type element,
                                               std::set<std::string> &texts) {
  if (!contents.tensorProto.empty())
    return readProto(contents.tensorProto, element, texts);
  if (!contents.file.empty()) {
    auto file = MappedFile::open(contents.file);
    if (!file)
      return file.takeError();
    ArrayRef<uint8_t> bytes = (*file)->bytes();
    if (StringRef(contents.file).ends_with(".npy"))
      return readNpy(contents.file, bytes, element);
    return readProto(StringRef(reinterpret_cast<const char *>(bytes.data()), bytes.size()), element, texts);
  }
  if (isString(element))
    return fail("a string is given by a TensorProto file, not by a literal");
  LiteralParser parser(contents.literal);
  if (!parser.parse())
    return fail("'%s' is not a number, true, false, or a nested list of these", contents.literal.c_str());
  HostTensor tensor(RankedTensorType::get(parser.shape, element));
  if (!tensor.isFloat() && !parser.integral)
    return fail("'%s' is not integral, as the input's type asks", contents.literal.c_str());
  for (int64_t i = 0; i < tensor.count(); ++i) {
    if (tensor.isFloat())
      tensor.setFloat(i, parser.floats[i]);
    else
      tensor.setInt(i, parser.ints[i]);
    if (!tensor.isFloat() && tensor.ints[i] != parser.ints[i])
      return fail("'%s' holds a number outside the input's type", contents.literal.c_str());
  }
  return tensor.toAttr();
}

} // namespace colossal::onnx_import

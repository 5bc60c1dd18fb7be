// TensorProto by the schema of Tensor.proto. What a message states is checked against what it holds before
// memory is asked for.
#include "runtime/io/TensorProto.h"

#include "Tensor.pb.h"
#include "runtime/io/Npy.h"

#include <cstring>

namespace colossal::runtime {

namespace {

Status bad(const std::string &what) {
  return {Code::InvalidArgument, "not a readable TensorProto: " + what};
}

struct OnnxType {
  const char *name;
  plan::DataType type; ///< unspecified: no plan has it
};

/// By ONNX's TensorProto.DataType.
constexpr OnnxType onnxTypes[] = {{"undefined", plan::DATA_TYPE_UNSPECIFIED},
                                  {"float", plan::F32},
                                  {"uint8", plan::U8},
                                  {"int8", plan::I8},
                                  {"uint16", plan::U16},
                                  {"int16", plan::I16},
                                  {"int32", plan::I32},
                                  {"int64", plan::I64},
                                  {"string", plan::STRING},
                                  {"bool", plan::BOOL},
                                  {"float16", plan::F16},
                                  {"double", plan::F64},
                                  {"uint32", plan::U32},
                                  {"uint64", plan::U64},
                                  {"complex64", plan::DATA_TYPE_UNSPECIFIED},
                                  {"complex128", plan::DATA_TYPE_UNSPECIFIED},
                                  {"bfloat16", plan::BF16},
                                  {"float8e4m3fn", plan::F8E4M3FN},
                                  {"float8e4m3fnuz", plan::F8E4M3FNUZ},
                                  {"float8e5m2", plan::F8E5M2},
                                  {"float8e5m2fnuz", plan::F8E5M2FNUZ},
                                  {"uint4", plan::U4},
                                  {"int4", plan::I4},
                                  {"float4e2m1", plan::F4E2M1},
                                  {"float8e8m0", plan::F8E8M0},
                                  {"uint2", plan::U2},
                                  {"int2", plan::I2}};

/// Appends the low `size` bytes of each value of a typed field.
template <class Field>
void append(const Field &values, size_t size, std::string &bytes) {
  bytes.reserve(static_cast<size_t>(values.size()) * size);
  for (auto value : values) // little-endian: the low bytes are the value
    bytes.append(reinterpret_cast<const char *>(&value), size);
}

/// The values as raw data would hold them. Each type has its field; what stands in another one is not this
/// tensor's data.
std::string rawBytes(io::TensorProto &proto, plan::DataType type) {
  if (proto.has_raw_data())
    return std::move(*proto.mutable_raw_data());
  std::string bytes;
  switch (type) {
  case plan::F32: append(proto.float_data(), 4, bytes); break;
  case plan::F64: append(proto.double_data(), 8, bytes); break;
  case plan::I64: append(proto.int64_data(), 8, bytes); break;
  case plan::U32: append(proto.uint64_data(), 4, bytes); break;
  case plan::U64: append(proto.uint64_data(), 8, bytes); break;
  // Packed types have a byte of elements in each number.
  default: append(proto.int32_data(), plan::elementBytes(type), bytes); break;
  }
  return bytes;
}

} // namespace

Status parseTensorProto(const std::string &bytes, Tensor &tensor) {
  if (bytes.size() > INT32_MAX)
    return bad("it exceeds 2 GiB");
  io::TensorProto proto;
  if (!proto.ParseFromString(bytes))
    return bad("it is cut off or damaged");
  if (proto.data_location() != 0)
    return bad("its data are in another file");
  const auto number = static_cast<uint32_t>(proto.data_type());
  if (number >= sizeof onnxTypes / sizeof *onnxTypes)
    return bad("data type " + std::to_string(proto.data_type()) + " is not known");
  tensor = {};
  tensor.type = onnxTypes[number].type;
  if (tensor.type == plan::DATA_TYPE_UNSPECIFIED)
    return bad(std::string("elements of type ") + onnxTypes[number].name + " are not supported");
  tensor.shape.assign(proto.dims().begin(), proto.dims().end());
  uint64_t elements;
  if (!tensorElements(tensor.type, tensor.shape, elements))
    return bad("its shape is out of range");
  auto disagrees = [&] { return bad("shape " + describeType(tensor) + " does not agree with its data"); };
  if (tensor.type == plan::STRING) {
    if (static_cast<uint64_t>(proto.string_data_size()) != elements)
      return disagrees();
    setTexts(tensor, {proto.string_data().begin(), proto.string_data().end()});
    return {};
  }
  const std::string raw = rawBytes(proto, tensor.type);
  if (raw.size() != plan::storedBytes(tensor.type, elements))
    return disagrees();
  const auto *values = reinterpret_cast<const std::byte *>(raw.data());
  if (plan::storedBits(tensor.type) >= 8) {
    tensor.bytes.assign(values, values + raw.size());
    return {};
  }
  tensor.bytes.resize(elements);
  for (uint64_t e = 0; e < elements; ++e)
    tensor.bytes[e] = plan::unpackElement(values, e, tensor.type);
  return {};
}

Status readTensorProto(const std::string &path, Tensor &tensor) {
  std::string bytes;
  COLOSSAL_RETURN_IF_ERROR(readFile(path, INT32_MAX, bytes));
  Status status = parseTensorProto(bytes, tensor);
  return status.ok() ? status : Status(status.code(), path + ": " + status.message());
}

} // namespace colossal::runtime

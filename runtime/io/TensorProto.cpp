// The fields of onnx.TensorProto that hold numbers: dims 1, data_type 2, float_data 4, int32_data 5,
// int64_data 7, raw_data 9, double_data 10, uint64_data 11; data_location 14 tells of external data.
#include "runtime/io/TensorProto.h"

#include "runtime/io/Npy.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstring>

namespace colossal::runtime {

namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

Status bad(const std::string &what) {
  return {Code::InvalidArgument, "not a readable TensorProto: " + what};
}

/// ONNX's TensorProto.DataType.
plan::DataType typeOf(uint64_t number) {
  constexpr plan::DataType types[] = {plan::DATA_TYPE_UNSPECIFIED,
                                      plan::F32,
                                      plan::U8,
                                      plan::I8,
                                      plan::U16,
                                      plan::I16,
                                      plan::I32,
                                      plan::I64,
                                      plan::DATA_TYPE_UNSPECIFIED,
                                      plan::BOOL,
                                      plan::F16,
                                      plan::F64,
                                      plan::U32,
                                      plan::U64,
                                      plan::DATA_TYPE_UNSPECIFIED,
                                      plan::DATA_TYPE_UNSPECIFIED,
                                      plan::BF16};
  return number < sizeof types / sizeof *types ? types[number] : plan::DATA_TYPE_UNSPECIFIED;
}

struct Fields {
  std::vector<uint64_t> dims;
  uint64_t type = 0, location = 0;
  bool hasRaw = false;
  std::string raw;
  std::vector<uint64_t> narrow, wide, natural; // int32_data, int64_data, uint64_data
  std::vector<uint64_t> floats, doubles;       // as bits

  /// Each type has its field; what stands in another one is not this tensor's data.
  const std::vector<uint64_t> &of(plan::DataType type) const {
    switch (type) {
    case plan::F32: return floats;
    case plan::F64: return doubles;
    case plan::I64: return wide;
    case plan::U32:
    case plan::U64: return natural;
    default: return narrow;
    }
  }
};

/// A repeated field, packed or not, of varints or of 4 or 8 byte words.
bool readRepeated(CodedInputStream &in, uint32_t tag, unsigned width, std::vector<uint64_t> &values) {
  auto one = [&] {
    uint64_t value = 0;
    uint32_t narrow = 0;
    bool ok = width == 0   ? in.ReadVarint64(&value)
              : width == 8 ? in.ReadLittleEndian64(&value)
                           : in.ReadLittleEndian32(&narrow);
    values.push_back(width == 4 ? narrow : value);
    return ok;
  };
  if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED)
    return one();
  uint32_t length;
  if (!in.ReadVarint32(&length) || length > INT32_MAX)
    return false;
  CodedInputStream::Limit limit = in.PushLimit(static_cast<int>(length));
  while (in.BytesUntilLimit() > 0)
    if (!one())
      return false;
  in.PopLimit(limit);
  return true;
}

bool readFields(CodedInputStream &in, Fields &fields) {
  while (uint32_t tag = in.ReadTag()) {
    bool ok;
    switch (WireFormatLite::GetTagFieldNumber(tag)) {
    case 1: ok = readRepeated(in, tag, 0, fields.dims); break;
    case 2: ok = in.ReadVarint64(&fields.type); break;
    case 4: ok = readRepeated(in, tag, 4, fields.floats); break;
    case 5: ok = readRepeated(in, tag, 0, fields.narrow); break;
    case 7: ok = readRepeated(in, tag, 0, fields.wide); break;
    case 11: ok = readRepeated(in, tag, 0, fields.natural); break;
    case 9: {
      uint32_t length;
      fields.hasRaw = true;
      ok = in.ReadVarint32(&length) && length <= INT32_MAX &&
           in.ReadString(&fields.raw, static_cast<int>(length));
      break;
    }
    case 10: ok = readRepeated(in, tag, 8, fields.doubles); break;
    case 14: ok = in.ReadVarint64(&fields.location); break;
    default: ok = WireFormatLite::SkipField(&in, tag); break;
    }
    if (!ok)
      return false;
  }
  return in.ConsumedEntireMessage();
}

} // namespace

Status parseTensorProto(const std::string &bytes, Tensor &tensor) {
  if (bytes.size() > INT32_MAX)
    return bad("it exceeds 2 GiB");
  CodedInputStream in(reinterpret_cast<const uint8_t *>(bytes.data()), static_cast<int>(bytes.size()));
  Fields fields;
  if (!readFields(in, fields))
    return bad("it is cut off or damaged");
  if (fields.location != 0)
    return bad("its data are in another file");
  tensor.type = typeOf(fields.type);
  if (tensor.type == plan::DATA_TYPE_UNSPECIFIED)
    return bad("data type " + std::to_string(fields.type) + " is not supported");
  tensor.shape = fields.dims;
  const uint64_t size = plan::elementBytes(tensor.type);
  uint64_t elements;
  if (!tensorElements(tensor.type, tensor.shape, elements))
    return bad("its shape is out of range");
  const std::vector<uint64_t> &values = fields.of(tensor.type);
  const uint64_t present = fields.hasRaw ? fields.raw.size() : values.size() * size;
  if (present != elements * size)
    return bad("shape " + describeType(tensor) + " does not agree with its data");
  tensor.bytes.resize(elements * size);
  if (fields.hasRaw) {
    if (!fields.raw.empty())
      std::memcpy(tensor.bytes.data(), fields.raw.data(), fields.raw.size());
  } else {
    for (uint64_t e = 0; e < elements; ++e) // little-endian: the low bytes are the value
      std::memcpy(tensor.bytes.data() + e * size, &values[e], size);
  }
  return {};
}

Status readTensorProto(const std::string &path, Tensor &tensor) {
  std::string bytes;
  COLOSSAL_RETURN_IF_ERROR(readFile(path, INT32_MAX, bytes));
  Status status = parseTensorProto(bytes, tensor);
  return status.ok() ? status : Status(status.code(), path + ": " + status.message());
}

} // namespace colossal::runtime

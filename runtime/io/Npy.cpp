// The .npy format: a magic, a header that is a Python dictionary, the elements.
#include "runtime/io/Npy.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace colossal::runtime {

namespace {

constexpr char magic[] = "\x93NUMPY";

Status bad(const std::string &what) {
  return {Code::InvalidArgument, "not a readable .npy array: " + what};
}

/// The text of a key's value in the header's dictionary, from its first character on.
bool findValue(const std::string &header, const std::string &key, std::string &value) {
  for (char quote : {'\'', '"'}) {
    size_t at = header.find(quote + key + quote);
    if (at == std::string::npos)
      continue;
    at = header.find(':', at + key.size() + 2);
    if (at == std::string::npos)
      return false;
    at = header.find_first_not_of(" \t", at + 1);
    if (at == std::string::npos)
      return false;
    value = header.substr(at);
    return true;
  }
  return false;
}

/// `width` is set for strings: code points of each.
Status parseType(const std::string &descr, plan::DataType &type, bool &swapped, uint64_t &width) {
  if (descr.size() < 4 || (descr[0] != '\'' && descr[0] != '"'))
    return bad("its descr is not a plain type");
  size_t end = descr.find(descr[0], 1);
  std::string name = end == std::string::npos ? "" : descr.substr(1, end - 1);
  if (name.size() < 3)
    return bad("its descr is not a plain type");
  swapped = name[0] == '>';
  if (name[1] == 'U') { // so many code points of four bytes
    type = plan::STRING;
    width = 0;
    for (char digit : name.substr(2))
      if (digit < '0' || digit > '9' ||
          (width = 10 * width + static_cast<uint64_t>(digit - '0')) > (1u << 28))
        return bad("type " + name + " is not supported");
    return {};
  }
  static const std::map<std::string, plan::DataType> types = {
      {"f4", plan::F32}, {"f8", plan::F64}, {"f2", plan::F16}, {"V2", plan::BF16}, {"i1", plan::I8},
      {"i2", plan::I16}, {"i4", plan::I32}, {"i8", plan::I64}, {"u1", plan::U8},   {"u2", plan::U16},
      {"u4", plan::U32}, {"u8", plan::U64}, {"b1", plan::BOOL}};
  auto found = types.find(name.substr(1));
  if (found == types.end() || std::strchr("<>|=", name[0]) == nullptr)
    return bad("type " + name + " is not supported");
  type = found->second;
  return {};
}

Status parseShape(const std::string &text, std::vector<uint64_t> &shape) {
  if (text.empty() || text[0] != '(')
    return bad("its shape is not a tuple");
  shape.clear();
  size_t at = 1;
  for (;;) {
    at = text.find_first_not_of(" \t,", at);
    if (at == std::string::npos)
      return bad("its shape does not end");
    if (text[at] == ')')
      return {};
    uint64_t extent = 0;
    size_t first = at;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at)
      if (__builtin_mul_overflow(extent, uint64_t(10), &extent) ||
          __builtin_add_overflow(extent, uint64_t(text[at] - '0'), &extent))
        return bad("its shape is out of range");
    if (at == first || shape.size() >= 32)
      return bad("its shape is not a tuple of at most 32 numbers");
    shape.push_back(extent);
    if (at < text.size() && text[at] == 'L') // Python 2 wrote long integers so
      ++at;
  }
}

/// Fortran order to C order.
void reorder(Tensor &tensor, uint64_t size) {
  std::vector<std::byte> out(tensor.bytes.size());
  const size_t rank = tensor.shape.size();
  std::vector<uint64_t> index(rank), strides(rank, 1);
  for (size_t d = 1; d < rank; ++d)
    strides[d] = strides[d - 1] * tensor.shape[d - 1];
  for (uint64_t e = 0; e < tensor.bytes.size() / size; ++e) {
    uint64_t from = 0;
    for (size_t d = 0; d < rank; ++d)
      from += index[d] * strides[d];
    std::memcpy(out.data() + e * size, tensor.bytes.data() + from * size, size);
    for (size_t d = rank; d-- > 0;) {
      if (++index[d] < tensor.shape[d])
        break;
      index[d] = 0;
    }
  }
  tensor.bytes = std::move(out);
}

/// Texts from code points, `width` a string, which zeros end.
Status decodeTexts(Tensor &tensor, uint64_t elements, uint64_t width) {
  std::vector<std::string> texts(elements);
  for (uint64_t e = 0; e < elements; ++e) {
    size_t skipped = 0; // zeros that a later code point makes part of the text
    for (uint64_t c = 0; c < width; ++c) {
      uint32_t point;
      std::memcpy(&point, tensor.bytes.data() + (e * width + c) * 4, 4);
      if (point == 0) {
        ++skipped;
        continue;
      }
      texts[e].append(skipped, '\0');
      skipped = 0;
      if (point > 0x10ffff)
        return bad("a string holds " + std::to_string(point) + ", which is no code point");
      auto tail = [&](int shift) { texts[e] += static_cast<char>(0x80 | (point >> shift & 0x3f)); };
      if (point < 0x80) {
        texts[e] += static_cast<char>(point);
      } else if (point < 0x800) {
        texts[e] += static_cast<char>(0xc0 | point >> 6);
        tail(0);
      } else if (point < 0x10000) {
        texts[e] += static_cast<char>(0xe0 | point >> 12);
        tail(6), tail(0);
      } else {
        texts[e] += static_cast<char>(0xf0 | point >> 18);
        tail(12), tail(6), tail(0);
      }
    }
  }
  setTexts(tensor, std::move(texts));
  return {};
}

/// Code points of UTF-8; a byte that is no part of it stands for itself.
std::vector<uint32_t> codePoints(const std::string &text) {
  std::vector<uint32_t> points;
  for (size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at]);
    const size_t length = lead < 0xc2 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 1;
    uint32_t point = length == 1 ? lead : lead & (0x7fu >> length);
    bool whole = length > 1 && at + length <= text.size();
    for (size_t i = 1; whole && i < length; ++i) {
      const auto next = static_cast<unsigned char>(text[at + i]);
      whole = (next & 0xc0) == 0x80;
      point = point << 6 | (next & 0x3f);
    }
    points.push_back(whole ? point : lead);
    at += whole ? length : 1;
  }
  return points;
}

} // namespace

Status parseNpyHeader(std::string_view bytes, NpyHeader &parsed) {
  if (bytes.size() < 10 || std::memcmp(bytes.data(), magic, 6) != 0)
    return bad("it does not begin with the format's magic bytes");
  const int version = static_cast<unsigned char>(bytes[6]);
  if (version < 1 || version > 3)
    return bad("version " + std::to_string(version));
  const size_t lengthBytes = version == 1 ? 2 : 4, start = 8 + lengthBytes;
  uint64_t length = 0;
  if (bytes.size() < start)
    return bad("the header is cut off");
  for (size_t i = 0; i < lengthBytes; ++i)
    length |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[8 + i])) << (8 * i);
  if (length > bytes.size() - start)
    return bad("the header is cut off");
  const std::string header(bytes.substr(start, length));
  std::string descr, order, shape;
  if (!findValue(header, "descr", descr) || !findValue(header, "fortran_order", order) ||
      !findValue(header, "shape", shape))
    return bad("the header lacks descr, fortran_order or shape");
  COLOSSAL_RETURN_IF_ERROR(parseType(descr, parsed.type, parsed.swapped, parsed.width));
  COLOSSAL_RETURN_IF_ERROR(parseShape(shape, parsed.shape));
  parsed.fortran = order.rfind("True", 0) == 0;
  parsed.begin = start + length;
  const uint64_t size = parsed.type == plan::STRING ? 4 * parsed.width : plan::elementBytes(parsed.type);
  if (!tensorElements(parsed.type, parsed.shape, parsed.elements) ||
      (size != 0 && parsed.elements > bytes.size() / size) ||
      parsed.elements * size != bytes.size() - parsed.begin)
    return bad("shape " + describeType(parsed.type, parsed.shape) + " does not agree with " +
               std::to_string(bytes.size() - parsed.begin) + " bytes of elements");
  return {};
}

Status parseNpy(const std::string &bytes, Tensor &tensor) {
  NpyHeader header;
  COLOSSAL_RETURN_IF_ERROR(parseNpyHeader(bytes, header));
  tensor.type = header.type;
  tensor.shape = header.shape;
  const bool strings = tensor.type == plan::STRING;
  const uint64_t elements = header.elements, width = header.width,
                 size = strings ? 4 * width : plan::elementBytes(tensor.type);
  const auto *begin = reinterpret_cast<const std::byte *>(bytes.data() + header.begin);
  tensor.bytes.assign(begin, begin + elements * size);
  if (strings && width == 0 && elements > bytes.size())
    return bad("it has " + std::to_string(elements) + " empty strings");
  if (header.swapped && strings)
    for (uint64_t e = 0; e < elements * width; ++e)
      std::reverse(tensor.bytes.begin() + static_cast<ptrdiff_t>(e * 4),
                   tensor.bytes.begin() + static_cast<ptrdiff_t>((e + 1) * 4));
  else if (header.swapped)
    for (uint64_t e = 0; e < elements; ++e)
      std::reverse(tensor.bytes.begin() + static_cast<ptrdiff_t>(e * size),
                   tensor.bytes.begin() + static_cast<ptrdiff_t>((e + 1) * size));
  if (header.fortran && tensor.shape.size() > 1 && elements != 0 && size != 0)
    reorder(tensor, size);
  if (strings)
    return decodeTexts(tensor, elements, width);
  return {};
}

std::string formatNpy(const Tensor &tensor) {
  // Narrow types as the bytes that they are: floats as bits (outputs come as f32).
  constexpr const char *names[] = {"?",   "<f4", "<f8", "<f2", "<V2", "|i1", "<i2", "<i4", "<i8",
                                   "|u1", "<u2", "<u4", "<u8", "|b1", "|u1", "|u1", "|u1", "|u1",
                                   "|u1", "|u1", "|i1", "|u1", "|i1", "|u1", "<U"};
  std::vector<std::vector<uint32_t>> points;
  size_t width = 1;
  for (const std::string &text : tensor.texts) {
    points.push_back(codePoints(text));
    width = std::max(width, points.back().size());
  }
  std::string header = std::string("{'descr': '") + names[tensor.type] +
                       (tensor.type == plan::STRING ? std::to_string(width) : "") +
                       "', 'fortran_order': False, 'shape': (";
  for (uint64_t extent : tensor.shape)
    header += std::to_string(extent) + ", ";
  if (tensor.shape.size() > 1)
    header.resize(header.size() - 2);
  else if (tensor.shape.size() == 1)
    header.pop_back();
  header += "), }";
  // The elements begin on a multiple of 64 bytes.
  header.append((64 - (10 + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  std::string bytes(magic, 6);
  bytes += '\1';
  bytes += '\0';
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  for (std::vector<uint32_t> &text : points) {
    text.resize(width);
    bytes.append(reinterpret_cast<const char *>(text.data()), width * sizeof(uint32_t));
  }
  if (points.empty())
    bytes.append(reinterpret_cast<const char *>(tensor.bytes.data()), tensor.bytes.size());
  return bytes;
}

Status readFile(const std::string &path, uint64_t limit, std::string &bytes) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return {errno == ENOENT ? Code::NotFound : Code::Io, "cannot open " + path + ": " + std::strerror(errno)};
  struct stat info;
  Status status;
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
    status = {Code::Io, path + " is not a regular file"};
  else if (static_cast<uint64_t>(info.st_size) > limit)
    status = {Code::InvalidArgument, path + " is larger than " + std::to_string(limit) + " bytes"};
  else
    bytes.resize(static_cast<size_t>(info.st_size));
  for (size_t done = 0; status.ok() && done < bytes.size();) {
    ssize_t got = ::read(fd, bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0) // 0: somebody has cut it off meanwhile
      status = {Code::Io, "cannot read " + path};
    done += got > 0 ? static_cast<size_t>(got) : 0;
  }
  ::close(fd);
  return status;
}

Status readNpy(const std::string &path, Tensor &tensor) {
  std::string bytes;
  COLOSSAL_RETURN_IF_ERROR(readFile(path, uint64_t(1) << 40, bytes));
  Status status = parseNpy(bytes, tensor);
  return status.ok() ? status : Status(status.code(), path + ": " + status.message());
}

} // namespace colossal::runtime

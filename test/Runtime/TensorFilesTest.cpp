// Tensors of every element type from TensorProto messages, and strings to and from .npy arrays. Messages are
// written byte by byte, as another program would have written them.
#include "runtime/io/Npy.h"
#include "runtime/io/TensorProto.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace colossal;
using namespace colossal::runtime;

namespace {

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7)
    bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string number(unsigned field, uint64_t value) {
  return varint(field << 3) + varint(value);
}
std::string bytes(unsigned field, const std::string &value) {
  return varint(field << 3 | 2) + varint(value.size()) + value;
}
/// dims, data_type, and what holds the values.
std::string message(const std::vector<uint64_t> &dims, int type, const std::string &values) {
  std::string text;
  for (uint64_t dim : dims)
    text += number(1, dim);
  return text + number(2, static_cast<uint64_t>(type)) + values;
}
std::string raw(const std::string &value) {
  return bytes(9, value);
}

std::vector<double> parse(const std::string &text, plan::DataType type) {
  Tensor tensor;
  Status status = parseTensorProto(text, tensor);
  EXPECT_TRUE(status.ok()) << status.describe();
  EXPECT_EQ(tensor.type, type);
  return toDoubles(tensor);
}
std::string problem(const std::string &text) {
  Tensor tensor;
  Status status = parseTensorProto(text, tensor);
  EXPECT_FALSE(status.ok());
  return status.message();
}

using Values = std::vector<double>;

} // namespace

TEST(TensorProto, PackedElementsBeginInTheLowestBits) {
  EXPECT_EQ(parse(message({3}, 22, raw("\x7f\x08")), plan::I4), Values({-1, 7, -8}));
  EXPECT_EQ(parse(message({3}, 21, raw("\x7f\x08")), plan::U4), Values({15, 7, 8}));
  EXPECT_EQ(parse(message({5}, 26, raw("\xe4\x03")), plan::I2), Values({0, 1, -2, -1, -1}));
  EXPECT_EQ(parse(message({5}, 25, raw("\xe4\x03")), plan::U2), Values({0, 1, 2, 3, 3}));
  EXPECT_EQ(parse(message({2}, 23, raw("\xf2")), plan::F4E2M1), Values({1, -6}));
  // In int32_data each number holds one byte of them.
  EXPECT_EQ(parse(message({3}, 22, number(5, 0x7f) + number(5, 8)), plan::I4), Values({-1, 7, -8}));
}

TEST(TensorProto, NarrowFloatsAreTheirBits) {
  EXPECT_EQ(parse(message({2}, 17, raw("\x38\xfe")), plan::F8E4M3FN), Values({1, -448}));
  EXPECT_EQ(parse(message({2}, 18, raw("\x40\xff")), plan::F8E4M3FNUZ), Values({1, -240}));
  EXPECT_EQ(parse(message({2}, 19, raw("\x3c\xfc")), plan::F8E5M2), Values({1, -INFINITY}));
  EXPECT_EQ(parse(message({2}, 20, raw("\x40\x01")), plan::F8E5M2FNUZ), Values({1, 0x1p-17}));
  EXPECT_EQ(parse(message({2}, 24, raw("\x7f\x80")), plan::F8E8M0), Values({1, 2}));
  EXPECT_EQ(parse(message({1}, 17, number(5, 0x38)), plan::F8E4M3FN), Values({1}));
}

TEST(TensorProto, TypedFieldsHoldTheirTypes) {
  EXPECT_EQ(parse(message({1}, 3, number(5, uint64_t(-3))), plan::I8), Values({-3}));
  EXPECT_EQ(parse(message({1}, 7, number(7, uint64_t(-3))), plan::I64), Values({-3}));
  EXPECT_EQ(parse(message({1}, 12, number(11, 0xffffffff)), plan::U32), Values({0xffffffff}));
  EXPECT_EQ(parse(message({}, 10, number(5, 0x3c00)), plan::F16), Values({1}));
}

TEST(TensorProto, StringsKeepTheirTexts) {
  Tensor tensor;
  ASSERT_TRUE(parseTensorProto(message({3}, 8, bytes(6, "a") + bytes(6, "") + bytes(6, "a")), tensor).ok());
  EXPECT_EQ(tensor.texts, std::vector<std::string>({"a", "", "a"}));
  ASSERT_EQ(tensor.bytes.size(), 24u);
  EXPECT_EQ(std::vector<std::byte>(tensor.bytes.begin(), tensor.bytes.begin() + 8),
            std::vector<std::byte>(tensor.bytes.begin() + 16, tensor.bytes.end()));
  EXPECT_EQ(std::vector<std::byte>(tensor.bytes.begin() + 8, tensor.bytes.begin() + 16),
            std::vector<std::byte>(8));
}

TEST(TensorProto, WhatDoesNotAgreeIsRefused) {
  EXPECT_NE(problem(message({5}, 22, raw("\x7f\x08"))).find("does not agree"), std::string::npos);
  EXPECT_NE(problem(message({3}, 22, raw("\x7f\x08\x01"))).find("does not agree"), std::string::npos);
  EXPECT_NE(problem(message({2}, 8, bytes(6, "a"))).find("does not agree"), std::string::npos);
  EXPECT_NE(problem(message({1}, 1, number(5, 1))).find("does not agree"), std::string::npos);
  EXPECT_NE(problem(message({1}, 14, raw(std::string(8, '\0')))).find("complex64"), std::string::npos);
  EXPECT_NE(problem(message({1}, 99, raw("x"))).find("data type 99 is not known"), std::string::npos);
  EXPECT_NE(problem(message({1}, -1, raw("x"))).find("is not known"), std::string::npos);
  EXPECT_NE(problem(message({uint64_t(1) << 40, uint64_t(1) << 40}, 22, raw("x"))).find("out of range"),
            std::string::npos);
  EXPECT_NE(problem(message({uint64_t(-1)}, 22, raw("x"))).find("out of range"), std::string::npos);
  EXPECT_NE(problem(message({1}, 1, raw("abcd")) + number(14, 1)).find("another file"), std::string::npos);
  EXPECT_NE(problem(message({1}, 1, "\x4a\x7f")).find("cut off or damaged"), std::string::npos);
}

TEST(Npy, StringsComeBack) {
  Tensor tensor, read;
  tensor.type = plan::STRING;
  tensor.shape = {2, 2};
  setTexts(tensor, {"", "plain", "z\xc3\xbcrich", "\xf0\x9f\x8e\xb2"});
  std::string file = formatNpy(tensor);
  EXPECT_NE(file.find("'<U6'"), std::string::npos);
  ASSERT_TRUE(parseNpy(file, read).ok());
  EXPECT_EQ(read.type, plan::STRING);
  EXPECT_EQ(read.shape, tensor.shape);
  EXPECT_EQ(read.texts, tensor.texts);
  EXPECT_EQ(read.bytes, tensor.bytes);
  Status status = parseNpy(file.substr(0, file.size() - 4), read);
  EXPECT_FALSE(status.ok());
}

TEST(Tensor, NarrowTypesAreGivenAsWhatFilesHave) {
  auto given = [](plan::DataType type, std::vector<uint8_t> values) {
    Tensor tensor;
    tensor.type = type;
    tensor.shape = {values.size()};
    for (uint8_t value : values)
      tensor.bytes.push_back(std::byte{value});
    return tensor;
  };
  Tensor tensor = given(plan::I8, {0xf8, 7});
  ASSERT_TRUE(convertTo(plan::I4, tensor).ok());
  EXPECT_EQ(toDoubles(tensor), Values({-8, 7}));
  EXPECT_FALSE(convertTo(plan::I4, *std::make_unique<Tensor>(given(plan::I8, {8}))).ok());
  EXPECT_FALSE(convertTo(plan::U2, *std::make_unique<Tensor>(given(plan::U8, {4}))).ok());
  tensor = given(plan::U8, {0x38});
  ASSERT_TRUE(convertTo(plan::F8E4M3FN, tensor).ok());
  ASSERT_TRUE(convertTo(plan::F32, tensor).ok());
  EXPECT_EQ(toDoubles(tensor), Values({1}));
  ASSERT_TRUE(convertTo(plan::F8E5M2, tensor).ok());
  EXPECT_EQ(tensor.bytes, std::vector<std::byte>{std::byte{0x3c}});
}

// The plan file: what is written is read, and nothing altered is.
#include "PlanBuilder.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace colossal;
using namespace colossal::runtime;

namespace {

std::string slurp(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

void spill(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

struct Container : ::testing::Test {
  void SetUp() override {
    builder.data = "some data";
    path = builder.path("container.cplan");
    ASSERT_TRUE(builder.write(path).ok());
    bytes = slurp(path);
  }
  void TearDown() override { ::unlink(path.c_str()); }
  Status read() {
    plan::PlanFile file;
    return plan::PlanFile::open(path, true, file);
  }
  PlanBuilder builder;
  std::string path, bytes;
};

} // namespace

TEST_F(Container, RoundTrip) {
  plan::PlanFile file;
  Status status = plan::PlanFile::open(path, true, file);
  ASSERT_TRUE(status.ok()) << status.describe();
  EXPECT_EQ(file.plan().SerializeAsString(), builder.plan.SerializeAsString());
  EXPECT_EQ(std::string(reinterpret_cast<const char *>(file.data().data), file.data().size), builder.data);
  EXPECT_EQ(std::string(reinterpret_cast<const char *>(file.code().data), file.code().size), builder.code);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(file.code().data) % plan::codeAlignment, 0u);
  ASSERT_TRUE(builder.write(path).ok());
  EXPECT_EQ(slurp(path), bytes) << "the same plan gives other bytes";
}

TEST_F(Container, EveryFlippedBitIsRefused) {
  // All bits of header and table, then one bit of every 61st byte.
  for (size_t at = 0; at < bytes.size(); at += at < 256 ? 1 : 61) {
    std::string altered = bytes;
    altered[at] = static_cast<char>(altered[at] ^ (1 << (at % 8)));
    spill(path, altered);
    ASSERT_FALSE(read().ok()) << "byte " << at;
  }
}

TEST_F(Container, EveryTruncationIsRefused) {
  for (size_t size = 0; size < bytes.size(); size += size < 300 ? 1 : 997) {
    spill(path, bytes.substr(0, size));
    ASSERT_FALSE(read().ok()) << size << " bytes";
  }
  spill(path, bytes + "x");
  EXPECT_FALSE(read().ok());
}

TEST_F(Container, FilesThatOthersMayWriteAreRefused) {
  for (mode_t mode : {0664, 0646}) {
    ::chmod(path.c_str(), mode);
    EXPECT_EQ(read().code(), Code::Permission);
  }
  if (::geteuid() == 0) {
    ::chmod(path.c_str(), 0644);
    ASSERT_EQ(::chown(path.c_str(), 12345, 0), 0);
    EXPECT_EQ(read().code(), Code::Permission);
  }
}

TEST_F(Container, MissingFoldersAndFilesAreNamed) {
  plan::PlanFile file;
  EXPECT_EQ(plan::PlanFile::open(path + ".none", true, file).code(), Code::NotFound);
  EXPECT_FALSE(plan::PlanFile::open(::testing::TempDir(), true, file).ok());
  EXPECT_FALSE(builder.write("/nonexistent/folder/x.cplan").ok());
}

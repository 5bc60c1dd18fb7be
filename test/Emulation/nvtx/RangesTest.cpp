// The runtime's ranges as a tool sees them. A process has one tool or none, so each test is a process.
#include "runtime/cuda/nvtx/Ranges.h"
#include "test/Emulation/nvtx/Record.h"

#include <gtest/gtest.h>

namespace colossal::runtime {

TEST(NvtxRanges, NothingIsOpenedWithoutATool) {
  EXPECT_EXIT(
      {
        ::unsetenv("NVTX_INJECTION64_PATH");
        ::_exit(NvtxRanges::attached() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        ::setenv("NVTX_INJECTION64_PATH", "/nowhere/libtool.so", 1);
        ::_exit(NvtxRanges::attached() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
  // A tool that does not attach: it has nowhere to write.
  EXPECT_EXIT(
      {
        ::setenv("NVTX_INJECTION64_PATH", COLOSSAL_EMULATED_NVTX_TOOL, 1);
        ::unsetenv("COLOSSAL_EMULATED_NVTX_RECORD");
        ::_exit(NvtxRanges::attached() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(NvtxRanges, NestAndCarryNames) {
  const std::string path = ::testing::TempDir() + "nvtx-ranges.txt";
  EXPECT_EXIT(
      {
        nvtx::beginRecord(path);
        NvtxRanges *ranges = NvtxRanges::attached();
        if (!ranges || NvtxRanges::attached() != ranges)
          ::_exit(1);
        ranges->begin("infer");
        ranges->begin("/layer.0/MatMul");
        ranges->end();
        ranges->end();
        ::_exit(0);
      },
      ::testing::ExitedWithCode(0), "");
  EXPECT_EQ(nvtx::readRecord(path),
            (std::vector<std::string>{"push 1 colossal infer", "push 2 colossal /layer.0/MatMul",
                                      "pop 1 colossal", "pop 0 colossal"}));
}

} // namespace colossal::runtime

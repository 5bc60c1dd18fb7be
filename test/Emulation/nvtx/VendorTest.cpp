// The tool below the vendor's own loader, which is a header: what stands in for a profiler attaches there,
// too.
#include "test/Emulation/nvtx/Record.h"

#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>

namespace colossal {

TEST(NvtxTool, AttachesToTheVendorsLoader) {
  const std::string path = ::testing::TempDir() + "nvtx-vendor.txt";
  EXPECT_EXIT(
      {
        nvtx::beginRecord(path);
        nvtxDomainHandle_t domain = nvtxDomainCreateA("theirs");
        nvtxEventAttributes_t attributes = {};
        attributes.version = NVTX_VERSION;
        attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
        attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
        attributes.message.ascii = "a range";
        nvtxDomainRangePushEx(domain, &attributes);
        nvtxDomainRangePop(domain);
        nvtxDomainRangePop(domain);
        ::_exit(0);
      },
      ::testing::ExitedWithCode(0), "");
  EXPECT_EQ(nvtx::readRecord(path), (std::vector<std::string>{"push 1 theirs a range", "pop 0 theirs",
                                                              "error 0 a range ends that did not begin"}));
}

} // namespace colossal

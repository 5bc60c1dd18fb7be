// Planted faults, each of which must be found at its line, next to a twin without the fault, which must pass.
#include "Harness.h"

#include <algorithm>

namespace colossal::ptx {
namespace {

struct Twin {
  const char *name;
  FaultKind kind;
  const char *faulty, *sound; ///< bodies of a kernel whose p0 and p1 are buffers of 256 bytes
  Dim3 grid, block;
};

// Each thread's number in %r0, four times it in %r1 and %rd1, p0 + that in %rd2, p1 + that in %rd3, the block
// in %r9.
const char *const kPrologue = R"(
.reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<32>; .reg .b64 %rd<32>; .reg .f32 %f<16>;
.shared .align 16 .b8 s[512];
mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 2; cvt.u64.u32 %rd1, %r1; mov.u32 %r9, %ctaid.x; mov.u32 %r8, s;
add.u32 %r2, %r8, %r1; ld.param.u64 %rd4, [p0]; ld.param.u64 %rd5, [p1]; add.u64 %rd2, %rd4, %rd1; add.u64 %rd3, %rd5, %rd1;
mov.u32 %r20, -1;
)";

const Twin kTwins[] = {
    {"Overrun",
     FaultKind::OutOfBounds,
     "st.global.u32 [%rd2+4], %r0;",
     "st.global.u32 [%rd2], %r0;",
     {1},
     {64}},
    {"ReadBeforeTheBuffer",
     FaultKind::OutOfBounds,
     "ld.global.u32 %r3, [%rd2+-4];",
     "ld.global.u32 %r3, [%rd2];",
     {1},
     {64}},
    {"OverrunOfSharedMemory",
     FaultKind::OutOfBounds,
     "st.shared.u32 [%r2+260], %r0;",
     "st.shared.u32 [%r2+256], %r0;",
     {1},
     {64}},
    {"OverrunByAVector",
     FaultKind::OutOfBounds,
     "mul.wide.u32 %rd6, %r0, 16; add.u64 %rd6, %rd4, %rd6; ld.global.v4.u32 {%r3, %r4, %r5, %r6}, "
     "[%rd6+16];",
     "mul.wide.u32 %rd6, %r0, 16; add.u64 %rd6, %rd4, %rd6; ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%rd6];",
     {1},
     {16}},
    {"MisalignedWord",
     FaultKind::Misaligned,
     "ld.global.u32 %r3, [%rd4+2];",
     "ld.global.u32 %r3, [%rd4+4];",
     {1},
     {32}},
    {"MisalignedVector",
     FaultKind::Misaligned,
     "ld.global.v2.u32 {%r3, %r4}, [%rd4+4];",
     "ld.global.v2.u32 {%r3, %r4}, [%rd4+8];",
     {1},
     {32}},
    {"MisalignedShared",
     FaultKind::Misaligned,
     "st.shared.v4.u32 [%r8+8], {%r9, %r9, %r9, %r9};",
     "st.shared.v4.u32 [%r8+16], {%r9, %r9, %r9, %r9};",
     {1},
     {1}},
    {"UninitializedShared",
     FaultKind::UninitializedShared,
     "st.shared.u32 [%r2], %r0; bar.sync 0; ld.shared.u32 %r3, [%r2+128];",
     "st.shared.u32 [%r2+128], %r0; bar.sync 0; ld.shared.u32 %r3, [%r2+128];",
     {2},
     {32}},
    {"SharedReadWithoutBarrier",
     FaultKind::SharedRace,
     "st.shared.u32 [%r2], %r0; xor.b32 %r3, %r2, 128; ld.shared.u32 %r4, [%r3];",
     "st.shared.u32 [%r2], %r0; xor.b32 %r3, %r2, 128; bar.sync 0; ld.shared.u32 %r4, [%r3];",
     {1},
     {64}},
    {"SharedWriteAfterReadWithoutBarrier",
     FaultKind::SharedRace,
     "st.shared.u32 [%r2], %r0; bar.sync 0; xor.b32 %r3, %r2, 128; ld.shared.u32 %r4, [%r3]; st.shared.u32 "
     "[%r2], %r4;",
     "st.shared.u32 [%r2], %r0; bar.sync 0; xor.b32 %r3, %r2, 128; ld.shared.u32 %r4, [%r3]; bar.sync 0; "
     "st.shared.u32 [%r2], %r4;",
     {1},
     {64}},
    {"SharedWritesToOnePlace",
     FaultKind::SharedRace,
     "st.shared.u32 [%r8], %r0;",
     "setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.u32 [%r8], %r0;",
     {1},
     {64}},
    {"LanesWriteDifferentValuesToOnePlace",
     FaultKind::SharedRace,
     "st.shared.u32 [%r8], %r0;",
     "st.shared.u32 [%r8], %r9;",
     {1},
     {32}},
    {"LanesOfAWarpWithoutSync",
     FaultKind::SharedRace,
     "st.shared.u32 [%r2], %r0; xor.b32 %r3, %r2, 4; ld.shared.u32 %r4, [%r3];",
     "st.shared.u32 [%r2], %r0; xor.b32 %r3, %r2, 4; bar.warp.sync -1; ld.shared.u32 %r4, [%r3];",
     {1},
     {32}},
    {"AtomicAgainstPlainInShared",
     FaultKind::SharedRace,
     "setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.u32 [%r8], %r9; bar.sync 0; red.shared.add.u32 [%r8], 1; "
     "ld.shared.u32 %r4, [%r8];",
     "setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.u32 [%r8], %r9; bar.sync 0; red.shared.add.u32 [%r8], 1; "
     "bar.sync 0; ld.shared.u32 %r4, [%r8];",
     {1},
     {64}},
    {"NamedBarrierOfTheWrongWarps",
     FaultKind::SharedRace,
     // Warps 0 and 1 meet at barrier 1, warps 2 and 3 at barrier 2; whoever reads of a warp that it did not
     // meet races.
     "st.shared.u32 [%r2], %r0; shr.u32 %r3, %r0, 6; add.u32 %r3, %r3, 1; bar.sync %r3, 64; xor.b32 %r4, "
     "%r2, 256; ld.shared.u32 %r5, [%r4];",
     "st.shared.u32 [%r2], %r0; shr.u32 %r3, %r0, 6; add.u32 %r3, %r3, 1; bar.sync %r3, 64; xor.b32 %r4, "
     "%r2, 128; ld.shared.u32 %r5, [%r4];",
     {1},
     {128}},
    {"BlocksWriteOnePlace",
     FaultKind::GlobalRace,
     "st.global.u32 [%rd2], %r9;",
     "red.global.add.u32 [%rd2], %r9;",
     {2},
     {32}},
    {"BlockReadsWhatAnotherWrites",
     FaultKind::GlobalRace,
     "mul.wide.u32 %rd6, %r9, 128; add.u64 %rd6, %rd2, %rd6; st.global.u32 [%rd6], %r0; ld.global.u32 %r3, "
     "[%rd2];",
     "mul.wide.u32 %rd6, %r9, 128; add.u64 %rd6, %rd2, %rd6; st.global.u32 [%rd6], %r0; ld.global.u32 %r3, "
     "[%rd6];",
     {2},
     {32}},
    {"WarpsRaceInGlobalMemory",
     FaultKind::GlobalRace,
     "st.global.u32 [%rd2], %r0; xor.b64 %rd6, %rd2, 128; ld.global.u32 %r4, [%rd6];",
     "st.global.u32 [%rd2], %r0; xor.b64 %rd6, %rd2, 128; bar.sync 0; ld.global.u32 %r4, [%rd6];",
     {1},
     {64}},
    {"HalvesOfAWordAreApart",
     FaultKind::GlobalRace,
     // The twin's two blocks write the two halves of the same words.
     "cvt.u16.u32 %h0, %r0; st.global.u16 [%rd2], %h0;",
     "cvt.u16.u32 %h0, %r0; mul.wide.u32 %rd6, %r9, 2; add.u64 %rd6, %rd2, %rd6; st.global.u16 [%rd6], %h0;",
     {2},
     {32}},
    {"PublishedWithoutAFence",
     FaultKind::GlobalRace,
     // Whichever block comes last reads what the other has left.
     "mul.wide.u32 %rd6, %r9, 4; add.u64 %rd7, %rd4, %rd6; xor.b64 %rd8, %rd7, 4; st.global.u32 [%rd7], 7; "
     "atom.global.add.u32 %r3, [%rd5], 1;"
     "setp.eq.u32 %p2, %r3, 1; membar.gl; @%p2 ld.global.u32 %r4, [%rd8];",
     "mul.wide.u32 %rd6, %r9, 4; add.u64 %rd7, %rd4, %rd6; xor.b64 %rd8, %rd7, 4; st.global.u32 [%rd7], 7; "
     "membar.gl; atom.global.add.u32 %r3, [%rd5], 1;"
     "setp.eq.u32 %p2, %r3, 1; membar.gl; @%p2 ld.global.u32 %r4, [%rd8];",
     {2},
     {1}},
    {"NonCoherentReadOfWhatIsWritten",
     FaultKind::NonCoherentRead,
     "ld.global.nc.u32 %r3, [%rd2]; st.global.u32 [%rd2], %r3;",
     "ld.global.nc.u32 %r3, [%rd2]; st.global.u32 [%rd3], %r3;",
     {1},
     {32}},
    {"NonCoherentReadAfterABarrier",
     FaultKind::NonCoherentRead,
     "st.global.u32 [%rd2], %r0; bar.sync 0; ld.global.nc.u32 %r3, [%rd2];",
     "st.global.u32 [%rd2], %r0; bar.sync 0; ld.global.u32 %r3, [%rd2];",
     {1},
     {32}},
    {"BarrierInOneBranch",
     FaultKind::DivergentBarrier,
     "setp.lt.u32 %p1, %r0, 16; @%p1 bra A; bar.sync 0; A:",
     "setp.lt.u32 %p1, %r0, 16; @%p1 bra A; add.u32 %r0, %r0, 1; A: bar.sync 0;",
     {1},
     {64}},
    {"BarrierThatAWarpSkips",
     FaultKind::DivergentBarrier,
     "setp.lt.u32 %p1, %r0, 32; @%p1 bra A; bar.sync 0; A:",
     "setp.lt.u32 %p1, %r0, 32; @%p1 bra A; bar.sync 1, 32; A:",
     {1},
     {64}},
    {"BarrierAfterSomeHaveEnded",
     FaultKind::DivergentBarrier,
     "setp.lt.u32 %p1, %r0, 32; @%p1 exit; bar.sync 0;",
     "setp.lt.u32 %p1, %r0, 32; bar.sync 0; @%p1 exit;",
     {1},
     {64}},
    {"ShuffleInOneBranch",
     FaultKind::DivergentShuffle,
     "setp.lt.u32 %p1, %r0, 16; @%p1 bra A; shfl.sync.bfly.b32 %r3, %r0, 1, 31, -1; A: bar.warp.sync -1;",
     "setp.lt.u32 %p1, %r0, 16; @%p1 bra A; shfl.sync.bfly.b32 %r3, %r0, 1, 31, 0xffff0000; A: bar.warp.sync "
     "-1;",
     {1},
     {32}},
    {"ShuffleFromALaneThatIsNoMember",
     FaultKind::DivergentShuffle,
     "setp.lt.u32 %p1, %r0, 16; @!%p1 bra A; shfl.sync.bfly.b32 %r3, %r0, 16, 31, 0xffff; A:",
     "setp.lt.u32 %p1, %r0, 16; @!%p1 bra A; shfl.sync.bfly.b32 %r3, %r0, 8, 31, 0xffff; A:",
     {1},
     {32}},
    {"ShuffleFromALaneThatDoesNotExist",
     FaultKind::DivergentShuffle,
     "shfl.sync.down.b32 %r3, %r0, 8, 31, -1;",
     "setp.lt.u32 %p1, %r0, 8; shfl.sync.idx.b32 %r3, %r0, 0, 31, -1;",
     {1},
     {40}},
    {"VoteOfALaneThatIsNoMember",
     FaultKind::InvalidOperand,
     "setp.lt.u32 %p1, %r0, 16; vote.sync.ballot.b32 %r3, %p1, 0xffff;",
     "setp.lt.u32 %p1, %r0, 16; vote.sync.ballot.b32 %r3, %p1, -1;",
     {1},
     {32}},
    {"CopyThatIsNotWaitedFor",
     FaultKind::PendingCopy,
     "cp.async.ca.shared.global [%r2], [%rd2], 4; cp.async.commit_group; ld.shared.u32 %r3, [%r2]; "
     "cp.async.wait_group 0;",
     "cp.async.ca.shared.global [%r2], [%rd2], 4; cp.async.commit_group; cp.async.wait_group 0; "
     "ld.shared.u32 %r3, [%r2];",
     {1},
     {32}},
    {"CopyOfTheGroupAfter",
     FaultKind::PendingCopy,
     "cp.async.ca.shared.global [%r2], [%rd2], 4; cp.async.commit_group; cp.async.ca.shared.global "
     "[%r2+256], [%rd2], 4; cp.async.commit_group;"
     "cp.async.wait_group 1; ld.shared.u32 %r3, [%r2+256]; cp.async.wait_all;",
     "cp.async.ca.shared.global [%r2], [%rd2], 4; cp.async.commit_group; cp.async.ca.shared.global "
     "[%r2+256], [%rd2], 4; cp.async.commit_group;"
     "cp.async.wait_group 1; ld.shared.u32 %r3, [%r2]; cp.async.wait_all;",
     {1},
     {32}},
    {"CopyWithoutABarrier",
     FaultKind::SharedRace,
     "cp.async.ca.shared.global [%r2], [%rd2], 4; cp.async.wait_all; xor.b32 %r3, %r2, 128; ld.shared.u32 "
     "%r4, [%r3];",
     "cp.async.ca.shared.global [%r2], [%rd2], 4; cp.async.wait_all; xor.b32 %r3, %r2, 128; bar.sync 0; "
     "ld.shared.u32 %r4, [%r3];",
     {1},
     {64}},
    {"Trap",
     FaultKind::Trap,
     "setp.eq.u32 %p1, %r0, 3; @%p1 trap;",
     "setp.eq.u32 %p1, %r0, 99; @%p1 trap;",
     {1},
     {32}},
    {"Endless", FaultKind::EndlessBlock, "A: bra A;", "A: setp.eq.u32 %p1, %r0, 99; @%p1 bra A;", {1}, {32}},
};

void PrintTo(const Twin &twin, std::ostream *out) {
  *out << twin.name;
}

class Faults : public testing::TestWithParam<Twin> {
protected:
  static Report run(const char *body, unsigned seed) {
    // The prologue ends before the body's first line.
    std::unique_ptr<Module> module = loaded(kernelText(std::string(kPrologue) + body, 2));
    if (!module)
      return {};
    Device device;
    std::uint64_t a = device.put("a", std::vector<unsigned>(64)),
                  b = device.put("b", std::vector<unsigned>(64));
    Launch launch = device.launch("f", GetParam().grid, GetParam().block, a, b);
    launch.seed = seed;
    launch.maximalBlockInstructions = 10000;
    return module->run(launch);
  }
};

TEST_P(Faults, AreFound) {
  for (unsigned seed = 0; seed < 5; ++seed) {
    Report report = run(GetParam().faulty, seed);
    ASSERT_FALSE(report.faults.empty()) << "seed " << seed << report.error;
    const Fault *fault = nullptr;
    for (const Fault &found : report.faults)
      if (found.kind == GetParam().kind)
        fault = &found;
    ASSERT_TRUE(fault) << describe(report);
    EXPECT_EQ(fault->kernel, "f");
    EXPECT_NE(std::string(GetParam().faulty).find(fault->text.substr(0, 20)), std::string::npos) << *fault;
    EXPECT_FALSE(fault->what.empty());
  }
}

TEST_P(Faults, ButNotInTheTwin) {
  for (unsigned seed = 0; seed < 5; ++seed) {
    Report report = run(GetParam().sound, seed);
    EXPECT_TRUE(report.clean()) << "seed " << seed << "\n" << describe(report);
  }
}

INSTANTIATE_TEST_SUITE_P(Planted, Faults, testing::ValuesIn(kTwins),
                         [](const auto &info) { return std::string(info.param.name); });

TEST(Report, NamesTheBufferTheLaneAndTheAddress) {
  std::unique_ptr<Module> module =
      loaded(kernelText(std::string(kPrologue) + "st.global.u32 [%rd2], %r0;", 2));
  ASSERT_TRUE(module);
  Device device;
  std::uint64_t a = device.put("weights", std::vector<unsigned>(40), false),
                b = device.put("b", std::vector<unsigned>(1));
  Report report = module->run(device.launch("f", {1}, {64}, a, b));
  ASSERT_EQ(report.faults.size(), 2u) << describe(report);
  for (const Fault &fault : report.faults) {
    bool beyond = fault.kind == FaultKind::OutOfBounds;
    EXPECT_EQ(fault.kind, beyond ? FaultKind::OutOfBounds : FaultKind::ReadOnlyWrite);
    EXPECT_EQ(fault.buffer, "weights");
    EXPECT_EQ(fault.address, beyond ? a + 160 : a);
    EXPECT_EQ(fault.warp, beyond ? 1u : 0u);
    EXPECT_EQ(fault.lane, beyond ? 8u : 0u);
    EXPECT_EQ(fault.count, beyond ? 24u : 40u);
    EXPECT_EQ(fault.text, "st.global.u32 [%rd2], %r0;");
  }
}

TEST(Load, ListsAllThatIsNotExecuted) {
  Module::Diagnostics diagnostics;
  std::string text =
      kernelText(std::string(kPrologue) +
                     "wgmma.fence.sync.aligned;\nadd.u32 %r3, %r0, %r1;\nadd.u32.strange %r3, %r0, %r1;\n"
                     "add.u32 %r3, %r77, %r1;\nbra Nowhere;",
                 2);
  EXPECT_FALSE(Module::load(text, diagnostics));
  ASSERT_EQ(diagnostics.size(), 4u);
  EXPECT_EQ(diagnostics[0].text, "wgmma.fence.sync.aligned;");
  EXPECT_EQ(diagnostics[1].text, "add.u32.strange %r3, %r0, %r1;");
  EXPECT_EQ(diagnostics[1].line, diagnostics[0].line + 2);
  EXPECT_NE(diagnostics[2].what.find("%r77"), std::string::npos);
  EXPECT_NE(diagnostics[3].what.find("Nowhere"), std::string::npos);
}

TEST(Load, RefusesWhatIsNoPtx) {
  for (const char *text : {"hello", ".visible .entry f(", ".visible .entry f() { add.u32 %r1",
                           ".global .u32 x[;", ".entry f() { call g; }"}) {
    Module::Diagnostics diagnostics;
    EXPECT_FALSE(Module::load(text, diagnostics)) << text;
    EXPECT_FALSE(diagnostics.empty()) << text;
  }
}

TEST(Launch, ThatIsImpossibleIsNotRun) {
  std::unique_ptr<Module> module =
      loaded(".version 8.0\n.target sm_80\n.address_size 64\n.entry f(.param .u32 n) .reqntid 64 { ret; }");
  ASSERT_TRUE(module);
  Device device;
  EXPECT_TRUE(module->run(device.launch("f", {1}, {64}, 1)).clean());
  EXPECT_NE(module->run(device.launch("g", {1}, {64}, 1)).error, "");
  EXPECT_NE(module->run(device.launch("f", {1}, {32}, 1)).error, "");
  EXPECT_NE(module->run(device.launch("f", {0}, {64}, 1)).error, "");
  EXPECT_NE(module->run(device.launch("f", {1}, {64}, 1, 2)).error, "");
  Launch launch = device.launch("f", {1}, {64}, 1);
  launch.dynamicShared = 300000;
  EXPECT_NE(module->run(launch).error, "");
}

} // namespace
} // namespace colossal::ptx

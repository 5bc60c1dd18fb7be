// Branches, calls and ends.
#include "Block.h"
#include "Decode.h"

namespace colossal::ptx {
namespace {

void branch(Warp &warp, const Instruction &i, std::uint32_t mask) {
  warp.branch(mask, static_cast<std::uint32_t>(i.immediate));
}

void branchByIndex(Warp &warp, const Instruction &i, std::uint32_t mask) {
  const std::uint32_t *index = warp.read<std::uint32_t>(i.a);
  std::uint32_t left = mask;
  while (left) {
    unsigned lane = static_cast<unsigned>(__builtin_ctz(left));
    std::uint32_t same = 0;
    for (unsigned l = 0; l < kLanes; ++l)
      if (left >> l & 1 && index[l] == index[lane])
        same |= 1u << l;
    if (index[lane] >= i.count) {
      warp.block.fault(FaultKind::InvalidOperand, warp, lane, 0, "",
                       "target " + std::to_string(index[lane]) + " of " + std::to_string(i.count), i.line);
      return warp.block.stop();
    }
    warp.branch(same, static_cast<std::uint32_t>(warp.program.lists[i.list + index[lane]]));
    left &= ~same;
  }
}

void call(Warp &warp, const Instruction &i, std::uint32_t mask) {
  warp.call(mask, warp.program.calls[i.detail], i);
}

void leave(Warp &warp, const Instruction &, std::uint32_t mask) {
  warp.leave(mask);
}

void end(Warp &warp, const Instruction &, std::uint32_t mask) {
  warp.exit(mask);
}

void trap(Warp &warp, const Instruction &i, std::uint32_t mask) {
  warp.block.fault(FaultKind::Trap, warp, static_cast<unsigned>(__builtin_ctz(mask)), 0, "",
                   "the program ended itself", i.line);
  warp.exit(mask);
  warp.block.stop();
}

void nothing(Warp &, const Instruction &, std::uint32_t) {}

} // namespace

bool selectControl(Selection &s) {
  std::string_view base = s.base();
  s.take("uni");
  if (base == "bra") {
    s.expect(1);
    s.jump(s.operand(0).name);
    s.result.run = branch;
    return true;
  }
  if (base == "brx") {
    s.take("idx");
    s.expect(2);
    s.result.a = s.source(0, Type::U32);
    s.jumpTable(s.operand(1).name);
    s.result.run = branchByIndex;
    return true;
  }
  if (base == "call") {
    s.result.detail = s.callSite();
    s.result.run = call;
    return true;
  }
  if (base == "ret" || base == "exit" || base == "trap") {
    s.expect(0);
    s.result.run = base == "ret" ? leave : base == "exit" ? end : trap;
    return true;
  }
  if (base == "nanosleep") {
    s.takeType();
    s.result.run = nothing;
    return true;
  }
  return false;
}

} // namespace colossal::ptx

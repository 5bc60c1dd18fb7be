// Executes PTX on the host: the text that a GPU's images are assembled from, warp by warp, with checks that
// hardware does not make. What is executed, checked and not modelled: docs/Emulation.md.
//
//   Module::Diagnostics diagnostics;
//   std::unique_ptr<Module> module = Module::load(text, diagnostics);   // null: see diagnostics
//   Launch launch;
//   launch.kernel = "softmax";
//   launch.grid = {rows};
//   launch.block = {128};
//   launch.parameters = ...;                 // laid out as the kernel's parameters say
//   launch.buffers = {{"x", 0x700000000, bytes, host}};
//   Report report = module->run(launch);
//
// A module is immutable after it was loaded, except for its own .global variables: launches of one module may
// run at the same time as far as the program's own memory allows.
#ifndef COLOSSAL_EMULATION_PTX_H
#define COLOSSAL_EMULATION_PTX_H

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace colossal::ptx {

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  std::uint64_t count() const { return std::uint64_t(x) * y * z; }
};

/// A kernel's parameter; offsets and sizes in bytes of the parameter block.
struct Parameter {
  std::string name;
  std::size_t offset = 0, size = 0;
};

struct Kernel {
  std::string name;
  std::vector<Parameter> parameters;
  std::size_t parameterBytes = 0;
  /// Shared memory of fixed size that the kernel and what it calls declare, in bytes.
  std::size_t staticShared = 0;
  /// Local memory of a thread, in bytes, of the kernel itself without the functions that it calls.
  std::size_t local = 0;
  /// .reqntid: the only block that may be launched. .maxntid: the largest number of threads.
  std::optional<Dim3> requiredBlock;
  std::optional<std::uint64_t> maximalThreads;
};

/// A range of device memory that exists during a launch. `data` is where the host finds the bytes of
/// `address`; both are aligned to 16 bytes, and addresses are below 2^52.
struct Buffer {
  std::string name;
  std::uint64_t address = 0;
  std::size_t size = 0;
  void *data = nullptr;
  /// False: a write by the kernel is a fault.
  bool writable = true;
};

struct Launch {
  std::string kernel;
  Dim3 grid, block;
  std::size_t dynamicShared = 0;
  std::vector<std::byte> parameters;
  /// Must not overlap. The module's own .global variables exist besides.
  std::vector<Buffer> buffers;

  /// Orders blocks, warps, and how long a warp runs before another may.
  std::uint64_t seed = 0;
  /// Host threads that share the blocks.
  unsigned threads = 1;
  /// Races in global memory and `.nc` reads of what is written cost time and memory; shared memory is always
  /// checked.
  bool checkGlobalRaces = true;
  /// Report::touched is filled; needs checkGlobalRaces.
  bool reportTouched = false;
  /// A block that executed more warp instructions than this is stopped with a fault.
  std::uint64_t maximalBlockInstructions = std::uint64_t(1) << 32;
};

enum class FaultKind {
  OutOfBounds,   ///< an address outside all buffers, or outside shared, local, constant or parameter memory
  ReadOnlyWrite, ///< a write to a buffer that is not writable
  Misaligned,    ///< an address that is no multiple of the access's size
  UninitializedShared, ///< a read of shared memory that the block has not written
  SharedRace,          ///< unordered accesses of two threads of a block to shared memory
  GlobalRace,          ///< unordered accesses of two threads, of one block or of two, to global memory
  NonCoherentRead,     ///< bytes read by .nc and written by the same launch
  PendingCopy,         ///< shared memory touched while cp.async still writes it
  DivergentBarrier,    ///< a barrier that not all threads that it waits for reach
  DivergentShuffle, ///< a shuffle, vote or matrix instruction that not all its lanes reach, or a read of an
                    ///< inactive lane
  InvalidOperand,   ///< an operand whose value the instruction does not allow
  StackOverflow,    ///< calls nested deeper than local memory allows
  Trap,             ///< the program executed trap
  EndlessBlock,     ///< maximalBlockInstructions was passed
};
std::string_view name(FaultKind kind);

/// The first of the faults of one kind at one line; `count` of them were met.
struct Fault {
  FaultKind kind;
  std::string kernel;
  unsigned line = 0; ///< of the PTX text, from 1
  std::string text;  ///< that line
  Dim3 block;
  unsigned warp = 0, lane = 0;
  std::uint64_t address = 0;
  std::string buffer; ///< the buffer, or the memory space, or empty
  std::string what;   ///< what happened, for a person
  std::uint64_t count = 1;
};
std::ostream &operator<<(std::ostream &out, const Fault &fault);

/// Consecutive bytes of writable buffers that a launch wrote, or only read. To the granule of its accesses.
struct Touched {
  std::uint64_t begin = 0, end = 0;
  bool written = false;
};

struct Report {
  /// Not empty: nothing was run, because the launch itself is impossible.
  std::string error;
  std::uint64_t warpInstructions = 0, laneInstructions = 0;
  /// In the order of lines, at most one of a kind a line.
  std::vector<Fault> faults;
  std::vector<Touched> touched; ///< by address, without the module's own variables
  bool clean() const { return error.empty() && faults.empty(); }
};

class Module {
public:
  struct Diagnostic {
    unsigned line = 0;
    std::string text, what;
  };
  using Diagnostics = std::vector<Diagnostic>;
  /// A variable in .global or .const memory.
  struct Variable {
    std::string name;
    std::uint64_t address = 0;
    std::size_t size = 0;
  };

  /// Null if anything in the text is not executed here; `diagnostics` then lists all of it.
  static std::unique_ptr<Module> load(std::string text, Diagnostics &diagnostics);
  ~Module();

  const std::vector<Kernel> &kernels() const;
  /// Null if there is none of that name.
  const Kernel *find(std::string_view name) const;
  const std::vector<Variable> &variables() const;

  /// Runs a launch to its end. Bounds and alignment faults skip the access, reads give zero, and the launch
  /// goes on, so that one run shows as many faults as it can.
  Report run(const Launch &launch);

private:
  Module();
  struct Contents;
  std::unique_ptr<Contents> contents;
};

} // namespace colossal::ptx

#endif

// The parts that the plan's judges share: bounds of references over ranks and iterations, boxes, overlap.
#ifndef COLOSSAL_RUNTIME_VALIDATE_CHECKER_H
#define COLOSSAL_RUNTIME_VALIDATE_CHECKER_H

#include "runtime/validate/Validate.h"

#include "colossal/Plan/Expr.h"

#include <cstdint>
#include <functional>
#include <map>
#include <set>

namespace colossal::runtime {

/// Greatest extents that a plan may use; they keep all products of a few of them inside 128 bits.
constexpr uint64_t maxExtent = uint64_t(1) << 46;
constexpr uint64_t maxRanks = 1 << 16;
constexpr int maxDims = 32;

inline Status invalid(std::string message) {
  return {Code::InvalidPlan, std::move(message)};
}

/// Product of extents; false if it exceeds maxExtent.
template <class Range>
bool productWithin(const Range &extents, uint64_t &product) {
  product = 1;
  for (uint64_t extent : extents) {
    unsigned __int128 wide = static_cast<unsigned __int128>(product) * extent;
    if (wide > maxExtent)
      return false;
    product = static_cast<uint64_t>(wide);
  }
  return true;
}

/// Iteration counts of the repeats around an instruction, callers' first.
using Counts = std::vector<uint64_t>;

class Checker {
public:
  Checker(const plan::Plan &plan, plan::ByteView code, plan::ByteView data)
      : plan(plan), code(code), data(data) {}

  Status checkTables();
  Status checkProgram(const plan::Program &program);

private:
  // Tables.cpp
  Status checkArenas();
  Status checkParameters();
  Status checkCode();
  Status checkBinding(const plan::Binding &binding, bool output);

  // Instructions.cpp
  /// What stands around an instruction: the program or function, the repeats and predicates that it is in.
  struct Scope {
    std::string owner;  // "program 'infer'"
    std::string prefix; // "3.", inside an instruction's body
    Counts counts;
    bool predicated = false;
    bool loading = false;
    uint32_t function = 0; // least function index that may be called
    unsigned depth = 0;
  };
  Status walk(const google::protobuf::RepeatedPtrField<plan::Instruction> &body, const Scope &scope);
  Status checkInstruction(const plan::Instruction &instruction, const Scope &scope, const std::string &path);
  Status checkKind(const plan::Instruction &instruction, const Scope &scope, const std::string &path);
  Status checkCall(const plan::Call &call, const Scope &scope);
  Status checkLaunch(const plan::Launch &launch, const Scope &scope);
  Status checkLibrary(const plan::LibraryCall &call, const Scope &scope);
  Status checkCopy(const plan::Copy &copy, const Scope &scope);
  Status checkPeer(const plan::BufferRef &buffer, const plan::Expr &peer, const Scope &scope, bool written);

  // Collectives.cpp
  Status checkCollective(const plan::Collective &collective, const Scope &scope);
  Status checkBlocks(const plan::Collective &collective, uint64_t members, const Scope &scope);
  Status checkWindow(const plan::Collective &collective, const Scope &scope);

  // Bounds.cpp
  struct Extent {
    uint32_t arena = 0;
    uint64_t begin = 0, end = 0; // over all iterations
  };
  /// Bounds of a reference; `written` must not lie in weights outside the load program.
  Status checkRef(const plan::BufferRef &ref, const std::string &what, const Scope &scope, bool written,
                  Extent *extent = nullptr);
  /// Whether two references can share a byte in the same iteration.
  bool overlap(const plan::BufferRef &a, const plan::BufferRef &b, const Counts &counts) const;
  /// Checks the form of the expressions and calls `check` with their values at every rank and iteration that
  /// can differ.
  Status forAll(const std::vector<const plan::Expr *> &exprs, const Counts &counts,
                const std::function<Status(const std::vector<int64_t> &)> &check);
  Status checkBox(const plan::Box &box, const google::protobuf::RepeatedField<uint64_t> &shape,
                  plan::DataType type, const plan::BufferRef &buffer, const Counts &counts);
  Status spend(uint64_t work);

  const plan::Plan &plan;
  plan::ByteView code, data;
  uint64_t ranks = 1;
  uint64_t worked = 0;

  // Of the program being checked.
  uint32_t events = 0;
  std::map<uint32_t, const plan::Instruction *> signalledBy;
  std::set<uint32_t> signalled;
  std::set<std::pair<uint32_t, Counts>> visited[2]; // functions, by whether predicated
};

/// Checks sizes and strides of a convolution against one another, and gives the bytes that input, weight,
/// bias and output must have at least.
struct ConvolutionBytes {
  uint64_t input, weight, bias, output;
};
Status checkConvolution(const plan::Convolution &convolution, ConvolutionBytes &bytes);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_VALIDATE_CHECKER_H

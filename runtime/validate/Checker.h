// The parts that the plan's judges share: bounds of references over ranks and iterations, boxes, overlap.
#ifndef COLOSSAL_RUNTIME_VALIDATE_CHECKER_H
#define COLOSSAL_RUNTIME_VALIDATE_CHECKER_H

#include "runtime/validate/Environment.h"
#include "runtime/validate/Validate.h"

#include <cstdint>
#include <functional>
#include <map>
#include <set>

namespace colossal::runtime {

/// Greatest extents that a plan may use; they keep all products of a few of them inside 128 bits.
constexpr uint64_t maxExtent = uint64_t(1) << 46;
constexpr uint64_t maxRanks = 1 << 16;
constexpr int maxDims = 32;
constexpr uint32_t maxMessageSlots = 1 << 16;

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

class Checker {
public:
  Checker(const plan::Plan &plan, plan::ByteView code, plan::ByteView data, bool messagesInOrder)
      : plan(plan), code(code), data(data), messagesInOrder(messagesInOrder) {}

  Status checkTables();
  /// `index` is that of one of the plan's programs.
  Status checkProgram(int index);
  /// After all programs: states, what saves and restores them, and what trains them.
  Status checkStates();

private:
  // Tables.cpp
  Status checkStages();
  Status checkArenas();
  Status checkParameters();
  Status checkCode();
  /// What all ranks have in common of a binding.
  Status checkBinding(const plan::Binding &binding, bool isCheck) const;
  /// What the ranks of the current stage hold of it.
  Status checkShard(const plan::BoundShard &shard, bool output);
  /// Whether the ranks of all stages together hold each element of an output once.
  Status checkHeldOnce(int program, const plan::Binding &output);
  Status checkBindings(int index);
  Status checkOrderOf(int program);

  // States.cpp
  /// Whether the bindings of a program that saves or restores are the states, and lie in arenas that keep
  /// them.
  Status checkStateBindings(int program, const google::protobuf::RepeatedPtrField<plan::Binding> &bindings);
  Status checkTraining() const;

  // Instructions.cpp
  /// What stands around an instruction: the program or function, the repeats and predicates that it is in.
  struct Scope {
    std::string owner;                // "program 'infer'"
    std::string prefix;               // "3.", inside an instruction's body
    const plan::Call *call = nullptr; // of the function
    Environment environment;
    bool predicated = false;
    bool loading = false;
    uint32_t function = 0; // least function index that may be called
    unsigned depth = 0;
  };
  Status walk(const google::protobuf::RepeatedPtrField<plan::Instruction> &body, const Scope &scope);
  Status checkInstruction(const plan::Instruction &instruction, const Scope &scope, const std::string &path);
  Status checkKind(const plan::Instruction &instruction, const Scope &scope, const std::string &path);
  /// What runs again may wait for what it signalled the last time, further down in its text.
  void expectSignals(const plan::InstructionList &body);
  Status checkCall(const plan::Call &call, const Scope &scope);
  Status checkLaunch(const plan::Launch &launch, const Scope &scope);
  Status checkLibrary(const plan::LibraryCall &call, const Scope &scope);
  /// What a routine's buffers must be: their least bytes (0 of opaque ones, whose sizes are the library's and
  /// checked at load), and what their places are multiples of. The last `writes` are written.
  struct RoutineBuffer {
    uint64_t least = 0, alignment = 4;
  };
  Status describeRoutine(const plan::LibraryCall &call, std::vector<RoutineBuffer> &buffers,
                         uint32_t &writes);
  Status checkCopy(const plan::Copy &copy, const Scope &scope);
  Status checkParameterIndex(const plan::Copy::FromParameter &from, const Scope &scope);
  Status checkPeer(const plan::BufferRef &buffer, const plan::Expr &peer, const Scope &scope, bool written);

  // Collectives.cpp
  Status checkCollective(const plan::Collective &collective, const Scope &scope);
  Status checkBlocks(const plan::Collective &collective, uint64_t members, const Scope &scope);
  Status checkWindow(const plan::Collective &collective, const Scope &scope);

  // Bounds.cpp
  /// Bounds of a reference; `written` must not lie in weights outside the load program.
  Status checkRef(const plan::BufferRef &ref, const std::string &what, const Scope &scope, bool written);
  /// Whether two references can share a byte in the same iteration.
  static bool overlap(const plan::BufferRef &a, const plan::BufferRef &b, const Scope &scope);
  /// Whether it begins at multiples of `bytes` in its arena, in every iteration.
  static bool isAligned(const plan::BufferRef &ref, uint64_t bytes, const Scope &scope);
  /// Environment::forAll, with the work that it costs counted.
  Status forAll(const std::vector<const plan::Expr *> &exprs, const Scope &scope,
                const std::function<Status(const std::vector<int64_t> &)> &check);
  Status checkBox(const plan::Box &box, const google::protobuf::RepeatedField<uint64_t> &shape,
                  plan::DataType type, const plan::BufferRef &buffer, const Scope &scope);
  Status spend(uint64_t work);
  /// Refuses `what` in a plan that says that it needs no such version: loaders of then would not see it.
  Status needVersion(uint32_t version, const std::string &what) const;

  const plan::Plan &plan;
  plan::ByteView code, data;
  const bool messagesInOrder;
  uint64_t ranks = 1; // of all stages
  std::vector<plan::StageView> stages;
  const plan::StageView *stage = nullptr; // whose text is being looked at
  uint64_t worked = 0;

  // Of the program being checked.
  uint32_t events = 0;
  std::map<uint32_t, const plan::Instruction *> signalledBy;
  std::set<uint32_t> signalled;
  /// Functions that were walked, by whether predicated, and from where.
  std::set<std::pair<uint32_t, std::vector<uint64_t>>> visited[2];
};

/// No two indices of a tensor have one place: each stride goes beyond all that the smaller ones reach.
bool isInjective(const std::vector<uint64_t> &sizes,
                 const google::protobuf::RepeatedField<uint64_t> &strides);

/// Checks sizes and strides of a convolution against one another, and gives the bytes that input, weight,
/// bias and output must have at least.
struct ConvolutionBytes {
  uint64_t input, weight, bias, output;
};
Status checkConvolution(const plan::Convolution &convolution, ConvolutionBytes &bytes);
/// Besides, that it is one of "convolution.unpacked": of floats, with what such a library does on the result.
Status checkUnpackedConvolution(const plan::Convolution &convolution, ConvolutionBytes &bytes);

/// The same of a contraction.
struct ContractionBytes {
  uint64_t a, b, bias, c;
};
Status checkContraction(const plan::Contraction &contraction, ContractionBytes &bytes);

/// The same of attention.
struct AttentionBytes {
  uint64_t query, key, value, mask, output;
};
Status checkAttention(const plan::Attention &attention, AttentionBytes &bytes);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_VALIDATE_CHECKER_H

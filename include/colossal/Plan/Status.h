// The outcome of a call of the plan container or the runtime: a code, a message for a person and, where it is
// known, the rank and the instruction. Nothing in these libraries throws or exits on user input; they return
// one of these.
#ifndef COLOSSAL_PLAN_STATUS_H
#define COLOSSAL_PLAN_STATUS_H

#include <string>
#include <utility>

namespace colossal::plan {

/// What kind of thing went wrong. colossal-run maps each to its own exit code (docs/PlanFormat.md,
/// colossal-run --help).
enum class Code {
  Ok = 0,
  InvalidArgument, ///< the caller or user gave something that does not fit (input names, shapes, options)
  NotFound,        ///< a file or symbol is missing
  Io,              ///< the system refused a read, write or map
  Permission,      ///< the plan may be written by others
  InvalidPlan,     ///< truncated, altered, or breaks a rule of docs/PlanFormat.md
  Unsupported,     ///< a newer version, a missing CPU feature, library or communicator
  OutOfMemory,
  RankFailed,  ///< a rank ended in the middle of a run
  Timeout,     ///< a rank made no progress in the time allowed
  Interrupted, ///< Ctrl-C or a request to stop
  Internal,
  Busy ///< another thread is using the session
};

class [[nodiscard]] Status {
public:
  Status() = default;
  Status(Code code, std::string message) : kind(code), text(std::move(message)) {}

  bool ok() const { return kind == Code::Ok; }
  Code code() const { return kind; }
  /// What happened, without the rank and the instruction.
  const std::string &message() const { return text; }
  /// The rank it happened on; -1 where that is unknown or does not matter.
  int rank() const { return onRank; }
  /// The instruction, as "program 'infer', instruction 12 (launch; from /layer0/MatMul)"; empty where there
  /// is none.
  const std::string &instruction() const { return where; }

  Status withRank(int rank) && {
    if (onRank < 0)
      onRank = rank;
    return std::move(*this);
  }
  Status withInstruction(std::string instruction) && {
    if (where.empty())
      where = std::move(instruction);
    return std::move(*this);
  }
  /// All that is known, as one line for a person.
  std::string describe() const {
    std::string all;
    if (onRank >= 0)
      all += "rank " + std::to_string(onRank) + ": ";
    if (!where.empty())
      all += where + ": ";
    return all + text;
  }

private:
  Code kind = Code::Ok;
  int onRank = -1;
  std::string where;
  std::string text;
};

} // namespace colossal::plan

/// Returns from the enclosing function with the status of `expression` unless it is ok.
#define COLOSSAL_RETURN_IF_ERROR(expression)                                                                 \
  do {                                                                                                       \
    if (::colossal::plan::Status status_ = (expression); !status_.ok())                                      \
      return status_;                                                                                        \
  } while (false)

#endif // COLOSSAL_PLAN_STATUS_H

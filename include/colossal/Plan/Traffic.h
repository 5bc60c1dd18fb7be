// What collectives and messages move between ranks, and the memory that moving takes: the one place for these
// formulas. The compiler states them in the plan, communicators keep within them, and tests compare them with
// the bytes that communicators count where they send.
#ifndef COLOSSAL_PLAN_TRAFFIC_H
#define COLOSSAL_PLAN_TRAFFIC_H

#include "colossal/Plan/Stages.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace colossal::plan {

/// One collective as one member sees it, all expressions evaluated.
struct Transfer {
  Collective::Kind kind = Collective::KIND_UNSPECIFIED;
  uint64_t members = 1, self = 0;
  uint64_t elements = 0, elementBytes = 0; ///< of the block
  uint64_t root = 0;
  std::vector<int64_t> sources; ///< PERMUTE: whose block each member receives
  /// EXCHANGE: what each member holds and from where on it wants `extent` places, each of `rows` elements.
  std::vector<int64_t> start, valid, wanted;
  int64_t extent = 0;
  uint64_t rows = 0;
  /// ALL_REDUCE: blocks of at most so many bytes go to everyone at once, as the communicator states of
  /// itself.
  uint64_t shortAllReduce = 0;
};
/// Bytes that this member sends to others, by the table in docs/PlanFormat.md and the formulas of Volume.h.
uint64_t sentBytes(const Transfer &transfer);

/// Bytes that `rank`, one of the stage's, sends to others in one run of `collective`, by the same table.
/// `values` are the arguments and counters that it sees. Fails where an expression overflows.
Status sentBytes(const StageView &stage, const Collective &collective, uint64_t rank, const int64_t *values,
                 uint64_t &bytes, uint64_t shortAllReduce = 0);

/// "all_reduce", "all_gather", ..., and "send" for messages.
const char *collectiveName(Collective::Kind kind);
/// Under which name bytes are counted: that of the kind, or this one for what stages of ops exchange.
inline constexpr char statisticsName[] = "statistics";
const char *trafficName(const Collective &collective);

/// The names of mesh axes, joined by commas: what Traffic has as axes.
std::string axisNames(const Mesh &mesh, const std::vector<uint32_t> &axes);
/// The names of the axes along which two ranks differ; "stage" between two stages.
std::string axesBetween(const std::vector<StageView> &stages, uint64_t a, uint64_t b);

/// Bytes by axes ("data", "data,model") and kind ("all_reduce", "send").
using Traffic = std::map<std::pair<std::string, std::string>, uint64_t>;

/// What `rank` sends in one run of a program, iterations of repeats and functions each time they are called
/// included. Collectives by the formulas of sentBytes, messages by their length.
Status programTraffic(const Plan &plan, const Program &program, uint64_t rank, Traffic &traffic,
                      uint64_t shortAllReduce = 0);
/// The part of it that collectives have.
uint64_t collectiveBytes(const Traffic &traffic);

/// The most that a communicator may hold for staging on one queue: what is longer goes in pieces.
constexpr uint64_t stagingLimit = 2 << 20;
/// All-reduces of at most this many bytes in groups of more than two may send everything to everyone in one
/// step: (n - 1) B instead of 2 B (n - 1) / n, for half of the latency. A communicator states whether it
/// does.
constexpr uint64_t shortAllReduce = 8192;

/// Staging of a collective whose blocks have `elements` of `elementBytes`: how many elements of the block go
/// at once, and the bytes they take on each rank. A group of one needs none.
struct Staging {
  uint64_t elements = 0, bytes = 0;
};
Staging stagingOf(Collective::Kind kind, uint64_t elements, uint64_t elementBytes, uint64_t members);
/// The staging of a plan's rank: for each queue the greatest of its collectives; index is the queue.
std::vector<uint64_t> stagingByQueue(const Plan &plan);
/// Of the memory in which a message waits, on a queue that sends none longer than `longest`: its bytes. What
/// is longer than these waits where it lies until it has been received.
uint64_t slotBytes(const Plan &plan, uint64_t longest);
/// The memory in which messages wait on each rank of a stage: as many as the plan lets wait, on each queue.
uint64_t waitingBytes(const StageView &stage);

} // namespace colossal::plan

#endif // COLOSSAL_PLAN_TRAFFIC_H

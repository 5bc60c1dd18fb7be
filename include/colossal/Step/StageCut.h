//===- StageCut.h - where a chain of work is cut into stages ----------------===//
//
// No IR: numbers in, places out.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_STEP_STAGECUT_H
#define COLOSSAL_STEP_STAGECUT_H

#include <cstddef>
#include <vector>

namespace colossal::step {

/// What stays together in one stage.
struct CutUnit {
  double seconds = 0;
  std::vector<unsigned> weights;     ///< that it reads: indices of CutProblem::weightBytes
  int least = 0, greatest = 1 << 30; ///< stages that it may stand in
};

struct CutProblem {
  std::vector<CutUnit> units; ///< in an order in which they can be computed; least and greatest never fall
  std::vector<double> weightBytes;
  /// Entry i: bytes that go from units before i to unit i and those behind it, and the seconds that takes.
  std::vector<double> crossingBytes, crossingSeconds;
  int stages = 1;
  /// A stage may hold this times the even share of the weights, where there is such a cut, and else little
  /// more than it must; and `memoryBytes` at most, where that is possible.
  double unevenness = 1.2, memoryBytes = 0;
};

struct StageCut {
  std::vector<std::size_t> firsts; ///< the first unit of each stage; empty if there is no cut
  std::vector<double> seconds;     ///< by stage, with what it receives
  std::vector<double> weightBytes; ///< by stage
  /// Seconds of the slowest stage where it is cut at any place, and where any stage may hold any weights,
  /// too: what the narrow places and the limits on weights cost.
  double slowestAnywhere = 0, slowestUnlimited = 0;
};

/// Stages of at least one unit each. Of the cuts that keep to the limits on weights those are wanted whose
/// slowest stage takes least, within 2 %, and of these the one that sends the fewest bytes. Where fewer bytes
/// cross than around it is preferred, if the slowest stage then takes at most 10 % longer. Where there are
/// many units, it is cut where few bytes cross: O(stages * 1000^2).
StageCut cutStages(const CutProblem &problem);

/// The stage of each unit such that they never fall, units stand where `least` and `greatest` allow, and as
/// little as possible stands elsewhere than in the stage `wanted` (-1: any): counted in bytes of weights, and
/// a little for each unit. Empty if there is none.
std::vector<int> followCut(const CutProblem &problem, const std::vector<int> &wanted);

} // namespace colossal::step

#endif // COLOSSAL_STEP_STAGECUT_H

// The simulation. Schedules with a fixed order (GPipe, 1F1B, interleaved) are lists of passes, a stage; those
// that cut the backward pass are made by a list scheduler under a limit of memory. Both advance the same
// clock.
#include "colossal/Cost/PipelineSchedule.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

namespace colossal::cost {

namespace {

using Pass = PipelineEvent::Pass;
constexpr double kNever = std::numeric_limits<double>::infinity();

constexpr std::pair<const char *, Schedule> kNames[] = {{"gpipe", Schedule::GPipe},
                                                        {"1f1b", Schedule::OneFOneB},
                                                        {"interleaved", Schedule::Interleaved},
                                                        {"zb-h1", Schedule::ZeroBubbleH1},
                                                        {"zb-h2", Schedule::ZeroBubbleH2},
                                                        {"zb-1p", Schedule::ZeroBubble1p},
                                                        {"zb-2p", Schedule::ZeroBubble2p},
                                                        {"zb-v", Schedule::ZeroBubbleV}};

struct ScheduledPass {
  Pass pass;
  int chunk, microbatch;
};

/// Ready times of all passes, and each stage's clock and memory.
class Clock {
public:
  Clock(const PipelineProblem &problem, PipelineResult &result, bool withTimeline)
      : p(problem), out(result), timeline(withTimeline), parts(p.stages * p.chunks),
        ready(static_cast<std::size_t>(2 * parts) * p.microbatches, kNever), free(p.stages, 0),
        bytes(p.stages, 0), kept(p.stages, 0), busy(p.stages, 0), first(p.stages, kNever), held(p.stages, 0) {
    for (int m = 0; m < p.microbatches; ++m)
      at(Pass::Forward, 0, m) = 0;
    out.stageEnd.assign(p.stages, 0);
    out.peakBytes.assign(p.stages, 0);
    out.peakInFlight.assign(p.stages, 0);
  }

  /// The chunk's place in the model's order.
  int part(int stage, int chunk) const {
    if (p.schedule == Schedule::ZeroBubbleV && chunk == 1)
      return 2 * p.stages - 1 - stage;
    return chunk * p.stages + stage;
  }
  int stageOf(int part) const {
    if (p.schedule == Schedule::ZeroBubbleV && part >= p.stages)
      return 2 * p.stages - 1 - part;
    return part % p.stages;
  }
  double readyAt(int stage, const ScheduledPass &step) {
    return step.pass == Pass::WeightGradient ? 0 : at(step.pass, part(stage, step.chunk), step.microbatch);
  }
  double freeAt(int stage) const { return free[stage]; }
  double bytesOf(int stage) const { return bytes[stage]; }
  static double keptForward(const ChunkWork &work) {
    return work.keptForward < 0 ? work.activationBytes : work.keptForward;
  }
  static double keptBackward(const ChunkWork &work) {
    return work.keptBackward < 0 ? work.weightGradientBytes : work.keptBackward;
  }
  const ChunkWork &work(int stage, int chunk) const { return p.work[part(stage, chunk)]; }

  /// What a pass takes on processors of its own.
  double secondsOf(int stage, const ScheduledPass &step) const {
    const ChunkWork &w = work(stage, step.chunk);
    return step.pass == Pass::Forward          ? w.forward
           : step.pass == Pass::WeightGradient ? w.weightGradient
           : splitsBackward(p.schedule)        ? w.backward
                                               : w.backward + w.weightGradient;
  }
  double startOf(int stage, const ScheduledPass &step) { return std::max(free[stage], readyAt(stage, step)); }

  /// Runs one pass whose inputs are ready. Returns the neighbour that it made something ready for, or -1.
  int run(int stage, const ScheduledPass &step) {
    const double start = startOf(stage, step);
    return end(stage, step, start, start + secondsOf(stage, step));
  }
  /// The same of one that is known to have run from `start` to `end`.
  int end(int stage, const ScheduledPass &step, double start, double end) {
    int v = part(stage, step.chunk);
    const ChunkWork &w = p.work[v];
    bool split = splitsBackward(p.schedule);
    busy[stage] += end - start;
    first[stage] = std::min(first[stage], start);
    if (timeline)
      out.timeline.push_back({step.pass, stage, step.chunk, step.microbatch, start, end});
    int next = -1;
    if (step.pass == Pass::Forward) {
      bytes[stage] += w.activationBytes;
      kept[stage] += keptForward(w);
      out.peakBytes[stage] = std::max(out.peakBytes[stage], kept[stage]);
      out.peakInFlight[stage] = std::max(out.peakInFlight[stage], ++held[stage]);
      next = v + 1 < parts ? v + 1 : v;
    } else if (step.pass == Pass::Backward) {
      out.peakBytes[stage] = std::max(out.peakBytes[stage], kept[stage] + w.transientBytes);
      bytes[stage] -= w.activationBytes - (split ? w.weightGradientBytes : 0);
      kept[stage] -= keptForward(w) - (split ? keptBackward(w) : 0);
      out.peakBytes[stage] = std::max(out.peakBytes[stage], kept[stage]);
      held[stage] -= split ? 0 : 1;
      next = v - 1;
    } else {
      bytes[stage] -= w.weightGradientBytes;
      kept[stage] -= keptBackward(w);
      --held[stage];
    }
    free[stage] = end;
    out.stageEnd[stage] = end;
    if (next < 0)
      return -1;
    bool local = stageOf(next) == stage;
    double arrival = end + (local ? 0 : hop(stage, stageOf(next)));
    if (!local && p.transferBlocks)
      free[stage] = arrival;
    // The last part's forward pass makes its own backward pass ready.
    Pass kind = next == v ? Pass::Backward : step.pass;
    at(kind, next, step.microbatch) = arrival;
    return stageOf(next);
  }

  void finish() {
    double most = 0;
    for (int s = 0; s < p.stages; ++s) {
      out.seconds = std::max(out.seconds, out.stageEnd[s]);
      out.steadySeconds = std::max(out.steadySeconds, out.stageEnd[s] - first[s]);
      most = std::max(most, busy[s]);
    }
    if (!splitsBackward(p.schedule))
      out.steadySeconds = out.seconds;
    out.bubble = out.steadySeconds > 0 ? 1 - most / out.steadySeconds : 0;
  }

private:
  double hop(int from, int to) const {
    if (p.hopSeconds.empty())
      return p.transferSeconds;
    int low = std::min(from, to), high = std::max(from, to);
    return p.hopSeconds[high - low == 1 ? low : high];
  }
  double &at(Pass pass, int v, int microbatch) {
    return ready[(static_cast<std::size_t>(pass == Pass::Backward ? parts + v : v)) * p.microbatches +
                 microbatch];
  }

  const PipelineProblem &p;
  PipelineResult &out;
  bool timeline;
  int parts;
  std::vector<double> ready, free, bytes, kept, busy, first;
  std::vector<int> held;
};

/// The order of H1 and H2 by hand (Qi et al., 2023, figures 2 and 3): later stages start backward passes
/// sooner and put off their weight gradients by as much, so that all hold the same.
std::vector<ScheduledPass> zeroBubbleOrder(const PipelineProblem &p, int stage, bool twice) {
  int warmup = std::min(p.microbatches, twice ? 2 * (p.stages - stage) - 1 : p.stages - stage);
  int delay = twice ? 2 * stage : stage;
  std::vector<ScheduledPass> order;
  order.reserve(3 * static_cast<std::size_t>(p.microbatches));
  for (int k = 0; k < warmup; ++k)
    order.push_back({Pass::Forward, 0, k});
  for (int k = 0; k < p.microbatches; ++k) {
    order.push_back({Pass::Backward, 0, k});
    if (k >= delay)
      order.push_back({Pass::WeightGradient, 0, k - delay});
    if (k + warmup < p.microbatches)
      order.push_back({Pass::Forward, 0, k + warmup});
  }
  for (int k = std::max(0, p.microbatches - delay); k < p.microbatches; ++k)
    order.push_back({Pass::WeightGradient, 0, k});
  return order;
}

/// The passes of one stage in a schedule whose order is fixed.
std::vector<ScheduledPass> fixedOrder(const PipelineProblem &p, int stage) {
  std::vector<ScheduledPass> order;
  order.reserve(2 * static_cast<std::size_t>(p.microbatches) * p.chunks);
  int total = p.microbatches * p.chunks;
  // The k-th forward (or backward) pass of a stage: groups of `stages` microbatches go through the chunks in
  // turn.
  auto forward = [&](int k) {
    if (p.chunks == 1)
      return ScheduledPass{Pass::Forward, 0, k};
    int group = p.stages * p.chunks, inGroup = k % group;
    int first = k / group * p.stages;
    int width = std::min(p.stages, p.microbatches - first);
    inGroup = k - first * p.chunks;
    return ScheduledPass{Pass::Forward, inGroup / width, first + inGroup % width};
  };
  auto backward = [&](int k) {
    ScheduledPass step = forward(k);
    return ScheduledPass{Pass::Backward, p.chunks - 1 - step.chunk, step.microbatch};
  };
  int warmup = total;
  if (p.forwardOnly) {
    for (int k = 0; k < total; ++k)
      order.push_back(forward(k));
    return order;
  }
  const bool turnsBack = p.lastTurnsBack && stage == p.stages - 1;
  if (p.schedule == Schedule::OneFOneB)
    warmup = std::min(total, p.stages - stage - 1);
  else if (p.schedule == Schedule::Interleaved && p.microbatches > p.stages)
    warmup = std::min(total, 2 * (p.stages - stage - 1) + (p.chunks - 1) * p.stages);
  else if (turnsBack)
    warmup = total - p.microbatches;
  for (int k = 0; k < warmup; ++k)
    order.push_back(forward(k));
  for (int k = warmup; k < total; ++k) {
    order.push_back(forward(k));
    order.push_back(backward(k - warmup));
  }
  for (int k = total - warmup; k < total; ++k)
    order.push_back(backward(k));
  return order;
}

bool runFixed(const PipelineProblem &p, const std::vector<std::vector<ScheduledPass>> &orders,
              PipelineResult &result, bool withTimeline) {
  Clock clock(p, result, withTimeline);
  std::vector<std::size_t> next(p.stages, 0);
  std::vector<int> waiting;
  std::vector<char> queued(p.stages, 1);
  for (int s = p.stages - 1; s >= 0; --s)
    waiting.push_back(s);
  // A stage runs until an input is missing; whoever makes something ready wakes it.
  while (!waiting.empty()) {
    int s = waiting.back();
    waiting.pop_back();
    queued[s] = 0;
    while (next[s] < orders[s].size() && clock.readyAt(s, orders[s][next[s]]) != kNever) {
      int woken = clock.run(s, orders[s][next[s]++]);
      if (woken >= 0 && woken != s && !queued[woken]) {
        queued[woken] = 1;
        waiting.push_back(woken);
      }
    }
  }
  for (int s = 0; s < p.stages; ++s)
    if (next[s] < orders[s].size())
      return false;
  clock.finish();
  return true;
}

/// The same where stages share processors: all that runs goes on at one speed, until one pass ends or another
/// begins.
bool runShared(const PipelineProblem &p, const std::vector<std::vector<ScheduledPass>> &orders,
               PipelineResult &result, bool withTimeline) {
  Clock clock(p, result, withTimeline);
  struct Stage {
    std::size_t next = 0;
    double start = kNever, left = 0; // of the pass that runs; left on processors of its own
  };
  std::vector<Stage> stages(p.stages);
  for (double now = 0;;) {
    std::size_t working = 0;
    double soonest = kNever; // when another pass can begin
    for (int s = 0; s < p.stages; ++s) {
      Stage &stage = stages[s];
      if (stage.start == kNever && stage.next < orders[s].size()) {
        const ScheduledPass &step = orders[s][stage.next];
        const double start = clock.startOf(s, step);
        if (start <= now) {
          stage.start = now;
          stage.left = clock.secondsOf(s, step);
        } else {
          soonest = std::min(soonest, start);
        }
      }
      working += stage.start != kNever;
    }
    if (working == 0 && soonest == kNever)
      break;
    const double slowdown = working ? p.slowdown[working - 1] : 1;
    double least = kNever;
    for (const Stage &stage : stages)
      if (stage.start != kNever)
        least = std::min(least, stage.left);
    const bool ends = now + least * slowdown <= soonest;
    const double passed = ends ? least : (soonest - now) / slowdown;
    now = ends ? now + least * slowdown : soonest;
    for (int s = 0; s < p.stages; ++s) {
      Stage &stage = stages[s];
      if (stage.start == kNever)
        continue;
      stage.left -= passed;
      if (!ends || stage.left > 0)
        continue;
      clock.end(s, orders[s][stage.next++], stage.start, now);
      stage.start = kNever;
    }
  }
  for (int s = 0; s < p.stages; ++s)
    if (stages[s].next < orders[s].size())
      return false;
  clock.finish();
  return true;
}

/// A list scheduler (after Qi et al., 2023, section 3.1): a backward pass goes first, then a forward pass if
/// memory allows; weight gradients fill the time until the next of them arrives, if that is at least
/// `patience` of their own time, or free memory.
class ListScheduler {
public:
  ListScheduler(const PipelineProblem &problem, PipelineResult &result, bool withTimeline, double patience)
      : p(problem), clock(problem, result, withTimeline), patience(patience), stages(p.stages) {
    for (int s = 0; s < p.stages; ++s) {
      stages[s].forward.assign(p.chunks, 0);
      stages[s].backward.assign(p.chunks, 0);
      double all = 0;
      for (int c = 0; c < p.chunks; ++c)
        all += clock.work(s, c).activationBytes;
      bool twice = p.schedule == Schedule::ZeroBubble2p || p.schedule == Schedule::ZeroBubbleH2;
      int depth = p.schedule == Schedule::ZeroBubbleH2 ? 2 * p.stages - 1 : twice ? 2 * p.stages : p.stages;
      // A little room for rounding; where nothing takes memory, the depth alone is the limit.
      stages[s].limit = all * depth * (1 + 1e-9);
      stages[s].depth = depth * p.chunks;
      if (p.schedule == Schedule::ZeroBubbleH1)
        stages[s].warmup = p.stages - s;
      else if (p.schedule == Schedule::ZeroBubbleH2)
        stages[s].warmup = 2 * (p.stages - s) - 1;
    }
  }

  bool run() {
    long left = 3L * p.stages * p.chunks * p.microbatches;
    for (int s = 0; s < p.stages; ++s)
      choose(s);
    while (left-- > 0) {
      int first = -1;
      for (int s = 0; s < p.stages; ++s)
        if (stages[s].start < kNever && (first < 0 || stages[s].start < stages[first].start))
          first = s;
      if (first < 0)
        return false;
      commit(first);
    }
    clock.finish();
    return true;
  }

private:
  struct Stage {
    std::vector<int> forward, backward; // next microbatch, by chunk
    std::vector<ScheduledPass> pending; // weight gradients not done, oldest at `done`
    std::size_t done = 0;
    int inFlight = 0, depth = 0;
    int warmup = 0; // most forward passes ahead of backward passes; 0: memory alone decides
    double limit = 0;
    double start = kNever;
    ScheduledPass step{};
  };

  bool fits(int s, int chunk) {
    Stage &stage = stages[s];
    // The last chunk of a V keeps its room, or no microbatch could end.
    double need = clock.work(s, chunk).activationBytes;
    int slots = 1;
    for (int c = chunk + 1; c < p.chunks; ++c) {
      need += clock.work(s, c).activationBytes;
      ++slots;
    }
    if (stage.warmup > 0 && stage.forward[chunk] - stage.backward[chunk] >= stage.warmup)
      return false;
    return stage.inFlight + slots <= stage.depth && clock.bytesOf(s) + need <= stage.limit;
  }

  /// What the stage would do next, and when, as far as is known.
  void choose(int s) {
    Stage &stage = stages[s];
    stage.start = kNever;
    double now = clock.freeAt(s), soonest = kNever;
    ScheduledPass step{};
    auto consider = [&](Pass pass, int chunk, int microbatch) {
      if (microbatch >= p.microbatches)
        return;
      ScheduledPass candidate{pass, chunk, microbatch};
      double at = std::max(now, clock.readyAt(s, candidate));
      if (at < soonest) {
        soonest = at;
        step = candidate;
      }
    };
    for (int c = p.chunks - 1; c >= 0; --c)
      if (stage.backward[c] < stage.forward[c])
        consider(Pass::Backward, c, stage.backward[c]);
    for (int c = p.chunks - 1; c >= 0; --c)
      if (fits(s, c))
        consider(Pass::Forward, c, stage.forward[c]);
    if (stage.done < stage.pending.size()) {
      const ScheduledPass &oldest = stage.pending[stage.done];
      if (soonest - now > patience * clock.work(s, oldest.chunk).weightGradient) {
        soonest = now;
        step = oldest;
      }
    }
    stage.start = soonest;
    stage.step = step;
  }

  void commit(int s) {
    Stage &stage = stages[s];
    ScheduledPass step = stage.step;
    if (step.pass == Pass::Forward) {
      ++stage.forward[step.chunk];
      ++stage.inFlight;
    } else if (step.pass == Pass::Backward) {
      ++stage.backward[step.chunk];
      stage.pending.push_back({Pass::WeightGradient, step.chunk, step.microbatch});
    } else {
      ++stage.done;
      --stage.inFlight;
    }
    int woken = clock.run(s, step);
    choose(s);
    if (woken >= 0 && woken != s)
      choose(woken);
  }

  const PipelineProblem &p;
  Clock clock;
  double patience;
  std::vector<Stage> stages;
};

std::string check(const PipelineProblem &p) {
  if (p.stages < 1 || p.microbatches < 1 || p.chunks < 1)
    return "stages, microbatches and chunks must be at least 1";
  if (static_cast<double>(p.stages) * p.chunks * p.microbatches > 1e7)
    return "more than 10^7 microbatches of chunks on all stages";
  if (p.work.size() != static_cast<std::size_t>(p.stages) * p.chunks)
    return "there must be stages * chunks entries of work";
  bool many = p.schedule == Schedule::Interleaved || p.schedule == Schedule::ZeroBubbleV;
  if (p.schedule == Schedule::ZeroBubbleV && p.chunks != 2)
    return "zb-v has 2 chunks a stage";
  if (!many && p.chunks != 1)
    return std::string(toString(p.schedule)) + " has 1 chunk a stage";
  auto wrong = [](double x) { return !(x >= 0) || std::isinf(x); };
  for (const ChunkWork &w : p.work)
    if (wrong(w.forward) || wrong(w.backward) || wrong(w.weightGradient) || wrong(w.activationBytes) ||
        wrong(w.transientBytes) || wrong(w.weightGradientBytes) || w.weightGradientBytes > w.activationBytes)
      return "times and bytes must be finite, not negative, and weightGradientBytes part of activationBytes";
  if (!p.hopSeconds.empty() && p.hopSeconds.size() != static_cast<std::size_t>(p.stages))
    return "there must be as many hops as stages";
  for (double hop : p.hopSeconds)
    if (wrong(hop))
      return "a hop's time must be finite and not negative";
  if (!p.slowdown.empty() &&
      (p.slowdown.size() != static_cast<std::size_t>(p.stages) || splitsBackward(p.schedule)))
    return "there must be as many slowdowns as stages, of a schedule that does not cut the backward pass";
  for (double slowdown : p.slowdown)
    if (wrong(slowdown) || slowdown <= 0)
      return "a slowdown must be finite and positive";
  if (p.forwardOnly && splitsBackward(p.schedule))
    return std::string(toString(p.schedule)) + " has backward passes";
  if (wrong(p.transferSeconds))
    return "the transfer's time must be finite and not negative";
  return "";
}

} // namespace

const char *toString(Schedule schedule) {
  for (auto &[name, value] : kNames)
    if (value == schedule)
      return name;
  return "";
}

std::string scheduleNames() {
  std::string all;
  for (auto &[name, value] : kNames)
    all += (all.empty() ? "" : ", ") + std::string(name);
  return all;
}

bool parseSchedule(std::string_view text, Schedule &schedule) {
  std::string lower(text);
  for (char &c : lower)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (lower == "1f1b-i" || lower == "interleaved1f1b" || lower == "interleaved-1f1b")
    lower = "interleaved";
  for (auto &[name, value] : kNames)
    if (lower == name) {
      schedule = value;
      return true;
    }
  return false;
}

bool splitsBackward(Schedule schedule) {
  return schedule != Schedule::GPipe && schedule != Schedule::OneFOneB && schedule != Schedule::Interleaved;
}

PipelineResult simulate(const PipelineProblem &problem, bool withTimeline) {
  PipelineResult best;
  best.error = check(problem);
  if (!best.error.empty())
    return best;
  std::vector<std::vector<ScheduledPass>> orders(problem.stages);
  if (!splitsBackward(problem.schedule)) {
    for (int s = 0; s < problem.stages; ++s)
      orders[s] = fixedOrder(problem, s);
    if (!(problem.slowdown.empty() ? runFixed : runShared)(problem, orders, best, withTimeline))
      best.error = "the schedule waits for itself";
    return best;
  }
  bool found = false;
  auto keep = [&](PipelineResult &result) {
    if (!found || result.steadySeconds < best.steadySeconds)
      best = std::move(result);
    found = true;
  };
  if (problem.chunks == 1) {
    bool twice = problem.schedule == Schedule::ZeroBubble2p || problem.schedule == Schedule::ZeroBubbleH2;
    for (int s = 0; s < problem.stages; ++s)
      orders[s] = zeroBubbleOrder(problem, s, twice);
    PipelineResult result;
    if (runFixed(problem, orders, result, withTimeline))
      keep(result);
  }
  for (double patience : {0.0, 0.5, 1.0}) {
    PipelineResult result;
    if (ListScheduler(problem, result, withTimeline, patience).run())
      keep(result);
  }
  if (!found)
    best.error = "the schedule waits for itself";
  return best;
}

} // namespace colossal::cost

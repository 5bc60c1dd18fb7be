// Schedules against the closed formulas of their papers.
#include "colossal/Cost/PipelineSchedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

using namespace colossal::cost;

namespace {

PipelineProblem even(Schedule schedule, int stages, int microbatches, int chunks = 1) {
  PipelineProblem problem;
  problem.schedule = schedule;
  problem.stages = stages;
  problem.microbatches = microbatches;
  problem.chunks = chunks;
  ChunkWork work;
  work.forward = 1.0 / chunks;
  work.backward = 1.0 / chunks;
  work.weightGradient = 1.0 / chunks;
  work.activationBytes = 10.0 / chunks;
  work.weightGradientBytes = 4.0 / chunks;
  problem.work.assign(static_cast<std::size_t>(stages) * chunks, work);
  return problem;
}

/// (p - 1) (F + B) of bubble: Huang et al., 2019, and Narayanan et al., 2021, section 2.2.1.
TEST(PipelineSchedule, GPipeAndOneFOneBTakeTheSameTime) {
  for (int p : {1, 2, 4, 8})
    for (int m : {1, 3, 8, 32}) {
      EXPECT_DOUBLE_EQ(simulate(even(Schedule::GPipe, p, m)).seconds, 3.0 * (m + p - 1));
      EXPECT_DOUBLE_EQ(simulate(even(Schedule::OneFOneB, p, m)).seconds, 3.0 * (m + p - 1));
    }
}

TEST(PipelineSchedule, InterleavingDividesTheBubble) {
  for (int p : {2, 4, 8})
    for (int chunks : {2, 4}) {
      int m = 4 * p;
      PipelineResult result = simulate(even(Schedule::Interleaved, p, m, chunks));
      EXPECT_NEAR(result.seconds, 3.0 * m + 3.0 * (p - 1) / chunks, 1e-9) << p << " x " << chunks;
    }
}

TEST(PipelineSchedule, MicrobatchesInFlight) {
  PipelineResult gpipe = simulate(even(Schedule::GPipe, 4, 12));
  PipelineResult oneF = simulate(even(Schedule::OneFOneB, 4, 12));
  for (int s = 0; s < 4; ++s) {
    EXPECT_EQ(gpipe.peakInFlight[s], 12);
    EXPECT_EQ(oneF.peakInFlight[s], 4 - s);
    EXPECT_DOUBLE_EQ(oneF.peakBytes[s], 10.0 * (4 - s));
  }
  // Narayanan et al., 2021: 1 + (p - 1) / (p v) of the memory of 1F1B.
  PipelineResult interleaved = simulate(even(Schedule::Interleaved, 4, 12, 2));
  EXPECT_NEAR(interleaved.peakBytes[0], 40.0 * (1 + 3.0 / 8), 1e-9);
}

/// Qi et al., 2023, table 1: the bubble of H1 is (p - 1) (F + B - W), that of H2 (p - 1) (F + B - 2 W).
TEST(PipelineSchedule, TellsOfWhatAProgramKeeps) {
  // The last stage keeps what it has received: its forward pass is a part of the backward one.
  PipelineProblem gpipe = even(Schedule::GPipe, 2, 4);
  gpipe.work[1].keptForward = 1;
  PipelineResult told = simulate(gpipe);
  EXPECT_DOUBLE_EQ(told.peakBytes[0], 40);
  EXPECT_DOUBLE_EQ(told.peakBytes[1], 4);
  // Where it goes back at once, it keeps one, and nobody is later for it.
  gpipe.lastTurnsBack = true;
  PipelineResult back = simulate(gpipe);
  EXPECT_DOUBLE_EQ(back.peakBytes[0], 40);
  EXPECT_DOUBLE_EQ(back.peakBytes[1], 1);
  EXPECT_DOUBLE_EQ(back.seconds, told.seconds);
  PipelineProblem few = even(Schedule::Interleaved, 4, 4, 2);
  const double later = simulate(few).seconds;
  few.lastTurnsBack = true;
  EXPECT_LE(simulate(few).seconds, later);
  EXPECT_EQ(simulate(few).peakInFlight[3], 5);
  EXPECT_EQ(simulate(few).peakInFlight[0], 8);
  // Where gradients of weights wait, more than what the forward pass has saved.
  PipelineProblem bubble = even(Schedule::ZeroBubbleH1, 2, 4);
  for (ChunkWork &work : bubble.work)
    work.keptBackward = 25;
  PipelineResult more = simulate(bubble, /*withTimeline=*/true);
  PipelineResult less = simulate(even(Schedule::ZeroBubbleH1, 2, 4), /*withTimeline=*/true);
  EXPECT_GE(more.peakBytes[1], 25);
  EXPECT_GT(more.peakBytes[1], less.peakBytes[1]);
  EXPECT_DOUBLE_EQ(more.seconds, less.seconds) << "orders do not change";
}

TEST(PipelineSchedule, ZeroBubbleSchedules) {
  const int p = 8, m = 32;
  EXPECT_NEAR(simulate(even(Schedule::ZeroBubbleH1, p, m)).seconds, 3.0 * m + (p - 1), 1e-9);
  EXPECT_NEAR(simulate(even(Schedule::ZeroBubble1p, p, m)).seconds, 3.0 * m + (p - 1), 1e-9);
  // Equal passes: no stage of H2 or 2p waits within a step, and steps follow each other without a gap.
  for (Schedule schedule : {Schedule::ZeroBubbleH2, Schedule::ZeroBubble2p}) {
    PipelineResult result = simulate(even(schedule, p, m));
    EXPECT_NEAR(result.steadySeconds, 3.0 * m, 1e-9) << toString(schedule);
    EXPECT_NEAR(result.bubble, 0, 1e-9);
  }
  for (Schedule schedule : {Schedule::ZeroBubbleH1, Schedule::ZeroBubble1p, Schedule::ZeroBubbleV}) {
    PipelineResult result = simulate(even(schedule, p, m, schedule == Schedule::ZeroBubbleV ? 2 : 1));
    for (double bytes : result.peakBytes)
      EXPECT_LE(bytes, 10.0 * p + 1e-6) << toString(schedule) << " keeps within the memory of 1F1B";
  }
  for (double bytes : simulate(even(Schedule::ZeroBubble2p, p, m)).peakBytes)
    EXPECT_LE(bytes, 20.0 * p + 1e-6);
}

/// Every pass once, after what it needs, one at a time on a stage.
TEST(PipelineSchedule, TimelinesAreLegal) {
  for (Schedule schedule :
       {Schedule::GPipe, Schedule::OneFOneB, Schedule::Interleaved, Schedule::ZeroBubbleH1,
        Schedule::ZeroBubbleH2, Schedule::ZeroBubble1p, Schedule::ZeroBubble2p, Schedule::ZeroBubbleV})
    for (int microbatches : {1, 5, 8, 13}) {
      int chunks = schedule == Schedule::Interleaved || schedule == Schedule::ZeroBubbleV ? 2 : 1;
      PipelineProblem problem = even(schedule, 4, microbatches, chunks);
      problem.transferSeconds = 0.25;
      for (std::size_t i = 0; i < problem.work.size(); ++i)
        problem.work[i].forward += 0.1 * static_cast<double>(i);
      PipelineResult result = simulate(problem, true);
      ASSERT_EQ(result.error, "");
      std::map<std::tuple<int, int, int>, PipelineEvent> events;
      std::vector<double> clock(4, 0);
      for (const PipelineEvent &event : result.timeline) {
        int part = schedule == Schedule::ZeroBubbleV && event.chunk == 1 ? 7 - event.stage
                                                                         : event.chunk * 4 + event.stage;
        EXPECT_TRUE(events.emplace(std::make_tuple(int(event.pass), part, event.microbatch), event).second);
        EXPECT_GE(event.start, clock[event.stage] - 1e-12);
        clock[event.stage] = event.end;
      }
      int passes = splitsBackward(schedule) ? 3 : 2;
      ASSERT_EQ(events.size(), static_cast<std::size_t>(passes) * 4 * chunks * microbatches)
          << toString(schedule);
      int parts = 4 * chunks;
      for (auto &[key, event] : events) {
        auto [pass, part, m] = key;
        if (pass == PipelineEvent::Forward && part > 0) {
          EXPECT_GE(event.start, events.at({pass, part - 1, m}).end);
        }
        if (pass == PipelineEvent::Backward) {
          EXPECT_GE(event.start, events.at({PipelineEvent::Forward, part, m}).end);
          if (part + 1 < parts) {
            EXPECT_GE(event.start, events.at({pass, part + 1, m}).end);
          }
        }
        if (pass == PipelineEvent::WeightGradient) {
          EXPECT_GE(event.start, events.at({PipelineEvent::Backward, part, m}).end);
        }
      }
      double busiest = 0;
      for (int s = 0; s < 4; ++s) {
        double busy = 0;
        for (auto &[key, event] : events)
          busy += event.stage == s ? event.end - event.start : 0;
        busiest = std::max(busiest, busy);
      }
      EXPECT_GE(result.seconds, busiest - 1e-9);
      EXPECT_LE(result.steadySeconds, result.seconds + 1e-12);
      EXPECT_NEAR(result.bubble, 1 - busiest / result.steadySeconds, 1e-9);
    }
}

/// When the last forward pass ends, of stages that take `seconds` each for a microbatch.
double passForward(const std::vector<double> &seconds, int microbatches,
                   const std::vector<double> &slowdown) {
  PipelineProblem problem;
  problem.schedule = Schedule::GPipe;
  problem.stages = static_cast<int>(seconds.size());
  problem.microbatches = microbatches;
  problem.slowdown = slowdown;
  for (double forward : seconds)
    problem.work.emplace_back().forward = forward;
  PipelineResult result = simulate(problem, true);
  EXPECT_EQ(result.error, "");
  double end = 0;
  for (const PipelineEvent &event : result.timeline)
    if (event.pass == PipelineEvent::Forward)
      end = std::max(end, event.end);
  return end;
}

TEST(PipelineSchedule, StagesThatShareProcessors) {
  for (const std::vector<double> &seconds : {std::vector<double>{1, 1}, {2, 1, 3}, {1, 0, 2, 1}}) {
    const std::size_t stages = seconds.size();
    EXPECT_DOUBLE_EQ(passForward(seconds, 5, std::vector<double>(stages, 1)), passForward(seconds, 5, {}));
    // All on one processor, which is never idle.
    std::vector<double> one;
    double work = 0;
    for (std::size_t s = 0; s < stages; ++s) {
      one.push_back(static_cast<double>(s + 1));
      work += seconds[s];
    }
    EXPECT_NEAR(passForward(seconds, 5, one), 5 * work, 1e-9);
  }
  // Each alone at the beginning and at the end, three times both.
  EXPECT_DOUBLE_EQ(passForward({1, 1}, 4, {1, 1.5}), 1 + 3 * 1.5 + 1);
  EXPECT_DOUBLE_EQ(passForward({1, 1}, 4, {2, 3}), 2 + 3 * 3 + 2);
  // The longer one goes on alone: 1 s beside the other takes 2, and then 1 s is left of 2.
  EXPECT_DOUBLE_EQ(passForward({2, 1}, 2, {1, 2}), 2 + 2 + 1 + 1);
}

TEST(PipelineSchedule, RefusesWhatMakesNoSense) {
  PipelineProblem problem = even(Schedule::OneFOneB, 4, 8);
  problem.work.pop_back();
  EXPECT_NE(simulate(problem).error, "");
  EXPECT_NE(simulate(even(Schedule::OneFOneB, 2, 4, 2)).error, "");
  problem = even(Schedule::ZeroBubbleH1, 2, 4);
  problem.slowdown = {1, 2};
  EXPECT_NE(simulate(problem).error, "");
  problem = even(Schedule::GPipe, 2, 4);
  problem.slowdown = {1};
  EXPECT_NE(simulate(problem).error, "");
  problem = even(Schedule::GPipe, 2, 4);
  problem.work[1].forward = -1;
  EXPECT_NE(simulate(problem).error, "");
  Schedule schedule;
  EXPECT_FALSE(parseSchedule("2f2b", schedule));
  EXPECT_TRUE(parseSchedule("ZB-1p", schedule));
  EXPECT_EQ(schedule, Schedule::ZeroBubble1p);
}

} // namespace

// An error is quoted from the machine's own file, and only where rows like the question stand there.
#include "colossal/Cost/Evidence.h"

#include <gtest/gtest.h>

using namespace colossal::cost;

namespace {

Machine withEvidence() {
  Machine machine = loadMachine("a100-40-pcie").machine;
  Evidence one;
  one.table = "few";
  one.question = "step";
  one.rows = 3;
  one.meanPercent = 4.5;
  one.medianPercent = 4;
  one.inSample = true;
  one.ranges["devices"] = {1, 8};
  one.kinds["recompute"] = {"full"};
  Evidence other = one;
  other.table = "many";
  other.inSample = other.measured = false;
  other.ranges["devices"] = {64, 512};
  machine.evidence = {one, other};
  return machine;
}

TEST(Evidence, TheRowsMostAlikeSpeak) {
  Machine machine = withEvidence();
  Configuration row;
  row.question = Question::Step;
  row.devices = 8;
  row.layout.recompute = Recompute::Full;
  auto text = [&] { return describe(evidenceFor(row, machine), row, machine); };
  EXPECT_EQ(text(), "in-sample mean error 4.5 %, median 4 % on 3 measured rows of few");
  row.devices = 128;
  EXPECT_EQ(text(), "mean error 4.5 %, median 4 % on 3 simulated rows of many");
  row.devices = 32;
  EXPECT_EQ(text(), "extrapolated: in-sample mean error 4.5 %, median 4 % on 3 measured rows of few");
  row.question = Question::AllReduce;
  EXPECT_EQ(text(), "no rows like it were measured on 'a100-40-pcie', so its error is not known");
}

TEST(Evidence, AMachineWithoutAnyQuotesNone) {
  Machine machine = withEvidence();
  EXPECT_EQ(describePlanEvidence(machine, 2).find("not known: nothing was measured"), 0u);
  machine.evidence[0].question = "kernel";
  EXPECT_EQ(describePlanEvidence(machine, 2).find("of single kernels in-sample mean error 4.5 %"), 0u);
  machine.evidence[1].question = "plan";
  machine.evidence[1].ranges["devices"] = {1, 4};
  EXPECT_EQ(describePlanEvidence(machine, 4), "mean error 4.5 %, median 4 % on 3 simulated rows of many");
  EXPECT_EQ(describePlanEvidence(machine, 8).find("extrapolated: "), 0u);
}

TEST(Evidence, GoesThroughAFile) {
  Machine machine = withEvidence();
  MachineResult again = parseMachine(printMachine(machine));
  ASSERT_EQ(again.error, "");
  ASSERT_EQ(again.machine.evidence.size(), 2u);
  EXPECT_EQ(printMachine(again.machine), printMachine(machine));
  machine.evidence[0].question = "weather";
  EXPECT_EQ(parseMachine(printMachine(machine)).error, "evidence[0].question: unknown: 'weather'");
}

} // namespace

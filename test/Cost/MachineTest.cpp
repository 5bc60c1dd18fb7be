// Machine files: the built-in ones are good and print back, and a wrong one is refused with the place named.
#include "colossal/Cost/Machine.h"

#include <gtest/gtest.h>

using namespace colossal::cost;

namespace {

TEST(Machine, EveryBuiltInFileReadsAndPrintsBack) {
  ASSERT_GE(machineNames().size(), 10u);
  for (const std::string &name : machineNames()) {
    MachineResult read = loadMachine(name);
    ASSERT_EQ(read.error, "") << name;
    EXPECT_EQ(read.machine.name, name);
    MachineResult again = parseMachine(printMachine(read.machine));
    ASSERT_EQ(again.error, "") << name;
    EXPECT_EQ(printMachine(again.machine), printMachine(read.machine)) << name;
  }
}

TEST(Machine, UnknownNameListsTheKnownOnes) {
  std::string error = loadMachine("h1000").error;
  EXPECT_NE(error.find("'h1000'"), std::string::npos);
  EXPECT_NE(error.find("v100-dgx1"), std::string::npos);
  EXPECT_NE(loadMachine("/nowhere/at-all.json").error.find("/nowhere/at-all.json"), std::string::npos);
}

/// What is said of a machine's file in which `from` is replaced.
struct Broken {
  std::string good;
  std::string operator()(const std::string &from, const std::string &to) const {
    std::string text = good;
    std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos)
      text.replace(at, from.size(), to);
    return parseMachine(text).error;
  }
};

TEST(Machine, MistakesAreNamedWithTheirPlace) {
  const Broken broken{printMachine(loadMachine("h100").machine)};
  EXPECT_EQ(parseMachine("{").error, "machine: is not JSON: line 1, column 2");
  EXPECT_EQ(broken("\"units\": 8", "\"units\": 0"),
            "levels[0].units: must be at least 1 and at most 1.67772e+07, is 0");
  EXPECT_EQ(broken("\"units\": 8", "\"units\": 2.5"), "levels[0].units: must be a whole number");
  EXPECT_EQ(broken("\"launch_seconds\"", "\"launch\""), "device: unknown key 'launch'");
  EXPECT_EQ(broken("\"f32\"", "\"f33\""), "device.peak_flops: unknown type 'f33'");
  EXPECT_EQ(broken("\"name\": \"infiniband\",", ""), "levels[1]: 'name' is missing");
  EXPECT_EQ(broken("\"compute_efficiency\": 0.65", "\"compute_efficiency\": \"high\""),
            "device.compute_efficiency: must be a number");
}

TEST(Machine, MistakesInLinksAndConstantsAreNamed) {
  const Broken broken{printMachine(loadMachine("a100-80-sxm").machine)};
  EXPECT_EQ(broken("\"links\": {", "\"bandwidth\": 3, \"links\": {"),
            "levels[0]: has both 'links' and 'bandwidth'; the second follows from the first");
  EXPECT_EQ(broken("\"switches\": 1", "\"switches\": -1"),
            "levels[0].links.switches: must be a whole number from 0 to 64");
  EXPECT_EQ(broken("\"pairs\": [", "\"pairs\": [[0, 77, 1],"),
            "levels[0].links.pairs[0]: there is no node 77; there are 8 units and 1 switches");
  EXPECT_EQ(broken("\"pairs\": [", "\"pairs\": [[0, 1],"),
            "levels[0].links.pairs[0]: must be [from, to, links]");
  EXPECT_EQ(broken("\"pairs\": [", "\"pairs\": [[0, 1, 0.5],"),
            "levels[0].links.pairs[0][2]: must be a whole number from 1 to 1000");
  EXPECT_EQ(broken("\"levels[0].latency_seconds\"", "\"levels[7].latency_seconds\""),
            "fitted.levels[7].latency_seconds: is no number of this file");
  EXPECT_EQ(broken("\"units\": 8", "\"units\": 4"),
            "levels[0].links.pairs[0]: there is no node 8; there are 4 units and 1 switches");
}

} // namespace

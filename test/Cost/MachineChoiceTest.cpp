// Which machine is chosen from what the user typed, the environment and the host; and what of a host counts.
#include "colossal/Cost/MachineChoice.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace colossal::cost;
namespace fs = std::filesystem;

namespace {

class MachineChoiceTest : public testing::Test {
protected:
  void SetUp() override {
    root = fs::path(testing::TempDir()) / ("machine-choice-" + std::to_string(::getpid()));
    fs::remove_all(root);
    fs::create_directories(root);
    set("COLOSSAL_MACHINE", nullptr);
    set("XDG_CONFIG_HOME", (root / "config").c_str());
    set("HOME", (root / "home").c_str());
  }
  void TearDown() override { fs::remove_all(root); }

  static void set(const char *name, const char *value) {
    value ? ::setenv(name, value, 1) : ::unsetenv(name);
  }
  void write(const fs::path &path, const std::string &text) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }

  fs::path root;
};

TEST_F(MachineChoiceTest, FromTheNearestThatSpeaks) {
  MachineChoice host = chooseMachine("");
  EXPECT_EQ(host.error, "");
  EXPECT_EQ(host.machine.name, "host");
  EXPECT_EQ(host.origin.find("this host: "), 0u);
  EXPECT_EQ(host.machine.host->cores, measureHost().cores);
  EXPECT_EQ(host.machine.device.memoryBytes, measureHost().memoryBytes);

  write("home/.config/colossal/machine.json", printMachine(loadMachine("a100-80-sxm").machine));
  EXPECT_EQ(chooseMachine("").machine.name, "host") << "XDG_CONFIG_HOME stands before ~/.config";
  set("XDG_CONFIG_HOME", "relative");
  EXPECT_EQ(chooseMachine("").machine.name, "a100-80-sxm") << "a path that is not absolute does not count";
  set("XDG_CONFIG_HOME", (root / "config").c_str());
  write("config/colossal/machine.json", printMachine(loadMachine("h200").machine));
  MachineChoice user = chooseMachine("");
  EXPECT_EQ(user.machine.name, "h200");
  EXPECT_EQ(user.origin, (root / "config/colossal/machine.json").string() + " (the user's configuration)");

  set("COLOSSAL_MACHINE", "v100-dgx1");
  EXPECT_EQ(chooseMachine("").machine.name, "v100-dgx1");
  EXPECT_EQ(chooseMachine("").origin, "v100-dgx1 (COLOSSAL_MACHINE)");
  EXPECT_EQ(chooseMachine("h100").machine.name, "h100");
  EXPECT_EQ(chooseMachine("host").machine.name, "host");
}

TEST_F(MachineChoiceTest, WhatIsThereAndWrongIsAnError) {
  write("config/colossal/machine.json", "{}");
  EXPECT_EQ(chooseMachine("").error.find("the user's configuration: "), 0u);
  EXPECT_EQ(chooseMachine("h100").error, "");
  set("COLOSSAL_MACHINE", "nowhere");
  EXPECT_EQ(chooseMachine("").error.find("COLOSSAL_MACHINE: no machine is named 'nowhere'"), 0u);
}

TEST_F(MachineChoiceTest, ControlGroupsLimitTheHost) {
  write("proc/meminfo", "MemTotal:       1000 kB\nMemFree:        10 kB\n");
  EXPECT_EQ(measureHost(root).memoryBytes, 1000 * 1024);
  write("proc/self/cgroup", "0::/outer/inner\n");
  write("sys/fs/cgroup/outer/memory.max", "500000\n");
  write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  write("sys/fs/cgroup/outer/cpu.max", "max 100000\n");
  EXPECT_EQ(measureHost(root).memoryBytes, 500000) << "of an outer group, too";
  int all = measureHost(root).cores;
  write("sys/fs/cgroup/outer/inner/cpu.max", "50000 100000\n");
  EXPECT_EQ(measureHost(root).cores, 1) << "half a core is one";
  EXPECT_GE(all, 1);
  // The older interface, where a container shows no more than its own root.
  write("proc/self/cgroup", "4:memory:/some/where\n1:cpu,cpuacct:/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "300000\n");
  EXPECT_EQ(measureHost(root).memoryBytes, 300000);
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(measureHost(root).memoryBytes, 1000 * 1024) << "no limit";
}

TEST_F(MachineChoiceTest, AMachineSaysWhatCompilesForIt) {
  EXPECT_EQ(loadMachine("h100").machine.target, "cuda");
  EXPECT_EQ(loadMachine("cpu").machine.target, "cpu");
  EXPECT_EQ(chooseMachine("host").machine.target, "cpu");
  std::string text = printMachine(loadMachine("h100").machine);
  text.replace(text.find("\"cuda\""), 6, "\"abacus\"");
  EXPECT_EQ(parseMachine(text).error, "target: must be 'cpu' or 'cuda', is 'abacus'");
}

} // namespace

// What training reads and writes: safetensors, events, the order of samples, step values, boxes of states.
#include "runtime/io/Safetensors.h"
#include "runtime/training/EventFile.h"
#include "runtime/training/SampleOrder.h"
#include "runtime/training/States.h"
#include "runtime/training/StepValues.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <unistd.h>

using namespace colossal;
using namespace colossal::runtime;

namespace {

std::string fileWith(const std::string &bytes) {
  const std::string path = ::testing::TempDir() + "colossal-" + std::to_string(::getpid()) + ".safetensors";
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string withHeader(const std::string &header, size_t bytes) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char *>(&length), 8) + header + std::string(bytes, 'x');
}

} // namespace

TEST(Safetensors, WhatIsWrittenIsRead) {
  const std::vector<SafetensorsTensor> tensors = {
      {"b", plan::F32, {2, 3}}, {"a \"quoted\"", plan::I64, {}}, {"empty", plan::BF16, {0, 4}}};
  const std::string text = safetensorsHeader(tensors, {{"format", "pt"}});
  EXPECT_EQ(text.size() % 8, 0u);
  SafetensorsFile file;
  Status status = SafetensorsFile::open(fileWith(text + std::string(24, 'b') + std::string(8, 'a')), file);
  ASSERT_TRUE(status.ok()) << status.describe();
  ASSERT_EQ(file.entries().size(), 3u);
  EXPECT_EQ(file.entries().at("b").shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(static_cast<char>(*file.data(file.entries().at("b"))), 'b');
  EXPECT_EQ(static_cast<char>(*file.data(file.entries().at("a \"quoted\""))), 'a');
}

TEST(Safetensors, DamagedHeadersAreRefused) {
  const char *headers[] = {
      "[]",
      "{\"a\": 1}",
      "{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 4]}}",
      "{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [4, 12]}}",
      "{\"a\": {\"dtype\": \"F32\", \"shape\": [-2], \"data_offsets\": [0, 8]}}",
      "{\"a\": {\"dtype\": \"F33\", \"shape\": [2], \"data_offsets\": [0, 8]}}",
      "{\"a\": {\"dtype\": \"F32\", \"shape\": [4294967296, 4294967296, 4294967296], \"data_offsets\": [0, "
      "0]}}",
      "{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}, \"b\": {\"dtype\": \"F32\", "
      "\"shape\": [1], "
      "\"data_offsets\": [2, 6]}}",
  };
  for (const char *header : headers) {
    SafetensorsFile file;
    EXPECT_EQ(SafetensorsFile::open(fileWith(withHeader(header, 8)), file).code(), Code::InvalidArgument)
        << header;
  }
  SafetensorsFile file;
  EXPECT_EQ(SafetensorsFile::open(fileWith("\xff\xff\xff\xff\xff\xff\xff\xff{}"), file).code(),
            Code::InvalidArgument);
  EXPECT_EQ(SafetensorsFile::open(fileWith("abc"), file).code(), Code::InvalidArgument);
  EXPECT_EQ(SafetensorsFile::open("/nonexistent", file).code(), Code::NotFound);
}

TEST(EventFile, ChecksumsAreThoseOfTheStandard) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau); // RFC 3720, B.4
  EXPECT_EQ(frameRecord("abc").size(), 8u + 4 + 3 + 4);
}

TEST(SampleOrder, IsAPermutationOfEachEpoch) {
  for (uint64_t count : {1u, 2u, 3u, 10u, 64u, 1000u}) {
    std::vector<uint64_t> before;
    for (uint64_t epoch : {0u, 1u}) {
      const SampleOrder order{count, 5};
      std::vector<uint64_t> all;
      for (uint64_t n = 0; n < count; ++n)
        all.push_back(order.sample(epoch * count + n));
      EXPECT_EQ(std::set<uint64_t>(all.begin(), all.end()).size(), count);
      EXPECT_LT(*std::max_element(all.begin(), all.end()), count);
      if (count >= 10) {
        EXPECT_NE(all, before);
      }
      before = all;
    }
  }
  const SampleOrder plain{7, std::nullopt};
  EXPECT_EQ(plain.sample(9), 2u);
}

TEST(StateBox, FindsEveryElementOnce) {
  // A tensor of 2x3x4 refined dimensions, its boxes along the middle and the last one.
  std::set<std::pair<int, uint64_t>> seen;
  const StateBox boxes[] = {{{{2, 0, 2}, {3, 0, 1}, {4, 0, 4}}},
                            {{{2, 0, 2}, {3, 1, 2}, {4, 0, 3}}},
                            {{{2, 0, 2}, {3, 1, 2}, {4, 3, 1}}}};
  for (uint64_t element = 0; element < 24; ++element) {
    int holders = 0;
    for (int b = 0; b < 3; ++b) {
      uint64_t at = 0, run = 0;
      if (!boxes[b].find(element, at, run))
        continue;
      ++holders;
      EXPECT_LT(at, boxes[b].elements());
      EXPECT_TRUE(seen.insert({b, at}).second);
      for (uint64_t next = 0; next < run; ++next) {
        uint64_t nextAt = 0, rest = 0;
        ASSERT_TRUE(boxes[b].find(element + next, nextAt, rest)) << element << '+' << next;
        EXPECT_EQ(nextAt, at + next);
        EXPECT_EQ(rest, run - next);
      }
    }
    EXPECT_EQ(holders, 1) << element;
  }
  uint64_t at = 7, run = 0;
  EXPECT_TRUE(StateBox{}.find(0, at, run)); // a scalar
  EXPECT_EQ(at, 0u);
  EXPECT_EQ(run, 1u);
}

TEST(StepValues, AreThoseOfTheFormulas) {
  Hyperparameters adamw;
  ASSERT_TRUE(completeHyperparameters("adamw", adamw).ok());
  StepState at;
  at.step = 70000, at.update = 3, at.lr = 0.25, at.seed = 0x0123456789abcdef;
  std::vector<double> values;
  ASSERT_TRUE(stepValues({"lr", "weight_decay", "bias_correction1", "bias_correction2", "clip", "step0",
                          "step1", "seed0", "seed3"},
                         adamw, at, values)
                  .ok());
  EXPECT_EQ(values[0], 0.25);
  EXPECT_EQ(values[1], 1e-2);
  EXPECT_NEAR(values[2], 1 - 0.9 * 0.9 * 0.9, 1e-15);
  EXPECT_NEAR(values[3], 1 - 0.999 * 0.999 * 0.999, 1e-15);
  EXPECT_TRUE(std::isinf(values[4]));
  EXPECT_EQ(values[5] + 65536 * values[6], 70000);
  EXPECT_EQ(values[7], 0xcdef);
  EXPECT_EQ(values[8], 0x0123);
  EXPECT_EQ(stepValues({"alpha"}, adamw, at, values).code(), Code::Unsupported);
  Hyperparameters other;
  EXPECT_EQ(completeHyperparameters("rprop", other).code(), Code::Unsupported);
  other.nesterov = true;
  EXPECT_EQ(completeHyperparameters("sgd", other).code(), Code::InvalidArgument);
}

TEST(StepValues, SchedulesAreThoseOfPyTorch) {
  Schedule schedule;
  schedule.steps = 10;
  EXPECT_EQ(schedule.rate(2, 7), 2);
  schedule.kind = "linear";
  EXPECT_DOUBLE_EQ(schedule.rate(2, 1), 2);
  EXPECT_DOUBLE_EQ(schedule.rate(2, 6), 1); // LinearLR(1, 0, 10) after 5 steps
  EXPECT_DOUBLE_EQ(schedule.rate(2, 11), 0);
  EXPECT_DOUBLE_EQ(schedule.rate(2, 99), 0);
  schedule.kind = "cosine";
  EXPECT_DOUBLE_EQ(schedule.rate(2, 6), 1);
  schedule.kind = "polynomial";
  schedule.power = 2;
  EXPECT_DOUBLE_EQ(schedule.rate(2, 6), 0.5);
  schedule.kind = "multistep";
  schedule.milestones = {3, 5};
  EXPECT_DOUBLE_EQ(schedule.rate(2, 3), 2);
  EXPECT_DOUBLE_EQ(schedule.rate(2, 4), 0.2);
  EXPECT_DOUBLE_EQ(schedule.rate(2, 6), 0.02);
  schedule.kind = "linear";
  schedule.warmup = 4;
  EXPECT_DOUBLE_EQ(schedule.rate(2, 1), 0.5);
  EXPECT_DOUBLE_EQ(schedule.rate(2, 4), 2);
  EXPECT_DOUBLE_EQ(schedule.rate(2, 5), 2);
  EXPECT_DOUBLE_EQ(schedule.rate(2, 8), 1);
}

TEST(StepValues, TheScaleOfTheLossFollowsOverflows) {
  LossScale scale;
  scale.step(true);
  EXPECT_EQ(scale.scale, 32768);
  EXPECT_EQ(scale.skipped, 1u);
  for (int step = 0; step < 2000; ++step)
    scale.step(false);
  EXPECT_EQ(scale.scale, 65536);
}

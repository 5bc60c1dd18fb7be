// Which meshes are tried, by a model of what they take that is written here.
#include "MeshSearch.h"

#include <gtest/gtest.h>

#include <set>

using namespace colossal;

namespace {

/// All that is tried where `secondsOf` says what a mesh takes; above 1e6 it does not fit, negative it cannot
/// be.
std::vector<std::string> tryAll(const MeshSpace &space,
                                const std::function<double(const std::string &)> &secondsOf) {
  std::vector<std::string> tried;
  searchMeshes(space, Objective::Latency, [&](const std::string &mesh, int64_t microbatches, int64_t chunks) {
    EXPECT_EQ(microbatches, 1);
    EXPECT_EQ(chunks, 1);
    tried.push_back(mesh);
    double seconds = secondsOf(mesh);
    return TriedMesh{mesh, seconds >= 0, seconds, 1 / seconds, seconds > 1e6 ? uint64_t(seconds) : 0};
  });
  return tried;
}

MeshSpace of(int64_t devices, MeshAxes fixed = {}) {
  MeshSpace space;
  space.devices = devices;
  space.fixed = std::move(fixed);
  return space;
}

double always(const std::string &) {
  return 1;
}

using Meshes = std::vector<std::string>;

TEST(MeshSearch, FactorizationsEachOnce) {
  EXPECT_EQ(tryAll(of(1), always), Meshes{"1"});
  EXPECT_EQ(tryAll(of(7), always), Meshes{"7"});
  EXPECT_EQ(tryAll(of(8), always), (Meshes{"8", "2x4", "2x2x2"}));
  EXPECT_EQ(tryAll(of(12), always), (Meshes{"12", "2x6", "3x4", "2x2x3"}));
  MeshSpace ordered = of(12);
  ordered.isOrdered = true;
  EXPECT_EQ(tryAll(ordered, always), (Meshes{"12", "2x6", "3x4", "4x3", "6x2", "2x2x3", "2x3x2", "3x2x2"}));
}

TEST(MeshSearch, MoreAxesWhileTheyHelp) {
  // Each axis makes a tenth, or nothing.
  auto helping = [](const std::string &mesh) {
    return 1 - 0.1 * static_cast<double>(std::count(mesh.begin(), mesh.end(), 'x'));
  };
  Meshes all = tryAll(of(32), helping), few = tryAll(of(32), always);
  EXPECT_EQ(all.back(), "2x2x2x2x2");
  EXPECT_EQ(few, (Meshes{"32", "2x16", "4x8", "2x2x8", "2x4x4"}));
  // What does not fit may fit on more.
  EXPECT_EQ(tryAll(of(32), [](const std::string &) { return 1e7; }).back(), "2x2x2x2x2");
}

TEST(MeshSearch, OnlyTheBestAreSplit) {
  // 2 x 512 is by far the best of two axes, and three others follow.
  auto seconds = [](const std::string &mesh) {
    return mesh == "2x512" ? 1.0 : mesh.rfind("2x", 0) == 0 || mesh.rfind("4x256", 0) == 0 ? 2.0 : 3.0;
  };
  MeshSpace space = of(1024);
  space.trials = 100;
  Meshes tried = tryAll(space, seconds);
  EXPECT_EQ(std::set<std::string>(tried.begin(), tried.end()).size(), tried.size());
  EXPECT_NE(std::find(tried.begin(), tried.end(), "2x2x256"), tried.end());
  space.trials = 5;
  EXPECT_EQ(tryAll(space, seconds).size(), 5u);
}

TEST(MeshSearch, NamedAxesStay) {
  EXPECT_EQ(tryAll(of(8, {{"model", 2}}), always), (Meshes{"data=4,model=2", "data=2,x=2,model=2"}));
  EXPECT_EQ(tryAll(of(8, {{"data", 2}}), always), (Meshes{"data=2,model=4", "data=2,model=2,x=2"}));
  EXPECT_EQ(tryAll(of(4, {{"data", 2}, {"model", 2}}), always), Meshes{"data=2,model=2"});
  MeshSpace ordered = of(4, {{"model", 2}});
  ordered.isOrdered = true;
  EXPECT_EQ(tryAll(ordered, always), (Meshes{"data=2,model=2", "model=2,data=2"}));
}

TEST(MeshSearch, LayoutsOfThePapersHaveTheirAxes) {
  MeshSpace space = of(8);
  space.recipeAxes = 2;
  EXPECT_EQ(tryAll(space, always), (Meshes{"data=2,x=2,y=2", "2x4", "4x2"}));
  space.recipeAxes = 1;
  EXPECT_EQ(tryAll(space, always), (Meshes{"data=8", "data=4,model=2", "data=2,model=4", "8"}));
  space.fixed = {{"model", 2}};
  EXPECT_EQ(tryAll(space, always), Meshes{"data=4,model=2"});
  space = of(2);
  space.recipeAxes = 2;
  EXPECT_TRUE(tryAll(space, always).empty());
}

/// A pipeline without any other cost: so much longer than all devices at once would take does it take to fill
/// and drain it, less with more chunks; each part of the batch costs `perPart` beside that, and each chunk of
/// it `perChunk`.
std::vector<std::string> tryPipelines(MeshSpace space, Objective objective, double perPart,
                                      double perChunk = 1) {
  space.mostStages = 16;
  std::vector<std::string> tried;
  searchMeshes(space, objective, [&](const std::string &mesh, int64_t parts, int64_t chunks) {
    if (perChunk >= 1 && chunks > 1)
      return TriedMesh{mesh, false};
    tried.push_back(mesh + (parts > 1 ? "/" + std::to_string(parts) : "") +
                    (chunks > 1 ? "*" + std::to_string(chunks) : ""));
    double stages = 1;
    if (size_t at = mesh.find("stage="); at != std::string::npos)
      stages = std::stod(mesh.substr(at + 6));
    const auto count = static_cast<double>(parts);
    const double seconds = (count + (stages - 1) / static_cast<double>(chunks)) / count + perPart * count +
                           perChunk * count * static_cast<double>(chunks - 1);
    return TriedMesh{mesh, true, seconds, 1 / seconds, 0, parts, chunks};
  });
  return tried;
}

TEST(MeshSearch, Stages) {
  EXPECT_EQ(tryPipelines(of(8), Objective::Latency, 0),
            (Meshes{"8", "2x4", "2x2x2", "stage=2,model=4", "stage=2,data=2,model=2", "stage=4,model=2",
                    "stage=8"}));
  Meshes tried = tryPipelines(of(16), Objective::Latency, 0);
  EXPECT_EQ(std::count(tried.begin(), tried.end(), "2x2x4"), 1);
  EXPECT_EQ(std::count(tried.begin(), tried.end(), "stage=2,data=2,model=4"), 1);
  EXPECT_EQ(std::count(tried.begin(), tried.end(), "stage=2,data=2,model=2,x=2"), 0)
      << "the second axis did not help";
  EXPECT_EQ(tryPipelines(of(4, {{"model", 2}}), Objective::Latency, 0),
            (Meshes{"data=2,model=2", "stage=2,model=2"}));
  EXPECT_EQ(tryPipelines(of(4, {{"stage", 1}}), Objective::Latency, 0),
            (Meshes{"data=4,stage=1", "data=2,model=2,stage=1"}))
      << "no stages where none are asked for";
  EXPECT_EQ(tryPipelines(of(7), Objective::Latency, 0), (Meshes{"7", "stage=7"}));
  MeshSpace recipe = of(4);
  recipe.recipeAxes = 2;
  EXPECT_EQ(tryPipelines(recipe, Objective::Latency, 0), Meshes{"2x2"});
  recipe.devices = 8;
  recipe.fixed = {{"stage", 2}};
  EXPECT_EQ(tryPipelines(recipe, Objective::Latency, 0), Meshes{"stage=2,x=2,y=2"});
}

TEST(MeshSearch, Microbatches) {
  MeshSpace space = of(2);
  space.rows = 32;
  // First four for each stage, then more while that helps, else fewer.
  EXPECT_EQ(tryPipelines(space, Objective::Latency, 0.001),
            (Meshes{"2", "stage=2/8", "stage=2/16", "stage=2/32"}));
  EXPECT_EQ(tryPipelines(space, Objective::Latency, 0.01),
            (Meshes{"2", "stage=2/8", "stage=2/16", "stage=2/4"}));
  EXPECT_EQ(tryPipelines(space, Objective::Latency, 0.3),
            (Meshes{"2", "stage=2/8", "stage=2/16", "stage=2/4", "stage=2/2", "stage=2"}));
  EXPECT_EQ(tryPipelines(space, Objective::Throughput, 0), (Meshes{"2", "stage=2"}))
      << "runs overlap instead";
  space.rows = 5;
  EXPECT_EQ(tryPipelines(space, Objective::Latency, 0), (Meshes{"2", "stage=2/5", "stage=2/2"}));
  space.rows = 9; // in 8 parts five would have two rows, or none
  EXPECT_EQ(tryPipelines(space, Objective::Latency, 0), (Meshes{"2", "stage=2/5", "stage=2/9"}));
  space.rows = 1;
  space.microbatches = 3;
  EXPECT_EQ(tryPipelines(space, Objective::Latency, 0), (Meshes{"2/3", "stage=2/3"}));
  space = of(2, {{"stage", 2}});
  space.rows = 2;
  EXPECT_EQ(tryPipelines(space, Objective::Latency, 0), (Meshes{"stage=2/2", "stage=2"}));
}

TEST(MeshSearch, Chunks) {
  MeshSpace space = of(2);
  space.rows = 8;
  // Twice as many as long as that helps.
  EXPECT_EQ(tryPipelines(space, Objective::Latency, 0.02, 0.001),
            (Meshes{"2", "stage=2/8", "stage=2/4", "stage=2/8*2", "stage=2/8*4", "stage=2/8*8"}));
  EXPECT_EQ(tryPipelines(space, Objective::Latency, 0.02, 0.1),
            (Meshes{"2", "stage=2/8", "stage=2/4", "stage=2/8*2"}));
  space.microbatches = 4;
  EXPECT_EQ(tryPipelines(space, Objective::Latency, 0.02, 0.1), (Meshes{"2/4", "stage=2/4", "stage=2/4*2"}))
      << "also where the microbatches are given";
  space.chunks = 3;
  EXPECT_EQ(tryPipelines(space, Objective::Latency, 0.02, 0.1), (Meshes{"2/4", "stage=2/4*3"}));
  space.microbatches = 1;
  space.chunks = 0;
  EXPECT_EQ(tryPipelines(space, Objective::Latency, 0.02, 0.1), (Meshes{"2", "stage=2"}))
      << "no chunk would wait less";
}

TEST(MeshSearch, MicrobatchesShrinkWhatDoesNotFit) {
  MeshSpace space = of(4);
  space.rows = 8;
  std::vector<std::string> tried;
  searchMeshes(space, Objective::Throughput, [&](const std::string &mesh, int64_t parts, int64_t) {
    tried.push_back(mesh + "/" + std::to_string(parts));
    const uint64_t bytes = 100 / static_cast<uint64_t>(parts) + (mesh == "4" ? 1 : 0);
    return TriedMesh{mesh, true, 1, 1, bytes > 25 ? bytes : 0, parts};
  });
  EXPECT_EQ(tried, (Meshes{"4/1", "2x2/1", "2x2/2", "4/2", "2x2/4", "4/4"}));
}

TEST(MeshSearch, TheBestComesFirst) {
  std::vector<TriedMesh> meshes = {{"a", false, 0, 0, 0},
                                   {"b", true, 2, 0.5, 100},
                                   {"c", true, 3, 0.9, 0},
                                   {"d", true, 2, 0.5, 50},
                                   {"e", true, 2, 0.5, 0}};
  auto order = [&](Objective objective) {
    rankMeshes(meshes, objective);
    std::string names;
    for (const TriedMesh &mesh : meshes)
      names += mesh.mesh;
    return names;
  };
  EXPECT_EQ(order(Objective::Latency), "ecdba");
  EXPECT_EQ(order(Objective::Throughput), "cedba"); // runs that overlap are more than 1 / latency
}

} // namespace

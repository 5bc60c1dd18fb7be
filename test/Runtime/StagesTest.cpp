// Plans whose ranks fall into stages: meshes, arenas, texts and bindings of their own, and messages between
// them.
#include "Mutator.h"
#include "PlanBuilder.h"

#include "colossal/Plan/Dump.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <numeric>

using namespace colossal;
using namespace colossal::runtime;

namespace {

/// Moves what the builder made of a plan without stages into a text; the programs keep what they have in
/// common.
plan::StageText &addText(PlanBuilder &builder) {
  plan::StageText &text = *builder.plan.add_stage_texts();
  text.mutable_arenas()->CopyFrom(builder.plan.arenas());
  for (int p = 0; p < builder.plan.programs_size(); ++p)
    text.add_programs();
  return text;
}

plan::Stage &addStage(PlanBuilder &builder, const char *name, uint32_t ranks, uint32_t text) {
  plan::Stage &stage = *builder.plan.add_stages();
  stage.set_name(name);
  stage.set_text(text);
  plan::MeshAxis &axis = *stage.mutable_mesh()->add_axes();
  axis.set_name("model");
  axis.set_size(ranks);
  return stage;
}

/// A part of binding `index`, split over the only axis of a mesh of `ranks`.
void addShard(google::protobuf::RepeatedPtrField<plan::Shard> &shards, const PlanBuilder &builder,
              uint32_t index, uint64_t extent, uint32_t ranks, uint64_t offset) {
  PlanBuilder mesh({ranks});
  plan::Shard &shard = *shards.Add();
  shard.set_binding(index);
  *shard.mutable_box() = mesh.box({extent}, 0, 0);
  *shard.mutable_buffer() = builder.buffer(PlanBuilder::io, offset, (extent + ranks - 1) / ranks * 4);
}

plan::Binding &addBinding(google::protobuf::RepeatedPtrField<plan::Binding> &bindings, const char *name,
                          uint64_t extent) {
  plan::Binding &binding = *bindings.Add();
  binding.set_name(name);
  binding.set_type(plan::F32);
  binding.add_shape(extent);
  return binding;
}

using Body = google::protobuf::RepeatedPtrField<plan::Instruction>;

void addScale(Body &body, const PlanBuilder &builder, uint64_t from, uint64_t to, int64_t factor,
              plan::Expr summand, int64_t elements) {
  plan::Launch &launch = *body.Add()->mutable_launch();
  launch.set_kernel(0);
  *launch.add_buffers() = builder.buffer(PlanBuilder::io, from, static_cast<uint64_t>(elements) * 4);
  *launch.add_buffers() = builder.buffer(PlanBuilder::io, to, static_cast<uint64_t>(elements) * 4);
  launch.set_writes(1);
  launch.set_tiles(1);
  *launch.add_params() = constant(factor);
  *launch.add_params() = std::move(summand);
  *launch.add_params() = constant(elements);
}

void addSend(Body &body, const plan::BufferRef &src, plan::Expr peer) {
  plan::Send &send = *body.Add()->mutable_send();
  *send.mutable_src() = src;
  *send.mutable_peer() = std::move(peer);
}

void addReceive(Body &body, const plan::BufferRef &dst, plan::Expr peer) {
  plan::Recv &receive = *body.Add()->mutable_recv();
  *receive.mutable_dst() = dst;
  *receive.mutable_peer() = std::move(peer);
}

plan::Expr own(plan::Expr::Own what) {
  plan::Expr expr;
  expr.set_own(what);
  return expr;
}

/// `then` on the rank with this coordinate, else `otherwise`; by arithmetic, as expressions have no choice.
plan::Expr onRank(int64_t coordinateIs, int64_t then, int64_t otherwise) {
  // 1 where the coordinate is the one, else 0: max(0, 1 - (c - k)(c - k))
  plan::Expr away = binary(plan::Expr::SUB, coordinate(0), constant(coordinateIs));
  plan::Expr is = binary(plan::Expr::MAX, constant(0),
                         binary(plan::Expr::SUB, constant(1), binary(plan::Expr::MUL, away, away)));
  return binary(plan::Expr::ADD, constant(otherwise),
                binary(plan::Expr::MUL, is, constant(then - otherwise)));
}

/// Two ranks with three elements each hand them to three ranks with two each, in two rounds: 0 to 2 and 1 to
/// 4 what lies inside one of theirs, then 0 and 1 to 3 what it has of both.
PlanBuilder twoMeshes() {
  PlanBuilder builder;
  builder.data.resize(24);
  for (int i = 0; i < 6; ++i) {
    const auto value = static_cast<float>(100 * i);
    std::memcpy(builder.data.data() + i * 4, &value, 4);
  }
  plan::Parameter &weight = *builder.plan.add_parameters();
  weight.set_name("w");
  weight.set_type(plan::F32);
  weight.add_shape(6);
  weight.set_bytes(24);
  weight.set_inlined(true);
  builder.kernel("scale", 2, 3);
  const uint32_t accumulate = builder.kernel("accumulate", 2, 0);
  addBinding(*builder.infer().mutable_inputs(), "x", 6);
  addBinding(*builder.infer().mutable_outputs(), "y", 6);
  addBinding(*builder.infer().mutable_outputs(), "z", 6);
  addStage(builder, "front", 2, 0);
  addStage(builder, "back", 3, 1);

  plan::StageText &front = addText(builder);
  front.mutable_arenas()->RemoveLast(); // weights and activations ...
  front.mutable_arenas()->RemoveLast();
  front.mutable_arenas(0)->set_bytes(64);
  *front.add_arenas() = builder.plan.arenas(1);
  *front.add_arenas() = builder.plan.arenas(2);
  plan::StageProgram &first = *front.mutable_programs(1);
  addShard(*first.mutable_inputs(), builder, 0, 6, 2, 0);
  addShard(*first.mutable_outputs(), builder, 1, 6, 2, 64);
  addScale(*first.mutable_body(), builder, 0, 64, 2, own(plan::Expr::RANK), 3);
  auto io = [&](uint64_t offset, uint64_t bytes) { return builder.buffer(PlanBuilder::io, offset, bytes); };
  // A rank that has no part in a round says -1.
  addSend(*first.mutable_body(), io(64, 8), onRank(0, 2, -1));
  addSend(*first.mutable_body(), io(68, 8), onRank(1, 4, -1));
  addSend(*first.mutable_body(), io(72, 4), onRank(0, 3, -1));
  addSend(*first.mutable_body(), io(64, 4), onRank(1, 3, -1));

  plan::StageText &back = addText(builder);
  plan::Copy &load = *back.mutable_programs(0)->add_body()->mutable_copy();
  *load.mutable_parameter()->mutable_box() = PlanBuilder({3}).box({6}, 0, 0);
  *load.mutable_dst() = builder.buffer(0, 0, 8);
  plan::StageProgram &second = *back.mutable_programs(1);
  addShard(*second.mutable_outputs(), builder, 0, 6, 3, 0);
  addReceive(*second.mutable_body(), io(0, 8), onRank(0, 0, -1));
  addReceive(*second.mutable_body(), io(0, 8), onRank(2, 1, -1));
  addReceive(*second.mutable_body(), io(0, 4), onRank(1, 0, -1));
  addReceive(*second.mutable_body(), io(4, 4), onRank(1, 1, -1));
  plan::Launch &add = *second.add_body()->mutable_launch();
  add.set_kernel(accumulate);
  *add.add_buffers() = builder.buffer(0, 0, 8);
  *add.add_buffers() = io(0, 8);
  add.set_writes(1);
  add.set_tiles(2);
  builder.plan.clear_arenas();
  return builder;
}

/// Three stages of two ranks with one text: each adds its number and hands on; the last alone gives the
/// output.
PlanBuilder chain() {
  PlanBuilder builder;
  builder.kernel("scale", 2, 3);
  addBinding(*builder.infer().mutable_inputs(), "x", 4);
  addBinding(*builder.infer().mutable_outputs(), "y", 4);
  addStage(builder, "begin", 2, 0);
  addStage(builder, "middle", 2, 1);
  addStage(builder, "", 2, 1);
  addStage(builder, "end", 2, 2);
  auto io = [&](uint64_t offset, uint64_t bytes) { return builder.buffer(PlanBuilder::io, offset, bytes); };
  const plan::Expr next = binary(plan::Expr::ADD, own(plan::Expr::RANK), constant(2));
  const plan::Expr before = binary(plan::Expr::SUB, own(plan::Expr::RANK), constant(2));
  const plan::Expr stage = own(plan::Expr::STAGE);
  plan::StageProgram &begin = *addText(builder).mutable_programs(1);
  addShard(*begin.mutable_inputs(), builder, 0, 4, 2, 0);
  addScale(*begin.mutable_body(), builder, 0, 64, 10, stage, 2);
  addSend(*begin.mutable_body(), io(64, 8), next);
  plan::StageProgram &middle = *addText(builder).mutable_programs(1);
  addReceive(*middle.mutable_body(), io(0, 8), before);
  addScale(*middle.mutable_body(), builder, 0, 64, 10, stage, 2);
  addSend(*middle.mutable_body(), io(64, 8), next);
  plan::StageProgram &end = *addText(builder).mutable_programs(1);
  addShard(*end.mutable_outputs(), builder, 0, 4, 2, 64);
  addReceive(*end.mutable_body(), io(0, 8), before);
  addScale(*end.mutable_body(), builder, 0, 64, 10, stage, 2);
  builder.plan.clear_arenas();
  return builder;
}

Tensors ramp(uint64_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  return {{"x", floats({count}, values)}};
}

} // namespace

TEST(Stages, OfDifferentMeshesExchangeBoxes) {
  PlanBuilder builder = twoMeshes();
  std::unique_ptr<Session> session;
  Status status = builder.open(session);
  ASSERT_TRUE(status.ok()) << status.describe();
  EXPECT_EQ(session->ranks(), 5u);
  for (int run = 0; run < 3; ++run) {
    status = session->run(1, ramp(6));
    ASSERT_TRUE(status.ok()) << status.describe();
    Tensors outputs;
    ASSERT_TRUE(session->outputs(1, outputs).ok());
    std::vector<float> y, z;
    for (int i = 0; i < 6; ++i) {
      z.push_back(static_cast<float>(2 * i + i / 3));
      y.push_back(z.back() + static_cast<float>(100 * i));
    }
    EXPECT_EQ(floatsOf(outputs["z"]), z);
    EXPECT_EQ(floatsOf(outputs["y"]), y);
  }
  std::vector<RankTraffic> rows;
  ASSERT_TRUE(session->traffic(1, rows).ok());
  ASSERT_EQ(rows.size(), 2u);
  for (const RankTraffic &row : rows) {
    EXPECT_EQ(row.stage, 0);
    EXPECT_EQ(row.axes, "stage");
    EXPECT_EQ(row.kind, "send");
    EXPECT_EQ(row.sent, 12u);
    EXPECT_EQ(row.planned, 12u);
  }
  // Each rank has its stage's arenas.
  std::vector<RankMemory> memory;
  ASSERT_TRUE(session->memory(memory).ok());
  ASSERT_EQ(memory.size(), 5u);
  EXPECT_EQ(memory[1].rows[0].planned, 64u);
  EXPECT_EQ(memory[2].rows[0].planned, uint64_t(1) << 16);
  EXPECT_EQ(session->arenaBytes(), 3u << 16);
}

TEST(Stages, EqualOnesShareOneText) {
  PlanBuilder builder = chain();
  std::unique_ptr<Session> session;
  Status status = builder.open(session);
  ASSERT_TRUE(status.ok()) << status.describe();
  status = session->run(1, ramp(4));
  ASSERT_TRUE(status.ok()) << status.describe();
  Tensors outputs;
  ASSERT_TRUE(session->outputs(1, outputs).ok());
  EXPECT_EQ(floatsOf(outputs["y"]), (std::vector<float>{123, 10123, 20123, 30123}));
  const std::string text = plan::dumpPlan(builder.plan);
  EXPECT_NE(text.find("stage 2 '': ranks 4 to 5, text 1, mesh model=2"), std::string::npos) << text;
  EXPECT_NE(text.find("send io@64+8 to (rank + 2) tag 0"), std::string::npos) << text;
}

// A hostile author's: refused with a message or accepted, without a crash, and in time.
TEST(Stages, AlteredPlansAreJudged) {
  for (const PlanBuilder &original : {chain(), twoMeshes()}) {
    int accepted = 0;
    for (uint64_t i = 0; i < 1500; ++i) {
      Mutator mutator(i);
      PlanBuilder builder = original;
      for (size_t changes = 1 + mutator.pick(3); changes > 0; --changes)
        mutator.mutate(builder.plan);
      SCOPED_TRACE(i);
      Status status = builder.validate();
      accepted += status.ok();
      EXPECT_TRUE(status.ok() || !status.message().empty());
      (void)plan::dumpPlan(builder.plan);
    }
    EXPECT_GT(accepted, 15);
    EXPECT_LT(accepted, 1100);
  }
}

namespace {

struct Case {
  friend void PrintTo(const Case &c, std::ostream *out) { *out << c.name; }
  const char *name;
  std::function<void(PlanBuilder &)> breakIt;
  const char *message;
};

const Case cases[] = {
    {"version", [](PlanBuilder &b) { b.plan.set_version(1); }, "stages need 2"},
    {"text", [](PlanBuilder &b) { b.plan.mutable_stages(1)->set_text(7); }, "stage 1: there is no text 7"},
    {"programs", [](PlanBuilder &b) { b.plan.mutable_stage_texts(1)->mutable_programs()->RemoveLast(); },
     "stage 1: its text has 1 programs, the plan 2"},
    {"emptyMesh",
     [](PlanBuilder &b) { b.plan.mutable_stages(2)->mutable_mesh()->mutable_axes(0)->set_size(0); },
     "stage 2: its mesh has an empty axis"},
    {"tooMany",
     [](PlanBuilder &b) { b.plan.mutable_stages(2)->mutable_mesh()->mutable_axes(0)->set_size(1 << 16); },
     "more than 65536 ranks"},
    {"meshBeside", [](PlanBuilder &b) { b.plan.mutable_mesh()->add_axes()->set_size(2); }, "there only"},
    {"bodyBeside", [](PlanBuilder &b) { b.infer().add_body(); }, "there only"},
    {"boxBeside", [](PlanBuilder &b) { b.infer().mutable_inputs(0)->mutable_box(); }, "there only"},
    {"shardOfNothing",
     [](PlanBuilder &b) {
       b.plan.mutable_stage_texts(0)->mutable_programs(1)->mutable_inputs(0)->set_binding(1);
     },
     "a part of what program 'infer' does not have"},
    {"shardTwice",
     [](PlanBuilder &b) {
       plan::StageProgram &program = *b.plan.mutable_stage_texts(0)->mutable_programs(1);
       *program.add_inputs() = program.inputs(0);
     },
     "a stage holds two parts of it of stage 0 'begin'"},
    {"shardBox",
     [](PlanBuilder &b) {
       *b.plan.mutable_stage_texts(0)
            ->mutable_programs(1)
            ->mutable_inputs(0)
            ->mutable_box()
            ->mutable_dims(0)
            ->mutable_start() = constant(3);
     },
     "input 'x': a box begins at 3"},
    {"arena", [](PlanBuilder &b) { b.plan.mutable_stage_texts(1)->mutable_arenas(2)->set_bytes(64); },
     "program 'infer' of stage 1 'middle', instruction 1 (launch): buffer 1"},
    {"arenaForm", [](PlanBuilder &b) { b.plan.mutable_stage_texts(1)->mutable_arenas(2)->set_alignment(7); },
     "alignment 7"},
    {"peer",
     [](PlanBuilder &b) {
       *b.plan.mutable_stage_texts(2)->mutable_programs(1)->mutable_body(0)->mutable_recv()->mutable_peer() =
           constant(8);
     },
     "peer 8 of 8 ranks"},
    {"unmadeOutput",
     [](PlanBuilder &b) { b.plan.mutable_stage_texts(2)->mutable_programs(1)->clear_outputs(); },
     "output 'y': no stage makes it"},
    {"outputTwice",
     [](PlanBuilder &b) {
       plan::Shard &shard = *b.plan.mutable_stage_texts(0)->mutable_programs(1)->add_outputs();
       shard = b.plan.stage_texts(2).programs(1).outputs(0);
       *shard.mutable_box() = b.box({4});
       shard.mutable_buffer()->set_bytes(16);
     },
     "overlap without being equal"},
    {"unknownOwn",
     [](PlanBuilder &b) {
       b.plan.mutable_stage_texts(2)
           ->mutable_programs(1)
           ->mutable_body(0)
           ->mutable_recv()
           ->mutable_peer()
           ->set_own(plan::Expr::OWN_UNSPECIFIED);
     },
     "unknown property"},
    {"textsWithoutStages", [](PlanBuilder &b) { b.plan.clear_stages(); }, "texts for stages, and no stages"},
};

struct StageRule : ::testing::TestWithParam<Case> {};

} // namespace

TEST_P(StageRule, IsChecked) {
  PlanBuilder builder = chain();
  ASSERT_TRUE(builder.validate().ok()) << builder.validate().describe();
  GetParam().breakIt(builder);
  Status status = builder.validate();
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.describe().find(GetParam().message), std::string::npos) << status.describe();
}

INSTANTIATE_TEST_SUITE_P(Stages, StageRule, ::testing::ValuesIn(cases),
                         [](const ::testing::TestParamInfo<Case> &info) {
                           return std::string(info.param.name);
                         });

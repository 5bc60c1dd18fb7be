// Rules of the validator: one plan that is right, and each rule broken once.
#include "PlanBuilder.h"

#include "runtime/cpu/Target.h"

#include <gtest/gtest.h>

#include <functional>

using namespace colossal;
using namespace colossal::runtime;

namespace {

/// A plan that uses a bit of everything and is valid.
PlanBuilder valid() {
  PlanBuilder builder({2, 2});
  builder.data = std::string(64, 'd');
  plan::Parameter &parameter = *builder.plan.add_parameters();
  parameter.set_name("w");
  parameter.set_type(plan::F32);
  parameter.add_shape(4);
  parameter.add_shape(2);
  parameter.set_bytes(32);
  parameter.set_inlined(true);
  plan::Copy &copy = *builder.load().add_body()->mutable_copy();
  *copy.mutable_parameter()->mutable_box() = builder.box({4, 2}, 0, 1);
  *copy.mutable_dst() = builder.buffer(0, 0, 16);
  builder.input("x", plan::F32, {8}, builder.box({8}, 0, 0), 0);
  builder.output("y", plan::F32, {8}, builder.box({8}, 0, 0), 64);
  uint32_t scale = builder.kernel("scale", 2, 3);
  builder.launch(scale, {builder.buffer(2, 0, 16), builder.buffer(2, 64, 16)}, 1,
                 {constant(1), coordinate(0), constant(4)}, 1);
  plan::Instruction &gather = builder.add("/gather");
  gather.set_signals(1);
  plan::Collective &c = *gather.mutable_collective();
  c.set_kind(plan::Collective::ALL_GATHER);
  c.set_type(plan::F32);
  c.add_axes(1);
  *c.mutable_src() = builder.buffer(2, 64, 16);
  *c.mutable_dst() = builder.buffer(1, 0, 32);
  c.add_sizes(4);
  c.add_src_strides(1);
  c.add_dst_strides(1);
  c.set_dst_peer_stride(4);
  plan::Function &function = *builder.plan.add_functions();
  function.set_name("f");
  plan::Copy &inner = *function.add_body()->mutable_copy();
  *inner.mutable_buffer() = builder.buffer(1, 0, 32);
  *inner.mutable_dst() = builder.buffer(1, 64, 32, {32});
  plan::Instruction &repeat = builder.add("/repeat");
  repeat.add_waits(1);
  repeat.mutable_repeat()->set_count(3);
  repeat.mutable_repeat()->add_body()->mutable_call()->set_function(0);

  // A function of two arguments, one in bytes and one in elements, called in a loop.
  plan::Function &layer = *builder.plan.add_functions();
  layer.set_name("layer");
  layer.set_arguments(2);
  plan::Copy &first = *layer.add_body()->mutable_copy();
  *first.mutable_buffer() = builder.buffer(1, 1024, 32, {32});
  *first.mutable_dst() = builder.buffer(1, 8192, 32, {0});
  plan::Collective &shift = *layer.add_body()->mutable_collective();
  shift.set_kind(plan::Collective::PERMUTE);
  shift.set_type(plan::F32);
  shift.add_axes(1);
  *shift.mutable_src() = builder.buffer(1, 16384, 32, {0, 1});
  *shift.mutable_dst() = builder.buffer(1, 32768, 32, {0, 1});
  shift.add_sizes(8);
  shift.add_src_strides(1);
  shift.add_dst_strides(1);
  *shift.mutable_source() =
      binary(plan::Expr::MOD, binary(plan::Expr::ADD, counter(0), coordinate(1)), constant(2));
  plan::Repeat &layers = *builder.add("/layers").mutable_repeat();
  layers.set_count(4);
  plan::Call &call = *layers.add_body()->mutable_call();
  call.set_function(1);
  *call.add_arguments() = counter(0);
  *call.add_arguments() = binary(plan::Expr::MUL, counter(0), constant(32));

  // Equal parameters, loaded by a loop.
  *builder.plan.add_parameters() = builder.plan.parameters(0);
  builder.plan.mutable_parameters(1)->set_name("w2");
  plan::Repeat &loads = *builder.load().add_body()->mutable_repeat();
  loads.set_count(2);
  plan::Copy &each = *loads.add_body()->mutable_copy();
  each.mutable_parameter()->add_strides(1);
  *each.mutable_parameter()->mutable_box() = builder.box({4, 2}, 0, 1);
  *each.mutable_dst() = builder.buffer(0, 64, 16, {16});
  return builder;
}

struct Case {
  friend void PrintTo(const Case &c, std::ostream *out) { *out << c.name; }
  const char *name;
  std::function<void(PlanBuilder &)> breakIt;
  const char *message;
};

plan::Collective &collective(PlanBuilder &b) {
  return *b.infer().mutable_body(1)->mutable_collective();
}
plan::Launch &launch(PlanBuilder &b) {
  return *b.infer().mutable_body(0)->mutable_launch();
}

plan::Call &layer(PlanBuilder &b) {
  return *b.infer().mutable_body(3)->mutable_repeat()->mutable_body(0)->mutable_call();
}
void swap(plan::Parameter &parameter) {
  parameter.set_shape(0, 2);
  parameter.set_shape(1, 4);
}

/// Makes the collective an exchange of halos of one place: 2 x 4 x 1 elements into 2 x 6 x 1.
plan::Collective::Window &window(PlanBuilder &b) {
  plan::Collective &c = collective(b);
  c.set_kind(plan::Collective::EXCHANGE);
  *c.mutable_src() = b.buffer(2, 128, 32);
  *c.mutable_dst() = b.buffer(1, 0, 48);
  plan::Collective::Window &window = *c.mutable_window();
  window.set_outer(2);
  window.set_inner(1);
  window.set_src_extent(4);
  window.set_dst_extent(6);
  *window.mutable_src_start() = binary(plan::Expr::MUL, coordinate(1), constant(4));
  *window.mutable_src_valid() = constant(4);
  *window.mutable_dst_start() =
      binary(plan::Expr::SUB, binary(plan::Expr::MUL, coordinate(1), constant(4)), constant(1));
  return window;
}

/// The image of the only module, in the form of several.
void addImage(PlanBuilder &builder, plan::Image::Format format, const char *architecture, uint64_t offset,
              uint64_t bytes) {
  plan::Image &image = *builder.plan.mutable_modules(0)->add_images();
  image.set_format(format);
  image.set_architecture(architecture);
  image.set_offset(offset);
  image.set_bytes(bytes);
}

const Case cases[] = {
    {"version", [](PlanBuilder &b) { b.plan.set_version(99); }, "schema version 99"},
    {"emptyAxis", [](PlanBuilder &b) { b.plan.mutable_mesh()->mutable_axes(0)->set_size(0); }, "empty axis"},
    {"arenaAlignment", [](PlanBuilder &b) { b.plan.mutable_arenas(1)->set_alignment(96); }, "alignment 96"},
    {"arenaSize", [](PlanBuilder &b) { b.plan.mutable_arenas(1)->set_bytes(~0ull); }, "more than any rank"},
    {"rangeOfFloats", [](PlanBuilder &b) { b.infer().mutable_inputs(0)->mutable_range(); }, "is no index"},
    {"checkWithoutRange", [](PlanBuilder &b) { *b.infer().add_checks() = b.infer().outputs(0); },
     "check 'y': it has no range"},
    {"parameterBytes", [](PlanBuilder &b) { b.plan.mutable_parameters(0)->set_bytes(33); }, "parameter 0"},
    {"parameterOutside", [](PlanBuilder &b) { b.plan.mutable_parameters(0)->set_offset(33); },
     "outside the data section"},
    {"parameterOverflow", [](PlanBuilder &b) { b.plan.mutable_parameters(0)->set_offset(~0ull - 8); },
     "outside"},
    {"moduleOutside", [](PlanBuilder &b) { b.plan.mutable_modules(0)->set_bytes(1 << 30); },
     "outside the code section"},
    {"moduleNoElf",
     [](PlanBuilder &b) {
       b.plan.mutable_modules(0)->set_offset(8);
       b.plan.mutable_modules(0)->set_bytes(b.code.size() - 8);
     },
     "no 64-bit"},
    {"imageOutside", [](PlanBuilder &b) { addImage(b, plan::Image::PTX, "sm_90", b.code.size(), 1); },
     "outside the code section"},
    {"imageFormat", [](PlanBuilder &b) { addImage(b, plan::Image::FORMAT_UNSPECIFIED, "sm_90", 0, 8); },
     "knows no format 0"},
    {"imageMachine", [](PlanBuilder &b) { addImage(b, plan::Image::ELF, "aarch64", 0, b.code.size()); },
     "for another machine than aarch64"},
    {"imageNoCubin", [](PlanBuilder &b) { addImage(b, plan::Image::CUBIN, "sm_90", 1, 8); }, "no cubin"},
    {"imageNoText", [](PlanBuilder &b) { addImage(b, plan::Image::PTX, "sm_90", 0, 3); },
     "no text that ends with its first zero byte"},
    {"kernelModule", [](PlanBuilder &b) { b.plan.mutable_kernels(0)->set_module(5); }, "no module 5"},
    {"kernelSymbol", [](PlanBuilder &b) { b.plan.mutable_kernels(0)->set_symbol("a b"); }, "not a name"},
    {"noLoad", [](PlanBuilder &b) { b.load().set_role(plan::Program::INFER); }, "only the load program may"},
    {"twoLoads", [](PlanBuilder &b) { b.infer().set_role(plan::Program::LOAD); }, "2 load programs"},
    {"programNames", [](PlanBuilder &b) { b.load().set_name("infer"); }, "taken"},
    {"launchKernel", [](PlanBuilder &b) { launch(b).set_kernel(9); }, "no kernel 9"},
    {"launchParams", [](PlanBuilder &b) { launch(b).add_params()->set_constant(0); },
     "takes 2 buffers and 3 parameters"},
    {"launchWrites", [](PlanBuilder &b) { launch(b).set_writes(3); }, "writes more buffers"},
    {"launchBounds", [](PlanBuilder &b) { launch(b).mutable_buffers(0)->set_offset(65535); },
     "do not lie within arena 'io'"},
    {"launchOverlap", [](PlanBuilder &b) { launch(b).mutable_buffers(1)->set_offset(8); },
     "overlaps buffer 0"},
    {"launchInPlaceOverlap",
     [](PlanBuilder &b) {
       b.plan.mutable_kernels(0)->set_buffers(3);
       *launch(b).add_buffers() = launch(b).buffers(1);
       *launch(b).mutable_buffers(1) = b.buffer(2, 8, 16); // read, while buffer 0 is written
       launch(b).add_also_written(0);
     },
     "buffer 0 is written and overlaps buffer 1"},
    {"launchWeights", [](PlanBuilder &b) { launch(b).mutable_buffers(1)->set_arena(0); },
     "would write to the weights"},
    {"launchArena", [](PlanBuilder &b) { launch(b).mutable_buffers(1)->set_arena(7); }, "arena 7"},
    {"coordinate", [](PlanBuilder &b) { *launch(b).mutable_params(0) = coordinate(2); }, "coordinate 2"},
    {"counter", [](PlanBuilder &b) { *launch(b).mutable_params(0) = counter(0); }, "counter 0"},
    {"divisor",
     [](PlanBuilder &b) { *launch(b).mutable_params(0) = binary(plan::Expr::MOD, constant(1), constant(0)); },
     "divisor"},
    {"emptyExpr", [](PlanBuilder &b) { launch(b).mutable_params(0)->Clear(); }, "empty"},
    {"deepExpr",
     [](PlanBuilder &b) {
       plan::Expr deep = constant(1);
       for (int i = 0; i < 40; ++i)
         deep = binary(plan::Expr::ADD, deep, constant(1));
       *launch(b).mutable_params(0) = deep;
     },
     "nested deeper"},
    {"collectiveAxis", [](PlanBuilder &b) { collective(b).set_axes(0, 2); }, "axis 2"},
    {"collectiveTwice", [](PlanBuilder &b) { collective(b).add_axes(1); }, "named twice"},
    {"collectiveSpan", [](PlanBuilder &b) { collective(b).set_sizes(0, 5); }, "bytes of buffers"},
    {"collectiveHuge", [](PlanBuilder &b) { collective(b).set_src_strides(0, ~0ull); }, "out of range"},
    {"collectiveBlocks", [](PlanBuilder &b) { collective(b).set_dst_peer_stride(2); }, "overlap one another"},
    {"collectiveOverlap", [](PlanBuilder &b) { *collective(b).mutable_dst() = b.buffer(2, 48, 32); },
     "overlap"},
    {"collectivePeer", [](PlanBuilder &b) { collective(b).set_src_peer_stride(1); }, "does not take"},
    {"collectiveOfNarrowType",
     [](PlanBuilder &b) {
       collective(b).set_type(plan::F8E4M3FN);
       collective(b).set_kind(plan::Collective::ALL_REDUCE);
       collective(b).set_reduction(plan::Collective::SUM);
     },
     "is not for type f8e4m3fn"},
    {"stringsInWeightFile",
     [](PlanBuilder &b) {
       b.plan.mutable_parameters(0)->set_type(plan::STRING);
       b.plan.mutable_parameters(0)->set_inlined(false);
     },
     "strings do not lie in weight files"},
    {"packedBytes",
     [](PlanBuilder &b) {
       plan::Parameter &parameter = *b.plan.mutable_parameters(0);
       parameter.set_type(plan::I4);
       parameter.set_inlined(false);
       uint64_t elements = 1;
       for (uint64_t extent : parameter.shape())
         elements *= extent;
       parameter.set_bytes(elements); // as in memory; two share a byte in a file
     },
     "elements of type i4"},
    {"collectiveType", [](PlanBuilder &b) { collective(b).set_type(plan::DATA_TYPE_UNSPECIFIED); },
     "type is not valid"},
    {"collectiveReduction",
     [](PlanBuilder &b) {
       collective(b).set_kind(plan::Collective::ALL_REDUCE);
       collective(b).set_reduction(plan::Collective::AND);
     },
     "not for type f32"},
    {"collectiveRoot",
     [](PlanBuilder &b) {
       collective(b).set_kind(plan::Collective::BROADCAST);
       collective(b).set_root(2);
       collective(b).set_dst_peer_stride(0);
     },
     "root 2"},
    {"collectiveSource",
     [](PlanBuilder &b) {
       collective(b).set_kind(plan::Collective::PERMUTE);
       *collective(b).mutable_source() = constant(2);
       collective(b).set_dst_peer_stride(0);
     },
     "source 2 of 2"},
    {"collectiveAlignment", [](PlanBuilder &b) { collective(b).mutable_src()->set_offset(66); },
     "not aligned to its elements"},
    {"collectiveScratch", [](PlanBuilder &b) { *collective(b).mutable_scratch() = b.buffer(2, 76, 16); },
     "its scratch overlaps"},
    {"windowBytes", [](PlanBuilder &b) { window(b).set_dst_extent(7); }, "its window needs 32 and 56 bytes"},
    {"windowSourceBytes", [](PlanBuilder &b) { window(b).set_src_extent(5); },
     "its window needs 40 and 48 bytes"},
    {"windowValid", [](PlanBuilder &b) { *window(b).mutable_src_valid() = constant(5); },
     "5 valid places of 4"},
    {"windowStart", [](PlanBuilder &b) { *window(b).mutable_dst_start() = constant(int64_t(1) << 47); },
     "begins out of range"},
    {"sendPeer",
     [](PlanBuilder &b) {
       plan::Send &send = *b.add("/send").mutable_send();
       *send.mutable_src() = b.buffer(1, 0, 16);
       *send.mutable_peer() = constant(4);
     },
     "peer 4 of 4 ranks"},
    {"predicateCondition",
     [](PlanBuilder &b) { *b.add("/if").mutable_predicate()->mutable_condition() = coordinate(2); },
     "coordinate 2"},
    {"collectiveInPredicate",
     [](PlanBuilder &b) {
       plan::Instruction held = b.infer().body(1);
       b.infer().mutable_body(1)->mutable_predicate()->mutable_condition()->set_constant(1);
       *b.infer().mutable_body(1)->mutable_predicate()->add_body() = held;
     },
     "must not hold collectives"},
    {"eventUnsignalled", [](PlanBuilder &b) { b.infer().mutable_body(0)->add_waits(1); },
     "no earlier instruction signals"},
    {"eventTwice", [](PlanBuilder &b) { b.infer().mutable_body(0)->set_signals(1); }, "signalled by another"},
    {"eventRange", [](PlanBuilder &b) { b.infer().mutable_body(0)->set_signals(17); }, "event 17 of 16"},
    {"queue", [](PlanBuilder &b) { b.infer().mutable_body(0)->set_queue(3); }, "no queue 3"},
    {"messageSlotBytes",
     [](PlanBuilder &b) {
       b.plan.set_version(4);
       b.plan.set_message_slot_bytes(64);
     },
     "messages that are too long to wait need 5"},
    {"messageSlots", [](PlanBuilder &b) { b.plan.set_message_slots(1 << 17); },
     "more than 65536 messages may wait"},
    {"callItself",
     [](PlanBuilder &b) { b.plan.mutable_functions(0)->mutable_body(0)->mutable_call()->set_function(0); },
     "only call later"},
    {"callNowhere",
     [](PlanBuilder &b) { b.plan.mutable_functions(0)->mutable_body(0)->mutable_call()->set_function(4); },
     "no function 4"},
    {"repeatBounds", [](PlanBuilder &b) { b.infer().mutable_body(2)->mutable_repeat()->set_count(5000); },
     "do not lie within arena 'activations'"},
    {"repeatBelow",
     [](PlanBuilder &b) {
       b.plan.mutable_functions(0)->mutable_body(0)->mutable_copy()->mutable_buffer()->add_strides(-32);
     },
     "do not lie within arena 'activations'"},
    {"repeatCount", [](PlanBuilder &b) { b.infer().mutable_body(2)->mutable_repeat()->set_count(~0ull); },
     "2^32"},
    {"strideDepth", [](PlanBuilder &b) { launch(b).mutable_buffers(0)->add_strides(4); },
     "1 strides where 0 arguments and counters are seen"},
    {"boxShape", [](PlanBuilder &b) { b.infer().mutable_inputs(0)->set_shape(0, 9); }, "does not refine"},
    {"boxStart",
     [](PlanBuilder &b) {
       b.infer().mutable_inputs(0)->mutable_box()->mutable_dims(0)->mutable_start()->set_constant(6);
     },
     "begins at 6"},
    {"boxStartOfOne",
     [](PlanBuilder &b) {
       plan::BoxDim &dim = *b.infer().mutable_inputs(0)->mutable_box()->mutable_dims(0);
       *dim.mutable_start() = constant(8);
       *dim.mutable_valid() = constant(1);
     },
     "begins at 8"},
    {"fixedInputOutside",
     [](PlanBuilder &b) {
       plan::FixedInput &fixed = *b.infer().add_fixed_inputs();
       fixed.set_name("f");
       fixed.set_type(plan::F32);
       fixed.add_shape(4);
       fixed.set_bytes(16);
       fixed.set_offset(56);
     },
     "outside the data section"},
    {"boxValid",
     [](PlanBuilder &b) {
       b.infer().mutable_inputs(0)->mutable_box()->mutable_dims(0)->mutable_valid()->set_constant(5);
     },
     "5 valid elements of 4"},
    {"outputNotHeld",
     [](PlanBuilder &b) {
       b.infer().mutable_outputs(0)->mutable_box()->mutable_dims(0)->mutable_start()->set_constant(0);
     },
     "hold 4 of its 8"},
    {"outputTwice",
     [](PlanBuilder &b) { // elements 2 and 3 on both halves of the ranks, 6 and 7 on none
       *b.infer().mutable_outputs(0)->mutable_box()->mutable_dims(0)->mutable_start() =
           binary(plan::Expr::MUL, coordinate(0), constant(2));
     },
     "overlap without being equal"},
    {"outputBuffer", [](PlanBuilder &b) { b.infer().mutable_outputs(0)->mutable_buffer()->set_bytes(8); },
     "does not fit"},
    {"copyBytes",
     [](PlanBuilder &b) {
       b.plan.mutable_functions(0)->mutable_body(0)->mutable_copy()->mutable_dst()->set_bytes(16);
     },
     "its source has 32"},
    {"copyAlignment",
     [](PlanBuilder &b) { b.load().mutable_body(0)->mutable_copy()->mutable_dst()->set_offset(2); },
     "not aligned to the parameter's elements"},
    {"copyOverlap",
     [](PlanBuilder &b) {
       b.plan.mutable_functions(0)->mutable_body(0)->mutable_copy()->mutable_dst()->set_strides(0, -32);
     },
     "overlap"},
    {"callArity", [](PlanBuilder &b) { b.plan.mutable_functions(1)->set_arguments(3); },
     "takes 3 arguments, and is given 2"},
    {"callManyArguments",
     [](PlanBuilder &b) {
       b.plan.mutable_functions(1)->set_arguments(65);
       while (layer(b).arguments_size() < 65)
         layer(b).add_arguments()->set_constant(0);
     },
     "more than 64 arguments"},
    {"callArgumentRange", [](PlanBuilder &b) { *layer(b).mutable_arguments(1) = constant(int64_t(1) << 47); },
     "argument 1 is out of range"},
    {"callArgumentOverflow",
     [](PlanBuilder &b) {
       *layer(b).mutable_arguments(1) =
           binary(plan::Expr::MUL, binary(plan::Expr::ADD, counter(0), constant(INT64_MAX)), constant(2));
     },
     "may overflow"},
    {"callArgumentForm", [](PlanBuilder &b) { *layer(b).mutable_arguments(0) = counter(1); },
     "counter 1 where 1 arguments and counters are seen"},
    {"callArgumentBeyondArena",
     [](PlanBuilder &b) {
       *layer(b).mutable_arguments(0) = binary(plan::Expr::MUL, counter(0), constant(2048));
     },
     "do not lie within arena 'activations'"},
    {"callArgumentBelowArena", [](PlanBuilder &b) { *layer(b).mutable_arguments(0) = constant(-33); },
     "do not lie within arena 'activations'"},
    {"callArgumentAlignment", [](PlanBuilder &b) { *layer(b).mutable_arguments(1) = constant(2); },
     "its buffers are not aligned"},
    {"callArgumentOfPeer",
     [](PlanBuilder &b) {
       plan::Collective &c = *b.plan.mutable_functions(1)->mutable_body(1)->mutable_collective();
       *c.mutable_source() = binary(plan::Expr::SUB, counter(0), constant(1));
     },
     "source 2 of 2 members"},
    {"callerCounterIsHidden",
     [](PlanBuilder &b) {
       b.plan.mutable_functions(1)->mutable_body(0)->mutable_copy()->mutable_dst()->add_strides(0);
       b.plan.mutable_functions(1)->mutable_body(0)->mutable_copy()->mutable_dst()->add_strides(0);
     },
     "3 strides where 2 arguments"},
    {"argumentsInVersion1", [](PlanBuilder &b) { b.plan.set_version(1); }, "the plan has version 1, and"},
    {"parameterStride",
     [](PlanBuilder &b) {
       b.load()
           .mutable_body(1)
           ->mutable_repeat()
           ->mutable_body(0)
           ->mutable_copy()
           ->mutable_parameter()
           ->set_strides(0, 2);
     },
     "one of 0 to 2, and there are 2"},
    {"parameterShapesDiffer", [](PlanBuilder &b) { swap(*b.plan.mutable_parameters(1)); },
     "whose types or shapes differ"},
    {"routine", [](PlanBuilder &b) { b.infer().mutable_body(0)->mutable_library()->set_routine("other"); },
     "no library routine"},
    {"nothing", [](PlanBuilder &b) { b.infer().mutable_body(0)->clear_kind(); }, "does not know"},
};

struct Rule : ::testing::TestWithParam<Case> {};

} // namespace

TEST(Validate, AcceptsWhatIsRight) {
  Status status = valid().validate();
  EXPECT_TRUE(status.ok()) << status.describe();
}

TEST(Validate, AcceptsAnExchange) {
  PlanBuilder builder = valid();
  window(builder);
  Status status = builder.validate();
  EXPECT_TRUE(status.ok()) << status.describe();
}

TEST_P(Rule, IsChecked) {
  PlanBuilder builder = valid();
  GetParam().breakIt(builder);
  Status status = builder.validate();
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.describe().find(GetParam().message), std::string::npos) << status.describe();
}

INSTANTIATE_TEST_SUITE_P(Validate, Rule, ::testing::ValuesIn(cases),
                         [](const ::testing::TestParamInfo<Case> &info) {
                           return std::string(info.param.name);
                         });

TEST(Validate, NamesTheInstructionAndItsSource) {
  PlanBuilder builder = valid();
  collective(builder).set_sizes(0, 5);
  EXPECT_EQ(builder.validate().instruction(), "program 'infer', instruction 1 (all_gather; from /gather)");
}

TEST(Validate, MissingFeaturesAreListed) {
  plan::Target target = valid().plan.target();
  EXPECT_TRUE(checkCpuTarget(target).ok());
  target.add_features("notafeature");
  target.add_features("amx-imaginary");
  EXPECT_NE(checkCpuTarget(target).message().find("notafeature, amx-imaginary"), std::string::npos);
  target.set_triple("riscv64-unknown-linux-gnu");
  EXPECT_EQ(checkCpuTarget(target).code(), Code::Unsupported);
}

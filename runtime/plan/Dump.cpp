// The plan's text form. Written for reading; nothing parses it.
#include "colossal/Plan/Dump.h"

#include "colossal/Plan/DataType.h"
#include "colossal/Plan/Expr.h"

#include <algorithm>
#include <sstream>

namespace colossal::plan {

namespace {

template <class Range>
std::string list(const Range &values) {
  std::ostringstream out;
  out << '[';
  for (int i = 0; i < values.size(); ++i)
    out << (i ? "," : "") << values.Get(i);
  out << ']';
  return out.str();
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

class Dumper {
public:
  explicit Dumper(const Plan &plan) : plan(plan), mesh(&plan.mesh()), arenas(&plan.arenas()) {}
  std::string run();

private:
  std::string expr(const Expr &e) const { return dumpExpr(e, *mesh); }
  std::string arenaName(uint32_t arena) const {
    return arena < static_cast<uint32_t>(arenas->size()) ? arenas->Get(static_cast<int>(arena)).name()
                                                         : "arena" + std::to_string(arena);
  }
  std::string ref(const BufferRef &r) const {
    std::string text =
        arenaName(r.arena()) + "@" + std::to_string(r.offset()) + "+" + std::to_string(r.bytes());
    return r.strides_size() ? text + "*" + list(r.strides()) : text;
  }
  std::string box(const Box &b) const {
    std::string text = "box(";
    for (int d = 0; d < b.dims_size(); ++d) {
      const BoxDim &dim = b.dims(d);
      text += (d ? ", " : "") + expr(dim.start()) + ":+" + expr(dim.valid()) + " of " +
              std::to_string(dim.global());
      if (dim.valid().kind_case() != Expr::kConstant ||
          static_cast<uint64_t>(dim.valid().constant()) != dim.local())
        text += " in " + std::to_string(dim.local());
    }
    return text + ")";
  }
  void tables();
  void training();
  void arenaLines();
  void binding(const char *role, const Binding &b, const Box *box, const BufferRef *buffer);
  void stageText(int index);
  void body(const google::protobuf::RepeatedPtrField<Instruction> &instructions, const std::string &prefix,
            int depth);
  void instruction(const Instruction &instruction, const std::string &path, int depth);
  std::string launch(const Launch &l) const;
  std::string library(const LibraryCall &l) const;
  std::string collective(const Collective &c) const;
  std::string copy(const Copy &c) const;
  std::string call(const Call &c) const;

  const Plan &plan;
  // Of the stage whose text is being written; functions are written as the first stage sees them.
  const Mesh *mesh;
  const google::protobuf::RepeatedPtrField<Arena> *arenas;
  std::ostringstream out;
};

void Dumper::arenaLines() {
  for (const Arena &arena : *arenas)
    out << "arena " << arena.name() << ": " << lower(Arena::Life_Name(arena.life())) << " in "
        << lower(Arena::Space_Name(arena.space())) << ", " << arena.bytes() << " bytes, alignment "
        << arena.alignment() << '\n';
}

void Dumper::tables() {
  out << "plan version " << plan.version();
  auto axes = [&](const Mesh &shape) {
    for (const MeshAxis &axis : shape.axes())
      out << ' ' << axis.name() << '=' << axis.size();
  };
  if (plan.stages_size() == 0) {
    out << "\nmesh";
    axes(plan.mesh());
  }
  uint64_t first = 0;
  for (int i = 0; i < plan.stages_size(); ++i) {
    const Stage &stage = plan.stages(i);
    const uint64_t ranks = meshRanks(stage.mesh());
    out << "\nstage " << i << " '" << stage.name() << "': ranks " << first << " to " << first + ranks - 1
        << ", text " << stage.text() << ", mesh";
    axes(stage.mesh());
    first += ranks;
  }
  out << "\ntarget " << plan.target().device() << ' ' << plan.target().triple() << ' ' << plan.target().cpu();
  for (const std::string &feature : plan.target().features())
    out << " +" << feature;
  out << '\n';
  arenaLines();
  for (int i = 0; i < plan.files_size(); ++i)
    out << "file " << i << ": " << plan.files(i).path() << ", " << plan.files(i).bytes() << " bytes\n";
  for (int i = 0; i < plan.parameters_size(); ++i) {
    const Parameter &p = plan.parameters(i);
    out << "parameter " << i << " '" << p.name() << "': " << dataTypeName(p.type()) << list(p.shape())
        << " at " << (p.inlined() ? "data" : "file " + std::to_string(p.file())) << '@' << p.offset() << '\n';
  }
  for (int i = 0; i < plan.modules_size(); ++i) {
    if (plan.modules(i).images_size() == 0)
      out << "module " << i << ": code@" << plan.modules(i).offset() << '+' << plan.modules(i).bytes()
          << '\n';
    for (const Image &image : plan.modules(i).images())
      out << "module " << i << ": " << lower(Image::Format_Name(image.format())) << " for "
          << image.architecture() << " at code@" << image.offset() << '+' << image.bytes() << '\n';
  }
  for (int i = 0; i < plan.kernels_size(); ++i)
    out << "kernel " << i << ": " << plan.kernels(i).symbol() << " of module " << plan.kernels(i).module()
        << ", " << plan.kernels(i).buffers() << " buffers, " << plan.kernels(i).params() << " parameters\n";
  training();
}

void Dumper::training() {
  for (int i = 0; i < plan.states_size(); ++i) {
    const State &state = plan.states(i);
    out << "state " << i << " '" << state.name() << "': " << lower(State::Kind_Name(state.kind()));
    if (!state.slot().empty())
      out << ' ' << state.slot() << " of";
    if (!state.parameter().empty())
      out << " '" << state.parameter() << "'";
    for (int t = 0; t < state.tied_size(); ++t)
      out << (t ? ", '" : " tied with '") << state.tied(t) << "'";
    for (int t = 0; t < state.transposed_size(); ++t)
      out << (t ? ", '" : ", transposed '") << state.transposed(t) << "'";
    out << '\n';
  }
  if (!plan.has_training())
    return;
  const Training &training = plan.training();
  out << "training by " << training.optimizer() << ", loss " << training.loss() << ", "
      << training.global_batch() << " samples a step" << (training.skips_overflow() ? ", skips overflow" : "")
      << ", step values " << list(training.step_values()) << '\n';
  for (const Training::Sample &sample : training.samples())
    out << "data '" << sample.input() << "'" << (sample.batched() ? "" : ", the same in every step") << '\n';
}

void Dumper::binding(const char *role, const Binding &b, const Box *held, const BufferRef *buffer) {
  out << "  " << role << " '" << b.name() << "': " << dataTypeName(b.type()) << list(b.shape());
  if (held)
    out << " = " << ref(*buffer) << ' ' << box(*held);
  if (b.has_range())
    out << " in [" << b.range().least() << ", " << b.range().greatest() << "]"
        << (b.range().also_size() ? " or " + list(b.range().also()) : "") << " for '" << b.range().user()
        << "'";
  out << '\n';
}

std::string Dumper::launch(const Launch &l) const {
  std::string text = "launch " + (l.kernel() < static_cast<uint32_t>(plan.kernels_size())
                                      ? plan.kernels(static_cast<int>(l.kernel())).symbol()
                                      : std::to_string(l.kernel()));
  const int firstWritten =
      l.buffers_size() - static_cast<int>(std::min<uint32_t>(l.writes(), l.buffers_size()));
  text += "(";
  for (int i = 0; i < l.buffers_size(); ++i) {
    bool both = std::find(l.also_written().begin(), l.also_written().end(), i) != l.also_written().end();
    text += (i == 0              ? ""
             : i == firstWritten ? " -> "
                                 : ", ") +
            std::string(both ? "inout " : "") + ref(l.buffers(i));
  }
  text += ")";
  for (int i = 0; i < l.params_size(); ++i)
    text += (i ? ", " : " params ") + expr(l.params(i));
  text += " tiles " + std::to_string(l.tiles());
  return l.tile_scratch() ? text + " scratch " + std::to_string(l.tile_scratch()) : text;
}

static std::string describe(const Contraction &c) {
  std::string text = std::string(dataTypeName(c.type())) + " " + std::to_string(c.batch()) + " x [" +
                     std::to_string(c.m()) + "," + std::to_string(c.k()) + "] by [" + std::to_string(c.k()) +
                     "," + std::to_string(c.n()) + "] -> " + dataTypeName(c.result_type()) + " in " +
                     c.compute() + " strides " + list(c.a_strides()) + list(c.b_strides()) +
                     list(c.c_strides());
  text += c.bias() ? " bias" : "";
  return c.activation().empty() ? text : text + " " + c.activation();
}

static std::string describe(const Attention &a) {
  std::string text = std::string(dataTypeName(a.type())) + " " + std::to_string(a.batch()) + " x " +
                     std::to_string(a.query_heads()) + " heads over " + std::to_string(a.key_heads()) + ", " +
                     std::to_string(a.queries()) + " queries of " + std::to_string(a.width()) + " by " +
                     std::to_string(a.keys()) + " keys, values of " + std::to_string(a.value_width()) +
                     ", strides " + list(a.query_strides()) + list(a.key_strides()) +
                     list(a.value_strides()) + list(a.output_strides()) + " scale " +
                     std::to_string(a.scale());
  text += a.causal() ? " causal " + std::to_string(a.causal_offset()) : "";
  return a.mask() ? text + " mask " + dataTypeName(a.mask_type()) + list(a.mask_strides()) : text;
}

std::string Dumper::library(const LibraryCall &l) const {
  const Convolution &c = l.convolution();
  std::string text = l.routine() + "(";
  for (int i = 0; i < l.buffers_size(); ++i)
    text += (i ? ", " : "") + ref(l.buffers(i));
  if (l.has_contraction())
    return text + ") " + describe(l.contraction());
  if (l.has_attention())
    return text + ") " + describe(l.attention());
  text += ") " + std::string(dataTypeName(c.type())) + list(c.input()) + " by " + list(c.weight()) + " -> " +
          list(c.output()) + " strides " + list(c.strides()) + " dilations " + list(c.dilations()) +
          " pads " + list(c.pads_begin()) + list(c.pads_end()) + " group " + std::to_string(c.group());
  text += c.compute().empty() ? "" : " in " + c.compute();
  text += c.bias() ? " bias" : "";
  text += c.residual() ? " residual" : "";
  text += c.transposed() ? " transposed" : "";
  text += c.activation().empty() ? "" : " " + c.activation();
  return c.algorithm().empty() ? text : text + " " + c.algorithm();
}

std::string Dumper::collective(const Collective &c) const {
  std::string text = lower(Collective::Kind_Name(c.kind()));
  if (c.reduction())
    text += " " + lower(Collective::Reduction_Name(c.reduction()));
  text += " over";
  for (uint32_t axis : c.axes())
    text += " " + (axis < static_cast<uint32_t>(mesh->axes_size()) ? mesh->axes(static_cast<int>(axis)).name()
                                                                   : std::to_string(axis));
  text += ": " + ref(c.src()) + " -> " + ref(c.dst()) + " " + dataTypeName(c.type());
  if (c.kind() == Collective::EXCHANGE) {
    const Collective::Window &w = c.window();
    return text + " window [" + std::to_string(w.outer()) + "," + std::to_string(w.src_extent()) + "," +
           std::to_string(w.inner()) + "] holds " + expr(w.src_start()) + ":+" + expr(w.src_valid()) +
           " wants " + expr(w.dst_start()) + ":+" + std::to_string(w.dst_extent()) + " fill " +
           std::to_string(w.fill());
  }
  text += list(c.sizes()) + " strides " + list(c.src_strides()) + " -> " + list(c.dst_strides());
  if (c.src_peer_stride() || c.dst_peer_stride())
    text += " peers " + std::to_string(c.src_peer_stride()) + " -> " + std::to_string(c.dst_peer_stride());
  if (c.kind() == Collective::BROADCAST)
    text += " root " + std::to_string(c.root());
  if (c.kind() == Collective::PERMUTE)
    text += " from " + expr(c.source());
  return text;
}

std::string Dumper::copy(const Copy &c) const {
  if (c.has_buffer())
    return "copy " + ref(c.buffer()) + " -> " + ref(c.dst());
  if (c.has_data())
    return "copy data@" + std::to_string(c.data().offset()) + "+" + std::to_string(c.data().bytes()) +
           " -> " + ref(c.dst());
  const uint32_t p = c.parameter().parameter();
  return "load " +
         (p < static_cast<uint32_t>(plan.parameters_size())
              ? "'" + plan.parameters(static_cast<int>(p)).name() + "'"
              : std::to_string(p)) +
         (c.parameter().strides_size() ? "*" + list(c.parameter().strides()) : "") + " " +
         box(c.parameter().box()) + " -> " + ref(c.dst());
}

std::string Dumper::call(const Call &c) const {
  std::string text = "call " + (c.function() < static_cast<uint32_t>(plan.functions_size())
                                    ? plan.functions(static_cast<int>(c.function())).name()
                                    : std::to_string(c.function()));
  for (int a = 0; a < c.arguments_size(); ++a)
    text += (a ? ", " : "(") + expr(c.arguments(a));
  text += c.arguments_size() ? ")" : "";
  for (int n = 0; n < c.names_size(); ++n)
    text += (n ? ", '" : " names '") + c.names(n) + "'";
  return text;
}

void Dumper::instruction(const Instruction &i, const std::string &path, int depth) {
  out << std::string(static_cast<size_t>(depth) * 2, ' ') << path << ' ';
  if (i.queue())
    out << "queue " << i.queue() << ' ';
  if (i.waits_size())
    out << "after " << list(i.waits()) << ' ';
  if (i.has_launch())
    out << launch(i.launch());
  else if (i.has_library())
    out << library(i.library());
  else if (i.has_collective())
    out << collective(i.collective());
  else if (i.has_copy())
    out << copy(i.copy());
  else if (i.has_send())
    out << "send " << ref(i.send().src()) << " to " << expr(i.send().peer()) << " tag " << i.send().tag();
  else if (i.has_recv())
    out << "recv " << ref(i.recv().dst()) << " from " << expr(i.recv().peer()) << " tag " << i.recv().tag();
  else if (i.has_call())
    out << call(i.call());
  else if (i.has_repeat())
    out << "repeat " << i.repeat().count();
  else if (i.has_predicate())
    out << "if " << expr(i.predicate().condition());
  if (i.signals())
    out << " signals " << i.signals();
  if (!i.source().empty())
    out << "  # " << i.source();
  out << '\n';
  if (i.has_repeat())
    body(i.repeat().body(), path + ".", depth + 1);
  if (i.has_predicate())
    body(i.predicate().body(), path + ".", depth + 1);
}

void Dumper::body(const google::protobuf::RepeatedPtrField<Instruction> &instructions,
                  const std::string &prefix, int depth) {
  for (int i = 0; i < instructions.size(); ++i)
    instruction(instructions.Get(i), prefix + std::to_string(i), depth);
}

void Dumper::stageText(int index) {
  const StageText &text = plan.stage_texts(index);
  arenas = &text.arenas();
  for (const Stage &stage : plan.stages())
    if (stage.text() == static_cast<uint32_t>(index)) {
      mesh = &stage.mesh();
      break;
    }
  out << "\ntext " << index << '\n';
  arenaLines();
  for (int p = 0; p < std::min(text.programs_size(), plan.programs_size()); ++p) {
    const Program &program = plan.programs(p);
    const StageProgram &own = text.programs(p);
    out << "\nprogram '" << program.name() << "' of text " << index << '\n';
    auto shards = [&](const char *role, const auto &bindings, const auto &held) {
      for (const Shard &shard : held)
        if (shard.binding() < static_cast<uint32_t>(bindings.size()))
          binding(role, bindings.Get(static_cast<int>(shard.binding())), &shard.box(), &shard.buffer());
    };
    shards("input", program.inputs(), own.inputs());
    shards("output", program.outputs(), own.outputs());
    shards("check", program.checks(), own.checks());
    body(own.body(), "", 1);
  }
}

std::string Dumper::run() {
  tables();
  if (plan.stages_size() > 0) {
    mesh = &plan.stages(0).mesh();
    if (plan.stages(0).text() < static_cast<uint32_t>(plan.stage_texts_size()))
      arenas = &plan.stage_texts(static_cast<int>(plan.stages(0).text())).arenas();
  }
  for (const Function &function : plan.functions()) {
    out << "\nfunction '" << function.name() << "'";
    if (function.arguments())
      out << " of " << function.arguments() << " arguments";
    out << '\n';
    body(function.body(), "", 1);
  }
  for (const Program &program : plan.programs()) {
    out << "\nprogram '" << program.name() << "' (" << lower(Program::Role_Name(program.role())) << ")";
    for (const DimensionValue &value : program.dimensions())
      out << ' ' << value.name() << '=' << value.value();
    out << ", " << program.events() << " events, " << program.collective_bytes()
        << " collective bytes, predicted " << program.predicted_seconds() << " s\n";
    for (const Binding &b : program.inputs())
      binding("input", b, b.has_box() ? &b.box() : nullptr, &b.buffer());
    for (const FixedInput &input : program.fixed_inputs())
      out << "  fixed input '" << input.name() << "': " << dataTypeName(input.type()) << list(input.shape())
          << " = data@" << input.offset() << '+' << input.bytes() << '\n';
    for (const Binding &b : program.outputs())
      binding("output", b, b.has_box() ? &b.box() : nullptr, &b.buffer());
    for (const Binding &b : program.checks())
      binding("check", b, b.has_box() ? &b.box() : nullptr, &b.buffer());
    body(program.body(), "", 1);
  }
  for (int text = 0; text < plan.stage_texts_size(); ++text)
    stageText(text);
  return out.str();
}

} // namespace

std::string dumpExpr(const Expr &expr, const Mesh &mesh) {
  switch (expr.kind_case()) {
  case Expr::kConstant: return std::to_string(expr.constant());
  case Expr::kCoordinate:
    return expr.coordinate() < static_cast<uint32_t>(mesh.axes_size())
               ? mesh.axes(static_cast<int>(expr.coordinate())).name()
               : "axis" + std::to_string(expr.coordinate());
  case Expr::kCounter: return "i" + std::to_string(expr.counter());
  case Expr::kOwn: return expr.own() == Expr::RANK ? "rank" : expr.own() == Expr::STAGE ? "stage" : "?";
  case Expr::kBinary: {
    std::string lhs = dumpExpr(expr.binary().lhs(), mesh), rhs = dumpExpr(expr.binary().rhs(), mesh);
    switch (expr.binary().op()) {
    case Expr::ADD: return "(" + lhs + " + " + rhs + ")";
    case Expr::SUB: return "(" + lhs + " - " + rhs + ")";
    case Expr::MUL: return lhs + "*" + rhs;
    case Expr::FLOOR_DIV: return "(" + lhs + " floordiv " + rhs + ")";
    case Expr::MOD: return "(" + lhs + " mod " + rhs + ")";
    case Expr::MIN: return "min(" + lhs + ", " + rhs + ")";
    case Expr::MAX: return "max(" + lhs + ", " + rhs + ")";
    default: break;
    }
    break;
  }
  case Expr::KIND_NOT_SET: break;
  }
  return "?";
}

std::string dumpPlan(const Plan &plan) {
  return Dumper(plan).run();
}

} // namespace colossal::plan

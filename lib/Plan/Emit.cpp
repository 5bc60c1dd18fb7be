//===- Emit.cpp - from the Plan dialect to a plan file ----------------------===//
//
// One op to one message. The only work is on index expressions (SSA in the program's body, trees in the
// plan) and on the boxes that shardings mean (Boxes.h), and on the data section, where equal constants are
// stored once.
//
//===----------------------------------------------------------------------===//
#include "colossal/Plan/Emit.h"

#include "Boxes.h"
#include "Elements.h"
#include "LibraryCalls.h"
#include "SharedTexts.h"
#include "States.h"
#include "colossal/Plan/Traffic.h"
#include "dialects/Colossal/NarrowTypes.h"
#include "dialects/Dist/Stages.h"
#include "dialects/Plan/InstructionNames.h"
#include "dialects/Plan/PlanDialect.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <map>

using namespace mlir;
using namespace colossal;

namespace colossal::plan {
namespace {

class Emitter {
public:
  Emitter(ModuleOp module, const EmitOptions &options, Plan &plan, std::string &data)
      : module(module), options(options), plan(plan), data(data) {}

  LogicalResult run();

private:
  LogicalResult emitParameter(ParameterOp op);
  /// Arenas, parameters, kernels and functions of the module or stage.
  LogicalResult emitDeclarations(ModuleOp stage, google::protobuf::RepeatedPtrField<Arena> &into);
  LogicalResult emitProgram(ProgramOp op);
  LogicalResult emitStages(MutableArrayRef<ModuleOp> stages);
  /// Indices of a program's bindings, by their places among the model's inputs and outputs.
  struct BindingIndices {
    std::map<int64_t, int> inputs, outputs, checks;
  };
  /// What the plan itself says of a program: that of all its parts, one in each stage.
  LogicalResult declareProgram(ArrayRef<ProgramOp> parts, BindingIndices &indices);
  LogicalResult emitPart(ProgramOp op, const BindingIndices &indices, Program &program, StageProgram &out);
  LogicalResult countBytes(ProgramOp op, Program &program);
  LogicalResult emitInstruction(Operation *op, Instruction &out, Program &program);
  LogicalResult emitRepeat(RepeatOp op, Repeat &out, Program &program);
  LogicalResult emitCall(CallOp op, Call &out);
  LogicalResult emitFunction(FunctionOp op);
  LogicalResult emitCollective(CollectiveOp op, Collective &out);
  void emitMesh(Mesh &out);
  void emitHeader(ProgramOp op, Program &out);
  LogicalResult emitFixedInput(FixedInputOp op, Program &out);
  // An InputOp or OutputOp: what it is, and (of a Binding or Shard) where a rank's part lies.
  template <typename Op>
  LogicalResult describeBinding(Op op, Binding &out);
  template <typename Op, typename Message>
  LogicalResult placeBinding(Op op, Message &out);
  template <typename Op>
  LogicalResult emitBinding(Op op, Binding &out) {
    return success(succeeded(describeBinding(op, out)) && succeeded(placeBinding(op, out)));
  }
  LogicalResult emitBuffer(BufferAttr buffer, BufferRef &out, Operation *op);
  FailureOr<std::pair<uint64_t, uint64_t>> addData(ElementsAttr value, Operation *op);
  FailureOr<unsigned> addFile(StringRef path, Operation *op);

  ModuleOp module;
  const EmitOptions &options;
  Plan &plan;
  std::string &data;
  dist::MeshAttr mesh;
  llvm::StringMap<unsigned> arenas, parameters, functions; ///< of the stage, by symbol
  llvm::StringMap<uint32_t> functionEvents;                ///< the greatest event of each function
  llvm::StringMap<unsigned> kernels, files, parameterOfName;
  llvm::StringMap<uint64_t> constants; ///< bytes -> offset
};

LogicalResult Emitter::emitBuffer(BufferAttr buffer, BufferRef &out, Operation *op) {
  auto arena = arenas.find(buffer.getArena().getValue());
  if (arena == arenas.end())
    return op->emitOpError("names arena @")
           << buffer.getArena().getValue() << ", which the module does not have";
  out.set_arena(arena->second);
  out.set_offset(buffer.getOffset());
  out.set_bytes(buffer.getBytes());
  out.mutable_strides()->Add(buffer.getStrides().begin(), buffer.getStrides().end());
  return success();
}

FailureOr<std::pair<uint64_t, uint64_t>> Emitter::addData(ElementsAttr value, Operation *op) {
  FailureOr<std::string> bytes = getBytes(value);
  if (failed(bytes))
    return op->emitOpError("holds a constant of type ") << value.getType() << ", which a plan cannot store";
  auto [entry, isNew] = constants.try_emplace(*bytes, 0);
  if (isNew) {
    data.resize((data.size() + 63) / 64 * 64);
    entry->second = data.size();
    data += *bytes;
  }
  return std::pair<uint64_t, uint64_t>(entry->second, bytes->size());
}

/// A file's path as a plan has it: relative to the plan where the file lies beside or below it, so that both
/// can move together.
static std::string getStoredPath(StringRef real, StringRef planPath) {
  SmallString<256> folder;
  StringRef parent = llvm::sys::path::parent_path(planPath);
  llvm::sys::fs::real_path(parent.empty() ? StringRef(".") : parent, folder);
  if (!folder.ends_with("/"))
    folder += "/";
  real.consume_front(folder);
  return real.str();
}

FailureOr<unsigned> Emitter::addFile(StringRef path, Operation *op) {
  auto [entry, isNew] = files.try_emplace(path, plan.files_size());
  if (!isNew)
    return entry->second;
  SmallString<256> full(path.empty() ? StringRef(options.modelPath) : path);
  if (!path.empty() && llvm::sys::path::is_relative(path)) {
    full = llvm::sys::path::parent_path(options.modelPath);
    llvm::sys::path::append(full, path);
  }
  SmallString<256> real;
  uint64_t bytes = 0;
  if (llvm::sys::fs::real_path(full, real) || llvm::sys::fs::file_size(real, bytes))
    return op->emitOpError("reads weights from '") << full << "', which cannot be opened";
  WeightFile &file = *plan.add_files();
  file.set_path(getStoredPath(real, options.planPath));
  file.set_bytes(bytes);
  return entry->second;
}

LogicalResult Emitter::emitParameter(ParameterOp op) {
  auto type = dyn_cast<RankedTensorType>(op.getType());
  std::optional<DataType> element = type ? getDataType(type.getElementType()) : std::nullopt;
  if (!element)
    return op.emitOpError("has type ") << op.getType() << ", which a plan cannot hold";
  auto [known, isNew] = parameterOfName.try_emplace(op.getName(), plan.parameters_size());
  parameters[op.getSymName()] = known->second;
  if (!isNew) // another stage has it, too
    return success();
  Parameter &out = *plan.add_parameters();
  out.set_name(op.getName().str());
  out.set_type(*element);
  for (int64_t size : type.getShape())
    out.add_shape(size);
  if (op.getData()) {
    auto place = addData(*op.getData(), op);
    if (failed(place))
      return failure();
    out.set_inlined(true);
    out.set_offset(place->first);
    out.set_bytes(place->second);
    return success();
  }
  FailureOr<unsigned> file = addFile(op.getFile(), op);
  if (failed(file))
    return failure();
  out.set_file(*file);
  out.set_offset(op.getOffset());
  out.set_bytes(op.getBytes());
  return success();
}

template <typename Op>
LogicalResult Emitter::describeBinding(Op op, Binding &out) {
  auto tensor = dyn_cast<RankedTensorType>(op.getType());
  std::optional<DataType> element = tensor ? getDataType(tensor.getElementType()) : std::nullopt;
  if (!element)
    return op->emitOpError("has type ") << op.getType() << ", which a plan cannot hold";
  out.set_name(op.getName().str());
  out.set_type(*element);
  for (int64_t size : tensor.getShape())
    out.add_shape(size);
  if (std::optional<ArrayRef<int64_t>> range = op.getRange()) {
    if (range->size() < 2)
      return op->emitOpError("has a range of ") << range->size() << " numbers";
    out.mutable_range()->set_least((*range)[0]);
    out.mutable_range()->set_greatest((*range)[1]);
    for (int64_t also : range->drop_front(2))
      out.mutable_range()->add_also(also);
    out.mutable_range()->set_user(op.getRangeUser().value_or("").str());
  }
  return success();
}

template <typename Op, typename Message>
LogicalResult Emitter::placeBinding(Op op, Message &out) {
  if (failed(fillBox(op.getSharding(), mesh, *out.mutable_box())))
    return op->emitOpError("has layout ") << op.getSharding() << ", which is no box of the tensor";
  return emitBuffer(op.getBuffer(), *out.mutable_buffer(), op);
}

LogicalResult Emitter::emitCollective(CollectiveOp op, Collective &out) {
  out.set_kind(static_cast<Collective::Kind>(op.getKind()));
  for (int64_t axis : op.getAxes())
    out.add_axes(axis);
  if (op.getReduction())
    out.set_reduction(static_cast<Collective::Reduction>(op.getReduction()->getValue()));
  out.set_type(*getDataType(op.getElementType()));
  auto fill = [](auto *field, ArrayRef<int64_t> values) { field->Add(values.begin(), values.end()); };
  fill(out.mutable_sizes(), op.getSizes());
  fill(out.mutable_src_strides(), op.getSrcStrides());
  fill(out.mutable_dst_strides(), op.getDstStrides());
  out.set_src_peer_stride(op.getSrcPeerStride());
  out.set_dst_peer_stride(op.getDstPeerStride());
  out.set_root(op.getRoot().value_or(0));
  if (failed(emitBuffer(op.getSrc(), *out.mutable_src(), op)) ||
      failed(emitBuffer(op.getDst(), *out.mutable_dst(), op)))
    return failure();
  out.set_statistics(op.getStatistics());
  if (op.getScratch() && failed(emitBuffer(*op.getScratch(), *out.mutable_scratch(), op)))
    return failure();
  SmallVector<Expr> exprs;
  for (Value operand : op.getOperands_()) {
    FailureOr<Expr> expr = makeExpr(operand);
    if (failed(expr))
      return failure();
    exprs.push_back(*expr);
  }
  if (op.getKind() == CollectiveKind::Exchange) {
    auto window = op.getWindow();
    if (!window || window->size() != 4 || exprs.size() != 3)
      return op.emitOpError("needs a window of four sizes and three operands");
    Collective::Window &w = *out.mutable_window();
    w.set_outer((*window)[0]);
    w.set_inner((*window)[1]);
    w.set_src_extent((*window)[2]);
    w.set_dst_extent((*window)[3]);
    *w.mutable_src_start() = exprs[0];
    *w.mutable_src_valid() = exprs[1];
    *w.mutable_dst_start() = exprs[2];
    w.set_fill(op.getFill() ? op.getFill()->convertToDouble() : 0.0);
  } else if (op.getKind() == CollectiveKind::Permute) {
    if (exprs.size() != 1)
      return op.emitOpError("needs its source as operand");
    *out.mutable_source() = exprs[0];
  }
  return success();
}

LogicalResult Emitter::emitInstruction(Operation *op, Instruction &out, Program &program) {
  if (auto queue = op->getAttrOfType<IntegerAttr>("queue"))
    out.set_queue(queue.getInt());
  if (auto waits = op->getAttrOfType<DenseI64ArrayAttr>("waits"))
    out.mutable_waits()->Add(waits.asArrayRef().begin(), waits.asArrayRef().end());
  if (auto signal = op->getAttrOfType<IntegerAttr>("signals")) {
    out.set_signals(signal.getInt());
    program.set_events(std::max<uint32_t>(program.events(), signal.getInt()));
  }
  if (auto call = dyn_cast<CallOp>(op))
    program.set_events(std::max<uint32_t>(program.events(), functionEvents.lookup(call.getCallee())));
  out.set_source(llvm::join(getNames(op), ","));
  for (StringRef name : getOperators(op))
    out.add_operators(name.str());
  if (auto seconds = op->getAttrOfType<FloatAttr>(kSecondsAttrName))
    out.set_predicted_seconds(seconds.getValueAsDouble());

  if (auto launch = dyn_cast<LaunchOp>(op)) {
    auto kernel = kernels.find(launch.getKernel());
    if (kernel == kernels.end())
      return op->emitOpError("names kernel @") << launch.getKernel() << ", which the module does not have";
    Launch &l = *out.mutable_launch();
    l.set_kernel(kernel->second);
    for (Attribute buffer : launch.getBuffers())
      if (failed(emitBuffer(cast<BufferAttr>(buffer), *l.add_buffers(), op)))
        return failure();
    l.set_writes(launch.getWrites());
    for (Value param : launch.getParams()) {
      FailureOr<Expr> expr = makeExpr(param);
      if (failed(expr))
        return failure();
      *l.add_params() = *expr;
    }
    l.set_tiles(launch.getTiles());
    l.set_tile_scratch(launch.getTileScratch());
    if (auto also = launch.getAlsoWritten())
      l.mutable_also_written()->Add(also->begin(), also->end());
    return success();
  }
  LibraryCall call;
  if (std::optional<LibraryRoutine> routine = describeLibraryCall(op, call)) {
    plan.set_version(std::max(plan.version(), routine->leastVersion));
    for (Attribute buffer : routine->buffers)
      if (failed(emitBuffer(cast<BufferAttr>(buffer), *call.add_buffers(), op)))
        return failure();
    *out.mutable_library() = std::move(call);
    return success();
  }
  if (auto collective = dyn_cast<CollectiveOp>(op))
    return emitCollective(collective, *out.mutable_collective());
  if (auto copy = dyn_cast<CopyOp>(op))
    return success(succeeded(emitBuffer(copy.getSrc(), *out.mutable_copy()->mutable_buffer(), op)) &&
                   succeeded(emitBuffer(copy.getDst(), *out.mutable_copy()->mutable_dst(), op)));
  if (auto load = dyn_cast<LoadParameterOp>(op)) {
    auto parameter = parameters.find(load.getParameter());
    if (parameter == parameters.end())
      return op->emitOpError("names parameter @")
             << load.getParameter() << ", which the module does not have";
    Copy &copy = *out.mutable_copy();
    copy.mutable_parameter()->set_parameter(parameter->second);
    if (auto strides = load.getStrides())
      copy.mutable_parameter()->mutable_strides()->Add(strides->begin(), strides->end());
    if (failed(fillBox(load.getSharding(), mesh, *copy.mutable_parameter()->mutable_box())))
      return op->emitOpError("has layout ") << load.getSharding() << ", which is no box of the tensor";
    if (std::optional<ArrayRef<int64_t>> starts = load.getStarts();
        starts && failed(moveIntoWhole(load.getSharding(), *starts,
                                       plan.parameters(static_cast<int>(parameter->second)).shape(), mesh,
                                       *copy.mutable_parameter()->mutable_box())))
      return op->emitOpError("has layout ") << load.getSharding() << ", which is no box of the tensor";
    return emitBuffer(load.getDst(), *copy.mutable_dst(), op);
  }
  if (auto load = dyn_cast<LoadDataOp>(op)) {
    auto place = addData(load.getValue(), op);
    if (failed(place))
      return failure();
    out.mutable_copy()->mutable_data()->set_offset(place->first);
    out.mutable_copy()->mutable_data()->set_bytes(place->second);
    return emitBuffer(load.getDst(), *out.mutable_copy()->mutable_dst(), op);
  }
  if (auto send = dyn_cast<SendOp>(op)) {
    FailureOr<Expr> peer = makeExpr(send.getPeer());
    if (failed(peer))
      return failure();
    *out.mutable_send()->mutable_peer() = *peer;
    out.mutable_send()->set_tag(send.getTag());
    return emitBuffer(send.getSrc(), *out.mutable_send()->mutable_src(), op);
  }
  if (auto recv = dyn_cast<RecvOp>(op)) {
    FailureOr<Expr> peer = makeExpr(recv.getPeer());
    if (failed(peer))
      return failure();
    *out.mutable_recv()->mutable_peer() = *peer;
    out.mutable_recv()->set_tag(recv.getTag());
    return emitBuffer(recv.getDst(), *out.mutable_recv()->mutable_dst(), op);
  }
  if (auto repeat = dyn_cast<RepeatOp>(op))
    return emitRepeat(repeat, *out.mutable_repeat(), program);
  if (auto call = dyn_cast<CallOp>(op))
    return emitCall(call, *out.mutable_call());
  return op->emitOpError("is not an instruction of a plan");
}

/// What is no instruction: index arithmetic, which instructions refer to.
static bool isArithmetic(Operation &op) {
  return isa<dist::CoordinateOp>(op) || isa<arith::ArithDialect>(op.getDialect());
}

LogicalResult Emitter::emitRepeat(RepeatOp op, Repeat &out, Program &program) {
  out.set_count(op.getCount());
  for (Operation &item : op.getBody().front())
    if (!isArithmetic(item) && failed(emitInstruction(&item, *out.add_body(), program)))
      return failure();
  return success();
}

LogicalResult Emitter::emitCall(CallOp op, Call &out) {
  auto function = functions.find(op.getCallee());
  if (function == functions.end())
    return op.emitOpError("names function @") << op.getCallee() << ", which the module does not have";
  out.set_function(function->second);
  for (Value argument : op.getArguments()) {
    FailureOr<Expr> expr = makeExpr(argument);
    if (failed(expr))
      return failure();
    *out.add_arguments() = std::move(*expr);
  }
  if (ArrayAttr names = op.getNamesAttr())
    for (StringRef name : names.getAsValueRange<StringAttr>())
      out.add_names(name.str());
  return success();
}

LogicalResult Emitter::emitFunction(FunctionOp op) {
  Function out;
  out.set_name(op.getSymName().str());
  out.set_arguments(op.getBody().getNumArguments());
  Program own; // of its events
  for (Operation &item : op.getBody().front())
    if (!isArithmetic(item) && failed(emitInstruction(&item, *out.add_body(), own)))
      return failure();
  functions[op.getSymName()] = plan.functions_size();
  functionEvents[op.getSymName()] = own.events();
  *plan.add_functions() = std::move(out);
  plan.set_version(std::max<uint32_t>(plan.version(), 2)); // the first whose functions take arguments
  return success();
}

void Emitter::emitHeader(ProgramOp op, Program &out) {
  out.set_name(op.getSymName().str());
  out.set_role(static_cast<Program::Role>(op.getRole()));
  if (auto dims = op.getDimensions())
    for (NamedAttribute dim : *dims) {
      DimensionValue &value = *out.add_dimensions();
      value.set_name(dim.getName().str());
      value.set_value(cast<IntegerAttr>(dim.getValue()).getInt());
    }
  if (auto seconds = op.getPredictedSeconds())
    out.set_predicted_seconds(seconds->convertToDouble());
}

LogicalResult Emitter::emitFixedInput(FixedInputOp op, Program &out) {
  auto place = addData(op.getValue(), op);
  if (failed(place))
    return failure();
  FixedInput &f = *out.add_fixed_inputs();
  f.set_name(op.getName().str());
  f.set_type(*getDataType(op.getValue().getElementType()));
  for (int64_t size : op.getValue().getShapedType().getShape())
    f.add_shape(size);
  f.set_offset(place->first);
  f.set_bytes(place->second);
  return success();
}

LogicalResult Emitter::countBytes(ProgramOp op, Program &program) {
  Traffic traffic;
  if (Status status = programTraffic(plan, program, 0, traffic); !status.ok())
    return op.emitOpError("has collectives whose bytes cannot be computed: ") << status.message();
  program.set_collective_bytes(collectiveBytes(traffic));
  return success();
}

LogicalResult Emitter::emitProgram(ProgramOp op) {
  Program &out = *plan.add_programs();
  emitHeader(op, out);
  for (Operation &item : op.getBody().front()) {
    LogicalResult result = success();
    if (auto input = dyn_cast<InputOp>(item))
      result = emitBinding(input, *out.add_inputs());
    else if (auto output = dyn_cast<OutputOp>(item))
      result = emitBinding(output, output.getRange() ? *out.add_checks() : *out.add_outputs());
    else if (auto fixed = dyn_cast<FixedInputOp>(item))
      result = emitFixedInput(fixed, out);
    else if (!isArithmetic(item))
      result = emitInstruction(&item, *out.add_body(), out);
    if (failed(result))
      return failure();
  }
  return countBytes(op, out);
}

LogicalResult Emitter::emitDeclarations(ModuleOp stage, google::protobuf::RepeatedPtrField<Arena> &into) {
  arenas.clear();
  parameters.clear();
  for (ArenaOp op : stage.getOps<ArenaOp>()) {
    arenas[op.getSymName()] = into.size();
    Arena &out = *into.Add();
    out.set_name(op.getSymName().str());
    out.set_space(static_cast<Arena::Space>(op.getSpace()));
    out.set_life(static_cast<Arena::Life>(op.getLife()));
    out.set_bytes(op.getBytes());
    out.set_alignment(op.getAlignment());
  }
  for (ParameterOp op : stage.getOps<ParameterOp>())
    if (failed(emitParameter(op)))
      return failure();
  for (KernelOp op : stage.getOps<KernelOp>()) {
    if (!kernels.try_emplace(op.getSymName(), plan.kernels_size()).second)
      continue;
    Kernel &out = *plan.add_kernels();
    out.set_module(0);
    out.set_symbol(op.getSymName().str());
    out.set_buffers(op.getBuffers());
    out.set_params(op.getParams());
  }
  functions.clear();
  for (FunctionOp op : stage.getOps<FunctionOp>())
    if (failed(emitFunction(op)))
      return failure();
  return success();
}

void Emitter::emitMesh(Mesh &out) {
  for (dist::MeshAxisAttr axis : mesh.getAxes()) {
    if (axis.getLoop())
      continue;
    MeshAxis &added = *out.add_axes();
    added.set_name(axis.getName().str());
    added.set_size(axis.getSize());
  }
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// The place of an input or output among the model's.
template <typename Op>
static int64_t getPlace(Op op) {
  auto place = op->template getAttrOfType<IntegerAttr>(dist::kPlaceAttrName);
  return place ? place.getInt() : 0;
}

LogicalResult Emitter::declareProgram(ArrayRef<ProgramOp> parts, BindingIndices &indices) {
  Program &out = *plan.add_programs();
  ProgramOp first = parts.front();
  emitHeader(first, out);
  // In the model's order; an input may go to several stages.
  std::map<int64_t, InputOp> inputs;
  std::map<int64_t, OutputOp> outputs;
  for (ProgramOp part : parts) {
    for (auto input : part.getOps<InputOp>())
      inputs.try_emplace(getPlace(input), input);
    for (auto output : part.getOps<OutputOp>())
      outputs.try_emplace(getPlace(output), output);
  }
  for (auto &[place, input] : inputs) {
    indices.inputs[place] = out.inputs_size();
    if (failed(describeBinding(input, *out.add_inputs())))
      return failure();
  }
  for (auto &[place, output] : outputs) {
    const bool isCheck = output.getRange().has_value();
    (isCheck ? indices.checks : indices.outputs)[place] = isCheck ? out.checks_size() : out.outputs_size();
    if (failed(describeBinding(output, isCheck ? *out.add_checks() : *out.add_outputs())))
      return failure();
  }
  for (auto fixed : first.getOps<FixedInputOp>())
    if (failed(emitFixedInput(fixed, out)))
      return failure();
  return success();
}

LogicalResult Emitter::emitPart(ProgramOp op, const BindingIndices &indices, Program &program,
                                StageProgram &out) {
  auto emitShard = [&](auto binding, const std::map<int64_t, int> &index, Shard &shard) {
    shard.set_binding(index.at(getPlace(binding)));
    return placeBinding(binding, shard);
  };
  for (Operation &item : op.getBody().front()) {
    LogicalResult result = success();
    if (auto input = dyn_cast<InputOp>(item))
      result = emitShard(input, indices.inputs, *out.add_inputs());
    else if (auto output = dyn_cast<OutputOp>(item))
      result = output.getRange() ? emitShard(output, indices.checks, *out.add_checks())
                                 : emitShard(output, indices.outputs, *out.add_outputs());
    else if (!isArithmetic(item) && !isa<FixedInputOp>(item))
      result = emitInstruction(&item, *out.add_body(), program);
    if (failed(result))
      return failure();
  }
  return success();
}

LogicalResult Emitter::emitStages(MutableArrayRef<ModuleOp> stages) {
  plan.set_version(std::max<uint32_t>(plan.version(), 2)); // the first that has stages
  // A stage goes on while what it has sent waits for the next one.
  auto slots = module->getAttrOfType<IntegerAttr>(dist::kMessageSlotsAttrName);
  plan.set_message_slots(slots ? slots.getInt() : 1);
  if (auto bytes = module->getAttrOfType<IntegerAttr>(dist::kMessageSlotBytesAttrName)) {
    constexpr uint32_t kVersion = 5; // the first whose long messages take no slot
    plan.set_version(std::max(plan.version(), kVersion));
    plan.set_message_slot_bytes(bytes.getInt());
  }
  SmallVector<SmallVector<ProgramOp>> programs;
  std::vector<BindingIndices> indices;
  for (auto first : stages.front().getOps<ProgramOp>()) {
    SmallVector<ProgramOp> &parts = programs.emplace_back();
    for (ModuleOp stage : stages) {
      auto part = stage.lookupSymbol<ProgramOp>(first.getSymName());
      if (!part)
        return stage.emitOpError("has no part of program @") << first.getSymName();
      parts.push_back(part);
    }
    if (failed(declareProgram(parts, indices.emplace_back())))
      return failure();
  }
  std::vector<StageText> texts;
  for (auto [s, stage] : llvm::enumerate(stages)) {
    mesh = stage->getAttrOfType<dist::MeshAttr>(dist::kMeshAttrName);
    if (!mesh)
      return stage.emitOpError("has no mesh (attribute '") << dist::kMeshAttrName << "')";
    StageText &text = texts.emplace_back();
    if (failed(emitDeclarations(stage, *text.mutable_arenas())))
      return failure();
    for (auto [p, parts] : llvm::enumerate(programs))
      if (failed(emitPart(parts[s], indices[p], *plan.mutable_programs(p), *text.add_programs())))
        return failure();
    Stage &out = *plan.add_stages();
    out.set_name(stage.getName().value_or("").str());
    emitMesh(*out.mutable_mesh());
  }
  shareTexts(plan, std::move(texts));
  for (auto [p, parts] : llvm::enumerate(programs))
    if (failed(countBytes(parts.front(), *plan.mutable_programs(p))))
      return failure();
  return success();
}

LogicalResult Emitter::run() {
  mesh = module->getAttrOfType<dist::MeshAttr>(dist::kMeshAttrName);
  if (!mesh)
    return module.emitError("has no mesh (attribute '") << dist::kMeshAttrName << "')";
  plan.set_version(1);
  plan.mutable_target()->set_device(options.device);
  plan.mutable_target()->set_triple(options.triple);
  plan.mutable_target()->set_cpu(options.cpu);
  for (const std::string &feature : options.features)
    plan.mutable_target()->add_features(feature);
  *plan.mutable_report() = options.report;
  if (auto texts = module->getAttrOfType<ArrayAttr>(kTextsAttr))
    for (StringAttr text : texts.getAsRange<StringAttr>())
      plan.add_texts(text.getValue().str());

  SmallVector<ModuleOp> stages = dist::getStages(module);
  if (stages.front() != module) {
    if (failed(emitStages(stages)))
      return failure();
  } else {
    emitMesh(*plan.mutable_mesh());
    if (failed(emitDeclarations(module, *plan.mutable_arenas())))
      return failure();
    for (ProgramOp op : module.getOps<ProgramOp>())
      if (failed(emitProgram(op)))
        return failure();
  }
  SmallString<256> model;
  llvm::sys::fs::real_path(options.modelPath, model);
  addStates(module, stages, getStoredPath(model, options.planPath), plan);
  uint64_t staging = 0;
  for (uint64_t bytes : stagingByQueue(plan))
    staging += bytes;
  plan.set_staging_bytes(staging);
  return success();
}

} // namespace

LogicalResult emitPlan(ModuleOp module, const EmitOptions &options, Plan &plan, std::string &data) {
  return Emitter(module, options, plan, data).run();
}

} // namespace colossal::plan

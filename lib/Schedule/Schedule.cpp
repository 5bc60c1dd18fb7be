//===- Schedule.cpp - programs, arenas, kernels -----------------------------===//
#include "colossal/Schedule/Schedule.h"
#include "ArenaAllocator.h"
#include "CollectiveQueue.h"
#include "DoubleBuffers.h"
#include "Events.h"
#include "PassUnrolling.h"
#include "Shared.h"

#include "colossal/Cost/ExchangeQueue.h"
#include "dialects/Colossal/Colossal.h"
#include "dialects/Dist/Pipeline.h"
#include "dialects/Dist/Stages.h"
#include "dialects/Dist/State.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

#include <map>

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

static constexpr llvm::StringLiteral kWeightsArena = "weights", kStatesArena = "states",
                                     kActivationsArena = "activations", kIOArena = "io";

/// Those of one life, one behind the other; returns the bytes of all.
static int64_t placeInOrder(std::vector<Storage> &storages, Life life, int64_t alignment) {
  int64_t end = 0;
  for (Storage &storage : storages) {
    if (storage.life != life)
      continue;
    storage.offset = end;
    end = llvm::alignTo(end + storage.bytes, alignment);
  }
  return end;
}

/// Places what passes hand on, each while it is there by the places of instructions among those of all
/// passes, in a block of its own: temporaries of all turns share their places, so that they meet each of it.
/// Returns the block, or nothing.
static std::optional<ArenaPlan> placeHandedOn(const Program &program, int64_t alignment,
                                              std::vector<unsigned> &handedOn) {
  std::vector<Lifetime> lifetimes;
  llvm::DenseMap<unsigned, size_t> numbers;
  auto note = [&](unsigned storage, int64_t place) {
    if (storage >= kWeightBase || !program.storages[storage].isHandedOn)
      return;
    auto [number, isNew] = numbers.try_emplace(storage, lifetimes.size());
    if (isNew) {
      handedOn.push_back(storage);
      lifetimes.push_back({static_cast<uint64_t>(program.storages[storage].bytes), place, place});
    }
    lifetimes[number->second].last = place;
  };
  for (auto [place, instruction] : llvm::enumerate(program.rest)) {
    for (const Access &access : instruction.accesses)
      note(access.storage, static_cast<int64_t>(place));
    for (unsigned storage : instruction.holds)
      note(storage, static_cast<int64_t>(place));
  }
  if (lifetimes.empty())
    return std::nullopt;
  return allocate(lifetimes, static_cast<uint64_t>(alignment));
}

std::pair<int64_t, int64_t> schedule::placeStorages(Program &program, int64_t alignment) {
  std::vector<Lifetime> lifetimes(program.storages.size(), {0, -1, -1});
  auto noteStorage = [&](unsigned storage, int64_t moment) {
    if (storage >= kWeightBase)
      return;
    Lifetime &life = lifetimes[storage];
    if (life.first < 0)
      life.first = moment;
    life.first = std::min<int64_t>(life.first, moment);
    life.last = std::max<int64_t>(life.last, moment);
  };
  auto note = [&](const Instruction &instruction, int64_t moment) {
    for (const Access &access : instruction.accesses)
      noteStorage(access.storage, moment);
    for (unsigned storage : instruction.holds)
      noteStorage(storage, moment);
  };
  const auto loop = static_cast<int64_t>(program.instructions.size());
  int64_t end = loop;
  for (auto [i, instruction] : llvm::enumerate(program.instructions))
    note(instruction, static_cast<int64_t>(i));
  for (const std::vector<Instruction> *instructions : {&program.body, &program.rest})
    for (const Instruction &instruction : *instructions) {
      note(instruction, loop + instruction.moment);
      end = std::max(end, loop + instruction.moment + 1);
    }
  const int64_t behind = end;
  for (auto [i, instruction] : llvm::enumerate(program.after)) {
    note(instruction, behind + static_cast<int64_t>(i));
    end = std::max(end, behind + static_cast<int64_t>(i) + 1);
  }
  for (auto [life, storage] : llvm::zip_equal(lifetimes, program.storages)) {
    if (life.first < 0)
      continue;
    // What is made before the loop is there in its last turn.
    const bool isShared = life.first < loop && life.last >= loop;
    if (storage.outlivesTurn)
      life.first = std::min<int64_t>(life.first, loop);
    if (storage.outlivesTurn || isShared)
      life.last = std::max(life.last, behind - 1);
  }
  std::vector<unsigned> handedOn;
  const std::optional<ArenaPlan> block = placeHandedOn(program, alignment, handedOn);
  std::vector<unsigned> dynamic;
  std::vector<Lifetime> alive;
  int64_t io = 0;
  for (auto [i, storage] : llvm::enumerate(program.storages)) {
    if (storage.life == Life::IO) {
      storage.offset = io;
      io = llvm::alignTo(io + storage.bytes, alignment);
    } else if (!storage.isHandedOn && storage.bytes && lifetimes[i].first >= 0) {
      lifetimes[i].bytes = storage.bytes;
      dynamic.push_back(i);
      alive.push_back(lifetimes[i]);
    } else {
      storage.offset = 0; // what is handed on lies in the block, below
    }
  }
  if (block)
    alive.push_back({block->bytes, loop, behind - 1});
  ArenaPlan plan = allocate(alive, alignment);
  for (auto [index, offset] : llvm::zip(dynamic, plan.offsets))
    program.storages[index].offset = offset;
  for (auto [number, storage] : llvm::enumerate(handedOn))
    program.storages[storage].offset = static_cast<int64_t>(plan.offsets.back() + block->offsets[number]);
  return {(int64_t)plan.bytes, io};
}

/// Clones index arithmetic into a program. The coordinate on the mesh's loop axis is `counter`.
static Value cloneScalar(Value value, OpBuilder &b, IRMapping &mapping, int64_t loopAxis, Value counter) {
  if (Value known = mapping.lookupOrNull(value))
    return known;
  Operation *op = value.getDefiningOp();
  if (auto coordinate = dyn_cast<dist::CoordinateOp>(op);
      coordinate && counter && static_cast<int64_t>(coordinate.getAxis()) == loopAxis) {
    mapping.map(value, counter);
    return counter;
  }
  for (Value operand : op->getOperands())
    cloneScalar(operand, b, mapping, loopAxis, counter);
  return b.clone(*op, mapping)->getResult(cast<OpResult>(value).getResultNumber());
}

/// The number of a turn, which is the `turn`-th of its round.
static Value makeTurnNumber(OpBuilder &b, Location loc, Value round, int64_t turnsOfRound, int64_t turn) {
  Value number = round;
  if (turnsOfRound > 1)
    number = arith::MulIOp::create(b, loc, number, arith::ConstantIndexOp::create(b, loc, turnsOfRound));
  return turn ? arith::AddIOp::create(b, loc, number, arith::ConstantIndexOp::create(b, loc, turn)) : number;
}

/// In the last of `rounds`, or in the first, the peer of a send or receive becomes negative: nothing goes.
static void leaveOut(OpBuilder &b, Operation *message, Value round, int64_t rounds, bool ofLast) {
  constexpr int64_t kNobody = int64_t(1) << 33; // more than any rank, and than any that is none already
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(message);
  Location loc = message->getLoc();
  auto constant = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(b, loc, value); };
  Value distance = ofLast ? arith::SubIOp::create(b, loc, round, constant(rounds - 2))
                          : arith::SubIOp::create(b, loc, constant(1), round);
  Value isOut = arith::MaxSIOp::create(b, loc, distance, constant(0));
  auto replace = [&](MutableOperandRange peer) {
    peer.assign(arith::SubIOp::create(b, loc, peer[0].get(),
                                      arith::MulIOp::create(b, loc, isOut, constant(kNobody))));
  };
  if (auto receive = dyn_cast<plan::RecvOp>(message))
    replace(receive.getPeerMutable());
  else
    replace(cast<plan::SendOp>(message).getPeerMutable());
}

/// As Schedule.h says of kWorkAttrName.
static Attribute describeWork(const Work &work, Builder &b) {
  static constexpr const char *kinds[] = {"elements", "contraction", "convolution", "attention"};
  return b.getDictionaryAttr(
      {b.getNamedAttr("kind", b.getStringAttr(kinds[static_cast<unsigned>(work.kind)])),
       b.getNamedAttr("operations", b.getI64IntegerAttr(work.operations)),
       b.getNamedAttr("sizes", b.getDenseI64ArrayAttr({work.batch, work.m, work.n, work.k}))});
}

/// Makes a program's instruction: with index values that are known, and the turn's number.
using EmitInstruction = llvm::function_ref<Operation *(Instruction &, IRMapping &, Value)>;

static void emitLoop(Program &program, OpBuilder &b, Location loc, const IRMapping &mapping,
                     EmitInstruction emit) {
  auto repeat = plan::RepeatOp::create(b, loc, b.getI64IntegerAttr(program.getRounds()));
  Block *round = b.createBlock(&repeat.getBody(), {}, b.getIndexType(), loc);
  Value counter = round->getArgument(0);
  // Of each turn of a round its number, and the index values that it made.
  std::map<int64_t, std::pair<Value, IRMapping>> ofTurn;
  for (Instruction &instruction : program.body) {
    auto &[number, known] = ofTurn.try_emplace(instruction.turn, Value(), mapping).first->second;
    if (!number && !instruction.scalars.empty())
      number = makeTurnNumber(b, loc, counter, program.turnsOfRound, instruction.turn);
    Operation *built = emit(instruction, known, number);
    for (const bool ofLast : {true, false})
      if (built && (ofLast ? instruction.exceptLast : instruction.exceptFirst))
        leaveOut(b, built, counter, program.getRounds(), ofLast);
  }
  b.setInsertionPointAfter(repeat);
}

void schedule::emitProgram(Program &program, Shared &shared, StringRef name, plan::Role role,
                           DictionaryAttr dimensions, DictionaryAttr fixedInputs, Location loc) {
  MLIRContext *context = shared.module.getContext();
  OpBuilder b = OpBuilder::atBlockEnd(shared.module.getBody());
  auto op = plan::ProgramOp::create(b, loc, b.getStringAttr(name), plan::RoleAttr::get(context, role),
                                    dimensions, FloatAttr());
  Block *body = b.createBlock(&op.getBody());
  b.setInsertionPointToEnd(body);
  const auto weights = FlatSymbolRefAttr::get(context, kWeightsArena),
             states = FlatSymbolRefAttr::get(context, kStatesArena),
             io = FlatSymbolRefAttr::get(context, kIOArena),
             activations = FlatSymbolRefAttr::get(context, kActivationsArena);
  auto bufferOf = [&](unsigned id, int64_t offset, int64_t bytes, int64_t turn = 0) {
    const Storage &storage = id >= kWeightBase ? shared.weights[id - kWeightBase] : program.storages[id];
    const FlatSymbolRefAttr arena = storage.life == Life::Weights  ? weights
                                    : storage.life == Life::States ? states
                                    : storage.life == Life::IO     ? io
                                                                   : activations;
    return plan::BufferAttr::get(context, arena, storage.offset + offset, bytes,
                                 turn ? ArrayRef<int64_t>(turn) : ArrayRef<int64_t>());
  };
  auto setPlace = [](Operation *binding, IntegerAttr place) {
    if (place)
      binding->setAttr(dist::kPlaceAttrName, place);
  };
  for (const Binding &input : program.inputs)
    setPlace(plan::InputOp::create(b, loc, b.getStringAttr(input.name), TypeAttr::get(input.type),
                                   input.sharding, bufferOf(input.storage, 0, input.bytes), input.range,
                                   input.rangeUser),
             input.place);
  for (const Binding &output : program.outputs)
    setPlace(plan::OutputOp::create(b, loc, b.getStringAttr(output.name), TypeAttr::get(output.type),
                                    output.sharding, bufferOf(output.storage, 0, output.bytes), output.range,
                                    output.rangeUser),
             output.place);
  if (fixedInputs)
    for (NamedAttribute fixed : fixedInputs)
      plan::FixedInputOp::create(b, loc, fixed.getName(), cast<ElementsAttr>(fixed.getValue()));
  const bool hasChunks = program.chunkWaits.size() > 1;
  bool namesChunks = hasChunks && program.turns == 1;
  auto emit = [&](Instruction &instruction, IRMapping &mapping, Value counter) {
    SmallVector<plan::BufferAttr> buffers;
    for (const Access &access : instruction.accesses)
      buffers.push_back(bufferOf(access.storage, access.offset, access.bytes, access.turn));
    for (Value scalar : instruction.scalars)
      cloneScalar(scalar, b, mapping, program.loopAxis, counter);
    Operation *built = instruction.build(b, buffers, mapping);
    if (!built)
      return built;
    built->setLoc(instruction.loc);
    if (isa<plan::LaunchOp>(built))
      built->setAttr(kWorkAttrName, describeWork(instruction.work, b));
    if (instruction.queue)
      built->setAttr("queue", b.getI64IntegerAttr(instruction.queue));
    if (!instruction.waits.empty())
      built->setAttr("waits", b.getDenseI64ArrayAttr(instruction.waits));
    if (instruction.signals)
      built->setAttr("signals", b.getI64IntegerAttr(instruction.signals));
    if (namesChunks)
      built->setAttr(kChunkAttrName, b.getI64IntegerAttr(instruction.chunk));
    return built;
  };
  IRMapping mapping;
  for (Instruction &instruction : program.instructions)
    emit(instruction, mapping, Value());
  namesChunks = hasChunks;
  if (!program.body.empty())
    emitLoop(program, b, loc, mapping, emit);
  // Turns that are left, each with its number.
  std::map<int64_t, std::pair<Value, IRMapping>> ofRest;
  for (Instruction &instruction : program.rest) {
    auto &[number, known] = ofRest.try_emplace(instruction.turn, Value(), mapping).first->second;
    if (!number && !instruction.scalars.empty())
      number = arith::ConstantIndexOp::create(b, loc, instruction.turn);
    emit(instruction, known, number);
  }
  for (Instruction &instruction : program.after)
    emit(instruction, mapping, Value());
}

/// Bytes of the arenas that are a program's own.
struct OwnBytes {
  int64_t activations = 0, io = 0;
};

/// Makes a lowered program's passes and rounds, and finds the places of its storages.
static OwnBytes placeProgram(Program &program, int64_t alignment) {
  if (!program.passes.empty())
    unrollPasses(program, program.passes);
  else
    doubleBuffer(program);
  auto [activations, io] = placeStorages(program, alignment);
  return {activations, io};
}

/// Collectives go ahead of their use as far as that takes little memory, gathers two uses ahead or none:
/// little more than the least that any of these ways takes.
static OwnBytes overlapAndPlace(Program &program, int64_t alignment) {
  constexpr int64_t kUsesAhead = 2;
  auto hasCollectives = [](const std::vector<Instruction> &list) {
    return llvm::any_of(list, [](const Instruction &i) { return i.communicates && i.queue == 0; });
  };
  if (!hasCollectives(program.instructions) && !hasCollectives(program.body) &&
      !hasCollectives(program.after))
    return placeProgram(program, alignment);
  // The first that takes little more than the least of all.
  std::vector<std::pair<Program, OwnBytes>> ways;
  for (int64_t ahead : {kUsesAhead, int64_t(0)}) {
    Program overlapped = program;
    if (!overlapCollectives(overlapped, ahead))
      break;
    const OwnBytes bytes = placeProgram(overlapped, alignment);
    ways.emplace_back(std::move(overlapped), bytes);
  }
  const OwnBytes plain = placeProgram(program, alignment);
  ways.emplace_back(std::move(program), plain);
  int64_t least = plain.activations;
  for (const auto &[way, bytes] : ways)
    least = std::min(least, bytes.activations);
  const auto chosen = llvm::find_if(ways, [&](const auto &way) {
    return way.second.activations <= least + least / colossal::cost::kExchangeShareOfMemory;
  });
  program = std::move(chosen->first);
  return chosen->second;
}

/// Puts what a program gives behind its activations, which takes no memory where another program has more of
/// them: an evaluation's logits lie where a step's activations do.
static void giveInActivations(Program &program, OwnBytes &own, int64_t alignment) {
  llvm::DenseSet<unsigned> given;
  for (const Binding &output : program.outputs)
    given.insert(output.storage);
  own.io = 0;
  for (auto [number, storage] : llvm::enumerate(program.storages)) {
    if (storage.life != Life::IO)
      continue;
    const bool isGiven = given.contains(static_cast<unsigned>(number));
    if (isGiven)
      storage.life = Life::Activations;
    int64_t &end = isGiven ? own.activations : own.io;
    storage.offset = llvm::alignTo(end, alignment);
    end = storage.offset + storage.bytes;
  }
}

/// Arenas for the storages of all programs, whose places are found here.
static void placeArenas(Shared &shared, MutableArrayRef<Program> programs) {
  const int64_t alignment = shared.target.alignment();
  int64_t weights = placeInOrder(shared.weights, Life::Weights, alignment);
  int64_t states = placeInOrder(shared.weights, Life::States, alignment);
  auto [activations, io] = placeStorages(shared.load, alignment);
  for (Program &program : programs) {
    OwnBytes own = overlapAndPlace(program, alignment);
    // Of a training plan the programs run one at a time, and what one gives is read before the next.
    if (!shared.states.empty())
      giveInActivations(program, own, alignment);
    activations = std::max(activations, own.activations);
    io = std::max(io, own.io);
    orderQueues(program);
  }
  ModuleOp module = shared.module;
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  MLIRContext *context = module.getContext();
  auto arena = [&](StringRef name, plan::Life life, int64_t bytes) {
    plan::ArenaOp::create(
        b, module.getLoc(), b.getStringAttr(name), plan::SpaceAttr::get(context, plan::Space::Device),
        plan::LifeAttr::get(context, life), b.getI64IntegerAttr(bytes), b.getI64IntegerAttr(alignment));
  };
  arena(kWeightsArena, plan::Life::Weights, weights);
  if (!shared.states.empty())
    arena(kStatesArena, plan::Life::State, states);
  arena(kActivationsArena, plan::Life::Activations, activations);
  arena(kIOArena, plan::Life::IO, io);
}

/// Sorted by symbol, so that a plan does not depend on the order in which they were asked for.
static void declareKernels(Shared &shared) {
  std::map<std::string, std::pair<int64_t, int64_t>> kernels;
  for (auto &entry : shared.kernels)
    kernels[entry.getKey().str()] = entry.getValue();
  OpBuilder b = OpBuilder::atBlockEnd(shared.module.getBody());
  for (auto &[symbol, shape] : kernels)
    plan::KernelOp::create(b, shared.module.getLoc(), b.getStringAttr(symbol),
                           b.getI64IntegerAttr(shape.first), b.getI64IntegerAttr(shape.second));
}

namespace {
/// Takes kernels and makes nothing of them.
class NoImages final : public codegen::ImageBuilder {
public:
  std::string add(ModuleOp, StringRef name) override { return (name + "_" + Twine(count++)).str(); }
  llvm::Expected<GeneratedCode> finish() override { return GeneratedCode(); }

private:
  unsigned count = 0;
};
} // namespace

/// Schedules one stage, or a module without stages.
static LogicalResult scheduleStage(Shared &shared) {
  registerCommonLowerings(shared.lowerings);
  shared.target.registerLowerings(shared.lowerings);
  SmallVector<func::FuncOp> functions(shared.module.getOps<func::FuncOp>());
  std::vector<Program> programs;
  for (func::FuncOp function : functions) {
    if (function.isExternal())
      continue;
    auto program = lowerFunction(function, shared);
    if (failed(program))
      return failure();
    programs.push_back(std::move(*program));
  }
  placeArenas(shared, programs);
  declareKernels(shared);
  emitProgram(shared.load, shared, "load", plan::Role::Load, {}, {}, shared.module.getLoc());
  unsigned next = 0;
  for (func::FuncOp function : functions) {
    if (function.isExternal())
      continue;
    std::string name = function.getName().str();
    auto role = function->getAttrOfType<StringAttr>(dist::kRoleAttrName);
    emitProgram(programs[next++], shared, name == "load" ? "infer" : name,
                role ? plan::symbolizeRole(role.getValue()).value_or(plan::Role::Infer) : plan::Role::Infer,
                function->getAttrOfType<DictionaryAttr>("colossal.bound_dims"),
                function->getAttrOfType<DictionaryAttr>("colossal.bound_inputs"), function.getLoc());
  }
  emitStates(shared);
  for (func::FuncOp function : functions) {
    const std::string name = function.getName().str();
    Attribute pipeline = function->getAttr(dist::kPipelineAttrName);
    function.erase();
    if (pipeline) // prices are made by it
      shared.module.lookupSymbol<plan::ProgramOp>(name)->setAttr(dist::kPipelineAttrName, pipeline);
  }
  return success();
}

std::unique_ptr<codegen::ImageBuilder> schedule::prepareKernels(MLIRContext &context,
                                                                const ScheduleOptions &options) {
  unsigned threads = options.threads ? options.threads : llvm::hardware_concurrency().compute_thread_count();
  return options.target->createImages(context, options.compileKernels ? threads : 0);
}

LogicalResult schedule::schedule(ModuleOp module, const ScheduleOptions &options,
                                 std::unique_ptr<codegen::ImageBuilder> &kernels) {
  if (!options.target)
    return module.emitError("there is no target to schedule for");
  const codegen::Target &target = *options.target;
  module.getContext()->loadDialect<plan::PlanDialect>();
  // Also where it is not used: it loads the dialects of kernels.
  std::unique_ptr<codegen::ImageBuilder> images =
      kernels ? std::move(kernels) : prepareKernels(*module.getContext(), options);
  if (!options.compileKernels)
    images = std::make_unique<NoImages>();
  KernelCache generated;
  for (ModuleOp stage : dist::getStages(module)) {
    Shared shared{stage, options, target, *images, generated, {}, {}, {}, {}, {}, {}, {}, {}};
    if (failed(scheduleStage(shared)))
      return failure();
  }
  kernels = std::move(images);
  if (options.generated)
    *options.generated = std::move(generated);
  return success();
}

LogicalResult schedule::finishKernels(ModuleOp module, codegen::ImageBuilder &kernels, GeneratedCode &code) {
  llvm::Expected<GeneratedCode> finished = kernels.finish();
  if (!finished)
    return module.emitError("kernels could not be compiled: ") << llvm::toString(finished.takeError());
  code = std::move(*finished);
  return success();
}

LogicalResult schedule::schedule(ModuleOp module, const ScheduleOptions &options, GeneratedCode &code) {
  std::unique_ptr<codegen::ImageBuilder> kernels;
  return success(succeeded(schedule(module, options, kernels)) &&
                 succeeded(finishKernels(module, *kernels, code)));
}

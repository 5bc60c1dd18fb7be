//===- Schedule.cpp - programs, arenas, kernels -----------------------------===//
#include "colossal/Schedule/Schedule.h"
#include "ArenaAllocator.h"
#include "Program.h"

#include "dialects/Colossal/Colossal.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

#include <map>

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

static constexpr llvm::StringLiteral kWeightsArena = "weights", kActivationsArena = "activations",
                                     kIOArena = "io";

static int64_t place(std::vector<Storage> &storages) {
  int64_t end = 0;
  for (Storage &storage : storages) {
    storage.offset = end;
    end = llvm::alignTo(end + storage.bytes, 64);
  }
  return end;
}

std::pair<int64_t, int64_t> schedule::placeStorages(Program &program) {
  std::vector<Lifetime> lifetimes(program.storages.size(), {0, -1, -1});
  for (auto [i, step] : llvm::enumerate(program.steps))
    for (const Access &access : step.accesses) {
      if (access.storage >= kWeightBase)
        continue;
      Lifetime &life = lifetimes[access.storage];
      if (life.first < 0)
        life.first = i;
      life.last = i;
    }
  std::vector<unsigned> dynamic;
  std::vector<Lifetime> alive;
  int64_t io = 0;
  for (auto [i, storage] : llvm::enumerate(program.storages)) {
    if (storage.life == Life::IO) {
      storage.offset = io;
      io = llvm::alignTo(io + storage.bytes, 64);
    } else if (storage.bytes && lifetimes[i].first >= 0) {
      lifetimes[i].bytes = storage.bytes;
      dynamic.push_back(i);
      alive.push_back(lifetimes[i]);
    } else {
      storage.offset = 0;
    }
  }
  ArenaPlan plan = allocate(alive);
  for (auto [index, offset] : llvm::zip(dynamic, plan.offsets))
    program.storages[index].offset = offset;
  return {(int64_t)plan.bytes, io};
}

/// Clones index arithmetic into a program.
static Value cloneScalar(Value value, OpBuilder &b, IRMapping &mapping) {
  if (Value known = mapping.lookupOrNull(value))
    return known;
  Operation *op = value.getDefiningOp();
  for (Value operand : op->getOperands())
    cloneScalar(operand, b, mapping);
  return b.clone(*op, mapping)->getResult(cast<OpResult>(value).getResultNumber());
}

/// As Schedule.h says of kWorkAttrName.
static Attribute describeWork(const Work &work, Builder &b) {
  static constexpr const char *kinds[] = {"elements", "contraction", "convolution", "attention"};
  return b.getDictionaryAttr(
      {b.getNamedAttr("kind", b.getStringAttr(kinds[static_cast<unsigned>(work.kind)])),
       b.getNamedAttr("operations", b.getI64IntegerAttr(work.operations)),
       b.getNamedAttr("sizes", b.getDenseI64ArrayAttr({work.batch, work.m, work.n, work.k}))});
}

void schedule::emitProgram(Program &program, Shared &shared, StringRef name, plan::Role role,
                           DictionaryAttr dimensions, DictionaryAttr fixedInputs, Location loc) {
  MLIRContext *context = shared.module.getContext();
  OpBuilder b = OpBuilder::atBlockEnd(shared.module.getBody());
  auto op = plan::ProgramOp::create(b, loc, b.getStringAttr(name), plan::RoleAttr::get(context, role),
                                    dimensions, FloatAttr());
  Block *body = b.createBlock(&op.getBody());
  b.setInsertionPointToEnd(body);
  auto bufferOf = [&](unsigned id, int64_t offset, int64_t bytes) {
    bool weight = id >= kWeightBase;
    const Storage &storage = weight ? shared.weights[id - kWeightBase] : program.storages[id];
    StringRef arena = weight                     ? StringRef(kWeightsArena)
                      : storage.life == Life::IO ? StringRef(kIOArena)
                                                 : StringRef(kActivationsArena);
    return plan::BufferAttr::get(context, FlatSymbolRefAttr::get(context, arena), storage.offset + offset,
                                 bytes);
  };
  for (const Binding &input : program.inputs)
    plan::InputOp::create(b, loc, b.getStringAttr(input.name), TypeAttr::get(input.type), input.sharding,
                          bufferOf(input.storage, 0, input.bytes), input.range, input.rangeUser);
  for (const Binding &output : program.outputs)
    plan::OutputOp::create(b, loc, b.getStringAttr(output.name), TypeAttr::get(output.type), output.sharding,
                           bufferOf(output.storage, 0, output.bytes), output.range, output.rangeUser);
  if (fixedInputs)
    for (NamedAttribute fixed : fixedInputs)
      plan::FixedInputOp::create(b, loc, fixed.getName(), cast<ElementsAttr>(fixed.getValue()));
  IRMapping mapping;
  for (Step &step : program.steps) {
    SmallVector<plan::BufferAttr> buffers;
    for (const Access &access : step.accesses)
      buffers.push_back(bufferOf(access.storage, access.offset, access.bytes));
    for (Value scalar : step.scalars)
      cloneScalar(scalar, b, mapping);
    Operation *built = step.build(b, buffers, mapping);
    if (isa_and_nonnull<plan::LaunchOp>(built))
      built->setAttr(kWorkAttrName, describeWork(step.work, b));
  }
}

LogicalResult schedule::schedule(ModuleOp module, const ScheduleOptions &options, GeneratedCode &code) {
  auto target = cpu::Target::create(options.targetCpu.empty() ? "host" : options.targetCpu);
  if (!target)
    return module.emitError(llvm::toString(target.takeError()));
  cpu::KernelFunction::loadDialects(*module.getContext());
  module.getContext()->loadDialect<plan::PlanDialect>();
  cpu::KernelCompiler compiler(
      *target, options.threads ? options.threads : llvm::hardware_concurrency().compute_thread_count());
  Shared shared{module, *target, compiler, options.rankThreads, options.winograd, {}, {}, {}, {}, {}, {}};

  SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
  std::vector<Program> programs;
  for (func::FuncOp function : functions) {
    if (function.isExternal())
      continue;
    auto program = lowerFunction(function, shared);
    if (failed(program))
      return failure();
    programs.push_back(std::move(*program));
  }
  int64_t weights = place(shared.weights);
  auto [activations, io] = placeStorages(shared.load);
  for (Program &program : programs) {
    auto [ownActivations, ownIO] = placeStorages(program);
    activations = std::max(activations, ownActivations);
    io = std::max(io, ownIO);
  }
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  MLIRContext *context = module.getContext();
  auto arena = [&](StringRef name, plan::Life life, int64_t bytes) {
    plan::ArenaOp::create(
        b, module.getLoc(), b.getStringAttr(name), plan::SpaceAttr::get(context, plan::Space::Device),
        plan::LifeAttr::get(context, life), b.getI64IntegerAttr(bytes), b.getI64IntegerAttr(64));
  };
  arena(kWeightsArena, plan::Life::Weights, weights);
  arena(kActivationsArena, plan::Life::Activations, activations);
  arena(kIOArena, plan::Life::IO, io);
  std::map<std::string, std::pair<int64_t, int64_t>> kernels;
  for (auto &entry : shared.kernels)
    kernels[entry.getKey().str()] = entry.getValue();
  for (auto &[symbol, shape] : kernels)
    plan::KernelOp::create(b, module.getLoc(), b.getStringAttr(symbol), b.getI64IntegerAttr(shape.first),
                           b.getI64IntegerAttr(shape.second));
  emitProgram(shared.load, shared, "load", plan::Role::Load, {}, {}, module.getLoc());
  unsigned next = 0;
  for (func::FuncOp function : functions) {
    if (function.isExternal())
      continue;
    std::string name = function.getName().str();
    emitProgram(programs[next++], shared, name == "load" ? "infer" : name, plan::Role::Infer,
                function->getAttrOfType<DictionaryAttr>("colossal.bound_dims"),
                function->getAttrOfType<DictionaryAttr>("colossal.bound_inputs"), function.getLoc());
  }
  for (func::FuncOp function : functions)
    function.erase();
  auto image = compiler.finish();
  if (!image)
    return module.emitError("kernels could not be compiled: ") << llvm::toString(image.takeError());
  code.image = std::move(*image);
  code.triple = target->triple();
  code.cpu = target->cpu();
  code.features = target->requiredFeatures();
  code.kernels = compiler.statistics().compiled;
  return success();
}

//===- OutlinePrograms.cpp - repeated text of programs is one function -------===//
//
// The layers of a model become instructions that differ by places only: where their weights lie, which
// parameters they load, sometimes where their values are. Parts of a program that do are one function, called
// with numbers that its buffers move by:
//
//   launch @k [activations[0], weights[0]]        function @main_block0(%a0)
//   launch @k [activations[0], weights[4096]]       launch @k [activations[0], weights[0] by [4096]]
//   launch @k [activations[0], weights[8192]] ->  program: call @main_block0(0), (1), (2)
//
// Nothing is moved: every call runs the instructions that stood in its place. A number stands for all places
// that move in proportion, so that layers whose weights lie at equal distances are told apart by one, their
// count.
//
//===----------------------------------------------------------------------===//
#include "NameTemplates.h"
#include "OutlinedEvents.h"
#include "Repetitions.h"

#include "colossal/Schedule/Schedule.h"
#include "dialects/Dist/Stages.h"
#include "dialects/Plan/InstructionNames.h"
#include "dialects/Plan/PlanDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringMap.h"

#include <map>
#include <numeric>

using namespace mlir;
using namespace colossal;

namespace {

/// A function takes at most so many arguments (docs/PlanFormat.md).
constexpr size_t kMostArguments = 64;
/// The word of what belongs to no function.
constexpr unsigned kBarrier = 0;

/// What is no instruction: index arithmetic, which instructions refer to.
bool isArithmetic(Operation &op) {
  return isa<dist::CoordinateOp>(op) || isa<arith::ArithDialect>(op.getDialect());
}

/// Numbers for lists of words; equal lists have equal numbers.
class Numbering {
public:
  unsigned get(std::vector<uint64_t> key) {
    return numbers.try_emplace(std::move(key), numbers.size() + 1).first->second;
  }

private:
  std::map<std::vector<uint64_t>, unsigned> numbers;
};

uint64_t getWord(const void *pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

/// An instruction: its place apart, which a function's argument may move.
struct Item {
  Operation *op;
  unsigned word; ///< equal for instructions that differ by places and names only
  SmallVector<int64_t, 8>
      places; ///< offsets of buffers, in the order of the attributes; then a parameter's index
};

class Outliner {
public:
  /// By symbol: a parameter, and its place in the plan's table.
  using Parameters = llvm::StringMap<std::pair<plan::ParameterOp, int64_t>>;

  /// A function saves at least `least` instructions.
  Outliner(ModuleOp module, const Parameters &parameters, int64_t least)
      : module(module), parameters(parameters), least(least), context(module.getContext()) {}

  void run() {
    SmallVector<plan::ProgramOp> programs(module.getOps<plan::ProgramOp>());
    for (plan::ProgramOp op : programs) {
      program = op;
      count = 0;
      functions.clear();
      outline(op.getBody().front());
    }
  }

private:
  void outline(Block &block);
  Item describe(Operation *op, const std::optional<SmallVector<uint64_t>> &distances);
  unsigned describeIndex(Value value);
  void makeFunction(Block &block, ArrayRef<Item> items, const schedule::Repetition &repetition,
                    schedule::OutlinedEvents *events);
  Value getConstant(Block &block, int64_t value);

  ModuleOp module;
  const Parameters &parameters; ///< by symbol
  int64_t least;
  MLIRContext *context;
  plan::ProgramOp program;
  unsigned count = 0;                      ///< functions of the program
  SmallVector<plan::FunctionOp> functions; ///< those
  SmallVector<Value> counters;             ///< of the repeats around the block, outermost first
  Numbering words, indices;
  llvm::DenseMap<Value, unsigned> indexOf;
  llvm::DenseMap<int64_t, Value> constants; ///< at the block's begin
};

/// A number that equal index arithmetic has in common.
unsigned Outliner::describeIndex(Value value) {
  if (unsigned known = indexOf.lookup(value))
    return known;
  std::vector<uint64_t> key;
  if (Operation *op = value.getDefiningOp()) {
    key = {getWord(op->getName().getAsOpaquePointer()), getWord(op->getAttrDictionary().getAsOpaquePointer()),
           cast<OpResult>(value).getResultNumber()};
    for (Value operand : op->getOperands())
      key.push_back(describeIndex(operand));
  } else {
    key = {getWord(value.getAsOpaquePointer())};
  }
  return indexOf[value] = indices.get(std::move(key));
}

/// `distances`: how far before it those stand that it waits for; none where its events keep it where it is.
Item Outliner::describe(Operation *op, const std::optional<SmallVector<uint64_t>> &distances) {
  Item item{op, kBarrier, {}};
  // Messages belong to the border of a stage; and instructions are compared by attributes and operands, not
  // by what stands inside of them.
  if (isa<plan::CallOp, plan::SendOp, plan::RecvOp>(op) || op->getNumRegions() > 0 ||
      op->getNumResults() > 0 || !distances)
    return item;
  std::vector<uint64_t> key{getWord(op->getName().getAsOpaquePointer()), distances->size()};
  key.insert(key.end(), distances->begin(), distances->end());
  auto addBuffer = [&](plan::BufferAttr buffer) {
    key.push_back(getWord(buffer.getArena().getAsOpaquePointer()));
    key.push_back(buffer.getBytes());
    key.push_back(buffer.getStrides().size());
    key.insert(key.end(), buffer.getStrides().begin(), buffer.getStrides().end());
    item.places.push_back(static_cast<int64_t>(buffer.getOffset()));
  };
  auto addAttribute = [&](StringAttr name, Attribute value) {
    if (!value || name == "waits" || name == "signals")
      return;
    key.push_back(getWord(name.getAsOpaquePointer()));
    auto buffers = dyn_cast<ArrayAttr>(value);
    if (auto buffer = dyn_cast<plan::BufferAttr>(value)) {
      addBuffer(buffer);
    } else if (buffers && llvm::all_of(buffers, llvm::IsaPred<plan::BufferAttr>)) {
      key.push_back(buffers.size());
      for (Attribute buffer : buffers)
        addBuffer(cast<plan::BufferAttr>(buffer));
    } else if (auto load = dyn_cast<plan::LoadParameterOp>(op);
               !load || name != load.getParameterAttrName()) {
      key.push_back(getWord(value.getAsOpaquePointer()));
    }
  };
  for (StringAttr name : op->getName().getAttributeNames()) // a dictionary would be sorted and kept
    addAttribute(name, op->getInherentAttr(name).value_or(Attribute()));
  for (NamedAttribute attribute : op->getDiscardableAttrs())
    addAttribute(attribute.getName(), attribute.getValue());
  for (Value operand : op->getOperands())
    key.push_back(describeIndex(operand));
  if (auto load = dyn_cast<plan::LoadParameterOp>(op)) {
    auto [parameter, place] = parameters.at(load.getParameter());
    key.push_back(getWord(parameter.getTypeAttr().getAsOpaquePointer()));
    item.places.push_back(place);
  }
  item.word = words.get(std::move(key));
  return item;
}

Value Outliner::getConstant(Block &block, int64_t value) {
  Value &constant = constants[value];
  if (!constant) {
    OpBuilder b = OpBuilder::atBlockBegin(&block);
    constant = arith::ConstantIndexOp::create(b, program.getLoc(), value);
  }
  return constant;
}

/// The arguments of a function: what places move by, from call to call.
class Arguments {
public:
  /// How `places`, one for each call, move: by how much for each argument, most of which are 0.
  struct Move {
    size_t argument = 0;
    int64_t stride = 0;
  };
  Move add(ArrayRef<int64_t> places) {
    std::vector<int64_t> steps;
    int64_t common = 0;
    for (int64_t place : places) {
      steps.push_back(place - places.front());
      common = std::gcd(common, steps.back());
    }
    if (common == 0)
      return {};
    if (*llvm::find_if(steps, [](int64_t step) { return step != 0; }) < 0)
      common = -common;
    for (int64_t &step : steps)
      step /= common;
    auto [known, isNew] = numbers.try_emplace(steps, values.size());
    if (isNew)
      values.push_back(std::move(steps));
    return {known->second, common};
  }

  std::vector<std::vector<int64_t>> values; ///< by argument and call

private:
  std::map<std::vector<int64_t>, size_t> numbers;
};

/// Clones index arithmetic into a function.
Value cloneIndex(Value value, OpBuilder &b, IRMapping &mapping) {
  if (Value known = mapping.lookupOrNull(value))
    return known;
  Operation *op = value.getDefiningOp();
  for (Value operand : op->getOperands())
    cloneIndex(operand, b, mapping);
  return b.clone(*op, mapping)->getResult(cast<OpResult>(value).getResultNumber());
}

void Outliner::makeFunction(Block &block, ArrayRef<Item> items, const schedule::Repetition &repetition,
                            schedule::OutlinedEvents *events) {
  ArrayRef<size_t> starts = repetition.starts;
  auto waits = events ? events->findWaits(repetition)
                      : std::optional(std::vector<SmallVector<int64_t>>(repetition.length));
  if (!waits)
    return;
  Arguments arguments;
  SmallVector<SmallVector<Arguments::Move, 8>> moves(repetition.length);
  for (size_t i = 0; i < repetition.length; ++i)
    for (size_t p = 0; p < items[starts.front() + i].places.size(); ++p) {
      SmallVector<int64_t> places;
      for (size_t start : starts)
        places.push_back(items[start + i].places[p]);
      moves[i].push_back(arguments.add(places));
    }
  if (counters.size() + arguments.values.size() > kMostArguments)
    return;

  const std::vector<int64_t> signals =
      events ? events->merge(repetition) : std::vector<int64_t>(repetition.length, 0);
  OpBuilder b(program);
  std::string name = (program.getSymName() + "_block" + Twine(count++)).str();
  auto function = plan::FunctionOp::create(b, program.getLoc(), b.getStringAttr(name));
  functions.push_back(function);
  SmallVector<Type> types(counters.size() + arguments.values.size(), b.getIndexType());
  Block *body =
      b.createBlock(&function.getBody(), {}, types, SmallVector<Location>(types.size(), program.getLoc()));
  IRMapping mapping;
  mapping.map(counters, body->getArguments().take_front(counters.size()));
  auto getStrides = [&](ArrayRef<int64_t> known, const Arguments::Move &move) {
    SmallVector<int64_t> strides(known);
    if (move.stride != 0) {
      strides.resize(counters.size() + move.argument + 1);
      strides.back() = move.stride;
    }
    return strides;
  };
  schedule::NameTemplates templates(starts.size());
  for (size_t i = 0; i < repetition.length; ++i) {
    Operation *first = items[starts.front() + i].op;
    for (Value operand : first->getOperands())
      cloneIndex(operand, b, mapping);
    Operation *made = b.clone(*first, mapping);
    made->removeAttr("waits");
    made->removeAttr("signals");
    if (!(*waits)[i].empty())
      made->setAttr("waits", b.getDenseI64ArrayAttr((*waits)[i]));
    if (signals[i])
      made->setAttr("signals", b.getI64IntegerAttr(signals[i]));
    size_t next = 0;
    auto move = [&](plan::BufferAttr buffer) -> Attribute {
      return plan::BufferAttr::get(context, buffer.getArena(), buffer.getOffset(), buffer.getBytes(),
                                   getStrides(buffer.getStrides(), moves[i][next++]));
    };
    for (NamedAttribute attribute : first->getAttrDictionary()) {
      auto buffers = dyn_cast<ArrayAttr>(attribute.getValue());
      if (auto buffer = dyn_cast<plan::BufferAttr>(attribute.getValue())) {
        made->setAttr(attribute.getName(), move(buffer));
      } else if (buffers && llvm::all_of(buffers, llvm::IsaPred<plan::BufferAttr>)) {
        SmallVector<Attribute> moved;
        for (Attribute each : buffers)
          moved.push_back(move(cast<plan::BufferAttr>(each)));
        made->setAttr(attribute.getName(), b.getArrayAttr(moved));
      }
    }
    if (auto load = dyn_cast<plan::LoadParameterOp>(made); load && moves[i][next].stride != 0)
      load.setStridesAttr(b.getDenseI64ArrayAttr(getStrides({}, moves[i][next])));
    for (auto [attribute, get] : {std::pair(plan::kNamesAttrName, &plan::getNames),
                                  std::pair(plan::kOperatorsAttrName, &plan::getOperators)}) {
      SmallVector<SmallVector<StringRef>> names;
      size_t most = 0;
      for (size_t start : starts) {
        names.push_back(get(items[start + i].op));
        most = std::max(most, names.back().size());
      }
      SmallVector<Attribute> texts;
      for (size_t n = 0; n < most; ++n) {
        SmallVector<StringRef> of;
        for (ArrayRef<StringRef> own : names)
          of.push_back(n < own.size() ? own[n] : StringRef());
        texts.push_back(b.getStringAttr(templates.add(of)));
      }
      if (!texts.empty())
        made->setAttr(attribute, b.getArrayAttr(texts));
    }
  }

  for (auto [number, start] : llvm::enumerate(starts)) {
    SmallVector<Value> operands(counters);
    for (const std::vector<int64_t> &values : arguments.values)
      operands.push_back(getConstant(block, values[number]));
    std::vector<std::string> names = templates.getNames(number);
    SmallVector<Attribute> texts;
    for (const std::string &text : names)
      texts.push_back(b.getStringAttr(text));
    b.setInsertionPoint(items[start].op);
    plan::CallOp::create(b, b.getUnknownLoc(), FlatSymbolRefAttr::get(function.getSymNameAttr()), operands,
                         texts.empty() ? ArrayAttr() : b.getArrayAttr(texts));
    for (size_t i = 0; i < repetition.length; ++i)
      items[start + i].op->erase();
  }
}

void Outliner::outline(Block &block) {
  constants.clear();
  std::vector<Item> items;
  std::vector<Operation *> instructions;
  SmallVector<plan::RepeatOp> repeats;
  for (Operation &op : block) {
    if (isArithmetic(op) || isa<plan::InputOp, plan::OutputOp, plan::FixedInputOp>(op))
      continue;
    instructions.push_back(&op);
    if (auto repeat = dyn_cast<plan::RepeatOp>(op))
      repeats.push_back(repeat);
  }
  // What stands in a repeat is ordered with other turns, too: it keeps its events.
  std::optional<schedule::OutlinedEvents> events;
  if (counters.empty())
    events.emplace(program, instructions);
  for (auto [i, op] : llvm::enumerate(instructions)) {
    std::optional<SmallVector<uint64_t>> distances;
    if (events)
      distances = events->getDistances(i);
    else if (!op->hasAttr("waits") && !op->hasAttr("signals"))
      distances.emplace();
    items.push_back(describe(op, distances));
  }
  std::vector<unsigned> sequence;
  for (const Item &item : items)
    sequence.push_back(item.word);
  for (const schedule::Repetition &repetition : schedule::findRepetitions(sequence, kBarrier + 1, least))
    makeFunction(block, items, repetition, events ? &*events : nullptr);
  if (events)
    events->finish(functions);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isArithmetic(op) && op.use_empty()) {
      for (Value result : op.getResults())
        indexOf.erase(result); // another value may come to lie there
      op.erase();
    }
  for (plan::RepeatOp repeat : repeats) {
    counters.push_back(repeat.getBody().getArgument(0));
    outline(repeat.getBody().front());
    counters.pop_back();
  }
}

} // namespace

namespace colossal::schedule {
#define GEN_PASS_DECL_OUTLINEPROGRAMS
#define GEN_PASS_DEF_OUTLINEPROGRAMS
#include "colossal/Schedule/Passes.h.inc"

namespace {
struct OutlineProgramsPass : impl::OutlineProgramsBase<OutlineProgramsPass> {
  using OutlineProgramsBase::OutlineProgramsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    // The table is that of all stages, and holds what several of them load where the first of them has it.
    llvm::StringMap<int64_t> placeOf;
    for (ModuleOp stage : dist::getStages(module)) {
      Outliner::Parameters parameters;
      for (auto parameter : stage.getOps<plan::ParameterOp>()) {
        const int64_t place =
            placeOf.try_emplace(parameter.getName(), static_cast<int64_t>(placeOf.size())).first->second;
        parameters[parameter.getSymName()] = {parameter, place};
      }
      Outliner(stage, parameters, least).run();
    }
  }
};
} // namespace

std::unique_ptr<Pass> createOutlineProgramsPass() {
  return std::make_unique<OutlineProgramsPass>();
}
} // namespace colossal::schedule

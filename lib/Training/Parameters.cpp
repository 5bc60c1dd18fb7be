//===- Parameters.cpp - which parameters are trained --------------------------===//
//
// What a PyTorch user finds in parameters(). A file has more tensors of floats than these: constants of
// formulas, frequencies, tables of cosines and sines, masks, statistics. Some exporters say what was a
// parameter of the module and what a buffer. Else they are known by what they are used for and by what stands
// in them. Names decide nothing but where a buffer has one by which everybody calls it, or an exporter has
// numbered what it made.
//
//===----------------------------------------------------------------------===//
#include "Parameters.h"

#include "Contents.h"
#include "colossal/Import/ParameterRoles.h"
#include "colossal/Outline/OpNames.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::training;
using outline::NamePattern;

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

namespace {
/// The expressions of one option.
class Patterns {
public:
  LogicalResult parse(StringRef name, ArrayRef<std::string> texts, Location loc) {
    option = name;
    for (const std::string &text : texts) {
      std::string error;
      std::optional<NamePattern> pattern = NamePattern::parse(text, error);
      if (!pattern)
        return emitError(loc) << option << " '" << text << "': " << error;
      all.push_back({text, std::move(*pattern), false});
    }
    return success();
  }
  /// Whether one matches one of `names`.
  bool match(ArrayRef<std::string> names) {
    bool matches = false;
    for (One &one : all)
      if (one.pattern.matches(names))
        matches = one.isUsed = true;
    return matches;
  }
  /// Fails where one has matched nothing.
  LogicalResult check(Location loc) const {
    bool isUsed = true;
    for (const One &one : all)
      if (!one.isUsed) {
        emitError(loc)
            << option << " '" << one.text
            << "' matches no parameter (--print-parameters lists them; what stands somewhere in a name is '.*"
            << one.text << ".*')";
        isUsed = false;
      }
    return success(isUsed);
  }
  bool empty() const { return all.empty(); }

private:
  struct One {
    std::string text;
    NamePattern pattern;
    bool isUsed;
  };
  StringRef option;
  std::vector<One> all;
};

struct Rules {
  Patterns train, freeze, noDecay, tie, untie;
};
} // namespace

static std::vector<std::string> getAllNames(ParameterOp op) {
  std::vector<std::string> names{op.getName().str()};
  if (auto aliases = op.getAliasesAttr())
    for (auto alias : aliases.getAsRange<StringAttr>())
      names.push_back(alias.str());
  return names;
}

//===----------------------------------------------------------------------===//
// Merged parameters
//===----------------------------------------------------------------------===//

static bool isMovement(Operation *op) {
  auto kernel = dyn_cast<KernelOpInterface>(op);
  return kernel && kernel.getKernelKind() == KernelKind::Movement;
}

/// The ops that read a parameter, through what only moves it.
static void findReaders(Value value, llvm::SetVector<Operation *> &readers) {
  for (Operation *user : value.getUsers())
    if (isMovement(user) && user->getNumOperands() == 1)
      findReaders(user->getResult(0), readers);
    else
      readers.insert(user);
}

/// The movements between `original` and an operand, the last first; none where it is not read there.
static std::optional<SmallVector<Operation *>> findPath(Value at, Value original) {
  SmallVector<Operation *> path;
  while (at != original) {
    Operation *def = at.getDefiningOp();
    if (!def || !isMovement(def) || def->getNumOperands() != 1)
      return std::nullopt;
    path.push_back(def);
    at = def->getOperand(0);
  }
  return path;
}

/// The operands in which `reader` reads `original`.
static SmallVector<OpOperand *> findUses(Operation *reader, Value original) {
  SmallVector<OpOperand *> uses;
  for (OpOperand &operand : reader->getOpOperands())
    if (findPath(operand.get(), original))
      uses.push_back(&operand);
  return uses;
}

/// Makes `use` read `copy` in the place of `original`, by movements of its own.
static void redirect(OpOperand &use, Value original, Value copy) {
  OpBuilder b(use.getOwner());
  const std::optional<SmallVector<Operation *>> path = findPath(use.get(), original);
  for (Operation *movement : llvm::reverse(*path)) {
    IRMapping mapping;
    mapping.map(movement->getOperand(0), copy);
    copy = b.clone(*movement, mapping)->getResult(0);
  }
  use.set(copy);
}

/// What tells readers apart that are of one node: its name.
static std::string getNode(Operation *op) {
  std::vector<std::string> names = outline::getNames(op->getLoc());
  return names.empty() ? op->getName().getStringRef().str() : names.front();
}

/// Gives every node that reads `op` a parameter of its own, the first the one that there is, and every place
/// of a concatenation, too: what lies there twice, as two tokens before a sequence do, are two things. `add`
/// is told of the others, with the node's name, and the place behind it where it is not the node's first.
static void separate(ParameterOp op, llvm::function_ref<void(ParameterOp, const std::string &)> add) {
  llvm::SetVector<Operation *> found;
  findReaders(op.getResult(), found);
  // In the order of the model: that of uses depends on what was rewritten before.
  SmallVector<Operation *> readers = found.takeVector();
  llvm::sort(readers, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  llvm::MapVector<StringRef, SmallVector<OpOperand *>> ofNode;
  llvm::StringSet<> names;
  for (Operation *reader : readers) {
    const std::string node = getNode(reader);
    for (auto [place, use] : llvm::enumerate(findUses(reader, op.getResult()))) {
      const bool isOther = place > 0 && isa<ConcatOp>(reader);
      StringRef name = names.insert(isOther ? node + ":" + std::to_string(place) : node).first->getKey();
      ofNode[name].push_back(use);
    }
  }
  if (ofNode.size() > 1) // the exporter has said it of one of them
    op->removeAttr(kModuleRoleAttr);
  bool isFirst = true;
  OpBuilder b(op);
  b.setInsertionPointAfter(op);
  for (auto &[node, group] : ofNode) {
    if (std::exchange(isFirst, false))
      continue;
    auto copy = cast<ParameterOp>(b.clone(*op));
    for (OpOperand *use : group)
      redirect(*use, op.getResult(), copy.getResult());
    add(copy, node.str());
  }
}

//===----------------------------------------------------------------------===//
// Classification
//===----------------------------------------------------------------------===//

static bool isReadTwice(ParameterOp op) {
  llvm::SetVector<Operation *> readers;
  findReaders(op.getResult(), readers);
  return readers.size() > 1 || (!readers.empty() && findUses(readers.front(), op.getResult()).size() > 1);
}

/// Whether all that is computed from `value` goes through a sine or cosine.
static bool feedsAnglesOnly(Value value, bool &isAngle, int depth = 0) {
  if (depth > 32)
    return false;
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    if (auto op = dyn_cast<ElementwiseOp>(user);
        op && (op.getKind() == ElementwiseKind::Sin || op.getKind() == ElementwiseKind::Cos))
      return isAngle = true;
    return user->getNumResults() > 0 && llvm::all_of(user->getResults(), [&](Value result) {
             return feedsAnglesOnly(result, isAngle, depth + 1);
           });
  });
}

/// A factor of products, or what is looked up: what weights are, and masks are not.
static bool isWeight(Value value) {
  llvm::SetVector<Operation *> readers;
  findReaders(value, readers);
  return llvm::any_of(readers, [](Operation *reader) {
    auto kernel = dyn_cast<KernelOpInterface>(reader);
    const KernelKind kind = kernel ? kernel.getKernelKind() : KernelKind::Element;
    return kind == KernelKind::Contraction || kind == KernelKind::Convolution || isa<GatherOp>(reader);
  });
}

static bool isSlope(Value value) {
  llvm::SetVector<Operation *> readers;
  findReaders(value, readers);
  return llvm::any_of(readers, [](Operation *reader) {
    auto op = dyn_cast<ElementwiseOp>(reader);
    return op && op.getKind() == ElementwiseKind::PRelu;
  });
}

/// Added to the scores of an attention, and nothing else: what masks are, weights and biases are not.
static bool isAddedToScores(Value value) {
  llvm::SetVector<Operation *> readers;
  findReaders(value, readers);
  return !readers.empty() && llvm::all_of(readers, [](Operation *reader) {
    if (isa<AttentionOp>(reader))
      return true;
    auto op = dyn_cast<ElementwiseOp>(reader);
    return op && op.getKind() == ElementwiseKind::Add && !op->use_empty() &&
           llvm::all_of(op->getUsers(), llvm::IsaPred<SoftmaxOp>);
  });
}

/// The last part of a dotted name.
static StringRef getLastPart(StringRef name) {
  return name.substr(name.rfind('.') + 1);
}

/// What the exporter says of `op`, or "". What is equal everywhere and read by several nodes may be several
/// things that were merged: it speaks of one.
static StringRef getModuleRole(ParameterOp op, const std::optional<Contents> &contents) {
  auto role = op->getAttrOfType<StringAttr>(kModuleRoleAttr);
  auto type = cast<RankedTensorType>(op.getType());
  if (!role || (contents && contents->isUniformIn(type.getShape()) && isReadTwice(op)))
    return "";
  return role.getValue();
}

/// Why `op` is not trained though the loss depends on it, or "".
static std::string findReason(ParameterOp op, ContentsReader &reader) {
  auto type = cast<RankedTensorType>(op.getType());
  const StringRef name = op.getName(), last = getLastPart(name);
  if (!isa<FloatType>(type.getElementType()))
    return "its elements are " +
           (isa<IntegerType>(type.getElementType()) ? std::string("integers") : "no floats");
  if (op->hasAttr(kStatisticAttr))
    return "a running statistic of a batch normalization";
  if (op->hasAttr(kClassWeightsAttr))
    return "a loss weighs its classes by it";
  if (op->hasAttr(kConstantNodeAttr))
    return "the file has it as a constant, not as an initializer";
  std::optional<Contents> contents = reader.read(op);
  const StringRef role = getModuleRole(op, contents);
  if (role == kIsModuleBuffer)
    return "a buffer of the module, as the exporter says";
  if (role == kIsModuleParameter)
    // That it asks for no gradient, as such tables do, the file does not say.
    return contents && describeFixedContents(*contents, type.getShape()) == kCosinesAndSines
               ? kCosinesAndSines.str()
               : "";
  static const llvm::StringSet<> buffers = {"running_mean", "running_var", "inv_freq",
                                            "cos_cached",   "sin_cached",  "relative_coords_table",
                                            "masked_bias",  "attn_mask",   "final_logits_bias"};
  if (buffers.contains(last))
    return "a buffer, by its name";
  if (type.getNumElements() == 1)
    return isLearnedNumber(name) || isSlope(op.getResult()) ? ""
                                                            : "one number, as the constants of formulas are";
  // Frequencies are a vector in order; what a network with sines for its activations learns is not.
  const bool isVector = llvm::count_if(type.getShape(), [](int64_t size) { return size != 1; }) == 1;
  bool isAngle = false;
  if (isVector && !isLearnedNumber(name) && feedsAnglesOnly(op.getResult(), isAngle) && isAngle &&
      (!contents || areFrequencies(*contents)))
    return "only sines and cosines are computed from it";
  if (!contents)
    return "";
  if (op->hasAttr(kInitialStateAttr) && contents->isUniform() && (*contents)[0] == 0)
    return "the zeros that a recurrence begins with";
  // One that lets all pass; fresh tables of relative positions, as uniform, are looked up before.
  const bool isTable = llvm::count_if(type.getShape(), [](int64_t size) { return size != 1; }) > 1;
  if (contents->isUniform() && isTable && isAddedToScores(op.getResult()))
    return "a mask";
  // Parameters that it has reshaped have numbers, too, and dimensions of one; and fresh vectors may be called
  // by what they are.
  if (contents->isUniform() &&
      (type.getRank() == 1 ? isNumberedByExporter(name) : isTable && isFilledByExporter(name)))
    return "a constant of the exporter, by its name and contents";
  std::string fixed = describeFixedContents(*contents, type.getShape());
  return fixed == "a mask of zeros and ones" && isWeight(op.getResult()) ? "" : fixed;
}

static bool dependsOnInput(Value value) {
  SmallVector<Value> work{value};
  llvm::DenseSet<Value> seen;
  while (!work.empty()) {
    Value next = work.pop_back_val();
    if (isa<BlockArgument>(next))
      return true;
    if (seen.insert(next).second)
      llvm::append_range(work, next.getDefiningOp()->getOperands());
  }
  return false;
}

/// Whether an op reads rows of `parameter`, `batch` of them, beside as many that are made of the inputs.
static bool meetsSamples(Value parameter, int64_t batch) {
  llvm::SetVector<Operation *> readers;
  findReaders(parameter, readers);
  auto hasRows = [&](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && type.getRank() > 0 && type.getShape().front() == batch;
  };
  return llvm::any_of(readers, [&](Operation *reader) {
    return llvm::any_of(findUses(reader, parameter), [&](OpOperand *use) { return hasRows(use->get()); }) &&
           llvm::any_of(reader->getOperands(),
                        [&](Value operand) { return hasRows(operand) && dependsOnInput(operand); });
  });
}

/// Whether exporters with a fixed batch have expanded one row, as the token before a sequence of patches, to
/// all samples, and stored that. Fresh parameters of other rows may be equal as well (a state space's rates,
/// in each channel): those stand beside no samples.
static bool isRepeatedRow(ParameterOp op, int64_t globalBatch, ContentsReader &reader) {
  const ArrayRef<int64_t> shape = cast<RankedTensorType>(op.getType()).getShape();
  if (shape.size() < 2 || shape.front() != globalBatch || isWeight(op.getResult()))
    return false;
  const std::optional<Contents> contents = reader.read(op);
  return contents && contents->repeats(globalBatch) && meetsSamples(op.getResult(), globalBatch);
}

/// Has `into` know which of the names of `from` lie the other way round.
static void addTransposed(ParameterOp from, ParameterOp into) {
  SmallVector<Attribute> names;
  for (ParameterOp op : {into, from})
    if (auto own = op->getAttrOfType<ArrayAttr>(kTransposedAttr))
      llvm::append_range(names, own);
  if (!names.empty())
    into->setAttr(kTransposedAttr, ArrayAttr::get(into.getContext(), names));
}

/// Makes the parameters that match one expression of --tie, and are equal, one.
static LogicalResult tie(std::vector<Classified> &all, Patterns &patterns, ContentsReader &reader) {
  if (patterns.empty())
    return success();
  Classified *first = nullptr;
  std::optional<Contents> contents;
  for (Classified &each : all) {
    std::vector<std::string> names = each.info.tied;
    names.push_back(each.info.name);
    if (each.op->hasAttr(kStatisticAttr) || !patterns.match(names)) // the file may have it as a scale
      continue;
    std::optional<Contents> own = reader.read(each.op);
    if (!first) {
      first = &each;
      contents = own;
      continue;
    }
    if (first->op.getType() != each.op.getType())
      return emitError(each.op.getLoc()) << "--tie: '" << each.info.name << "' is a " << each.op.getType()
                                         << " and '" << first->info.name << "' a " << first->op.getType();
    if (!contents || !own || !contents->equals(*own))
      return emitError(each.op.getLoc()) << "--tie: '" << each.info.name << "' and '" << first->info.name
                                         << "' differ in the file; what is tied begins equal";
    first->info.tied.push_back(each.info.name);
    llvm::append_range(first->info.tied, each.info.tied);
    addTransposed(each.op, first->op);
    each.op.getResult().replaceAllUsesWith(first->op.getResult());
    each.op.erase();
    each.op = nullptr;
  }
  llvm::erase_if(all, [](const Classified &each) { return !each.op; });
  return success();
}

/// Whether each node that reads `op` has its own: what is equal everywhere, or in all rows as the rates that
/// a state space begins with, is merged by chance. `reason`: why it is not trained, or "".
static bool isMerged(ParameterOp op, StringRef reason, Rules &rules, ContentsReader &reader) {
  const std::vector<std::string> names = getAllNames(op);
  std::optional<Contents> contents = reason.empty() ? reader.read(op) : std::nullopt;
  auto type = cast<RankedTensorType>(op.getType());
  return rules.untie.match(names) || (contents && contents->isUniformIn(type.getShape()) &&
                                      type.getNumElements() > 1 && !rules.tie.match(names));
}

void training::adaptImport(const TrainingOptions &options, ImportOptions &import) {
  import.isTrained = true;
  import.takesBatchStatistics = options.batchNorm;
  std::vector<NamePattern> apart;
  std::string error; // is told where the rules are read
  for (const std::string &text : options.parameters.untie)
    if (std::optional<NamePattern> pattern = NamePattern::parse(text, error))
      apart.push_back(std::move(*pattern));
  import.isApart = nullptr;
  if (!apart.empty())
    import.isApart = [apart](StringRef name) {
      return llvm::any_of(apart, [&](const NamePattern &pattern) { return pattern.matches({name.str()}); });
    };
}

FailureOr<std::set<std::string>> training::separateMerged(func::FuncOp function, const ParameterRules &given,
                                                          const std::string &modelPath) {
  Rules rules;
  if (failed(rules.train.parse("--train", given.train, function.getLoc())) ||
      failed(rules.freeze.parse("--freeze", given.freeze, function.getLoc())) ||
      failed(rules.tie.parse("--tie", given.tie, function.getLoc())) ||
      failed(rules.untie.parse("--untie", given.untie, function.getLoc())))
    return failure();
  ContentsReader reader(modelPath);
  std::set<std::string> frozen;
  const SmallVector<ParameterOp> ops(function.getOps<ParameterOp>());
  for (ParameterOp op : ops) {
    const std::string reason = findReason(op, reader);
    if (op->hasAttr(kStatisticAttr)) // a file may have it as the tensor of a scale
      op.setName((op.getName() + "@statistic").str());
    if (isReadTwice(op) && isMerged(op, reason, rules, reader))
      separate(op, [&](ParameterOp copy, const std::string &node) {
        copy.setName((op.getName() + "@" + node).str());
        std::vector<std::string> called = getAllNames(op);
        called.push_back(copy.getName().str());
        if (rules.freeze.match(called))
          frozen.insert(called.back());
      });
    const std::vector<std::string> names = getAllNames(op);
    if (rules.freeze.match(names) || (!reason.empty() && !rules.train.match(names)))
      frozen.insert(op.getName().str());
  }
  return frozen;
}

FailureOr<std::vector<Classified>> training::classify(func::FuncOp function, const ParameterRules &given,
                                                      const std::string &modelPath, int64_t globalBatch,
                                                      llvm::function_ref<bool(Operation *)> isReached) {
  Rules rules;
  const Location loc = function.getLoc();
  for (auto [name, texts, patterns] : {std::tuple("--train", &given.train, &rules.train),
                                       {"--freeze", &given.freeze, &rules.freeze},
                                       {"--no-decay", &given.noDecay, &rules.noDecay},
                                       {"--tie", &given.tie, &rules.tie},
                                       {"--untie", &given.untie, &rules.untie}})
    if (failed(patterns->parse(name, *texts, loc)))
      return failure();
  ContentsReader reader(modelPath);
  std::vector<Classified> all;
  SmallVector<ParameterOp> ops(function.getOps<ParameterOp>());
  for (ParameterOp op : ops) {
    auto type = cast<RankedTensorType>(op.getType());
    Classified one;
    one.op = op;
    one.info.name = op.getName().str();
    one.info.type = type;
    std::vector<std::string> names = getAllNames(op);
    one.info.tied.assign(names.begin() + 1, names.end());
    std::string reason = isReached(op) ? findReason(op, reader) : "the loss does not depend on it";
    const bool isRow = reason.empty() && isRepeatedRow(op, globalBatch, reader);
    one.isRow = isRow;
    if (isRow)
      one.info.why = "one row that the file has for each sample of the batch";
    const size_t at = all.size();
    all.push_back(std::move(one));
    if (isMerged(op, reason, rules, reader))
      separate(op, [&](ParameterOp copy, const std::string &node) {
        Classified other;
        other.op = copy;
        other.isRow = isRow;
        other.info.name = op.getName().str() + "@" + node;
        other.info.type = type;
        other.info.why = rules.untie.match(names)
                             ? "--untie"
                             : "its elements or rows are all equal, and it is read in several places";
        all.push_back(std::move(other));
      });
    for (size_t i = at; i < all.size(); ++i) {
      ParameterInfo &info = all[i].info;
      std::vector<std::string> called = names;
      called.push_back(info.name);
      const bool isAsked = rules.train.match(called), isFrozen = rules.freeze.match(called);
      info.isTrained = !isFrozen && (reason.empty() || (isAsked && isReached(op)));
      all[i].isFrozen = isFrozen && reason.empty();
      info.decays = !rules.noDecay.match(called);
      if (!info.isTrained)
        info.why = isFrozen ? "--freeze" : reason;
      else if (!reason.empty())
        info.why = "--train";
      if (info.isTrained && !isa<FloatType>(type.getElementType()))
        return emitError(op.getLoc())
               << "--train: '" << info.name << "' is a " << type << ", and gradients are of floats";
    }
  }
  if (failed(tie(all, rules.tie, reader)))
    return failure();
  for (Patterns *patterns : {&rules.train, &rules.freeze, &rules.noDecay, &rules.tie, &rules.untie})
    if (failed(patterns->check(loc)))
      return failure();
  return all;
}

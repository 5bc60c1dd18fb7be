//===- Transfers.cpp - a tensor from one stage's ranks to another's ---------===//
//
// A rank's shard holds of each dimension some ranges. Where those of two ranks meet, in all dimensions, lies
// what the one can give the other.
//
//===----------------------------------------------------------------------===//
#include "colossal/Step/Transfers.h"

#include "MessageSlots.h"
#include "PassOrder.h"
#include "colossal/Partition/Partition.h"
#include "colossal/Step/CutStages.h"
#include "colossal/Step/MessageOrder.h"
#include "dialects/Dist/Loop.h"
#include "dialects/Dist/Pipeline.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <deque>
#include <map>
#include <tuple>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::step;

namespace {

/// Neighbouring elements of a dimension: where they stand in the tensor, and where in the shard.
struct Range {
  int64_t global, size, local;
  bool operator<(const Range &other) const {
    return std::tie(global, size, local) < std::tie(other.global, other.size, other.local);
  }
};
using Ranges = std::vector<Range>;

/// Ranges at equal distances that both sides hold.
struct Strip {
  int64_t count, size;
  int64_t source, sourceStep, target, targetStep;
};

/// Box of a rank: the ranges of each dimension.
using Box = std::vector<Ranges>;

} // namespace

/// What the rank with these coordinates holds of a dimension, ascending.
static Ranges getRanges(DimShardingAttr dim, MeshAttr mesh, ArrayRef<int64_t> coordinates) {
  Ranges ranges{{0, 1, 0}}; // of what the factors so far make, as units
  for (FactorShardAttr factor : dim.getFactors()) {
    int64_t chunk = factor.getSize(), start = 0, valid = factor.getSize();
    for (unsigned axis : factor.getAxes()) {
      chunk = getLocalSize(chunk, axis, mesh);
      int64_t step = coordinates[axis] * chunk;
      start += step;
      valid = std::max<int64_t>(0, std::min(valid - step, chunk));
    }
    Ranges finer;
    for (const Range &range : ranges) {
      if (valid == factor.getSize() && chunk == valid) {
        finer.push_back({range.global * valid, range.size * valid, range.local * valid});
        continue;
      }
      for (int64_t i = 0; i < range.size && valid > 0; ++i)
        finer.push_back({(range.global + i) * factor.getSize() + start, valid, (range.local + i) * chunk});
    }
    ranges = std::move(finer);
  }
  return ranges;
}

static Box getBox(const StageLayout &layout, int64_t rank) {
  SmallVector<int64_t> coordinates(layout.mesh.getNumAxes());
  for (unsigned axis = layout.mesh.getNumAxes(); axis-- > 0;) {
    coordinates[axis] = rank % layout.mesh.getAxisSize(axis);
    rank /= layout.mesh.getAxisSize(axis);
  }
  Box box;
  for (DimShardingAttr dim : layout.sharding.getDims())
    box.push_back(getRanges(dim, layout.mesh, coordinates));
  return box;
}

/// What two ranks both hold of a dimension.
static std::vector<Strip> intersect(const Ranges &source, const Ranges &target) {
  std::vector<Strip> strips;
  for (size_t i = 0, j = 0; i < source.size() && j < target.size();) {
    const Range &a = source[i], &b = target[j];
    int64_t begin = std::max(a.global, b.global), end = std::min(a.global + a.size, b.global + b.size);
    if (begin < end) {
      Strip strip{1, end - begin, a.local + begin - a.global, 0, b.local + begin - b.global, 0};
      Strip *last = strips.empty() ? nullptr : &strips.back();
      int64_t sourceStep = last ? strip.source - last->source - (last->count - 1) * last->sourceStep : 0;
      int64_t targetStep = last ? strip.target - last->target - (last->count - 1) * last->targetStep : 0;
      if (last && last->count == 1 && sourceStep == last->size && targetStep == last->size) {
        last->size += strip.size; // neighbours on both sides
      } else if (last && last->size == strip.size &&
                 (last->count == 1 || (last->sourceStep == sourceStep && last->targetStep == targetStep))) {
        ++last->count;
        last->sourceStep = sourceStep;
        last->targetStep = targetStep;
      } else {
        strips.push_back(strip);
      }
    }
    (a.global + a.size < b.global + b.size ? i : j)++;
  }
  return strips;
}

namespace {
/// What one rank has for another, as both sides see it.
using Places = std::pair<SmallVector<Piece, 1>, SmallVector<Piece, 1>>;

struct PlacesOrder {
  static std::vector<int64_t> toWords(const Places &places) {
    std::vector<int64_t> words;
    for (const auto *side : {&places.first, &places.second})
      for (const Piece &piece : *side) {
        words.push_back(piece.offset);
        words.push_back(static_cast<int64_t>(piece.sizes.size()));
        words.insert(words.end(), piece.sizes.begin(), piece.sizes.end());
        words.insert(words.end(), piece.strides.begin(), piece.strides.end());
      }
    return words;
  }
};
} // namespace

static Places getPlaces(const Box &source, const Box &target, ArrayRef<int64_t> sourceShape,
                        ArrayRef<int64_t> targetShape) {
  Places places;
  places.first.push_back({0, {}, {}});
  places.second.push_back({0, {}, {}});
  SmallVector<int64_t> sourceStrides(sourceShape.size(), 1), targetStrides(targetShape.size(), 1);
  for (size_t d = sourceShape.size(); d-- > 1;) {
    sourceStrides[d - 1] = sourceStrides[d] * sourceShape[d];
    targetStrides[d - 1] = targetStrides[d] * targetShape[d];
  }
  for (size_t d = 0; d < source.size(); ++d) {
    Places next;
    for (const Strip &strip : intersect(source[d], target[d]))
      for (auto [from, to] : llvm::zip_equal(places.first, places.second)) {
        auto extend = [&](Piece piece, int64_t begin, int64_t step, int64_t stride) {
          piece.offset += begin * stride;
          if (strip.count > 1) {
            piece.sizes.push_back(strip.count);
            piece.strides.push_back(step * stride);
          }
          piece.sizes.push_back(strip.size);
          piece.strides.push_back(stride);
          return piece;
        };
        next.first.push_back(extend(from, strip.source, strip.sourceStep, sourceStrides[d]));
        next.second.push_back(extend(to, strip.target, strip.targetStep, targetStrides[d]));
      }
    places = std::move(next);
  }
  return places;
}

/// Colours the edges of a bipartite graph so that no two of one colour meet; as many colours as the greatest
/// number of edges that meet (König). A free colour of one end that the other end lacks is made free there by
/// turning the path of the two colours that begins at it.
static std::vector<unsigned> colourEdges(ArrayRef<std::pair<int64_t, int64_t>> edges) {
  constexpr unsigned kNone = ~0u;
  // Per end (sources even, targets odd) the edge of each colour.
  llvm::DenseMap<int64_t, std::vector<unsigned>> edgeOf;
  auto at = [&](int64_t end, unsigned colour) -> unsigned & {
    std::vector<unsigned> &list = edgeOf[end];
    if (list.size() <= colour)
      list.resize(colour + 1, kNone);
    return list[colour];
  };
  auto freeAt = [&](int64_t end) {
    unsigned colour = 0;
    while (at(end, colour) != kNone)
      ++colour;
    return colour;
  };
  auto ends = [&](unsigned e) { return std::pair(2 * edges[e].first, 2 * edges[e].second + 1); };
  std::vector<unsigned> colours(edges.size(), kNone);
  for (unsigned e = 0; e < edges.size(); ++e) {
    auto [source, target] = ends(e);
    unsigned mine = freeAt(source), theirs = freeAt(target);
    if (at(target, mine) != kNone) {
      // Turn the path from the target, of edges coloured mine, theirs, mine, ...: it does not come to the
      // source.
      std::vector<unsigned> path;
      int64_t end = target;
      for (unsigned colour = mine, next; (next = at(end, colour)) != kNone;
           colour = colour == mine ? theirs : mine) {
        path.push_back(next);
        end = ends(next).first == end ? ends(next).second : ends(next).first;
      }
      for (unsigned p : path)
        at(ends(p).first, colours[p]) = at(ends(p).second, colours[p]) = kNone;
      for (unsigned p : path) {
        colours[p] = colours[p] == mine ? theirs : mine;
        at(ends(p).first, colours[p]) = at(ends(p).second, colours[p]) = p;
      }
    }
    colours[e] = mine;
    at(source, mine) = at(target, mine) = e;
  }
  return colours;
}

StageTransfer step::planTransfer(const StageLayout &from, const StageLayout &to, int64_t tag) {
  const int64_t senders = from.mesh.getNumRanks(), receivers = to.mesh.getNumRanks();
  std::map<Box, std::vector<int64_t>> held, asked; // ranks by what they hold
  for (int64_t rank = 0; rank < senders; ++rank)
    held[getBox(from, rank)].push_back(rank);
  for (int64_t rank = 0; rank < receivers; ++rank)
    asked[getBox(to, rank)].push_back(rank);
  SmallVector<int64_t> sourceShape = from.sharding.getLocalShape(from.mesh),
                       targetShape = to.sharding.getLocalShape(to.mesh);
  // By the places that they take, in the order of these.
  std::map<std::vector<int64_t>, std::pair<Places, std::vector<std::pair<int64_t, int64_t>>>> groups;
  for (const auto &[source, holders] : held)
    for (const auto &[target, askers] : asked) {
      Places places = getPlaces(source, target, sourceShape, targetShape);
      bool isEmpty = places.first.empty() || llvm::all_of(places.first, [](const Piece &piece) {
                       return piece.getNumElements() == 0;
                     });
      if (isEmpty)
        continue;
      auto &[known, edges] = groups[PlacesOrder::toWords(places)];
      known = std::move(places);
      for (size_t i = 0; i < askers.size(); ++i)
        edges.push_back({holders[i % holders.size()], askers[i]});
    }
  StageTransfer transfer;
  for (auto &[words, group] : groups) {
    auto &[places, edges] = group;
    llvm::sort(edges);
    std::vector<unsigned> colours = colourEdges(edges);
    unsigned rounds = *llvm::max_element(colours) + 1;
    for (unsigned round = 0; round < rounds; ++round) {
      Message send{tag, SmallVector<int64_t>(senders, -1), places.first};
      Message receive{tag, SmallVector<int64_t>(receivers, -1), places.second};
      for (auto [edge, colour] : llvm::zip_equal(edges, colours))
        if (colour == round) {
          send.peers[edge.first] = to.firstRank + edge.second;
          receive.peers[edge.second] = from.firstRank + edge.first;
        }
      transfer.sends.push_back(std::move(send));
      transfer.receives.push_back(std::move(receive));
    }
  }
  return transfer;
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

/// What a turn sees of a layout over a loop axis.
static StageLayout getTurnLayout(ShardingAttr sharding, MeshAttr mesh, int64_t firstRank) {
  return {getTurnSharding(sharding, mesh), getRankMesh(mesh), firstRank};
}

namespace {
/// A value that a part of a program sends.
struct SentValue {
  func::FuncOp function;
  unsigned index; ///< of the result
  int64_t part;
  StageLayout layout;
  bool isInLoop;
};

/// A value that one part sends and another receives: result #`index` of the one function, argument
/// #`argument` of the other.
struct PlannedTransfer {
  const SentValue *value;
  int64_t part; ///< that receives it
  func::FuncOp function;
  unsigned argument;
  StageTransfer messages;
};
} // namespace

/// Finds what goes between the parts of program `name`: in the order in which a stage receives, by chunk,
/// sender, number. `sent` has room for all values, by number.
static LogicalResult findTransfers(ArrayRef<ModuleOp> stages, StringRef name, const Pipeline &pipeline,
                                   std::map<int64_t, SentValue> &sent,
                                   std::deque<PlannedTransfer> &transfers) {
  const int64_t chunks = pipeline.countChunks();
  for (int64_t part = 0; part < pipeline.countParts(); ++part) {
    ModuleOp stage = stages[pipeline.getStage(part)];
    auto function = stage.lookupSymbol<func::FuncOp>(name);
    if (!function)
      return stage.emitOpError() << "has no part of program '" << name << "'";
    auto mesh = stage->getAttrOfType<MeshAttr>(kMeshAttrName);
    const int64_t firstRank = getFirstRank(stage), chunk = pipeline.getChunk(part);
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      auto id = function.getArgAttrOfType<IntegerAttr>(i, kReceivesAttrName);
      if (!id || getChunk(function.getArgAttrDict(i)) != chunk)
        continue;
      auto sharding = function.getArgAttrOfType<ShardingAttr>(i, kShardingAttrName);
      auto source = sent.find(id.getInt());
      if (!sharding || source == sent.end())
        return function.emitError() << "argument #" << i << " receives value " << id.getInt()
                                    << (sharding ? ", which no earlier stage sends" : " in no layout");
      const SentValue &from = source->second;
      if (from.isInLoop != findLoop(sharding, mesh).has_value())
        return function.emitError() << "argument #" << i << " receives value " << id.getInt()
                                    << " as a part of the batch, or all of it, and it is sent otherwise";
      // Chunks of a stage take one value at different times: each has messages of its own.
      transfers.push_back({&from, part, function, i,
                           planTransfer(from.layout, getTurnLayout(sharding, mesh, firstRank),
                                        id.getInt() * chunks + chunk)});
    }
    for (unsigned i = 0; i < function.getNumResults(); ++i) {
      auto id = function.getResultAttrOfType<IntegerAttr>(i, kSendsAttrName);
      if (!id || getChunk(function.getResultAttrDict(i)) != chunk)
        continue;
      auto sharding = function.getResultAttrOfType<ShardingAttr>(i, kShardingAttrName);
      if (!sharding)
        return function.emitError() << "result #" << i << " sends value " << id.getInt() << " in no layout";
      sent.insert({id.getInt(),
                   {function, i, part, getTurnLayout(sharding, mesh, firstRank),
                    findLoop(sharding, mesh).has_value()}});
    }
  }
  return success();
}

/// Gives the messages of a training program their places among the passes of its functions, one of each
/// stage.
static void orderWithPasses(MutableArrayRef<Flight> flights, const Pipeline &pipeline,
                            ArrayRef<func::FuncOp> functions) {
  std::vector<StagePass> passes;
  if (func::FuncOp(functions.front())->hasAttr(kPassesAttrName))
    passes = mergePasses(functions);
  for (auto [function, order] : llvm::zip_equal(functions, placeMessages(flights, pipeline, passes)))
    func::FuncOp(function)->setAttr(kPassesAttrName,
                                    DenseI64ArrayAttr::get(func::FuncOp(function).getContext(), order));
}

/// Plans what goes between the parts of program `name`. Where sends need not wait for their receivers
/// (`sendsWait`), adds the program to those that `room` is found for.
static LogicalResult planProgram(ArrayRef<ModuleOp> stages, StringRef name, bool sendsWait,
                                 MessageSlots &room) {
  const auto count = static_cast<int64_t>(stages.size());
  auto first = ModuleOp(stages.front()).lookupSymbol<func::FuncOp>(name);
  const std::optional<Pipeline> given = getPipeline(first);
  const Pipeline pipeline = given.value_or(Pipeline{count, countChunks(stages)});
  const int64_t chunks = pipeline.countChunks();
  std::map<int64_t, SentValue> sent;
  std::deque<PlannedTransfer> transfers;
  if (failed(findTransfers(stages, name, pipeline, sent, transfers)))
    return failure();
  std::vector<Flight> flights;
  for (PlannedTransfer &transfer : transfers) {
    auto &[sends, receives] = transfer.messages;
    const int64_t to = pipeline.getStage(transfer.part);
    if (sendsWait && pipeline.getStage(transfer.value->part) == to)
      splitAscending(sends, receives, getFirstRank(stages[to]));
    const Type type = transfer.function.getArgument(transfer.argument).getType();
    flights.push_back({transfer.value->part, transfer.part, transfer.value->isInLoop, sends, receives,
                       transfer.value->index,
                       getElementBytes(cast<RankedTensorType>(type).getElementType())});
  }
  SmallVector<func::FuncOp> functions;
  for (ModuleOp stage : stages)
    functions.push_back(stage.lookupSymbol<func::FuncOp>(name));
  if (sendsWait && given)
    orderWithPasses(flights, pipeline, functions);
  else if (sendsWait)
    orderMessages(flights, count, chunks);
  MLIRContext *context = ModuleOp(stages.front()).getContext();
  std::map<const SentValue *, SmallVector<Message>> sends;
  for (auto &[id, value] : sent)
    sends[&value];
  for (PlannedTransfer &transfer : transfers) {
    llvm::append_range(sends[transfer.value], transfer.messages.sends);
    transfer.function.setArgAttr(transfer.argument, kMessagesAttrName,
                                 toAttribute(context, transfer.messages.receives));
  }
  for (auto &[value, messages] : sends)
    func::FuncOp(value->function)
        .setResultAttr(value->index, kMessagesAttrName, toAttribute(context, messages));
  if (sendsWait)
    return success();
  if (given)
    room.add(flights, pipeline, functions);
  else
    room.add(flights, count, chunks, getMesh(stages.front()).getNumTurns());
  return success();
}

LogicalResult step::planTransfers(ModuleOp module, bool sendsWait) {
  SmallVector<ModuleOp> stages = getStages(module);
  if (stages.front() == module)
    return success();
  MessageSlots room;
  for (auto first : stages.front().getOps<func::FuncOp>())
    if (failed(planProgram(stages, first.getName(), sendsWait, room)))
      return failure();
  Builder builder(module.getContext());
  const auto [slots, bytes] = room.find();
  module->setAttr(kMessageSlotsAttrName, builder.getI64IntegerAttr(slots));
  if (bytes > 0)
    module->setAttr(kMessageSlotBytesAttrName, builder.getI64IntegerAttr(bytes));
  return success();
}

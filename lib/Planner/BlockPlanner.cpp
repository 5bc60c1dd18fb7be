// Units as search problems: one node an operation, one a value with several users; tables hold what moves
// cost.
#include "colossal/Planner/BlockPlanner.h"

#include "UnitLayouts.h"
#include "colossal/Search/Solver.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <sstream>
#include <tuple>

namespace colossal::planner {

std::optional<double> optimizerSlots(const std::string &optimizer) {
  static const std::map<std::string, double> slots = {{"sgd", 1},  {"adam", 2}, {"adamw", 2},    {"lamb", 2},
                                                      {"lars", 1}, {"lion", 1}, {"adafactor", 0}};
  auto known = slots.find(optimizer);
  return known == slots.end() ? std::nullopt : std::optional(known->second);
}

std::optional<TrainingTypes> trainingTypes(const std::string &precision, const std::string &optimizer) {
  const std::optional<double> slots = optimizerSlots(optimizer);
  if (!slots)
    return std::nullopt;
  TrainingTypes types;
  types.optimizer = 4 + 4 * *slots; // with the master copy
  if (precision == "bf16")
    return types;
  if (precision == "f16") {
    types.compute = cost::DataType::F16;
    return types;
  }
  types.activation = types.parameter = types.reduced = types.gathered = 4;
  types.optimizer = 4 * *slots;
  types.compute = precision == "tf32" ? cost::DataType::TF32 : cost::DataType::F32;
  if (precision == "f32" || precision == "tf32")
    return types;
  return std::nullopt;
}

const char *toString(Recompute recompute) {
  switch (recompute) {
  case Recompute::None: return "none";
  case Recompute::Selective: return "selective";
  case Recompute::Full: return "full";
  case Recompute::ByValue: return "by-value";
  }
  return "";
}

std::string toString(const Boundary &boundary) {
  std::string text;
  for (const auto &place : boundary)
    text += (text.empty() ? "" : ",") + (place ? "dim" + std::to_string(place->dim) : std::string("whole"));
  return text.empty() ? "whole" : text;
}

struct BlockPlanner::Layouts {
  Layouts(const FactorGraph &graph, const cost::Pricing &pricing, const TrainingTypes &types)
      : graph(graph), types(types), pricing(pricing) {
    for (const UnitKind &kind : graph.kinds)
      kinds.push_back(std::make_unique<KindInfo>(kind));
    (void)findPlaceBesideStream(kinds);
  }

  /// By operation, the choices that it is left with.
  using Pinned = std::map<int, std::vector<Choice>>;
  /// The ends that an operation's choices give one of its tensors. Many choices leave it alike: they are one
  /// class of the edge's.
  struct Ends {
    std::vector<ValueLayout> distinct; ///< by class
    std::shared_ptr<search::Classes> classes = std::make_shared<search::Classes>();
    void add(const ValueLayout &end) {
      auto at = std::find(distinct.begin(), distinct.end(), end);
      classes->of.push_back(static_cast<std::int32_t>(at - distinct.begin()));
      if (at == distinct.end())
        distinct.push_back(end);
      classes->count = static_cast<std::int32_t>(distinct.size());
    }
  };
  /// What operations of a kind may choose on some axes, and how that leaves their tensors: the same for all
  /// microbatches, boundaries and kinds of recompute.
  struct Options {
    std::vector<std::vector<Choice>> choices; ///< by operation
    std::vector<Ends> made;                   ///< by tensor; of those that an operation makes
    std::vector<std::vector<Ends>> taken;     ///< by tensor and consumer
    Options() = default;
    Options(const UnitLayouts &unit, const KindInfo &info, const Pinned &pinned);
  };

  /// What is known on one set of axes.
  struct OnAxes {
    OnAxes(const cost::Pricing &pricing, const std::vector<TensorAxis> &axes) : resharder(pricing, axes) {}
    Resharder resharder;
    std::map<std::vector<double>, std::optional<UnitLayout>> known;
    std::map<int, Options> options; ///< by kind, without pins
    /// Without pins: null where all is free. Few queries differ in what the tables depend on (kind, tensor,
    /// consumer, bytes, whether all is made again, whether a compiled step keeps what is gathered, and where
    /// it lies on the boundary, that one).
    using TableKey = std::tuple<int, int, int, double, bool, bool, std::vector<double>>;
    std::map<TableKey, std::shared_ptr<const search::CostTable>> tables;
    /// Without pins, by kind, microbatch and whether attention is fused: by operation and choice.
    std::map<std::tuple<int, double, bool>, std::vector<std::vector<UnitLayouts::OpTime>>> times;
    /// Of prices, for one size of microbatch, after which another is looked at.
    std::map<std::pair<std::vector<double>, UnitLayout>, UnitLayouts::Base> bases;
    double microbatchOfBases = 0;
  };
  using AxesKey = std::vector<std::array<int, 5>>;
  OnAxes &on(const std::vector<TensorAxis> &axes) {
    AxesKey key;
    for (const TensorAxis &axis : axes)
      key.push_back({axis.size, axis.group.size, axis.group.stride, axis.group.active, axis.isContext});
    std::lock_guard<std::mutex> lock(mutex);
    auto &entry = byAxes[key];
    if (!entry)
      entry = std::make_unique<OnAxes>(pricing, axes);
    return *entry;
  }
  /// `known`: what is known on the query's axes.
  UnitLayouts unit(const UnitQuery &query, const OnAxes &known) const {
    return UnitLayouts(*kinds[query.kind], types, pricing, known.resharder, query);
  }

  std::optional<UnitLayout> solve(const UnitQuery &query, OnAxes &known, const Pinned &pinned);
  Pinned pinShared(const UnitQuery &query, const OnAxes &known) const;
  double leastDeviceSeconds(const UnitKind &kind) const;

  const FactorGraph &graph;
  TrainingTypes types;
  const cost::Pricing &pricing;
  std::vector<std::unique_ptr<KindInfo>> kinds;
  std::mutex mutex; ///< of byAxes
  std::map<AxesKey, std::unique_ptr<OnAxes>> byAxes;
  std::vector<double> leastSeconds; ///< by kind
};

BlockPlanner::BlockPlanner(const FactorGraph &graph, const cost::Pricing &pricing, const TrainingTypes &types)
    : layouts(std::make_unique<Layouts>(graph, pricing, types)) {
  for (const UnitKind &kind : graph.kinds)
    layouts->leastSeconds.push_back(layouts->leastDeviceSeconds(kind));
}
BlockPlanner::~BlockPlanner() = default;

std::size_t BlockPlanner::solved() const {
  std::size_t sum = 0;
  for (const auto &[axes, on] : layouts->byAxes)
    sum += on->known.size();
  return sum;
}

std::vector<Boundary> BlockPlanner::boundaries(const std::vector<TensorAxis> &axes) const {
  std::vector<Boundary> found{Boundary()};
  const std::vector<PositionKey> places = findBoundaryPlaces(layouts->kinds);
  for (const TensorAxis &axis : axes) {
    std::vector<std::optional<PositionKey>> options{std::nullopt};
    // A context axis is on a sequence, which has one length.
    std::copy_if(places.begin(), places.end(), std::back_inserter(options), [&](const PositionKey &key) {
      return key.size >= axis.size || (key.size <= 0 && !axis.isContext);
    });
    std::vector<Boundary> next;
    for (const Boundary &boundary : found)
      for (const auto &option : options) {
        next.push_back(boundary);
        next.back().push_back(option);
      }
    found = std::move(next);
  }
  return found;
}

static void append(std::vector<double> &key, const Boundary &boundary) {
  for (const auto &place : boundary)
    if (place)
      key.insert(key.end(), {static_cast<double>(place->dim), place->size, place->inner});
    else
      key.push_back(-1);
}

/// All that an answer depends on.
static std::vector<double> key(const UnitQuery &query) {
  std::vector<double> key{static_cast<double>(query.kind),
                          query.microbatch,
                          static_cast<double>(query.recompute),
                          static_cast<double>(query.fusedAttention),
                          static_cast<double>(query.scoresInMemory),
                          query.microbatches,
                          query.parameterPrice,
                          static_cast<double>(query.axes.size())};
  for (const TensorAxis &axis : query.axes)
    for (int number : {axis.size, axis.group.stride, axis.group.active, static_cast<int>(axis.isContext)})
      key.push_back(number);
  append(key, query.boundary);
  for (const auto &[number, places] : query.shared) {
    key.push_back(number);
    append(key, places);
  }
  return key;
}

BlockPlanner::Layouts::Options::Options(const UnitLayouts &unit, const KindInfo &info, const Pinned &pinned)
    : choices(info.kind.operations.size()), made(info.kind.tensors.size()), taken(info.kind.tensors.size()) {
  for (std::size_t i = 0; i < choices.size(); ++i) {
    int op = static_cast<int>(i);
    auto pin = pinned.find(op);
    choices[i] = pin != pinned.end() ? pin->second : unit.choices(op);
  }
  for (std::size_t t = 0; t < made.size(); ++t) {
    if (info.kind.tensors[t].kind != Tensor::Activation)
      continue;
    if (info.producer[t] >= 0)
      for (const Choice &choice : choices[info.producer[t]])
        made[t].add(unit.made(static_cast<int>(t), choice));
    for (const KindInfo::Consumer &consumer : info.consumers[t]) {
      Ends &to = taken[t].emplace_back();
      for (const Choice &choice : choices[consumer.op])
        to.add(unit.taken(consumer, choice));
    }
  }
}

std::optional<UnitLayout> BlockPlanner::Layouts::solve(const UnitQuery &query, OnAxes &known,
                                                       const Pinned &pinned) {
  UnitLayouts unit = this->unit(query, known);
  const KindInfo &info = *kinds[query.kind];
  const UnitKind &kind = info.kind;
  search::Problem problem;
  Options pinnedOptions, *options = &pinnedOptions;
  if (pinned.empty()) {
    auto [entry, isNew] = known.options.try_emplace(query.kind);
    options = &entry->second;
    if (isNew)
      *options = Options(unit, info, pinned);
  } else {
    pinnedOptions = Options(unit, info, pinned);
  }
  const std::vector<std::vector<Choice>> &choices = options->choices;
  std::vector<std::vector<UnitLayouts::OpTime>> pinnedTimes,
      &times =
          pinned.empty() ? known.times[{query.kind, query.microbatch, query.fusedAttention}] : pinnedTimes;
  if (times.empty())
    for (std::size_t i = 0; i < kind.operations.size(); ++i) {
      times.emplace_back();
      for (const Choice &choice : choices[i])
        times.back().push_back(unit.opTime(static_cast<int>(i), choice));
    }
  for (std::size_t i = 0; i < kind.operations.size(); ++i) {
    search::Node node;
    node.candidates.reserve(choices[i].size());
    for (std::size_t c = 0; c < choices[i].size(); ++c)
      node.candidates.push_back(
          {search::costFromSeconds(unit.opSeconds(static_cast<int>(i), choices[i][c], times[i][c])), {}});
    problem.nodes.push_back(std::move(node));
  }
  std::vector<double> boundary;
  append(boundary, query.boundary);
  auto makeTable = [&](const Ends &from, const Ends &to, int tensor,
                       bool regather) -> std::shared_ptr<const search::CostTable> {
    search::CostTable table;
    table.reserve(from.distinct.size() * to.distinct.size());
    for (double seconds : unit.movedPairs(tensor, from.distinct, to.distinct, regather))
      table.push_back(seconds < 0 ? search::kForbidden : search::costFromSeconds(seconds));
    if (std::all_of(table.begin(), table.end(), [](search::Cost entry) { return entry == 0; }))
      return nullptr;
    return std::make_shared<search::CostTable>(std::move(table));
  };
  // `consumer`: its place among the tensor's, or what else is connected.
  constexpr int kFromProducer = -1, kBetweenMeetings = -2;
  auto connect = [&](int a, int b, const Ends &from, const Ends &to, int tensor, int consumer,
                     bool regather) {
    std::shared_ptr<const search::CostTable> table;
    if (pinned.empty()) {
      auto [entry, isNew] = known.tables.try_emplace(
          {query.kind, tensor, consumer, unit.bytes(tensor), query.recompute == Recompute::Full,
           query.scoresInMemory, info.isBoundary[tensor] ? boundary : std::vector<double>()});
      if (isNew)
        entry->second = makeTable(from, to, tensor, regather);
      table = entry->second;
    } else {
      table = makeTable(from, to, tensor, regather);
    }
    if (table)
      problem.addEdge(a, b, std::move(table), from.classes, to.classes);
  };
  for (std::size_t t = 0; t < kind.tensors.size(); ++t) {
    int tensor = static_cast<int>(t), producer = info.producer[t];
    if (kind.tensors[t].kind != Tensor::Activation)
      continue;
    const Ends &from = options->made[t];
    if (info.hasSharedCopy[t]) {
      Ends shared;
      for (const ValueLayout &meeting : unit.valueLayouts(tensor))
        shared.add(meeting);
      if (shared.distinct.empty())
        return std::nullopt;
      auto addMeeting = [&] {
        search::Node node;
        node.candidates.resize(shared.classes->of.size());
        problem.nodes.push_back(std::move(node));
        return static_cast<int>(problem.nodes.size() - 1);
      };
      const int meeting = addMeeting();
      // What several contractions take alike is brought there once.
      const std::vector<int> &products = info.products[t];
      const int ofProducts = products.empty() ? -1 : addMeeting();
      if (ofProducts >= 0)
        connect(meeting, ofProducts, shared, shared, tensor, kBetweenMeetings,
                std::any_of(products.begin(), products.end(),
                            [&](int c) { return unit.isSaved(info.consumers[t][c]); }));
      if (producer >= 0)
        connect(producer, meeting, from, shared, tensor, kFromProducer, false);
      for (std::size_t c = 0; c < info.consumers[t].size(); ++c) {
        const auto &consumer = info.consumers[t][c];
        const bool isProduct =
            std::find(products.begin(), products.end(), static_cast<int>(c)) != products.end();
        connect(isProduct ? ofProducts : meeting, consumer.op, shared, options->taken[t][c], tensor,
                static_cast<int>(c), unit.isSaved(consumer));
      }
    } else if (producer >= 0 && !info.consumers[t].empty()) {
      const auto &consumer = info.consumers[t].front();
      connect(producer, consumer.op, from, options->taken[t].front(), tensor, 0, unit.isSaved(consumer));
    }
  }
  search::Budget budget;
  budget.work = 20; // reductions mostly solve them; what is left is small
  search::Solution solution = search::solve(problem, budget);
  if (!solution.feasible)
    return std::nullopt;
  UnitLayout layout(kind.operations.size());
  for (std::size_t i = 0; i < layout.size(); ++i)
    layout[i] = choices[i][solution.assignment[i]];
  return layout;
}

/// Where a parameter lies in words that other kinds know, which may read it transposed.
static Boundary describeShared(const KindInfo &info, int tensor, const Placement &placement,
                               std::size_t axes) {
  Boundary places(axes);
  for (std::size_t a = 0; a < axes; ++a)
    if (placement[a] > 0) {
      places[a] = info.places[tensor][placement[a] - 1];
      places[a]->dim = 0;
    }
  return places;
}

/// For the operations that read `query.shared`, the choices that take them as they lie, where there are any.
BlockPlanner::Layouts::Pinned BlockPlanner::Layouts::pinShared(const UnitQuery &query,
                                                               const OnAxes &known) const {
  Pinned pinned;
  const KindInfo &info = *kinds[query.kind];
  const UnitLayouts unit = this->unit(query, known);
  for (std::size_t i = 0; i < info.kind.operations.size() && !query.shared.empty(); ++i)
    for (std::size_t o = 0; o < info.kind.operations[i].operands.size(); ++o) {
      const int op = static_cast<int>(i), tensor = info.kind.operations[i].operands[o].tensor;
      const auto places = query.shared.find(info.kind.tensors[tensor].shared);
      if (info.kind.tensors[tensor].kind != Tensor::Parameter || places == query.shared.end())
        continue;
      for (const Choice &choice : unit.choices(op))
        if (describeShared(info, tensor, unit.want(op, static_cast<int>(o), choice), query.axes.size()) ==
            places->second)
          pinned[op].push_back(choice);
    }
  return pinned;
}

std::optional<UnitLayout> BlockPlanner::solve(const UnitQuery &query) {
  Layouts::OnAxes &known = layouts->on(query.axes);
  auto [entry, isNew] = known.known.try_emplace(key(query));
  if (isNew) {
    const Layouts::Pinned pinned = layouts->pinShared(query, known);
    entry->second = layouts->solve(query, known, pinned);
    if (!entry->second && !pinned.empty())
      entry->second = layouts->solve(query, known, {});
  }
  return entry->second;
}

std::map<int, Boundary> BlockPlanner::findShared(const UnitQuery &query, const UnitLayout &layout) const {
  std::map<int, Boundary> found;
  const KindInfo &info = *layouts->kinds[query.kind];
  const UnitLayouts unit = layouts->unit(query, layouts->on(query.axes));
  for (std::size_t i = 0; i < info.kind.operations.size(); ++i)
    for (std::size_t o = 0; o < info.kind.operations[i].operands.size(); ++o) {
      const int op = static_cast<int>(i), tensor = info.kind.operations[i].operands[o].tensor;
      const Tensor &parameter = info.kind.tensors[tensor];
      if (info.kind.operations[i].kind == Operation::Contraction && parameter.kind == Tensor::Parameter &&
          parameter.shared >= 0)
        found.try_emplace(
            parameter.shared,
            describeShared(info, tensor, unit.want(op, static_cast<int>(o), layout[i]), query.axes.size()));
    }
  return found;
}

UnitCost BlockPlanner::price(const UnitQuery &query, const UnitLayout &layout, std::string &error) const {
  if (layout.size() != layouts->graph.kinds[query.kind].operations.size()) {
    error = "the layout has another number of operations than the unit";
    return {};
  }
  Layouts::OnAxes &known = layouts->on(query.axes);
  UnitLayouts unit = layouts->unit(query, known);
  if (known.microbatchOfBases != query.microbatch)
    known.bases.clear();
  known.microbatchOfBases = query.microbatch;
  UnitQuery plain = query;
  if (query.recompute != Recompute::Full || query.remade)
    plain.recompute = Recompute::None;
  auto [base, isNew] = known.bases.try_emplace({key(plain), layout});
  if (isNew)
    base->second = unit.priceBase(layout);
  return unit.price(layout, base->second, error);
}

double BlockPlanner::leastDeviceSeconds(int kind) const {
  return layouts->leastSeconds[kind];
}

double BlockPlanner::forwardSeconds(int kind, int operation) {
  UnitQuery query;
  query.kind = kind;
  Choice whole;
  whole.fill(-1);
  return layouts->unit(query, layouts->on({})).opTime(operation, whole).forward;
}

double BlockPlanner::Layouts::leastDeviceSeconds(const UnitKind &kind) const {
  // What a contraction of unbounded size takes an operation, and a copy a byte: every size takes at least
  // that. On a host depth has its price, and what is small lies in a cache.
  constexpr int64_t kLarge = 1 << 20, kMostBytes = 1'000'000'000'000'000;
  double perFlop = std::numeric_limits<double>::infinity(), perByte = perFlop;
  for (int64_t depth = 64; depth <= kLarge; depth *= 2) {
    cost::OpWork large = cost::contraction(1, kLarge, kLarge, depth, types.compute);
    perFlop = std::min(perFlop, pricing.kernelSeconds(large) / large.flops());
  }
  for (int64_t bytes = 1000; bytes <= kMostBytes; bytes *= 1000)
    perByte = std::min(perByte, pricing.kernelSeconds(cost::streaming(bytes, 0)) / bytes);
  double seconds = 0;
  for (const Operation &op : kind.operations) {
    double flops = 1, moved = 0;
    if (op.kind == Operation::Contraction) {
      for (const Factor &factor : op.factors)
        flops *= factor.size;
      double passes = 1;
      for (const Use &use : op.operands)
        passes += use.gradientFlops > 0;
      seconds += 2 * flops * passes * perFlop;
    } else if (op.kind == Operation::Attention) {
      // Fused: two products forward and five backward, under a causal mask half of them.
      for (const Factor &factor : op.factors)
        flops *= factor.size;
      double width = 1;
      for (const FactorPosition &place : op.results[0].places)
        if (isFixed(op.factors[place.factor]))
          width = op.factors[place.factor].size;
      flops /= width; // keys' and values' widths are two factors
      seconds += 4 * flops * 3.5 * (op.causal ? 0.5 : 1) * perFlop;
    } else if (op.kind == Operation::Streaming) {
      for (const auto *uses : {&op.operands, &op.results})
        for (const Use &use : *uses) {
          const Tensor &tensor = kind.tensors[use.tensor];
          if (use.moved && tensor.perSequence && tensor.kind != Tensor::Parameter)
            moved += tensor.elements * (tensor.isFloat ? types.activation : tensor.bytes);
        }
      seconds += moved * perByte;
    }
  }
  return seconds;
}

static std::string factorName(const Operation &op, int factor) {
  const std::string &role = op.factors[factor].role;
  int same = 0, before = 0;
  for (std::size_t f = 0; f < op.factors.size(); ++f)
    if (op.factors[f].role == role) {
      ++same;
      before += static_cast<int>(f) < factor;
    }
  return role.empty() ? "d" + std::to_string(factor) : same > 1 ? role + std::to_string(before) : role;
}

std::vector<std::pair<std::string, std::string>> BlockPlanner::describe(const UnitQuery &query,
                                                                        const UnitLayout &layout) const {
  std::vector<std::pair<std::string, std::string>> lines;
  const UnitKind &kind = layouts->graph.kinds[query.kind];
  for (std::size_t i = 0; i < layout.size() && i < kind.operations.size(); ++i) {
    const Operation &op = kind.operations[i];
    if (op.kind == Operation::View || query.axes.empty())
      continue;
    std::string line;
    for (std::size_t a = 0; a < query.axes.size(); ++a)
      line += (a ? "," : "") + (layout[i][a] < 0 ? "-" : factorName(op, layout[i][a]));
    lines.push_back({op.name, line});
  }
  return lines;
}

std::optional<UnitLayout> BlockPlanner::parse(const UnitQuery &query,
                                              const std::map<std::string, std::string> &text,
                                              std::string &error) {
  const UnitKind &kind = layouts->graph.kinds[query.kind];
  Layouts::Pinned pinned;
  Layouts::OnAxes &known = layouts->on(query.axes);
  UnitLayouts unit = layouts->unit(query, known);
  for (const auto &[name, line] : text) {
    auto at = std::find_if(kind.operations.begin(), kind.operations.end(),
                           [&, &wanted = name](const Operation &op) { return op.name == wanted; });
    if (at == kind.operations.end()) {
      error = "there is no operation '" + name + "'";
      return std::nullopt;
    }
    Choice choice;
    choice.fill(-1);
    std::vector<std::string> parts;
    std::istringstream stream(line);
    for (std::string part; std::getline(stream, part, ',');)
      parts.push_back(part);
    if (parts.size() != query.axes.size()) {
      error = "operation '" + name + "': '" + line + "' must name one factor, or '-', for each of " +
              std::to_string(query.axes.size()) + " axes";
      return std::nullopt;
    }
    for (std::size_t a = 0; a < parts.size(); ++a) {
      if (parts[a] == "-")
        continue;
      for (std::size_t f = 0; f < at->factors.size(); ++f)
        if (factorName(*at, static_cast<int>(f)) == parts[a])
          choice[a] = static_cast<std::int8_t>(f);
      if (choice[a] < 0) {
        error = "operation '" + name + "' has no factor '" + parts[a] + "'";
        return std::nullopt;
      }
    }
    int op = static_cast<int>(at - kind.operations.begin());
    if (std::string wrong = unit.check(op, choice); !wrong.empty()) {
      error = "operation '" + name + "' " + wrong;
      return std::nullopt;
    }
    pinned[op] = {choice};
  }
  auto layout = pinned.empty() ? solve(query) : layouts->solve(query, known, pinned);
  if (!layout)
    error = "no layout of the unit meets the boundary" +
            std::string(pinned.empty() ? "" : " and the given operations");
  return layout;
}

} // namespace colossal::planner

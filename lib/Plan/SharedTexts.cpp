//===- SharedTexts.cpp - one text for stages that are equal -----------------===//
//
// A text is compared without what may differ (the stage's copy of its parameters' numbers, its peers'
// numbers, its names), which is kept in lists in the order of its instructions.
//
//===----------------------------------------------------------------------===//
#include "SharedTexts.h"

#include "colossal/Plan/Stages.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

namespace colossal::plan {

namespace {

/// Calls `visit` with all instructions of a body, nested ones too.
template <class Body, class Visit>
void forInstructions(Body &body, const Visit &visit) {
  for (auto &instruction : body) {
    visit(instruction);
    if constexpr (std::is_const_v<Body>) {
      forInstructions(instruction.repeat().body(), visit);
      forInstructions(instruction.predicate().body(), visit);
    } else {
      if (instruction.has_repeat())
        forInstructions(*instruction.mutable_repeat()->mutable_body(), visit);
      if (instruction.has_predicate())
        forInstructions(*instruction.mutable_predicate()->mutable_body(), visit);
    }
  }
}

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

Expr makeConstant(int64_t value) {
  Expr expr;
  expr.set_constant(value);
  return expr;
}

Expr makeBinary(Expr::Op op, Expr lhs, Expr rhs) {
  Expr expr;
  expr.mutable_binary()->set_op(op);
  *expr.mutable_binary()->mutable_lhs() = std::move(lhs);
  *expr.mutable_binary()->mutable_rhs() = std::move(rhs);
  return expr;
}

/// A balanced tree, as expressions may not be deep.
Expr makeSum(const std::vector<Expr> &terms, size_t begin, size_t end) {
  if (end - begin == 1)
    return terms[begin];
  const size_t middle = begin + (end - begin) / 2;
  return makeBinary(Expr::ADD, makeSum(terms, begin, middle), makeSum(terms, middle, end));
}

void collectTerms(const Expr &expr, std::vector<Expr> &terms, int64_t &constant) {
  if (expr.has_binary() && expr.binary().op() == Expr::ADD) {
    collectTerms(expr.binary().lhs(), terms, constant);
    collectTerms(expr.binary().rhs(), terms, constant);
  } else if (expr.kind_case() == Expr::kConstant) {
    constant += expr.constant();
  } else {
    terms.push_back(expr);
  }
}

/// `expr` + `distance` + `more`, in one form whatever the constants.
Expr shift(const Expr &expr, int64_t distance, const std::vector<Expr> &more = {}) {
  if (expr.has_binary() && expr.binary().op() == Expr::SUB)
    return makeBinary(Expr::SUB, shift(expr.binary().lhs(), distance, more), expr.binary().rhs());
  std::vector<Expr> terms;
  collectTerms(expr, terms, distance);
  terms.insert(terms.end(), more.begin(), more.end());
  if (distance != 0 || terms.empty())
    terms.push_back(makeConstant(distance));
  return makeSum(terms, 0, terms.size());
}

Expr *peerOf(Instruction &instruction) {
  return instruction.has_send()   ? instruction.mutable_send()->mutable_peer()
         : instruction.has_recv() ? instruction.mutable_recv()->mutable_peer()
                                  : nullptr;
}

//===----------------------------------------------------------------------===//
// Sharing
//===----------------------------------------------------------------------===//

class Sharing {
public:
  Sharing(Plan &plan, std::vector<StageText> texts) : plan(plan), texts(std::move(texts)) {}
  void run();

private:
  /// Equal stages, in their order.
  using Group = std::vector<size_t>;

  void placeRanks();
  bool renumberTags();
  /// The stage of the rank that a message of `stage` goes to, or comes from.
  std::optional<size_t> findPeer(size_t stage, const Expr &peer) const;
  std::vector<Group> findGroups() const;
  /// What is left of a stage's text where all that may differ between equal stages is taken out.
  std::string reduce(size_t stage) const;
  std::vector<uint32_t> listParameters(size_t stage) const;
  void renumberParameters();
  bool areAlike(const Group &group) const;
  StageText join(const Group &group);
  void joinPeers(const Group &group, StageText &text) const;
  void joinNames(const Group &group, StageText &text) const;
  void joinParameters(const Group &group, StageText &text);

  Plan &plan;
  std::vector<StageText> texts;
  std::vector<int64_t> firstRank, ranks; ///< by stage
};

} // namespace

void Sharing::placeRanks() {
  int64_t next = 0;
  for (const Stage &stage : plan.stages()) {
    firstRank.push_back(next);
    ranks.push_back(static_cast<int64_t>(meshRanks(stage.mesh())));
    next += ranks.back();
  }
}

std::optional<size_t> Sharing::findPeer(size_t stage, const Expr &peer) const {
  const std::vector<int64_t> values(maxValues, 0);
  const Mesh &mesh = plan.stages(static_cast<int>(stage)).mesh();
  for (int64_t rank = 0; rank < ranks[stage]; ++rank) {
    int64_t other = -1;
    const MeshPosition position{meshCoordinates(mesh, static_cast<uint64_t>(rank)), firstRank[stage] + rank,
                                static_cast<int64_t>(stage)};
    if (!evaluateExpr(peer, position, values.data(), other).ok())
      return std::nullopt;
    for (size_t s = 0; s < ranks.size(); ++s)
      if (firstRank[s] <= other && other < firstRank[s] + ranks[s])
        return s;
  }
  return std::nullopt;
}

/// False where it is not known who some message is for.
bool Sharing::renumberTags() {
  using Ends = std::tuple<int, size_t, size_t>; // program, sender, receiver
  std::map<Ends, std::map<uint32_t, uint32_t>> numbers;
  bool isKnown = true;
  std::vector<StageText> renumbered = texts;
  for (const bool sends : {true, false})
    for (size_t s = 0; s < texts.size(); ++s)
      for (int p = 0; p < texts[s].programs_size(); ++p)
        forInstructions(*renumbered[s].mutable_programs(p)->mutable_body(), [&](Instruction &instruction) {
          if (sends ? !instruction.has_send() : !instruction.has_recv())
            return;
          const std::optional<size_t> other = findPeer(s, *peerOf(instruction));
          isKnown &= other.has_value();
          if (!other)
            return;
          auto &known = numbers[sends ? Ends(p, s, *other) : Ends(p, *other, s)];
          const uint32_t tag = sends ? instruction.send().tag() : instruction.recv().tag();
          const uint32_t number = known.try_emplace(tag, static_cast<uint32_t>(known.size())).first->second;
          sends ? instruction.mutable_send()->set_tag(number) : instruction.mutable_recv()->set_tag(number);
        });
  if (isKnown)
    texts = std::move(renumbered);
  return isKnown;
}

std::string Sharing::reduce(size_t stage) const {
  StageText text = texts[stage];
  for (StageProgram &program : *text.mutable_programs())
    forInstructions(*program.mutable_body(), [&](Instruction &instruction) {
      if (Expr *peer = peerOf(instruction))
        *peer = shift(*peer, -firstRank[stage]);
      if (instruction.copy().has_parameter())
        instruction.mutable_copy()->mutable_parameter()->clear_parameter();
      instruction.clear_source();
      for (std::string &name : *instruction.mutable_operators())
        name.clear(); // so many there are
    });
  return plan.stages(static_cast<int>(stage)).mesh().SerializeAsString() + text.SerializeAsString();
}

std::vector<uint32_t> Sharing::listParameters(size_t stage) const {
  std::vector<uint32_t> list;
  for (const StageProgram &program : texts[stage].programs())
    forInstructions(program.body(), [&](const Instruction &instruction) {
      if (instruction.copy().has_parameter())
        list.push_back(instruction.copy().parameter().parameter());
    });
  return list;
}

/// Whether what differs between the stages can be said in one text: the distances of their parameters.
bool Sharing::areAlike(const Group &group) const {
  std::vector<std::vector<uint32_t>> lists;
  for (size_t stage : group)
    lists.push_back(listParameters(stage));
  const auto step = static_cast<int64_t>(group[1] - group[0]);
  for (size_t i = 0; i < lists[0].size(); ++i) {
    const int64_t first = lists[0][i], distance = lists[1][i] - first;
    if (distance % step != 0)
      return false;
    const Parameter &parameter = plan.parameters(static_cast<int>(first));
    for (size_t s = 1; s < group.size(); ++s) {
      const Parameter &other = plan.parameters(static_cast<int>(lists[s][i]));
      if (lists[s][i] - first != distance / step * static_cast<int64_t>(group[s] - group[0]) ||
          other.type() != parameter.type() ||
          !std::equal(other.shape().begin(), other.shape().end(), parameter.shape().begin(),
                      parameter.shape().end()))
        return false;
    }
  }
  const int64_t apart = firstRank[group[1]] - firstRank[group[0]];
  for (size_t stage : group)
    if ((firstRank[stage] - firstRank[group[0]]) * step != apart * static_cast<int64_t>(stage - group[0]))
      return false;
  return apart % step == 0;
}

std::vector<Sharing::Group> Sharing::findGroups() const {
  std::map<std::string, std::vector<Group>> byText;
  std::vector<std::pair<std::string, size_t>> order;
  for (size_t s = 0; s < texts.size(); ++s) {
    std::vector<Group> &groups = byText[reduce(s)];
    if (!groups.empty()) {
      Group longer = groups.back();
      longer.push_back(s);
      if (areAlike(longer)) {
        groups.back() = longer;
        continue;
      }
    }
    groups.push_back({s});
  }
  std::vector<Group> all;
  for (auto &[text, groups] : byText)
    all.insert(all.end(), groups.begin(), groups.end());
  std::sort(all.begin(), all.end());
  return all;
}

void Sharing::renumberParameters() {
  // Who counts on the order of parameters keeps it.
  bool isCounted = plan.functions_size() > 0;
  std::vector<int64_t> numbers(static_cast<size_t>(plan.parameters_size()), -1);
  std::vector<uint32_t> order;
  auto add = [&](uint32_t parameter) {
    if (numbers[parameter] < 0) {
      numbers[parameter] = static_cast<int64_t>(order.size());
      order.push_back(parameter);
    }
  };
  for (size_t s = 0; s < texts.size(); ++s)
    for (const StageProgram &program : texts[s].programs())
      forInstructions(program.body(), [&](const Instruction &instruction) {
        isCounted |= instruction.copy().parameter().strides_size() > 0;
        if (instruction.copy().has_parameter())
          add(instruction.copy().parameter().parameter());
      });
  if (isCounted)
    return;
  for (uint32_t parameter = 0; parameter < numbers.size(); ++parameter)
    add(parameter);
  const google::protobuf::RepeatedPtrField<Parameter> before = plan.parameters();
  for (size_t i = 0; i < order.size(); ++i)
    *plan.mutable_parameters(static_cast<int>(i)) = before.Get(static_cast<int>(order[i]));
  for (StageText &text : texts)
    for (StageProgram &program : *text.mutable_programs())
      forInstructions(*program.mutable_body(), [&](Instruction &instruction) {
        if (instruction.copy().has_parameter()) {
          Copy::FromParameter &from = *instruction.mutable_copy()->mutable_parameter();
          from.set_parameter(static_cast<uint32_t>(numbers[from.parameter()]));
        }
      });
}

void Sharing::joinPeers(const Group &group, StageText &text) const {
  const auto step = static_cast<int64_t>(group[1] - group[0]);
  const int64_t distance = (firstRank[group[1]] - firstRank[group[0]]) / step;
  Expr stage;
  stage.set_own(Expr::STAGE);
  const Expr moved = makeBinary(Expr::MUL, stage, makeConstant(distance));
  for (StageProgram &program : *text.mutable_programs())
    forInstructions(*program.mutable_body(), [&](Instruction &instruction) {
      if (Expr *peer = peerOf(instruction))
        *peer = shift(*peer, -distance * static_cast<int64_t>(group[0]), {moved});
    });
}

/// joinNames of lists of names, between commas.
static std::string joinLists(const std::vector<std::string> &lists) {
  std::vector<std::vector<std::string>> byPlace;
  for (const std::string &list : lists) {
    size_t place = 0, begin = 0;
    while (begin <= list.size()) {
      const size_t end = std::min(list.find(',', begin), list.size());
      if (byPlace.size() == place)
        byPlace.emplace_back();
      byPlace[place++].push_back(list.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  std::string text;
  for (const std::vector<std::string> &names : byPlace) {
    if (names.size() != lists.size()) // they are lists of other names
      return joinNames(lists);
    text += (text.empty() ? "" : ",") + joinNames(names);
  }
  return text;
}

void Sharing::joinNames(const Group &group, StageText &text) const {
  std::vector<std::vector<const Instruction *>> all;
  for (size_t stage : group) {
    all.emplace_back();
    for (const StageProgram &program : texts[stage].programs())
      forInstructions(program.body(),
                      [&](const Instruction &instruction) { all.back().push_back(&instruction); });
  }
  size_t next = 0;
  for (StageProgram &program : *text.mutable_programs())
    forInstructions(*program.mutable_body(), [&](Instruction &instruction) {
      std::vector<std::string> names;
      for (const auto &list : all)
        names.push_back(list[next]->source());
      instruction.set_source(joinLists(names));
      for (int i = 0; i < instruction.operators_size(); ++i) {
        for (size_t s = 0; s < all.size(); ++s)
          names[s] = all[s][next]->operators(i);
        instruction.set_operators(i, plan::joinNames(names));
      }
      ++next;
    });
}

/// Programs that load parameters become calls of functions that are told how far the stage is from the first.
void Sharing::joinParameters(const Group &group, StageText &text) {
  const auto step = static_cast<int64_t>(group[1] - group[0]);
  const std::vector<uint32_t> own = listParameters(group[0]), others = listParameters(group[1]);
  size_t next = 0;
  for (int p = 0; p < text.programs_size(); ++p) {
    StageProgram &program = *text.mutable_programs(p);
    bool differs = false;
    forInstructions(*program.mutable_body(), [&](Instruction &instruction) {
      if (!instruction.copy().has_parameter())
        return;
      const int64_t distance = (static_cast<int64_t>(others[next]) - own[next]) / step;
      ++next;
      if (distance != 0)
        instruction.mutable_copy()->mutable_parameter()->add_strides(distance);
      differs |= distance != 0;
    });
    if (!differs)
      continue;
    Function &function = *plan.add_functions();
    std::string names;
    for (size_t stage : group)
      names += (names.empty() ? "" : ", ") + std::to_string(stage);
    function.set_name(plan.programs(p).name() + " of stages " + names);
    function.set_arguments(1);
    function.mutable_body()->Swap(program.mutable_body());
    Call &call = *program.add_body()->mutable_call();
    call.set_function(static_cast<uint32_t>(plan.functions_size() - 1));
    Expr stage;
    stage.set_own(Expr::STAGE);
    *call.add_arguments() = shift(stage, -static_cast<int64_t>(group[0]));
  }
}

StageText Sharing::join(const Group &group) {
  StageText text = texts[group[0]];
  if (group.size() == 1)
    return text;
  joinNames(group, text);
  joinPeers(group, text);
  joinParameters(group, text);
  return text;
}

/// Whether parameters are copied only by what a function with an argument can stand for: nothing nested.
static bool canBeCalled(const StageText &text) {
  for (const StageProgram &program : text.programs()) {
    bool loads = false, nests = false;
    forInstructions(program.body(), [&](const Instruction &instruction) {
      loads |= instruction.copy().has_parameter();
      nests |= instruction.has_repeat() || instruction.has_predicate() || instruction.has_call() ||
               instruction.copy().parameter().strides_size() > 0;
    });
    if (loads && nests)
      return false;
  }
  return true;
}

void Sharing::run() {
  placeRanks();
  const std::vector<StageText> before = texts;
  const google::protobuf::RepeatedPtrField<Parameter> parameters = plan.parameters();
  std::vector<Group> groups;
  if (std::all_of(texts.begin(), texts.end(), canBeCalled) && renumberTags()) {
    renumberParameters();
    groups = findGroups();
  }
  if (groups.empty() || groups.size() == texts.size()) { // nothing is shared
    texts = before;
    *plan.mutable_parameters() = parameters;
    groups.clear();
    for (size_t s = 0; s < texts.size(); ++s)
      groups.push_back({s});
  }
  for (const Group &group : groups) {
    for (size_t stage : group)
      plan.mutable_stages(static_cast<int>(stage))->set_text(static_cast<uint32_t>(plan.stage_texts_size()));
    *plan.add_stage_texts() = join(group);
  }
}

void shareTexts(Plan &plan, std::vector<StageText> texts) {
  Sharing(plan, std::move(texts)).run();
}

std::string joinNames(const std::vector<std::string> &names) {
  const std::string &first = names.front();
  size_t begin = first.size(), end = first.size();
  bool differs = false;
  for (const std::string &name : names) {
    const size_t least = std::min(first.size(), name.size());
    const auto common =
        std::mismatch(first.begin(), first.begin() + static_cast<ptrdiff_t>(least), name.begin());
    begin = std::min(begin, static_cast<size_t>(common.first - first.begin()));
    differs |= name != first;
  }
  if (!differs)
    return first;
  for (const std::string &name : names) {
    size_t same = 0;
    while (same < std::min(first.size(), name.size()) - begin &&
           first[first.size() - 1 - same] == name[name.size() - 1 - same])
      ++same;
    end = std::min(end, same);
  }
  // Numbers stay whole.
  auto isDigit = [](char c) { return '0' <= c && c <= '9'; };
  while (begin > 0 && isDigit(first[begin - 1]))
    --begin;
  while (end > 0 && isDigit(first[first.size() - end]))
    --end;
  std::string text = first.substr(0, begin) + "{";
  for (size_t i = 0; i < names.size(); ++i)
    text += (i ? "," : "") + names[i].substr(begin, names[i].size() - begin - end);
  return text + "}" + first.substr(first.size() - end);
}

} // namespace colossal::plan

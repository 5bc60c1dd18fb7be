//===- SharedTexts.cpp - one text for stages that are equal -----------------===//
//
// A text is compared together with the functions that it calls, and without what may differ (the stage's copy
// of its parameters' numbers, its peers' numbers, its names), which is kept in lists in the order of its
// instructions.
//
//===----------------------------------------------------------------------===//
#include "SharedTexts.h"

#include "colossal/Plan/Stages.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

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

/// What a stage runs.
struct StageCode {
  StageText text;
  std::vector<Function> functions; ///< each before those that it calls; calls name indices of these
};

/// Calls `visit` with all instructions of a stage: of its programs, then of its functions.
template <class Code, class Visit>
void forCode(Code &code, const Visit &visit) {
  if constexpr (std::is_const_v<Code>) {
    for (const StageProgram &program : code.text.programs())
      forInstructions(program.body(), visit);
    for (const Function &function : code.functions)
      forInstructions(function.body(), visit);
  } else {
    for (StageProgram &program : *code.text.mutable_programs())
      forInstructions(*program.mutable_body(), visit);
    for (Function &function : code.functions)
      forInstructions(*function.mutable_body(), visit);
  }
}

/// `text` and its own copies of those of the plan's functions that it calls.
StageCode takeFunctions(const Plan &plan, StageText text) {
  StageCode code{std::move(text), {}};
  std::set<uint32_t> called; // calls go to greater numbers
  auto note = [&](const Instruction &instruction) {
    if (instruction.has_call())
      called.insert(instruction.call().function());
  };
  forCode(std::as_const(code), note);
  for (auto next = called.begin(); next != called.end(); ++next)
    forInstructions(plan.functions(static_cast<int>(*next)).body(), note);
  std::map<uint32_t, uint32_t> numbers;
  for (uint32_t function : called) {
    numbers.try_emplace(function, static_cast<uint32_t>(numbers.size()));
    code.functions.push_back(plan.functions(static_cast<int>(function)));
  }
  forCode(code, [&](Instruction &instruction) {
    if (instruction.has_call())
      instruction.mutable_call()->set_function(numbers.at(instruction.call().function()));
  });
  return code;
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
  Sharing(Plan &plan, std::vector<StageText> texts) : plan(plan) {
    for (StageText &text : texts)
      codes.push_back(takeFunctions(plan, std::move(text)));
  }
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
  StageCode join(const Group &group) const;
  void joinPeers(const Group &group, StageCode &code) const;
  void joinNames(const Group &group, StageCode &code) const;
  void joinParameters(const Group &group, StageCode &code) const;
  void write(const std::vector<Group> &groups, std::vector<StageCode> joined);

  Plan &plan;
  std::vector<StageCode> codes;          ///< by stage
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
  std::vector<StageCode> renumbered = codes;
  for (const bool sends : {true, false})
    for (size_t s = 0; s < codes.size(); ++s)
      for (int p = 0; p < codes[s].text.programs_size(); ++p)
        forInstructions(*renumbered[s].text.mutable_programs(p)->mutable_body(),
                        [&](Instruction &instruction) {
                          if (sends ? !instruction.has_send() : !instruction.has_recv())
                            return;
                          const std::optional<size_t> other = findPeer(s, *peerOf(instruction));
                          isKnown &= other.has_value();
                          if (!other)
                            return;
                          auto &known = numbers[sends ? Ends(p, s, *other) : Ends(p, *other, s)];
                          const uint32_t tag = sends ? instruction.send().tag() : instruction.recv().tag();
                          const uint32_t number =
                              known.try_emplace(tag, static_cast<uint32_t>(known.size())).first->second;
                          sends ? instruction.mutable_send()->set_tag(number)
                                : instruction.mutable_recv()->set_tag(number);
                        });
  if (isKnown)
    codes = std::move(renumbered);
  return isKnown;
}

std::string Sharing::reduce(size_t stage) const {
  StageCode code = codes[stage];
  forCode(code, [&](Instruction &instruction) {
    if (Expr *peer = peerOf(instruction))
      *peer = shift(*peer, -firstRank[stage]);
    if (instruction.copy().has_parameter())
      instruction.mutable_copy()->mutable_parameter()->clear_parameter();
    instruction.clear_source();
    for (std::string &name : *instruction.mutable_operators())
      name.clear(); // so many there are
    if (instruction.has_call())
      instruction.mutable_call()->clear_names();
  });
  Plan reduced;
  *reduced.mutable_mesh() = plan.stages(static_cast<int>(stage)).mesh();
  *reduced.add_stage_texts() = std::move(code.text);
  for (Function &function : code.functions) {
    function.clear_name();
    *reduced.add_functions() = std::move(function);
  }
  return reduced.SerializeAsString();
}

std::vector<uint32_t> Sharing::listParameters(size_t stage) const {
  std::vector<uint32_t> list;
  forCode(codes[stage], [&](const Instruction &instruction) {
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
  for (size_t s = 0; s < codes.size(); ++s) {
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
  bool isCounted = false;
  std::vector<int64_t> numbers(static_cast<size_t>(plan.parameters_size()), -1);
  std::vector<uint32_t> order;
  auto add = [&](uint32_t parameter) {
    if (numbers[parameter] < 0) {
      numbers[parameter] = static_cast<int64_t>(order.size());
      order.push_back(parameter);
    }
  };
  for (const StageCode &code : codes)
    forCode(code, [&](const Instruction &instruction) {
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
  for (StageCode &code : codes)
    forCode(code, [&](Instruction &instruction) {
      if (instruction.copy().has_parameter()) {
        Copy::FromParameter &from = *instruction.mutable_copy()->mutable_parameter();
        from.set_parameter(static_cast<uint32_t>(numbers[from.parameter()]));
      }
    });
}

void Sharing::joinPeers(const Group &group, StageCode &code) const {
  const auto step = static_cast<int64_t>(group[1] - group[0]);
  const int64_t distance = (firstRank[group[1]] - firstRank[group[0]]) / step;
  Expr stage;
  stage.set_own(Expr::STAGE);
  const Expr moved = makeBinary(Expr::MUL, stage, makeConstant(distance));
  forCode(code, [&](Instruction &instruction) {
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

void Sharing::joinNames(const Group &group, StageCode &code) const {
  std::vector<std::vector<const Instruction *>> all;
  for (size_t stage : group) {
    all.emplace_back();
    forCode(codes[stage], [&](const Instruction &instruction) { all.back().push_back(&instruction); });
  }
  size_t next = 0;
  forCode(code, [&](Instruction &instruction) {
    std::vector<std::string> names;
    size_t gaps = std::numeric_limits<size_t>::max(); // that all of them fill
    for (const auto &list : all) {
      names.push_back(list[next]->source());
      gaps = std::min(gaps, static_cast<size_t>(list[next]->call().names_size()));
    }
    instruction.set_source(joinLists(names));
    for (int i = 0; i < instruction.operators_size(); ++i) {
      for (size_t s = 0; s < all.size(); ++s)
        names[s] = all[s][next]->operators(i);
      instruction.set_operators(i, plan::joinNames(names));
    }
    for (int i = 0; i < static_cast<int>(gaps); ++i) {
      for (size_t s = 0; s < all.size(); ++s)
        names[s] = all[s][next]->call().names(i);
      instruction.mutable_call()->set_names(i, plan::joinNames(names));
    }
    ++next;
  });
}

/// What loads parameters is told how far the stage is from the first: functions by an argument more, and
/// programs become calls of functions that are.
void Sharing::joinParameters(const Group &group, StageCode &code) const {
  const auto step = static_cast<int64_t>(group[1] - group[0]);
  const std::vector<uint32_t> own = listParameters(group[0]), others = listParameters(group[1]);
  size_t next = 0;
  // Moves the parameters of a body by value `number`; says whether there are any.
  auto moveParameters = [&](auto &body, uint32_t number) {
    bool moves = false;
    forInstructions(body, [&](Instruction &instruction) {
      if (!instruction.copy().has_parameter())
        return;
      const int64_t distance = (static_cast<int64_t>(others[next]) - own[next]) / step;
      ++next;
      if (distance == 0)
        return;
      auto &strides = *instruction.mutable_copy()->mutable_parameter()->mutable_strides();
      strides.Resize(static_cast<int>(number) + 1, 0);
      strides.Set(static_cast<int>(number), distance);
      moves = true;
    });
    return moves;
  };
  auto callsMoved = [](const auto &body, const std::vector<bool> &moved) {
    bool calls = false;
    forInstructions(body, [&](const Instruction &instruction) {
      calls |= instruction.has_call() && moved[instruction.call().function()];
    });
    return calls;
  };
  auto tell = [](auto &body, const std::vector<bool> &moved, const Expr &distance) {
    forInstructions(body, [&](Instruction &instruction) {
      if (instruction.has_call() && moved[instruction.call().function()])
        *instruction.mutable_call()->add_arguments() = distance;
    });
  };
  auto makeValue = [](uint32_t number) {
    Expr value;
    value.set_counter(number);
    return value;
  };
  std::vector<bool> programMoves;
  for (StageProgram &program : *code.text.mutable_programs())
    programMoves.push_back(moveParameters(*program.mutable_body(), 0));
  std::vector<bool> moved;
  for (Function &function : code.functions)
    moved.push_back(moveParameters(*function.mutable_body(), function.arguments()));
  for (size_t f = moved.size(); f-- > 0;) {
    Function &function = code.functions[f];
    moved[f] = moved[f] || callsMoved(std::as_const(function).body(), moved);
    if (!moved[f])
      continue;
    tell(*function.mutable_body(), moved, makeValue(function.arguments()));
    function.set_arguments(function.arguments() + 1);
  }
  Expr stage;
  stage.set_own(Expr::STAGE);
  const Expr distance = shift(stage, -static_cast<int64_t>(group[0]));
  std::vector<Function> loads;
  for (int p = 0; p < code.text.programs_size(); ++p) {
    StageProgram &program = *code.text.mutable_programs(p);
    if (!programMoves[static_cast<size_t>(p)]) {
      tell(*program.mutable_body(), moved, distance);
      continue;
    }
    Function &function = loads.emplace_back();
    function.set_name(plan.programs(p).name());
    function.set_arguments(1);
    function.mutable_body()->Swap(program.mutable_body());
    tell(*function.mutable_body(), moved, makeValue(0));
    program.add_body();
  }
  // They come before what they call.
  const auto added = static_cast<uint32_t>(loads.size());
  code.functions.insert(code.functions.begin(), loads.begin(), loads.end());
  forCode(code, [&](Instruction &instruction) {
    if (instruction.has_call())
      instruction.mutable_call()->set_function(instruction.call().function() + added);
  });
  uint32_t load = 0;
  for (int p = 0; p < code.text.programs_size(); ++p)
    if (programMoves[static_cast<size_t>(p)]) {
      Call &call = *code.text.mutable_programs(p)->mutable_body(0)->mutable_call();
      call.set_function(load++);
      *call.add_arguments() = distance;
    }
}

StageCode Sharing::join(const Group &group) const {
  StageCode code = codes[group[0]];
  if (group.size() == 1)
    return code;
  joinNames(group, code);
  joinPeers(group, code);
  joinParameters(group, code);
  return code;
}

/// Whether parameters are copied only by what a function with an argument can stand for (in repeats, an
/// argument more would be another number for each counter), and messages stand in programs.
static bool canBeCalled(const StageCode &code) {
  bool can = true;
  auto check = [&](const InstructionList &body) {
    bool loads = false, nests = false;
    forInstructions(body, [&](const Instruction &instruction) {
      loads |= instruction.copy().has_parameter();
      nests |= instruction.has_repeat() || instruction.has_predicate();
    });
    can &= !loads || !nests;
  };
  for (const StageProgram &program : code.text.programs())
    check(program.body());
  for (const Function &function : code.functions) {
    check(function.body());
    forInstructions(function.body(), [&](const Instruction &instruction) {
      can &= !instruction.has_send() && !instruction.has_recv();
    });
  }
  return can;
}

/// Writes the texts and their functions, equal ones once.
void Sharing::write(const std::vector<Group> &groups, std::vector<StageCode> joined) {
  struct Known {
    Function function;
    std::set<size_t> stages;
  };
  std::vector<Known> known; // backwards, so that what is called is known before its callers
  std::map<std::string, uint32_t> numbers;
  auto renumber = [](auto &body, const std::vector<uint32_t> &numberOf) {
    forInstructions(body, [&](Instruction &instruction) {
      if (instruction.has_call())
        instruction.mutable_call()->set_function(numberOf[instruction.call().function()]);
    });
  };
  for (size_t g = groups.size(); g-- > 0;) {
    StageCode &code = joined[g];
    std::vector<uint32_t> numberOf(code.functions.size());
    for (size_t f = code.functions.size(); f-- > 0;) {
      Function &function = code.functions[f];
      renumber(*function.mutable_body(), numberOf);
      std::string name;
      name.swap(*function.mutable_name());
      const auto [entry, isNew] =
          numbers.try_emplace(function.SerializeAsString(), static_cast<uint32_t>(known.size()));
      numberOf[f] = entry->second;
      if (isNew) {
        function.set_name(name);
        known.push_back({std::move(function), {}});
      }
      known[entry->second].stages.insert(groups[g].begin(), groups[g].end());
    }
    for (StageProgram &program : *code.text.mutable_programs())
      renumber(*program.mutable_body(), numberOf);
  }
  std::vector<uint32_t> forwards;
  for (size_t i = 0; i < known.size(); ++i)
    forwards.push_back(static_cast<uint32_t>(known.size() - 1 - i));
  plan.clear_functions();
  for (size_t i = known.size(); i-- > 0;) {
    Function &function = *plan.add_functions() = std::move(known[i].function);
    renumber(*function.mutable_body(), forwards);
    std::string names;
    for (size_t stage : known[i].stages)
      names += (names.empty() ? "" : ", ") + std::to_string(stage);
    function.set_name(function.name() + (known[i].stages.size() > 1 ? " of stages " : " of stage ") + names);
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    for (StageProgram &program : *joined[g].text.mutable_programs())
      renumber(*program.mutable_body(), forwards);
    for (size_t stage : groups[g])
      plan.mutable_stages(static_cast<int>(stage))->set_text(static_cast<uint32_t>(g));
    *plan.add_stage_texts() = std::move(joined[g].text);
  }
}

void Sharing::run() {
  placeRanks();
  const std::vector<StageCode> before = codes;
  const google::protobuf::RepeatedPtrField<Parameter> parameters = plan.parameters();
  std::vector<Group> groups;
  if (std::all_of(codes.begin(), codes.end(), canBeCalled) && renumberTags()) {
    renumberParameters();
    groups = findGroups();
  }
  if (groups.empty() || groups.size() == codes.size()) { // nothing is shared
    codes = before;
    *plan.mutable_parameters() = parameters;
    groups.clear();
    for (size_t s = 0; s < codes.size(); ++s)
      groups.push_back({s});
  }
  std::vector<StageCode> joined;
  for (const Group &group : groups)
    joined.push_back(join(group));
  write(groups, std::move(joined));
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

// From options to a narrower space.
#include "colossal/Planner/FixedParts.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <sstream>
#include <tuple>

namespace colossal::planner {

namespace {

constexpr const char *kAxes[] = {"data", "model", "context", "stage"};
constexpr std::size_t kMostAxes = 6;
constexpr int kMostRanks = 1 << 20;

std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);)
    parts.push_back(part);
  if (!text.empty() && text.back() == separator)
    parts.emplace_back();
  return parts;
}

/// 0 where it is no whole number of at least 1.
int parseSize(const std::string &text) {
  int value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 1 && value <= kMostRanks ? value
                                                                                                       : 0;
}

int &role(MeshSizes &sizes, std::size_t axis) {
  int *const roles[] = {&sizes.data, &sizes.tensor, &sizes.context, &sizes.pipeline};
  return *roles[axis];
}

std::string parseNamed(const std::string &text, const TrainingTask &task, SearchSpace &space) {
  const std::string option = "--mesh " + text + ": ";
  MeshSizes sizes;
  double ranks = 1;
  for (const std::string &part : split(text, ',')) {
    std::size_t at = part.find('=');
    std::string name = part.substr(0, at), number = at == std::string::npos ? "" : part.substr(at + 1);
    auto axis = std::find(std::begin(kAxes), std::end(kAxes), name);
    if (axis == std::end(kAxes))
      return option + "'" + name +
             "' is no axis of a training plan; those are data, model, context and stage";
    int &size = role(sizes, axis - std::begin(kAxes));
    if (size > 0)
      return option + "axis '" + name + "' is given twice";
    if (!(size = parseSize(number)))
      return option + "'" + part + "' is not an axis of 1 to 2^20 ranks, as in model=8";
    ranks *= size;
  }
  if (ranks > task.devices)
    return option + "the axes make " + std::to_string(static_cast<long long>(ranks)) + " ranks, there are " +
           std::to_string(task.devices) + " devices: --devices " +
           std::to_string(static_cast<long long>(ranks)) + ", or smaller axes, would do";
  int product = static_cast<int>(ranks);
  if (task.devices % product != 0) {
    int below = task.devices / product * product;
    return option + "the axes make " + std::to_string(product) + " ranks, which do not divide " +
           std::to_string(task.devices) + " devices: --devices " + std::to_string(below) + " or " +
           std::to_string(below + product) + ", or other sizes, would do";
  }
  space.meshes = {sizes};
  return "";
}

/// Every way to give the sizes roles; axes of one role are multiplied.
std::string parseSizes(const std::string &text, TrainingTask &task, SearchSpace &space) {
  const std::string option = "--mesh " + text + ": ";
  std::vector<int> sizes;
  double ranks = 1;
  for (const std::string &part : split(text, 'x')) {
    sizes.push_back(parseSize(part));
    if (!sizes.back())
      return option + "'" + part +
             "' is not a size of 1 to 2^20 ranks; write sizes as 8x8, or names and sizes as model=8,stage=2";
    ranks *= sizes.back();
  }
  if (sizes.empty() || sizes.size() > kMostAxes)
    return option + "1 to " + std::to_string(kMostAxes) + " axes can be given";
  if (ranks > kMostRanks)
    return option + "more than 2^20 ranks";
  if (task.devices == 0)
    task.devices = static_cast<int>(ranks);
  if (task.devices != ranks)
    return option + "the axes make " + std::to_string(static_cast<long long>(ranks)) + " ranks, there are " +
           std::to_string(task.devices) + " devices: give --devices " +
           std::to_string(static_cast<long long>(ranks)) +
           ", or name the axes (data, model, context, stage), so that those that are not named are searched";
  std::set<std::tuple<int, int, int, int>> known;
  for (std::size_t roles = 0, all = std::size_t{1} << (2 * sizes.size()); roles < all; ++roles) {
    MeshSizes mesh{1, 1, 1, 1};
    for (std::size_t i = 0; i < sizes.size(); ++i)
      role(mesh, roles >> (2 * i) & 3) *= sizes[i];
    if (known.insert({mesh.pipeline, mesh.data, mesh.context, mesh.tensor}).second)
      space.meshes.push_back(mesh);
  }
  return "";
}

std::string fixSchedule(const FixedParts &parts, SearchSpace &space) {
  using cost::Schedule;
  int stages = space.meshes.size() == 1 ? space.meshes.front().pipeline : 0;
  std::string option = "--pipeline-schedule " + parts.schedule;
  if (!parts.schedule.empty()) {
    Schedule schedule;
    if (!cost::parseSchedule(parts.schedule, schedule))
      return "--pipeline-schedule: '" + parts.schedule + "' is not one of " + cost::scheduleNames();
    space.schedules = {schedule};
    bool isV = schedule == Schedule::ZeroBubbleV, isMany = schedule == Schedule::Interleaved;
    if (stages == 1 && schedule != Schedule::OneFOneB && schedule != Schedule::GPipe)
      return option + " needs more than one stage: stage=2 or more, or 1f1b, would do";
    if (isMany && parts.chunks == 1)
      return "--chunks 1: interleaved has at least 2 chunks a stage";
    if (isV && parts.chunks > 0 && parts.chunks != 2)
      return "--chunks " + std::to_string(parts.chunks) + ": zb-v has 2 chunks a stage";
    if (!isMany && !isV && parts.chunks > 1)
      return "--chunks " + std::to_string(parts.chunks) + ": " + cost::toString(schedule) +
             " has one chunk a stage; --pipeline-schedule interleaved takes 2 or more, zb-v takes 2";
  }
  if (stages == 1 && parts.chunks > 1)
    return "--chunks " + std::to_string(parts.chunks) +
           ": one stage has one chunk: stage=2 or more would do, or leave --chunks out";
  space.chunks = parts.chunks;
  return "";
}

/// Numbers of microbatches that are told of at most, those nearest to the one that is refused.
constexpr std::size_t kMostTold = 8;

/// "1, 2 or 4", of sorted numbers.
std::string printChoices(std::vector<int> numbers, int near) {
  while (numbers.size() > kMostTold)
    numbers.erase(near - numbers.front() > numbers.back() - near ? numbers.begin() : numbers.end() - 1);
  std::string text;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    text += (i == 0 ? "" : i + 1 < numbers.size() ? ", " : " or ") + std::to_string(numbers[i]);
  return text;
}

/// Microbatches of a rank are alike: where the data ranks are fixed, their number divides the sequences of
/// one, and is a multiple of the stages where the schedule goes in rounds over them.
std::string fixMicrobatches(const FixedParts &parts, const TrainingTask &task, SearchSpace &space) {
  space.microbatches = parts.microbatches;
  if (parts.microbatches == 0)
    return "";
  const MeshSizes mesh = space.meshes.size() == 1 ? space.meshes.front() : MeshSizes();
  const std::string option = "--microbatches " + std::to_string(parts.microbatches) + ": ";
  const int data = std::max(1, mesh.data), sequences = static_cast<int>(std::ceil(task.globalBatch / data));
  const std::string have = "a rank has " + std::to_string(sequences) + " sequences of the global batch of " +
                           std::to_string(static_cast<long long>(task.globalBatch));
  if (parts.microbatches > sequences)
    return option + have + ": --microbatches " + std::to_string(sequences) + " or fewer, or --global-batch " +
           std::to_string(static_cast<long long>(parts.microbatches) * data) + " would do";
  const bool inRounds = space.schedules.size() == 1 && space.schedules.front() == cost::Schedule::Interleaved;
  const int rounds = inRounds ? std::max(1, mesh.pipeline) : 1;
  // Where the search chooses the data ranks, some number of them may do.
  auto dividesPartOf = [&](int ranks) {
    return static_cast<int>(std::ceil(task.globalBatch / ranks)) % parts.microbatches == 0;
  };
  bool divides = dividesPartOf(data);
  for (int ranks = 2; mesh.data == 0 && !divides && ranks <= task.devices; ++ranks)
    divides = dividesPartOf(ranks);
  if (divides && parts.microbatches % rounds == 0)
    return "";
  std::vector<int> choices;
  if (mesh.data == 0 && divides) {
    int below = parts.microbatches / rounds * rounds;
    for (int number : {below, below + rounds})
      if (number > 0 && number <= sequences)
        choices.push_back(number);
  } else {
    for (int d = 1; d <= sequences / d; ++d)
      if (sequences % d == 0)
        for (int number : {d, sequences / d})
          if (number % rounds == 0 && (choices.empty() || choices.back() != number))
            choices.push_back(number);
    std::sort(choices.begin(), choices.end());
  }
  std::string wrong =
      divides ? "interleaved takes a multiple of the " + std::to_string(rounds) + " stages" : have;
  if (!divides && mesh.data == 0)
    wrong = "it divides the sequences of a rank for no number of data ranks (the global batch has " +
            std::to_string(static_cast<long long>(task.globalBatch)) + ")";
  else if (!divides)
    wrong += ", which " + std::to_string(parts.microbatches) + " does not divide";
  if (!choices.empty())
    return option + wrong + ": --microbatches " + printChoices(choices, parts.microbatches) + " would do";
  const long long least = static_cast<long long>(rounds) * data;
  return option + wrong + ", and no number of them that does is a multiple of the " + std::to_string(rounds) +
         " stages: --global-batch " +
         std::to_string((static_cast<long long>(task.globalBatch) / least + 1) * least) +
         " with --microbatches " + std::to_string(rounds) + " would do";
}

} // namespace

std::string FixedParts::text() const {
  std::string all;
  auto add = [&](const char *option, const std::string &value) {
    if (!value.empty())
      all += (all.empty() ? "" : " ") + std::string(option) + " " + value;
  };
  auto number = [](int value, int none) { return value > none ? std::to_string(value) : std::string(); };
  add("--mesh", mesh);
  add("--zero", number(zero, -1));
  add("--recompute", recompute);
  add("--pipeline-schedule", schedule);
  add("--microbatches", number(microbatches, 0));
  add("--chunks", number(chunks, 0));
  return all;
}

std::vector<std::pair<std::string, FixedParts>> FixedParts::withoutEach() const {
  std::vector<std::pair<std::string, FixedParts>> found;
  auto leave = [&](auto FixedParts::*part) {
    FixedParts alone, others = *this;
    alone.*part = this->*part;
    others.*part = FixedParts().*part;
    if (!alone.text().empty())
      found.push_back({alone.text(), others});
  };
  leave(&FixedParts::mesh);
  leave(&FixedParts::zero);
  leave(&FixedParts::recompute);
  leave(&FixedParts::schedule);
  leave(&FixedParts::microbatches);
  leave(&FixedParts::chunks);
  return found;
}

std::string fixParts(const FixedParts &parts, TrainingTask &task, SearchSpace &space) {
  if (!parts.mesh.empty()) {
    bool isNamed = parts.mesh.find('=') != std::string::npos;
    if (isNamed && task.devices < 1)
      return "--mesh " + parts.mesh + ": --devices is missing (over how many the other axes are searched)";
    std::string wrong = isNamed ? parseNamed(parts.mesh, task, space) : parseSizes(parts.mesh, task, space);
    if (!wrong.empty())
      return wrong;
  }
  if (parts.zero > 3)
    return "--zero: must be 0 to 3, is " + std::to_string(parts.zero);
  if (parts.zero >= 0)
    space.zero = {parts.zero};
  if (!parts.recompute.empty()) {
    auto known = std::find_if(space.recompute.begin(), space.recompute.end(),
                              [&](Recompute one) { return toString(one) == parts.recompute; });
    if (known == space.recompute.end())
      return "--recompute: '" + parts.recompute + "' is not none, selective or full";
    space.recompute = {*known};
    space.keptChoices = 0;
  }
  if (std::string wrong = fixSchedule(parts, space); !wrong.empty())
    return wrong;
  return fixMicrobatches(parts, task, space);
}

int countRanks(const std::string &mesh) {
  const bool isNamed = mesh.find('=') != std::string::npos;
  std::set<std::string> names;
  double ranks = 1;
  for (const std::string &part : split(mesh, isNamed ? ',' : 'x')) {
    const std::size_t at = isNamed ? part.find('=') : 0;
    const std::string name = part.substr(0, at);
    if (isNamed && (at == std::string::npos || !names.insert(name).second ||
                    std::find(std::begin(kAxes), std::end(kAxes), name) == std::end(kAxes)))
      return 0;
    ranks *= parseSize(isNamed ? part.substr(at + 1) : part);
  }
  return ranks <= kMostRanks ? static_cast<int>(ranks) : 0;
}

/// Chunks that a stage has at least.
static int countChunks(const FixedParts &parts, const SearchSpace &space) {
  const bool isOne = space.schedules.size() == 1;
  const bool isV = isOne && space.schedules.front() == cost::Schedule::ZeroBubbleV,
             isMany = isOne && space.schedules.front() == cost::Schedule::Interleaved;
  return isV ? 2 : std::max(isMany ? 2 : 1, parts.chunks);
}

/// Where the search gives roles to the sizes of a mesh: whether one of them can be the stages that the
/// schedule or chunks need.
static std::string checkStages(const FixedParts &parts, const SearchSpace &space, int units) {
  using cost::Schedule;
  const Schedule schedule = space.schedules.size() == 1 ? space.schedules.front() : Schedule::OneFOneB;
  const int chunks = countChunks(parts, space);
  const bool needsStages = chunks > 1 || (schedule != Schedule::OneFOneB && schedule != Schedule::GPipe);
  int least = 0;
  for (const MeshSizes &mesh : space.meshes) {
    if (mesh.pipeline == 0)
      return ""; // the search chooses
    if (mesh.pipeline > 1)
      least = least == 0 ? mesh.pipeline : std::min(least, mesh.pipeline);
  }
  if (!needsStages || parts.mesh.empty() || (least > 0 && least * chunks <= units))
    return "";
  const std::string asked = !parts.schedule.empty() ? "--pipeline-schedule " + parts.schedule
                                                    : "--chunks " + std::to_string(parts.chunks);
  std::string wrong = "--mesh " + parts.mesh + ": " + asked + " needs stages, and ";
  wrong += least == 0
               ? "there is one rank"
               : "the fewest that these sizes make are " + std::to_string(least) +
                     (chunks > 1 ? " of " + std::to_string(chunks) + " chunks" : "") +
                     ", more than the model's " + std::to_string(units) + " units (embedding, blocks, head)";
  if (units / chunks >= 2)
    return wrong + ": an axis of " +
           (units / chunks > 2 ? "2 to " + std::to_string(units / chunks) : std::string("2")) +
           " ranks, or stage=2 and the others by name, would do";
  return wrong + ": leave " + asked + " out";
}

std::string checkModel(const FixedParts &parts, const SearchSpace &space, const FactorGraph &graph) {
  int units = static_cast<int>(graph.units.size()), chunks = std::max(1, parts.chunks);
  if (chunks > 1 && 2 * chunks > units)
    return "--chunks " + std::to_string(chunks) +
           ": two stages of so many chunks are more than the model's " + std::to_string(units) + " units";
  if (space.meshes.size() != 1)
    return checkStages(parts, space, units);
  const MeshSizes &mesh = space.meshes.front();
  if (mesh.pipeline > 1)
    chunks = countChunks(parts, space);
  if (static_cast<double>(mesh.pipeline) * chunks > units)
    return "--mesh " + parts.mesh + ": " + std::to_string(mesh.pipeline) + " stages" +
           (chunks > 1 ? " of " + std::to_string(chunks) + " chunks" : "") + " are more than the model's " +
           std::to_string(units) + " units (embedding, blocks, head): " +
           (units / chunks < 2 && parts.chunks < 2 && !parts.schedule.empty()
                ? "leave --pipeline-schedule " + parts.schedule + " out"
                : "stage=" + std::to_string(units / chunks) + " or fewer would do");
  if (mesh.context > 1 && graph.sequence <= 0)
    return "--mesh " + parts.mesh + ": the model has no tokens that an axis 'context' could split";
  return "";
}

} // namespace colossal::planner

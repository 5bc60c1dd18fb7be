// Opening a plan and running its programs, seen from the process that holds the ranks.
#include "runtime/execute/SessionCore.h"

#include "runtime/comm/Open.h"
#include "runtime/device/Registry.h"
#include "runtime/validate/Validate.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sched.h>

namespace colossal::runtime {

namespace {

using Clock = std::chrono::steady_clock;

unsigned availableCores() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<unsigned>(std::max(1, CPU_COUNT(&set)))
                                                       : std::max(1u, std::thread::hardware_concurrency());
}

/// Gives this process and the threads it will make back the cores that a launcher took away.
void useAllCores() {
  cpu_set_t all;
  std::memset(&all, 0xff, sizeof all);
  (void)::sched_setaffinity(0, sizeof all, &all);
}

/// Whether all elements are in the binding's range; they are of its type.
Status checkRange(const plan::Binding &binding, const void *elements, size_t bytes) {
  const plan::Binding::Range &range = binding.range();
  const size_t size = plan::elementBytes(binding.type());
  for (size_t at = 0; at + size <= bytes; at += size) {
    int64_t value = 0;
    if (binding.type() == plan::I32) {
      int32_t narrow = 0;
      std::memcpy(&narrow, static_cast<const char *>(elements) + at, size);
      value = narrow;
    } else {
      std::memcpy(&value, static_cast<const char *>(elements) + at, size);
    }
    const bool also = std::find(range.also().begin(), range.also().end(), value) != range.also().end();
    if ((value < range.least() || value > range.greatest()) && !also)
      return {Code::InvalidArgument,
              "'" + range.user() + "' takes indices from " + std::to_string(range.least()) + " to " +
                  std::to_string(range.greatest()) + ", and one is " + std::to_string(value)};
  }
  return {};
}

/// Processes of this run on this machine, as launchers tell.
unsigned localProcesses() {
  for (const char *name : {"COLOSSAL_LOCAL_SIZE", "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
                           "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"})
    if (const char *value = std::getenv(name))
      if (unsigned count = static_cast<unsigned>(std::strtoul(value, nullptr, 10)))
        return count;
  return 1;
}

/// Whether a program is one of those that callers run; the others load, save and restore.
bool isForCallers(const plan::Program &program) {
  return program.role() == plan::Program::INFER || program.role() == plan::Program::STEP;
}

template <class T>
const T *findNamed(const google::protobuf::RepeatedPtrField<T> &rows, const std::string &name) {
  for (const T &row : rows)
    if (row.name() == name)
      return &row;
  return nullptr;
}

/// The valid elements of a binding's shard on `rank`, without padding.
Status packShard(Rank &rank, const plan::BoundShard &shard, const ResolvedBox &box, std::string &packed) {
  const uint64_t size = plan::elementBytes(shard.binding->type());
  packed.resize(box.validElements() * size);
  return rank.read(
      *shard.buffer, box.localBytes(size), [&](const std::byte *host, uint64_t begin, uint64_t end) {
        box.pack(host, {begin / size, end / size}, reinterpret_cast<std::byte *>(packed.data()), size);
        return Status();
      });
}

/// Why `inputs` are not those of `program`. What fits after a change of type is put into `converted`. With
/// `sourced` (may be null) there may be inputs that the program does not take.
Status fits(const plan::Program &program, plan::ByteView data, const Tensors &inputs,
            const SourcedInputs *sourced, Tensors &converted) {
  std::string problems;
  auto problem = [&](const std::string &text) { problems += (problems.empty() ? "" : "; ") + text; };
  auto check = [&](const auto &expected, const Tensor &given) {
    std::vector<uint64_t> shape(expected.shape().begin(), expected.shape().end());
    Status status;
    if (given.shape != shape)
      status = {Code::InvalidArgument, "it has shape " + describeType(given)};
    else if (given.type != expected.type())
      status = convertTo(expected.type(), converted[expected.name()] = given);
    else if (!elementsFit(given))
      status = {Code::InvalidArgument, "an element is outside the type's range"};
    if (!status.ok())
      problem("input '" + expected.name() + "' must be " + describeType(expected.type(), shape) + ": " +
              status.message());
    return status.ok();
  };
  for (const plan::Binding &binding : program.inputs()) {
    auto given = inputs.find(binding.name());
    if (sourced && sourced->count(binding.name())) {
      const SourcedInput &input = sourced->at(binding.name());
      if (std::vector<uint64_t> shape(binding.shape().begin(), binding.shape().end());
          input.type != binding.type() || input.shape != shape)
        problem("input '" + binding.name() + "' must be " + describeType(binding.type(), shape) +
                ", and its source gives " + describeType(input.type, input.shape));
    } else if (given == inputs.end()) {
      problem("input '" + binding.name() + "' is missing");
    } else if (check(binding, given->second) && binding.has_range()) {
      const Tensor &tensor = converted.count(binding.name()) ? converted[binding.name()] : given->second;
      Status status = checkRange(binding, tensor.bytes.data(), tensor.bytes.size());
      if (!status.ok())
        problem("input '" + binding.name() + "': " + status.message());
    }
  }
  for (const auto &[name, tensor] : inputs) {
    if (findNamed(program.inputs(), name))
      continue;
    const plan::FixedInput *fixed = findNamed(program.fixed_inputs(), name);
    if (!fixed && sourced)
      continue;
    if (!fixed)
      problem("there is no input '" + name + "'");
    else if (check(*fixed, tensor) && fixed->bytes() != 0 &&
             std::memcmp((converted.count(name) ? converted[name] : tensor).bytes.data(),
                         data.data + fixed->offset(), fixed->bytes()) != 0)
      problem("input '" + name + "' was fixed when the plan was compiled, and now has other values");
  }
  return problems.empty() ? Status() : Status(Code::InvalidArgument, problems);
}

} // namespace

Session::Session(std::unique_ptr<Core> core) : core(std::move(core)) {}

Session::~Session() {
  // A stuck thread still uses all of it; memory is left to the end of the process then.
  if (core && core->rankThreads && core->rankThreads->lost()) [[maybe_unused]]
    Core *kept = core.release();
}

const plan::Plan &Session::plan() const {
  return core->file.plan();
}
uint32_t Session::ranks() const {
  return core->rankCount;
}
unsigned Session::threads() const {
  return core->threads;
}
const std::string &Session::warning() const {
  return core->warning;
}
bool Session::root() const {
  return core->ranks[0]->rank() == 0;
}
bool Session::holdsAllRanks() const {
  return core->ranks.size() == core->rankCount;
}
void Session::interrupt() {
  core->rankThreads->interrupt();
}
void Session::terminateOthers(int exitCode) {
  core->ranks[0]->control().abort(exitCode);
}
uint64_t Session::collectiveBytes() const {
  return core->ranks[0]->collectiveBytes();
}

uint64_t Session::arenaBytes() const {
  uint64_t most = 0;
  for (const plan::StageView &stage : core->shared.stages) {
    uint64_t bytes = 0;
    for (const plan::Arena &arena : *stage.arenas)
      bytes += arena.bytes();
    most = std::max(most, bytes);
  }
  return most;
}

Status Session::open(const std::string &path, const SessionOptions &options,
                     std::unique_ptr<Session> &session) {
  std::unique_ptr<Session> opened(new Session(std::make_unique<Core>()));
  Status status = opened->core->open(path, options);
  // Ranks in other processes wait for this one: the caller must be able to end them.
  const bool othersWait = !opened->core->ranks.empty() && opened->core->ranks.size() != opened->ranks();
  if (status.ok() || othersWait)
    session = std::move(opened);
  return status;
}

Status Session::Core::open(const std::string &planPath, const SessionOptions &options) {
  path = planPath;
  COLOSSAL_RETURN_IF_ERROR(plan::PlanFile::open(path, options.checkOwner, file));
  COLOSSAL_RETURN_IF_ERROR(validatePlan(file.plan(), file.code(), file.data()));
  COLOSSAL_RETURN_IF_ERROR(openDriver(file.plan().target().device(), driver));
  COLOSSAL_RETURN_IF_ERROR(driver->checkTarget(file.plan().target()));
  shared.stages = plan::stagesOf(file.plan());
  rankCount = static_cast<uint32_t>(shared.stages.back().firstRank + shared.stages.back().ranks);
  COLOSSAL_RETURN_IF_ERROR(learn(nullptr, {}));
  shared.plan = &file.plan();
  shared.code = file.code();
  shared.data = file.data();
  shared.deadline = options.deadline;
  waitAsLongAs(0, false);
  shared.eager = options.eager;
  shared.weights.configure(file.plan(), file.data(), file.folder(), options.weights, options.randomWeights);
  COLOSSAL_RETURN_IF_ERROR(shared.weights.openGiven(remark));
  return start(options);
}

Status Session::Core::start(const SessionOptions &options) {
  const std::string communicator = options.communicator.empty()
                                       ? defaultCommunicator(file.plan().target().device())
                                       : options.communicator;
  const bool oneProcess = communicator == "local";
  unsigned cores = availableCores();
  // A launcher that binds each process to one core leaves no room for the threads that are asked for.
  if (!oneProcess && options.threads > cores) {
    useAllCores();
    cores = availableCores();
  }
  const unsigned sharers = oneProcess ? rankCount : localProcesses();
  // A launcher that binds its processes has divided the cores already.
  const bool divided = !oneProcess && cores < std::thread::hardware_concurrency();
  threads = options.threads ? options.threads : std::max(1u, divided ? cores : cores / sharers);
  const uint64_t busy = uint64_t(threads) * (divided ? 1 : sharers);
  // Collectives that are under way while kernels run have a thread of their own.
  const std::vector<uint64_t> staging = plan::stagingByQueue(file.plan());
  const bool overlaps = staging.size() > 1 && staging[1] > 0;
  const uint64_t running = busy + (overlaps ? (divided ? 1 : sharers) : 0);
  // One that would take turns with the kernels' threads only costs. A program's own order will do then; what
  // stages say to one another may need more than that.
  shared.collectivesBeside = running <= cores || shared.stages.size() > 1;
  // Spinning pays while every thread has a core, and harms as soon as one has not.
  const unsigned spins = (shared.collectivesBeside ? running : busy) <= cores ? 20000 : 20;
  if (options.threads > 1 && busy > cores)
    warning = std::to_string(divided ? 1 : sharers) + " ranks of " + std::to_string(threads) +
              " threads share " + std::to_string(cores) +
              " cores: they take turns, and fewer threads would be faster";

  std::vector<Communicator> handles;
  COLOSSAL_RETURN_IF_ERROR(
      openCommunicators(communicator, rankCount, spins, shared.abort, handles, options.ordered));
  if (!handles[0].transfers->tellsMessagesApart())
    COLOSSAL_RETURN_IF_ERROR(validatePlan(file.plan(), file.code(), file.data(), /*messagesInOrder=*/true));
  for (Communicator &handle : handles) {
    std::unique_ptr<Device> device;
    COLOSSAL_RETURN_IF_ERROR(driver->createDevice({threads, spins, busy > cores}, shared.abort, device));
    // Predictions say nothing about how fast a host executes a device's code.
    if (!options.deadline.isGiven() && device->describe().emulated)
      shared.deadline = Deadline::fixed(options.deadline.unpredicted()), waitAsLongAs(0, false);
    ranks.push_back(std::make_unique<Rank>(shared, std::move(device), std::move(handle)));
  }
  rankThreads = std::make_unique<RankThreads>(ranks, shared, spins);
  if (!oneProcess)
    COLOSSAL_RETURN_IF_ERROR(rankThreads->run([this](Rank &rank) { return comparePlans(rank.control()); }));
  COLOSSAL_RETURN_IF_ERROR(rankThreads->run([](Rank &rank) { return rank.prepare(); }));
  for (int program = 0; program < file.plan().programs_size(); ++program)
    if (file.plan().programs(program).role() == plan::Program::LOAD)
      COLOSSAL_RETURN_IF_ERROR(rankThreads->run([program](Rank &rank) { return rank.run(program, 0); }));
  shared.weights.close();
  warning += (warning.empty() || remark.empty() ? "" : "; ") + remark;
  shared.trace = options.trace; // runs, not loading
  return {};
}

Status Session::Core::comparePlans(Control &control) const {
  std::vector<std::string> all;
  std::string different;
  COLOSSAL_RETURN_IF_ERROR(control.gather(file.digest(), all));
  for (size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      different += (different.empty() ? "" : ", ") + std::to_string(rank);
  COLOSSAL_RETURN_IF_ERROR(control.broadcast(different));
  return different.empty()
             ? Status()
             : Status(Code::InvalidArgument,
                      "the processes have opened different plans: not that of rank 0 is that of " +
                          different);
}

std::vector<std::string> Session::files() const {
  std::vector<std::string> paths{core->path};
  for (int file = 0; file < plan().files_size(); ++file)
    if (std::string path; core->shared.weights.locate(static_cast<uint32_t>(file), path).ok())
      paths.push_back(path);
  return paths;
}

std::string Session::otherWeights() const {
  return core->shared.weights.areGiven()    ? "--weights"
         : core->shared.weights.areRandom() ? "--random-weights"
                                            : "";
}

std::string describeInputs(const plan::Program &program, const std::set<std::string> &without) {
  std::string text;
  for (const plan::Binding &binding : program.inputs())
    if (without.count(binding.name()) == 0)
      text += "  " + binding.name() + ": " +
              describeType(binding.type(), {binding.shape().begin(), binding.shape().end()}) + "\n";
  for (const plan::FixedInput &input : program.fixed_inputs())
    text += "  " + input.name() + ": " +
            describeType(input.type(), {input.shape().begin(), input.shape().end()}) +
            " (fixed when compiled)\n";
  return text.empty() ? "  (no inputs)\n" : text;
}

Status Session::select(Tensors &inputs, int &selected) const {
  std::string reasons;
  for (int program = 0; program < plan().programs_size(); ++program) {
    const plan::Program &candidate = plan().programs(program);
    if (!isForCallers(candidate))
      continue;
    Tensors converted;
    Status status = fits(candidate, core->shared.data, inputs, nullptr, converted);
    if (status.ok()) {
      for (auto &[name, tensor] : converted)
        inputs[name] = std::move(tensor);
      selected = program;
      return {};
    }
    reasons += "\nprogram '" + candidate.name() + "': " + status.message() + ". It takes\n" +
               describeInputs(candidate);
  }
  return {Code::InvalidArgument, "the inputs fit no program of the plan" + reasons};
}

Status Session::find(const std::string &name, int &found) const {
  std::string names;
  for (int program = 0; program < plan().programs_size(); ++program) {
    const plan::Program &candidate = plan().programs(program);
    if (!isForCallers(candidate))
      continue;
    if (candidate.name() == name) {
      found = program;
      return {};
    }
    names += (names.empty() ? "'" : ", '") + candidate.name() + "'";
  }
  return {Code::NotFound,
          "the plan has no program '" + name + "', it has " + (names.empty() ? "none" : names)};
}

Status Session::accept(int program, Tensors &inputs, const SourcedInputs &sourced) const {
  Tensors converted;
  const plan::Program &wanted = plan().programs(program);
  if (Status status = fits(wanted, core->shared.data, inputs, &sourced, converted); !status.ok())
    return {status.code(),
            "program '" + wanted.name() + "': " + status.message() + ". It takes\n" + describeInputs(wanted)};
  for (auto &[name, tensor] : converted)
    inputs[name] = std::move(tensor);
  return {};
}

Status Session::onEachRank(const std::function<Status(Rank &)> &job) {
  return core->rankThreads->run(job);
}

const std::vector<plan::StageView> &Session::stages() const {
  return core->shared.stages;
}

Status Session::Core::learn(const plan::Program *program, const Tensors &inputs) {
  texts.clear();
  auto add = [&](const std::string &text) {
    const std::string &known = texts.emplace(digestText(text), text).first->second;
    return known == text
               ? Status()
               : Status(Code::Unsupported, "the strings '" + text + "' and '" + known +
                                               "' have one digest, so that no run could tell them apart");
  };
  for (const std::string &text : file.plan().texts())
    COLOSSAL_RETURN_IF_ERROR(add(text));
  for (int i = 0; program && i < program->inputs_size(); ++i)
    if (program->inputs(i).type() == plan::STRING && inputs.count(program->inputs(i).name()))
      for (const std::string &text : inputs.at(program->inputs(i).name()).texts)
        COLOSSAL_RETURN_IF_ERROR(add(text));
  return {};
}

/// Fills a part of a shard from what gives its elements, and sees that indices are in their range.
Status fillFrom(const SourcedInput &input, const plan::Binding &binding, const ResolvedBox &box,
                ShardPart part, std::byte *shard) {
  const uint64_t size = plan::elementBytes(binding.type());
  if (box.padded())
    std::memset(shard, 0, (part.end - part.begin) * size);
  Status status;
  box.forRows(part, [&](uint64_t from, uint64_t to, uint64_t, uint64_t length) {
    if (!status.ok())
      return;
    std::byte *row = shard + to * size;
    status = input.source->read(from, length, row);
    if (!status.ok() || !binding.has_range() || checkRange(binding, row, length * size).ok())
      return;
    for (uint64_t e = 0; e < length && status.ok(); ++e)
      if (Status wrong = checkRange(binding, row + e * size, size); !wrong.ok())
        status = {wrong.code(), "input '" + binding.name() + "', " + input.source->origin(from + e) + ": " +
                                    wrong.message()};
  });
  return status;
}

Status Session::Core::scatter(int program, const Tensors &inputs, const SourcedInputs &sourced, Rank &rank) {
  for (const plan::BoundShard &shard : rank.ownStage().inputs(program)) {
    ResolvedBox box;
    COLOSSAL_RETURN_IF_ERROR(ResolvedBox::resolve(*shard.box, rank.ownMeshPosition(), nullptr, box));
    if (auto input = sourced.find(shard.binding->name()); input != sourced.end()) {
      const uint64_t size = plan::elementBytes(shard.binding->type());
      COLOSSAL_RETURN_IF_ERROR(
          rank.write(*shard.buffer, box.localBytes(size), [&](std::byte *host, uint64_t begin, uint64_t end) {
            return fillFrom(input->second, *shard.binding, box, {begin / size, end / size}, host);
          }));
      continue;
    }
    const std::byte *tensor = inputs.at(shard.binding->name()).bytes.data();
    const uint64_t size = plan::elementBytes(shard.binding->type());
    COLOSSAL_RETURN_IF_ERROR(
        rank.write(*shard.buffer, box.localBytes(size), [&](std::byte *host, uint64_t begin, uint64_t end) {
          box.toShard(tensor, host, {begin / size, end / size}, size);
          return Status();
        }));
  }
  return {};
}

Status Session::Core::checkComputed(int program) {
  for (const std::unique_ptr<Rank> &rank : ranks)
    for (const plan::BoundShard &shard : rank->ownStage().checks(program)) {
      ResolvedBox box;
      COLOSSAL_RETURN_IF_ERROR(ResolvedBox::resolve(*shard.box, rank->ownMeshPosition(), nullptr, box));
      std::string packed;
      COLOSSAL_RETURN_IF_ERROR(packShard(*rank, shard, box, packed));
      COLOSSAL_RETURN_IF_ERROR(checkRange(*shard.binding, packed.data(), packed.size()));
    }
  return {};
}

Status Session::run(int program, const Tensors &inputs, double *seconds, unsigned times,
                    const SourcedInputs &sourced, double *interval) {
  COLOSSAL_RETURN_IF_ERROR(core->learn(&plan().programs(program), inputs));
  const uint32_t first = core->shared.runs + 1;
  core->shared.runs += times;
  Clock::time_point begin, end;
  std::vector<std::string> nanoseconds; // of each rank, from the end of its first run to that of its last
  core->waitAsLongAs(plan().programs(program).predicted_seconds(), core->hasRun.insert(program).second);
  Status status = core->rankThreads->run([&](Rank &rank) {
    COLOSSAL_RETURN_IF_ERROR(core->scatter(program, inputs, sourced, rank));
    COLOSSAL_RETURN_IF_ERROR(rank.control().barrier());
    rank.leftBarrier();
    if (&rank == core->ranks[0].get())
      begin = Clock::now();
    Clock::time_point ended;
    for (unsigned run = 0; run < times; ++run) {
      if (run > 0)
        COLOSSAL_RETURN_IF_ERROR(core->scatter(program, inputs, sourced, rank));
      COLOSSAL_RETURN_IF_ERROR(rank.run(program, first + run));
      if (run == 0)
        ended = Clock::now();
    }
    const Clock::duration between = Clock::now() - ended;
    COLOSSAL_RETURN_IF_ERROR(rank.control().barrier());
    if (&rank == core->ranks[0].get())
      end = Clock::now();
    if (times == 1)
      return Status();
    const auto own = std::chrono::duration_cast<std::chrono::nanoseconds>(between).count();
    std::vector<std::string> all;
    COLOSSAL_RETURN_IF_ERROR(rank.control().gather(std::to_string(own), all));
    if (&rank == core->ranks[0].get())
      nanoseconds = std::move(all);
    return Status();
  });
  core->waitAsLongAs(0, false);
  if (status.ok())
    status = core->checkComputed(program);
  if (status.ok() && seconds)
    *seconds = std::chrono::duration<double>(end - begin).count();
  if (status.ok() && interval) {
    *interval = times == 1 ? std::chrono::duration<double>(end - begin).count() : 0;
    for (const std::string &own : nanoseconds)
      *interval = std::max(*interval, std::stod(own) * 1e-9 / (times - 1));
  }
  return status;
}

Status Session::outputs(int program, Tensors &outputs, const std::vector<std::string> &only) {
  const plan::Program &which = plan().programs(program);
  outputs.clear();
  for (const plan::Binding &binding : which.outputs()) {
    if (!only.empty() && std::find(only.begin(), only.end(), binding.name()) == only.end())
      continue;
    const uint64_t size = plan::elementBytes(binding.type());
    Tensor tensor;
    tensor.type = binding.type();
    tensor.shape.assign(binding.shape().begin(), binding.shape().end());
    uint64_t elements;
    if (!tensorElements(tensor.type, tensor.shape, elements))
      return {Code::InvalidPlan, "output '" + binding.name() + "' is too large"};
    if (root())
      tensor.bytes.resize(elements * size);
    // Of ranks with equal boxes the first gives the values.
    std::vector<std::pair<uint32_t, ResolvedBox>> givers;
    const plan::BoundShard *mine = nullptr; // of this process's first rank, where it gives
    std::vector<plan::BoundShard> shards;   // one for each stage that holds it
    std::vector<size_t> ofStage(core->shared.stages.size(), SIZE_MAX);
    for (const plan::StageView &stage : core->shared.stages)
      for (const plan::BoundShard &shard : stage.outputs(program))
        if (shard.binding == &binding) {
          ofStage[stage.index] = shards.size();
          shards.push_back(shard);
        }
    for (const plan::StageView &stage : core->shared.stages)
      for (uint64_t rank = stage.firstRank; rank < stage.firstRank + stage.ranks; ++rank) {
        if (ofStage[stage.index] == SIZE_MAX)
          continue;
        const plan::BoundShard &shard = shards[ofStage[stage.index]];
        ResolvedBox box;
        COLOSSAL_RETURN_IF_ERROR(ResolvedBox::resolve(*shard.box, stage.positionOf(rank), nullptr, box));
        bool gives = true;
        for (const auto &[earlier, same] : givers)
          gives = gives && !same.sameElements(box);
        if (!gives)
          continue;
        givers.push_back({static_cast<uint32_t>(rank), std::move(box)});
        if (rank == core->ranks[0]->rank())
          mine = &shard;
      }
    if (core->ranks.size() == ranks()) {
      for (const auto &giver : givers) {
        const ResolvedBox &box = giver.second;
        Rank &rank = *core->ranks[giver.first];
        COLOSSAL_RETURN_IF_ERROR(
            rank.read(*shards[ofStage[rank.ownStage().index]].buffer, box.localBytes(size),
                      [&](const std::byte *host, uint64_t begin, uint64_t end) {
                        box.fromShard(host, {begin / size, end / size}, tensor.bytes.data(), size);
                        return Status();
                      }));
      }
    } else {
      Rank &own = *core->ranks[0];
      std::string given;
      std::vector<std::string> all;
      for (const auto &[rank, box] : givers)
        if (mine && rank == own.rank())
          COLOSSAL_RETURN_IF_ERROR(packShard(own, *mine, box, given));
      COLOSSAL_RETURN_IF_ERROR(core->gather(given, all));
      for (const auto &[rank, box] : givers)
        if (rank < all.size())
          box.unpack(all[rank], tensor.bytes.data(), size);
    }
    if (!root())
      continue;
    if (tensor.type == plan::BF16 || (plan::isNarrow(tensor.type) && plan::isFloat(tensor.type)))
      COLOSSAL_RETURN_IF_ERROR(convertTo(plan::F32, tensor));
    for (uint64_t e = 0; tensor.type == plan::STRING && e < elements; ++e) {
      uint64_t digest;
      std::memcpy(&digest, tensor.bytes.data() + e * size, sizeof digest);
      auto text = core->texts.find(digest);
      if (text == core->texts.end() && digest != 0)
        return {Code::Internal,
                "output '" + binding.name() + "' holds a string that neither the plan nor an input has"};
      tensor.texts.push_back(digest == 0 ? std::string() : text->second);
    }
    outputs.emplace(binding.name(), std::move(tensor));
  }
  return {};
}

} // namespace colossal::runtime

// The C interface over Session. No exception leaves it.
#define COLOSSAL_BUILDING_LIBRARY
#include "runtime/include/colossal-runtime.h"

#include "colossal/Plan/OutputFile.h"
#include "runtime/execute/RandomValues.h"
#include "runtime/execute/Session.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>

using namespace colossal;
using namespace colossal::runtime;

namespace {

thread_local std::string lastError;

static_assert(static_cast<int>(Code::Internal) == COLOSSAL_INTERNAL, "the codes are the same");
static_assert(static_cast<int>(Code::Busy) == COLOSSAL_BUSY, "the codes are the same");
static_assert(static_cast<int>(Code::Unsupported) == COLOSSAL_UNSUPPORTED, "the codes are the same");
static_assert(static_cast<int>(plan::BOOL) == COLOSSAL_BOOL, "the types are the same");
static_assert(static_cast<int>(plan::STRING) == COLOSSAL_STRING, "the types are the same");

/// One tensor's description with the storage behind it.
struct Described {
  std::string name;
  plan::DataType type = plan::F32;
  std::vector<uint64_t> shape;

  template <class Binding>
  explicit Described(const Binding &binding)
      : name(binding.name()), type(binding.type()), shape(binding.shape().begin(), binding.shape().end()) {}

  colossal_tensor view() const {
    uint64_t elements = 0;
    (void)tensorElements(type, shape, elements);
    return {name.c_str(), static_cast<colossal_type>(type), shape.size(), shape.data(),
            static_cast<size_t>(elements *
                                (type == plan::STRING ? sizeof(colossal_string) : plan::elementBytes(type)))};
  }
};

struct ProgramDescription {
  int index; // in the plan
  std::string name;
  std::vector<Described> inputs, outputs;
};

colossal_status result(const Status &status) {
  if (!status.ok())
    lastError = status.describe();
  return static_cast<colossal_status>(status.code());
}

/// Runs `body`, turning what is thrown into a status.
template <class Body>
colossal_status guarded(Body body) {
  try {
    return result(body());
  } catch (const std::bad_alloc &) {
    return result({Code::OutOfMemory, "out of memory"});
  } catch (const std::exception &error) {
    return result({Code::Internal, error.what()});
  }
}

} // namespace

struct colossal_session {
  std::unique_ptr<Session> session;
  std::atomic<bool> busy{false}; // a call that changes the session, or reads what such calls change
  std::vector<ProgramDescription> programs;
  Tensors inputs, outputs;
  SourcedInputs sourced;
  std::map<std::string, std::vector<colossal_string>> strings; // of `outputs`, as the caller sees them
  const ProgramDescription *last = nullptr;                    // of the last run that succeeded
  bool collected = false;                                      // `outputs` are those of the last run
  double seconds = 0, interval = 0;
  uint64_t collectiveBytes = 0;
  std::vector<RankMemory> memory;
  std::vector<colossal_memory_row> memoryRows;
  std::vector<RankTraffic> traffic;
  std::vector<colossal_traffic_row> trafficRows;
  std::vector<RankDevice> devices;
  std::vector<colossal_device_row> deviceRows;
  std::vector<Timeline::Row> profile;
  std::vector<colossal_profile_row> profileRows;

  /// The program that the inputs fit; converts those whose file format lacks the type.
  Status select(const ProgramDescription *&program) {
    if (!sourced.empty())
      return {Code::InvalidArgument, "inputs have sources: which program is to run must be said, by "
                                     "colossal_run_program"};
    int index = 0;
    COLOSSAL_RETURN_IF_ERROR(session->select(inputs, index));
    for (const ProgramDescription &candidate : programs)
      if (candidate.index == index)
        program = &candidate;
    return {};
  }

  /// Runs a program, which the inputs fit.
  Status run(const ProgramDescription &program, unsigned times) {
    outputs.clear();
    collected = false, last = nullptr;
    const uint64_t before = session->collectiveBytes();
    COLOSSAL_RETURN_IF_ERROR(session->run(program.index, inputs, &seconds, times, sourced, &interval));
    collectiveBytes = (session->collectiveBytes() - before) / times;
    last = &program;
    return {};
  }
};

namespace {

/// The caller's function as a source.
class CallerSource : public InputSource {
public:
  CallerSource(colossal_read_elements function, void *user) : function(function), user(user) {}
  Status read(uint64_t first, uint64_t count, std::byte *elements) const override {
    const int failed = function(user, first, count, elements);
    return failed == 0 ? Status()
                       : Status(Code::Io, "the source of an input failed with " + std::to_string(failed));
  }

private:
  colossal_read_elements function;
  void *user;
};

/// The sessions that are open. A handle that is none of them (closed, or never a session) is an error and not
/// a crash, and one that another thread closes lives until the calls on it have ended.
class OpenSessions {
public:
  void add(std::shared_ptr<colossal_session> session) {
    std::lock_guard<std::mutex> lock(mutex);
    const colossal_session *handle = session.get();
    sessions[handle] = std::move(session);
  }
  void remove(const colossal_session *handle) {
    std::shared_ptr<colossal_session> last; // destroyed after the lock is given back
    std::lock_guard<std::mutex> lock(mutex);
    if (auto found = sessions.find(handle); found != sessions.end()) {
      last = std::move(found->second);
      sessions.erase(found);
    }
  }
  std::shared_ptr<colossal_session> find(const colossal_session *handle) {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = sessions.find(handle);
    return found == sessions.end() ? nullptr : found->second;
  }

private:
  std::mutex mutex;
  std::map<const colossal_session *, std::shared_ptr<colossal_session>> sessions;
};

OpenSessions &openSessions() {
  // Never destroyed: what a program leaves open at its end is the system's to take back.
  static OpenSessions &sessions = *new OpenSessions;
  return sessions;
}

Status noSession() {
  return {Code::InvalidArgument, "the handle is of no open session: it is NULL, was closed, or was not given "
                                 "by colossal_open"};
}

/// Runs `body(session)` with the session reserved for this thread.
template <class Body>
colossal_status withSession(const colossal_session *handle, Body body) {
  return guarded([&]() -> Status {
    std::shared_ptr<colossal_session> session = openSessions().find(handle);
    if (!session)
      return noSession();
    if (session->busy.exchange(true, std::memory_order_acquire))
      return {Code::Busy, "another thread is in a call on this session: one session is used by one thread at "
                          "a time; open one for each thread, or take turns"};
    struct Release {
      std::atomic<bool> &busy;
      ~Release() { busy.store(false, std::memory_order_release); }
    } release{session->busy};
    return body(*session);
  });
}

/// A program of a session, which never changes after opening: any thread may look. Null, with an error set,
/// where there is none.
std::shared_ptr<const ProgramDescription> findProgram(const colossal_session *handle, size_t program) {
  std::shared_ptr<colossal_session> session = openSessions().find(handle);
  if (!session) {
    (void)result(noSession());
    return nullptr;
  }
  if (program >= session->programs.size()) {
    (void)result({Code::InvalidArgument, "there is no program " + std::to_string(program) + "; there are " +
                                             std::to_string(session->programs.size())});
    return nullptr;
  }
  const ProgramDescription *description = &session->programs[program];
  return {session, description};
}

/// Whether a struct of the caller is one that a version of the header had.
Status checkSize(const char *name, size_t given, size_t known) {
  if (given == known)
    return {};
  return {Code::InvalidArgument, std::string(name) + ".size is " + std::to_string(given) + ", and sizeof(" +
                                     name + ") is " + std::to_string(known) +
                                     (given == 0 ? ": set it before the call"
                                                 : ": it is not set, or the header is of another version "
                                                   "than the library (" COLOSSAL_VERSION ")")};
}

Status describeTensor(const ProgramDescription *program,
                      const std::vector<Described> ProgramDescription::*list, const char *what, size_t index,
                      colossal_tensor *tensor) {
  if (!program)
    return {Code::InvalidArgument, lastError};
  if (!tensor)
    return {Code::InvalidArgument, std::string("the description of an ") + what + " needs a place for it"};
  const std::vector<Described> &all = program->*list;
  if (index >= all.size())
    return {Code::InvalidArgument, "program '" + program->name + "' has no " + what + " " +
                                       std::to_string(index) + "; it has " + std::to_string(all.size())};
  *tensor = all[index].view();
  return {};
}

/// What --help of colossal-run allows as well; more is a mistake.
constexpr unsigned mostThreads = 1024;
constexpr size_t mostDimensions = 64;

Status readOptions(const colossal_options *given, SessionOptions &wanted) {
  if (!given)
    return {};
  COLOSSAL_RETURN_IF_ERROR(checkSize("colossal_options", given->size, sizeof *given));
  if (given->communicator)
    wanted.communicator = given->communicator;
  if (given->threads > mostThreads)
    return {Code::InvalidArgument, "colossal_options.threads is " + std::to_string(given->threads) +
                                       "; at most " + std::to_string(mostThreads) + " are possible"};
  wanted.threads = given->threads;
  if (given->weights)
    wanted.weights = given->weights;
  if (!(given->timeout_seconds >= 0) || std::isinf(given->timeout_seconds))
    return {Code::InvalidArgument, "colossal_options.timeout_seconds is " +
                                       std::to_string(given->timeout_seconds) +
                                       "; it must be a positive number of seconds, or 0"};
  if (given->timeout_seconds > 0)
    wanted.deadline = Deadline::fixed(std::chrono::milliseconds(
        std::max<int64_t>(1, static_cast<int64_t>(std::min(given->timeout_seconds, 1e9) * 1000))));
  if (given->timeout && given->timeout_seconds > 0)
    return {Code::InvalidArgument, "colossal_options: timeout and timeout_seconds exclude each other"};
  if (given->timeout)
    COLOSSAL_RETURN_IF_ERROR(Deadline::parse(given->timeout, wanted.deadline));
  if (given->fill_weights)
    wanted.randomWeights = given->weights_seed;
  wanted.trace = given->trace;
  wanted.eager = given->eager;
  wanted.ordered = given->ordered;
  return {};
}

} // namespace

extern "C" {

const char *colossal_version(void) {
  return COLOSSAL_VERSION;
}

const char *colossal_last_error(void) {
  return lastError.c_str();
}

int colossal_exit_code(colossal_status status) {
  switch (status) {
  case COLOSSAL_OK: return 0;
  case COLOSSAL_INVALID_ARGUMENT: return 2;
  case COLOSSAL_NOT_FOUND:
  case COLOSSAL_IO: return 3;
  case COLOSSAL_PERMISSION:
  case COLOSSAL_INVALID_PLAN: return 4;
  case COLOSSAL_UNSUPPORTED: return 5;
  case COLOSSAL_TIMEOUT: return 7;
  case COLOSSAL_INTERRUPTED: return 130;
  case COLOSSAL_OUT_OF_MEMORY:
  case COLOSSAL_RANK_FAILED:
  case COLOSSAL_INTERNAL:
  case COLOSSAL_BUSY: break;
  }
  return 6;
}

colossal_status colossal_open(const char *plan, const colossal_options *given, colossal_session **session) {
  return guarded([&]() -> Status {
    if (!plan || !session)
      return {Code::InvalidArgument, "colossal_open needs a path and a place for the session"};
    *session = nullptr;
    SessionOptions wanted;
    COLOSSAL_RETURN_IF_ERROR(readOptions(given, wanted));
    auto made = std::make_shared<colossal_session>();
    if (Status status = Session::open(plan, wanted, made->session); !status.ok()) {
      if (made->session) {
        // Under MPI the failure of one process is that of all; this call does not return.
        std::fprintf(stderr, "%s\n", status.describe().c_str());
        made->session->terminateOthers(colossal_exit_code(static_cast<colossal_status>(status.code())));
      }
      return status;
    }
    const plan::Plan &opened = made->session->plan();
    for (int i = 0; i < opened.programs_size(); ++i) {
      const plan::Program &program = opened.programs(i);
      if (program.role() != plan::Program::INFER && program.role() != plan::Program::STEP)
        continue;
      made->programs.push_back({i,
                                program.name(),
                                {program.inputs().begin(), program.inputs().end()},
                                {program.outputs().begin(), program.outputs().end()}});
      for (Described &output : made->programs.back().outputs)
        if (output.type == plan::BF16 || (plan::isNarrow(output.type) && plan::isFloat(output.type)))
          output.type = plan::F32;
    }
    openSessions().add(made);
    *session = made.get();
    return {};
  });
}

void colossal_close(colossal_session *session) {
  openSessions().remove(session);
}

size_t colossal_program_count(const colossal_session *session) {
  std::shared_ptr<colossal_session> found = openSessions().find(session);
  if (!found)
    (void)result(noSession());
  return found ? found->programs.size() : 0;
}

const char *colossal_program_name(const colossal_session *session, size_t program) {
  auto found = findProgram(session, program);
  return found ? found->name.c_str() : nullptr;
}

size_t colossal_input_count(const colossal_session *session, size_t program) {
  auto found = findProgram(session, program);
  return found ? found->inputs.size() : 0;
}

size_t colossal_output_count(const colossal_session *session, size_t program) {
  auto found = findProgram(session, program);
  return found ? found->outputs.size() : 0;
}

colossal_status colossal_input(const colossal_session *session, size_t program, size_t index,
                               colossal_tensor *tensor) {
  return guarded([&] {
    return describeTensor(findProgram(session, program).get(), &ProgramDescription::inputs, "input", index,
                          tensor);
  });
}

colossal_status colossal_output(const colossal_session *session, size_t program, size_t index,
                                colossal_tensor *tensor) {
  return guarded([&] {
    return describeTensor(findProgram(session, program).get(), &ProgramDescription::outputs, "output", index,
                          tensor);
  });
}

colossal_status colossal_set_input(colossal_session *session, const char *name, colossal_type type,
                                   size_t rank, const uint64_t *shape, const void *data) {
  return withSession(session, [&](colossal_session &own) -> Status {
    Tensor tensor;
    tensor.type = static_cast<plan::DataType>(type);
    if (!name || (rank != 0 && !shape) || plan::elementBytes(tensor.type) == 0)
      return {Code::InvalidArgument, "an input needs a name, a type and a shape"};
    if (rank > mostDimensions)
      return {Code::InvalidArgument, std::string("input '") + name + "' has " + std::to_string(rank) +
                                         " dimensions; at most " + std::to_string(mostDimensions) +
                                         " are possible"};
    tensor.shape.assign(shape, shape + rank);
    uint64_t elements;
    if (!tensorElements(tensor.type, tensor.shape, elements))
      return {Code::InvalidArgument, std::string("input '") + name + "' is too large"};
    if (elements != 0 && !data)
      return {Code::InvalidArgument, std::string("input '") + name + "' has no data"};
    if (tensor.type == plan::STRING) {
      std::vector<std::string> texts;
      const auto *strings = static_cast<const colossal_string *>(data);
      for (uint64_t e = 0; e < elements; ++e) {
        if (strings[e].size != 0 && !strings[e].text)
          return {Code::InvalidArgument, std::string("a string of input '") + name + "' has no text"};
        texts.emplace_back(strings[e].size ? strings[e].text : "", strings[e].size);
      }
      setTexts(tensor, std::move(texts));
    } else {
      const auto *bytes = static_cast<const std::byte *>(data);
      tensor.bytes.assign(bytes, bytes + elements * plan::elementBytes(tensor.type));
    }
    own.inputs[name] = std::move(tensor);
    own.sourced.erase(name);
    return {};
  });
}

colossal_status colossal_set_input_source(colossal_session *session, const char *name, colossal_type type,
                                          size_t rank, const uint64_t *shape, colossal_read_elements read,
                                          void *user) {
  return withSession(session, [&](colossal_session &own) -> Status {
    SourcedInput input;
    input.type = static_cast<plan::DataType>(type);
    if (!name || !read || (rank != 0 && !shape) || rank > mostDimensions ||
        plan::elementBytes(input.type) == 0 || input.type == plan::STRING)
      return {Code::InvalidArgument,
              "a source of an input needs a name, a type other than strings, a shape of "
              "at most 64 dimensions and a function"};
    input.shape.assign(shape, shape + rank);
    uint64_t elements;
    if (!tensorElements(input.type, input.shape, elements))
      return {Code::InvalidArgument, std::string("input '") + name + "' is too large"};
    input.source = std::make_shared<CallerSource>(read, user);
    own.sourced[name] = std::move(input);
    own.inputs.erase(name);
    return {};
  });
}

colossal_status colossal_clear_inputs(colossal_session *session) {
  return withSession(session, [&](colossal_session &own) -> Status {
    own.inputs.clear();
    own.sourced.clear();
    return {};
  });
}

colossal_status colossal_set_random_input(colossal_session *session, size_t program, size_t index,
                                          uint64_t seed) {
  return withSession(session, [&](colossal_session &own) -> Status {
    colossal_tensor unused;
    COLOSSAL_RETURN_IF_ERROR(describeTensor(findProgram(session, program).get(), &ProgramDescription::inputs,
                                            "input", index, &unused));
    const Described &input = own.programs[program].inputs[index];
    Tensor tensor;
    tensor.type = input.type, tensor.shape = input.shape;
    uint64_t elements;
    if (!tensorElements(tensor.type, tensor.shape, elements))
      return {Code::InvalidPlan, "input '" + input.name + "' is too large"};
    tensor.bytes.resize(elements * plan::elementBytes(tensor.type));
    RandomValues::inputs(seed, input.name, tensor.type).fill(0, elements, tensor.bytes.data());
    own.inputs[input.name] = std::move(tensor);
    own.sourced.erase(input.name);
    return {};
  });
}

colossal_status colossal_select(colossal_session *session, size_t *program) {
  return withSession(session, [&](colossal_session &own) -> Status {
    const ProgramDescription *selected = nullptr;
    COLOSSAL_RETURN_IF_ERROR(own.select(selected));
    if (program)
      *program = static_cast<size_t>(selected - own.programs.data());
    return {};
  });
}

colossal_status colossal_run(colossal_session *session, size_t *program) {
  return colossal_run_many(session, 1, program);
}

colossal_status colossal_run_many(colossal_session *session, size_t runs, size_t *program) {
  return withSession(session, [&](colossal_session &own) -> Status {
    if (runs < 1 || runs > UINT32_MAX)
      return {Code::InvalidArgument,
              "colossal_run_many takes 1 to 2^32 - 1 runs, not " + std::to_string(runs)};
    own.last = nullptr;
    const ProgramDescription *selected = nullptr;
    COLOSSAL_RETURN_IF_ERROR(own.select(selected));
    COLOSSAL_RETURN_IF_ERROR(own.run(*selected, static_cast<unsigned>(runs)));
    if (program)
      *program = static_cast<size_t>(selected - own.programs.data());
    return {};
  });
}

colossal_status colossal_find_program(const colossal_session *session, const char *name, size_t *program) {
  return guarded([&]() -> Status {
    std::shared_ptr<colossal_session> found = openSessions().find(session);
    if (!found)
      return noSession();
    if (!name || !program)
      return {Code::InvalidArgument, "colossal_find_program needs a name and a place for the program"};
    int index = 0;
    COLOSSAL_RETURN_IF_ERROR(found->session->find(name, index));
    for (*program = 0; found->programs[*program].index != index;)
      ++*program;
    return {};
  });
}

colossal_status colossal_run_program(colossal_session *session, size_t program) {
  return withSession(session, [&](colossal_session &own) -> Status {
    const auto description = findProgram(session, program);
    if (!description)
      return {Code::InvalidArgument, lastError};
    own.last = nullptr;
    COLOSSAL_RETURN_IF_ERROR(own.session->accept(description->index, own.inputs, own.sourced));
    return own.run(*description, 1);
  });
}

colossal_status colossal_get_output(colossal_session *session, const char *name, colossal_tensor *tensor,
                                    const void **data) {
  return withSession(session, [&](colossal_session &own) -> Status {
    if (!name)
      return {Code::InvalidArgument, "colossal_get_output needs the name of an output"};
    const std::string wanted = name;
    const Described *described = nullptr;
    if (own.last)
      for (const Described &output : own.last->outputs)
        if (output.name == wanted)
          described = &output;
    if (!described)
      return {Code::NotFound, own.last ? "the last run has no output '" + wanted + "'"
                                       : "no run has given outputs, or the last one failed"};
    if (!own.collected)
      COLOSSAL_RETURN_IF_ERROR(own.session->outputs(own.last->index, own.outputs));
    own.collected = true;
    if (tensor)
      *tensor = described->view();
    if (data) {
      auto found = own.outputs.find(wanted);
      *data = found == own.outputs.end() ? nullptr : found->second.bytes.data();
      if (described->type == plan::STRING && *data) {
        std::vector<colossal_string> &strings = own.strings[wanted];
        strings.clear();
        for (const std::string &text : found->second.texts)
          strings.push_back({text.data(), text.size()});
        *data = strings.data();
      }
    }
    return {};
  });
}

void colossal_interrupt(colossal_session *session) {
  // A signal handler takes no lock: that the handle is a session is the caller's word.
  if (session)
    session->session->interrupt();
}

void colossal_end_processes(colossal_session *session, int exitCode) {
  // Also while a thread is stuck in a call: this is how one gets out then.
  if (std::shared_ptr<colossal_session> found = openSessions().find(session))
    found->session->terminateOthers(exitCode);
}

colossal_status colossal_get_statistics(const colossal_session *session, colossal_statistics *statistics) {
  return withSession(session, [&](colossal_session &own) -> Status {
    if (!statistics)
      return {Code::InvalidArgument, "colossal_get_statistics needs a place for them"};
    COLOSSAL_RETURN_IF_ERROR(checkSize("colossal_statistics", statistics->size, sizeof *statistics));
    const Session &opened = *own.session;
    colossal_statistics all = {};
    all.size = statistics->size;
    all.ranks = opened.ranks(), all.threads = opened.threads(), all.root = opened.root();
    all.arena_bytes = opened.arenaBytes();
    all.runs_overlap = opened.plan().runs_overlap();
    if (own.last) {
      const plan::Program &program = opened.plan().programs(own.last->index);
      all.collective_bytes = own.collectiveBytes, all.seconds = own.seconds;
      all.interval_seconds = own.interval;
      all.planned_collective_bytes = program.collective_bytes();
      all.predicted_seconds = program.predicted_seconds();
    }
    *statistics = all;
    return {};
  });
}

const char *colossal_warning(const colossal_session *session) {
  std::shared_ptr<colossal_session> found = openSessions().find(session);
  if (!found)
    (void)result(noSession());
  return found ? found->session->warning().c_str() : "";
}

colossal_status colossal_get_memory(colossal_session *session, const colossal_memory_row **rows,
                                    size_t *count) {
  return withSession(session, [&](colossal_session &own) -> Status {
    own.memory.clear(), own.memoryRows.clear();
    COLOSSAL_RETURN_IF_ERROR(own.session->memory(own.memory));
    for (const RankMemory &rank : own.memory)
      for (const RankMemory::Row &row : rank.rows)
        own.memoryRows.push_back({rank.rank, row.kind.c_str(), row.planned, row.measured});
    if (rows)
      *rows = own.memoryRows.data();
    if (count)
      *count = own.memoryRows.size();
    return {};
  });
}

colossal_status colossal_get_devices(colossal_session *session, const colossal_device_row **rows,
                                     size_t *count) {
  return withSession(session, [&](colossal_session &own) -> Status {
    own.devices.clear(), own.deviceRows.clear();
    COLOSSAL_RETURN_IF_ERROR(own.session->devices(own.devices));
    for (const RankDevice &device : own.devices)
      own.deviceRows.push_back(
          {device.rank, device.name.c_str(), device.emulated, device.emulatedInstructions});
    if (rows)
      *rows = own.deviceRows.data();
    if (count)
      *count = own.deviceRows.size();
    return {};
  });
}

colossal_status colossal_check_output(const colossal_session *session, const char *path) {
  return withSession(session, [&](colossal_session &own) -> Status {
    if (!path)
      return {Code::InvalidArgument, "colossal_check_output needs a path"};
    return plan::checkOutput(path, own.session->files());
  });
}

colossal_status colossal_get_traffic(colossal_session *session, const colossal_traffic_row **rows,
                                     size_t *count) {
  return withSession(session, [&](colossal_session &own) -> Status {
    own.traffic.clear(), own.trafficRows.clear();
    if (!own.last)
      return {Code::NotFound, "nothing has run, or the last run failed"};
    COLOSSAL_RETURN_IF_ERROR(own.session->traffic(own.last->index, own.traffic));
    for (const RankTraffic &row : own.traffic)
      own.trafficRows.push_back(
          {row.rank, row.stage, row.axes.c_str(), row.kind.c_str(), row.sent, row.planned});
    if (rows)
      *rows = own.trafficRows.data();
    if (count)
      *count = own.trafficRows.size();
    return {};
  });
}

colossal_status colossal_set_trace(colossal_session *session, int trace) {
  return withSession(session, [&](colossal_session &own) -> Status {
    own.session->record(trace != 0);
    return {};
  });
}

colossal_status colossal_get_profile(colossal_session *session, const colossal_profile_row **rows,
                                     size_t *count) {
  return withSession(session, [&](colossal_session &own) -> Status {
    own.profile.clear(), own.profileRows.clear();
    Timeline timeline;
    COLOSSAL_RETURN_IF_ERROR(own.session->timeline(timeline));
    if (own.session->root())
      own.profile = timeline.profile();
    for (const Timeline::Row &row : own.profile)
      own.profileRows.push_back({row.name.c_str(), row.kind.c_str(), row.kernel.c_str(), row.executions,
                                 row.seconds, row.waiting, row.predicted});
    if (rows)
      *rows = own.profileRows.data();
    if (count)
      *count = own.profileRows.size();
    return {};
  });
}

colossal_status colossal_write_trace(colossal_session *session, const char *path) {
  return withSession(session, [&](colossal_session &own) -> Status {
    Timeline timeline;
    COLOSSAL_RETURN_IF_ERROR(own.session->timeline(timeline));
    if (!own.session->root())
      return {};
    if (!path)
      return {Code::InvalidArgument, "colossal_write_trace needs a path"};
    COLOSSAL_RETURN_IF_ERROR(plan::checkOutput(path, own.session->files()));
    return plan::writeFile(path, timeline.events());
  });
}

int colossal_crash_site(uint32_t *rank, const char **source) {
  const CrashContext &context = crashContext();
  if (context.rank < 0 || !rank || !source)
    return 0;
  const plan::Instruction *instruction = context.position ? context.position->load() : nullptr;
  *rank = static_cast<uint32_t>(context.rank);
  *source = instruction ? instruction->source().c_str() : nullptr;
  return 1;
}
}

// The C interface over Session. No exception leaves it.
#define COLOSSAL_BUILDING_LIBRARY
#include "runtime/include/colossal-runtime.h"

#include "runtime/execute/RandomValues.h"
#include "runtime/execute/Session.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <new>

using namespace colossal;
using namespace colossal::runtime;

namespace {

thread_local std::string lastError;

static_assert(static_cast<int>(Code::Internal) == COLOSSAL_INTERNAL, "the codes are the same");
static_assert(static_cast<int>(Code::Unsupported) == COLOSSAL_UNSUPPORTED, "the codes are the same");
static_assert(static_cast<int>(plan::BOOL) == COLOSSAL_BOOL, "the types are the same");

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
            static_cast<size_t>(elements * plan::elementBytes(type))};
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
  std::vector<ProgramDescription> programs;
  Tensors inputs, outputs;
  const ProgramDescription *last = nullptr; // of the last run that succeeded
  bool collected = false;                   // `outputs` are those of the last run
  double seconds = 0;
  uint64_t collectiveBytes = 0;
  std::vector<RankMemory> memory;
  std::vector<colossal_memory_row> memoryRows;

  /// The program that the inputs fit; converts those whose file format lacks the type.
  Status select(const ProgramDescription *&program) {
    int index = 0;
    COLOSSAL_RETURN_IF_ERROR(session->select(inputs, index));
    for (const ProgramDescription &candidate : programs)
      if (candidate.index == index)
        program = &candidate;
    return {};
  }
};

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
  case COLOSSAL_INTERNAL: break;
  }
  return 6;
}

colossal_status colossal_open(const char *plan, const colossal_options *given, colossal_session **session) {
  return guarded([&]() -> Status {
    if (!plan || !session)
      return {Code::InvalidArgument, "colossal_open needs a path and a place for the session"};
    *session = nullptr;
    // Options of an older header are shorter; what it did not know has the default.
    colossal_options options = {};
    if (given)
      std::memcpy(&options, given, std::min(given->size, sizeof options));
    SessionOptions wanted;
    if (options.communicator)
      wanted.communicator = options.communicator;
    wanted.threads = options.threads;
    if (options.weights)
      wanted.weights = options.weights;
    if (options.timeout_seconds > 0)
      wanted.timeout =
          std::chrono::milliseconds(static_cast<int64_t>(std::min(options.timeout_seconds, 1e9) * 1000));
    if (options.fill_weights)
      wanted.randomWeights = options.weights_seed;
    wanted.trace = options.trace;
    auto made = std::make_unique<colossal_session>();
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
      if (program.role() == plan::Program::LOAD)
        continue;
      made->programs.push_back({i,
                                program.name(),
                                {program.inputs().begin(), program.inputs().end()},
                                {program.outputs().begin(), program.outputs().end()}});
      for (Described &output : made->programs.back().outputs)
        if (output.type == plan::BF16)
          output.type = plan::F32;
    }
    *session = made.release();
    return {};
  });
}

void colossal_close(colossal_session *session) {
  delete session;
}

size_t colossal_program_count(const colossal_session *session) {
  return session->programs.size();
}

const char *colossal_program_name(const colossal_session *session, size_t program) {
  return program < session->programs.size() ? session->programs[program].name.c_str() : nullptr;
}

size_t colossal_input_count(const colossal_session *session, size_t program) {
  return program < session->programs.size() ? session->programs[program].inputs.size() : 0;
}

size_t colossal_output_count(const colossal_session *session, size_t program) {
  return program < session->programs.size() ? session->programs[program].outputs.size() : 0;
}

colossal_status colossal_input(const colossal_session *session, size_t program, size_t index,
                               colossal_tensor *tensor) {
  if (index >= colossal_input_count(session, program))
    return result({Code::InvalidArgument, "there is no such input"});
  *tensor = session->programs[program].inputs[index].view();
  return COLOSSAL_OK;
}

colossal_status colossal_output(const colossal_session *session, size_t program, size_t index,
                                colossal_tensor *tensor) {
  if (index >= colossal_output_count(session, program))
    return result({Code::InvalidArgument, "there is no such output"});
  *tensor = session->programs[program].outputs[index].view();
  return COLOSSAL_OK;
}

colossal_status colossal_set_input(colossal_session *session, const char *name, colossal_type type,
                                   size_t rank, const uint64_t *shape, const void *data) {
  return guarded([&]() -> Status {
    Tensor tensor;
    tensor.type = static_cast<plan::DataType>(type);
    if (!name || (rank != 0 && !shape) || plan::elementBytes(tensor.type) == 0)
      return {Code::InvalidArgument, "an input needs a name, a type and a shape"};
    tensor.shape.assign(shape, shape + rank);
    uint64_t elements;
    if (!tensorElements(tensor.type, tensor.shape, elements))
      return {Code::InvalidArgument, std::string("input '") + name + "' is too large"};
    if (elements != 0 && !data)
      return {Code::InvalidArgument, std::string("input '") + name + "' has no data"};
    const auto *bytes = static_cast<const std::byte *>(data);
    tensor.bytes.assign(bytes, bytes + elements * plan::elementBytes(tensor.type));
    session->inputs[name] = std::move(tensor);
    return {};
  });
}

void colossal_clear_inputs(colossal_session *session) {
  session->inputs.clear();
}

colossal_status colossal_set_random_input(colossal_session *session, size_t program, size_t index,
                                          uint64_t seed) {
  return guarded([&]() -> Status {
    if (index >= colossal_input_count(session, program))
      return {Code::InvalidArgument, "there is no such input"};
    const Described &input = session->programs[program].inputs[index];
    Tensor tensor;
    tensor.type = input.type, tensor.shape = input.shape;
    uint64_t elements;
    if (!tensorElements(tensor.type, tensor.shape, elements))
      return {Code::InvalidPlan, "input '" + input.name + "' is too large"};
    tensor.bytes.resize(elements * plan::elementBytes(tensor.type));
    RandomValues::inputs(seed, input.name, tensor.type).fill(0, elements, tensor.bytes.data());
    session->inputs[input.name] = std::move(tensor);
    return {};
  });
}

colossal_status colossal_select(colossal_session *session, size_t *program) {
  return guarded([&]() -> Status {
    const ProgramDescription *selected = nullptr;
    COLOSSAL_RETURN_IF_ERROR(session->select(selected));
    if (program)
      *program = static_cast<size_t>(selected - session->programs.data());
    return {};
  });
}

colossal_status colossal_run(colossal_session *session, size_t *program) {
  return guarded([&]() -> Status {
    session->outputs.clear();
    session->collected = false, session->last = nullptr;
    const ProgramDescription *selected = nullptr;
    COLOSSAL_RETURN_IF_ERROR(session->select(selected));
    const uint64_t before = session->session->collectiveBytes();
    COLOSSAL_RETURN_IF_ERROR(session->session->run(selected->index, session->inputs, &session->seconds));
    session->collectiveBytes = session->session->collectiveBytes() - before;
    session->last = selected;
    if (program)
      *program = static_cast<size_t>(selected - session->programs.data());
    return {};
  });
}

colossal_status colossal_get_output(colossal_session *session, const char *name, colossal_tensor *tensor,
                                    const void **data) {
  return guarded([&]() -> Status {
    const std::string wanted = name ? name : "";
    const Described *described = nullptr;
    if (session->last)
      for (const Described &output : session->last->outputs)
        if (output.name == wanted)
          described = &output;
    if (!described)
      return {Code::NotFound, session->last ? "the last run has no output '" + wanted + "'"
                                            : "no run has given outputs, or the last one failed"};
    if (!session->collected)
      COLOSSAL_RETURN_IF_ERROR(session->session->outputs(session->last->index, session->outputs));
    session->collected = true;
    if (tensor)
      *tensor = described->view();
    if (data) {
      auto found = session->outputs.find(wanted);
      *data = found == session->outputs.end() ? nullptr : found->second.bytes.data();
    }
    return {};
  });
}

void colossal_interrupt(colossal_session *session) {
  session->session->interrupt();
}

void colossal_end_processes(colossal_session *session, int exitCode) {
  session->session->terminateOthers(exitCode);
}

colossal_status colossal_get_statistics(const colossal_session *session, colossal_statistics *statistics) {
  return guarded([&]() -> Status {
    if (!statistics)
      return {Code::InvalidArgument, "colossal_get_statistics needs a place for them"};
    const Session &opened = *session->session;
    colossal_statistics all = {};
    all.size = statistics->size;
    all.ranks = opened.ranks(), all.threads = opened.threads(), all.root = opened.root();
    all.arena_bytes = opened.arenaBytes();
    if (session->last) {
      const plan::Program &program = opened.plan().programs(session->last->index);
      all.collective_bytes = session->collectiveBytes, all.seconds = session->seconds;
      all.planned_collective_bytes = program.collective_bytes();
      all.predicted_seconds = program.predicted_seconds();
    }
    std::memcpy(statistics, &all, std::min(statistics->size, sizeof all));
    return {};
  });
}

const char *colossal_warning(const colossal_session *session) {
  return session->session->warning().c_str();
}

colossal_status colossal_get_memory(colossal_session *session, const colossal_memory_row **rows,
                                    size_t *count) {
  return guarded([&]() -> Status {
    session->memory.clear(), session->memoryRows.clear();
    COLOSSAL_RETURN_IF_ERROR(session->session->memory(session->memory));
    for (const RankMemory &rank : session->memory)
      for (const RankMemory::Row &row : rank.rows)
        session->memoryRows.push_back({rank.rank, row.kind.c_str(), row.planned, row.measured});
    if (rows)
      *rows = session->memoryRows.data();
    if (count)
      *count = session->memoryRows.size();
    return {};
  });
}

colossal_status colossal_write_trace(colossal_session *session, const char *path) {
  return guarded([&]() -> Status {
    std::string text;
    COLOSSAL_RETURN_IF_ERROR(session->session->trace(text));
    if (!session->session->root())
      return {};
    if (!path)
      return {Code::InvalidArgument, "colossal_write_trace needs a path"};
    std::ofstream file(path, std::ios::binary);
    file << text;
    if (!file.flush())
      return {Code::Io, std::string("cannot write ") + path};
    return {};
  });
}

int colossal_crash_site(uint32_t *rank, const char **source) {
  const CrashContext &context = crashContext();
  if (context.rank < 0)
    return 0;
  const plan::Instruction *instruction = context.position ? context.position->load() : nullptr;
  *rank = static_cast<uint32_t>(context.rank);
  *source = instruction ? instruction->source().c_str() : nullptr;
  return 1;
}
}

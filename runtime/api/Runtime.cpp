// The C interface over Session. No exception leaves it.
#define COLOSSAL_BUILDING_LIBRARY
#include "runtime/include/colossal-runtime.h"

#include "runtime/execute/Session.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
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
};

extern "C" {

const char *colossal_version(void) { return COLOSSAL_VERSION; }

const char *colossal_last_error(void) { return lastError.c_str(); }

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
      wanted.timeout = std::chrono::milliseconds(static_cast<int64_t>(std::min(options.timeout_seconds, 1e9) * 1000));
    auto made = std::make_unique<colossal_session>();
    if (Status status = Session::open(plan, wanted, made->session); !status.ok()) {
      if (made->session) {
        // Under MPI the failure of one process is that of all; this call does not return.
        std::fprintf(stderr, "%s\n", status.describe().c_str());
        made->session->terminateOthers(1);
      }
      return status;
    }
    const plan::Plan &opened = made->session->plan();
    for (int i = 0; i < opened.programs_size(); ++i) {
      const plan::Program &program = opened.programs(i);
      if (program.role() == plan::Program::LOAD)
        continue;
      made->programs.push_back({i, program.name(),
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

void colossal_close(colossal_session *session) { delete session; }

size_t colossal_program_count(const colossal_session *session) { return session->programs.size(); }

const char *colossal_program_name(const colossal_session *session, size_t program) {
  return program < session->programs.size() ? session->programs[program].name.c_str() : nullptr;
}

size_t colossal_input_count(const colossal_session *session, size_t program) {
  return program < session->programs.size() ? session->programs[program].inputs.size() : 0;
}

size_t colossal_output_count(const colossal_session *session, size_t program) {
  return program < session->programs.size() ? session->programs[program].outputs.size() : 0;
}

colossal_status colossal_input(const colossal_session *session, size_t program, size_t index, colossal_tensor *tensor) {
  if (index >= colossal_input_count(session, program))
    return result({Code::InvalidArgument, "there is no such input"});
  *tensor = session->programs[program].inputs[index].view();
  return COLOSSAL_OK;
}

colossal_status colossal_output(const colossal_session *session, size_t program, size_t index, colossal_tensor *tensor) {
  if (index >= colossal_output_count(session, program))
    return result({Code::InvalidArgument, "there is no such output"});
  *tensor = session->programs[program].outputs[index].view();
  return COLOSSAL_OK;
}

colossal_status colossal_set_input(colossal_session *session, const char *name, colossal_type type, size_t rank,
                                   const uint64_t *shape, const void *data) {
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

void colossal_clear_inputs(colossal_session *session) { session->inputs.clear(); }

colossal_status colossal_run(colossal_session *session, size_t *which) {
  return guarded([&]() -> Status {
    int program = 0;
    session->outputs.clear();
    COLOSSAL_RETURN_IF_ERROR(session->session->select(session->inputs, program));
    COLOSSAL_RETURN_IF_ERROR(session->session->run(program, session->inputs));
    for (size_t i = 0; which && i < session->programs.size(); ++i)
      if (session->programs[i].index == program)
        *which = i;
    return session->session->outputs(program, session->outputs);
  });
}

colossal_status colossal_get_output(colossal_session *session, const char *name, colossal_tensor *tensor,
                                    const void **data) {
  return guarded([&]() -> Status {
    auto found = session->outputs.find(name ? name : "");
    if (found == session->outputs.end())
      return {Code::NotFound, std::string("the last run has no output '") + (name ? name : "") + "' here"};
    const Tensor &output = found->second;
    if (tensor)
      *tensor = {found->first.c_str(), static_cast<colossal_type>(output.type), output.shape.size(), output.shape.data(),
                 output.bytes.size()};
    if (data)
      *data = output.bytes.data();
    return {};
  });
}

void colossal_interrupt(colossal_session *session) { session->session->interrupt(); }
}

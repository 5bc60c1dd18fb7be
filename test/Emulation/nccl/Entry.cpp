// The entry points: what callers may do when, and groups.
#include "Communicator.h"

#include "test/Emulation/PlannedFailures.h"

#include <cstdlib>
#include <cstring>
#include <random>
#include <unistd.h>
#include <utility>

#define COLOSSAL_NCCL_EXPORT(type, symbol, arguments)                                                        \
  extern "C" __attribute__((visibility("default"))) type symbol arguments;

namespace colossal::nccl {

COLOSSAL_NCCL(COLOSSAL_NCCL_EXPORT)

namespace {

struct Posted {
  Comm communicator;
  Stream stream;
  Operation operation;
};
thread_local unsigned depth = 0;
thread_local std::vector<Posted> posted;
thread_local Result groupError = Success;

std::mt19937_64 &random() {
  thread_local std::mt19937_64 generator(std::random_device{}());
  return generator;
}

/// What COLOSSAL_EMULATED_NCCL_FAIL wants of this call.
Result plannedFailure(const char *symbol) {
  static emulation::PlannedFailures planned("COLOSSAL_EMULATED_NCCL_FAIL");
  return static_cast<Result>(planned.count(symbol));
}

/// Whether the last call on a communicator has ended, as ncclCommGetAsyncError tells; who calls before has
/// made a mistake.
Result checkReady(State &state) {
  if (state.result != Success)
    return state.result == InProgress ? InvalidUsage : static_cast<Result>(state.result.load());
  std::lock_guard<std::mutex> lock(state.mutex);
  return state.busy == 0 ? Success : InvalidUsage;
}

/// The end of a call of a communicator that does not block comes later.
Result endCall(State &state) {
  if (state.blocking)
    return Success;
  std::lock_guard<std::mutex> lock(state.mutex);
  state.busy = static_cast<unsigned>(random()() % 4);
  return state.busy ? InProgress : Success;
}

Result launch(std::vector<Posted> operations) {
  Result last = Success;
  while (!operations.empty()) {
    // Those of one communicator and stream become one work, in the order of the first of each.
    const Comm communicator = operations.front().communicator;
    const Stream stream = operations.front().stream;
    std::vector<Operation> own;
    std::vector<Posted> rest;
    for (const Posted &each : operations)
      if (each.communicator == communicator && each.stream == stream)
        own.push_back(each.operation);
      else
        rest.push_back(each);
    operations = std::move(rest);
    if (Result result = enqueue(communicator->state, stream, std::move(own)); result != Success)
      return result;
    if (Result result = endCall(*communicator->state); result != Success)
      last = result;
  }
  return last;
}

Result post(Comm communicator, Stream stream, const Operation &operation) {
  auto refuse = [&](Result result) {
    if (depth > 0 && groupError == Success)
      groupError = result;
    return result;
  };
  if (!communicator || !stream)
    return refuse(InvalidArgument);
  State &state = *communicator->state;
  if (Result result = checkReady(state); result != Success)
    return refuse(result);
  const bool message = operation.kind == Kind::Send || operation.kind == Kind::Receive;
  if (!elementBytes(operation.type) || operation.op > Min || operation.peer >= state.size ||
      (operation.count && ((operation.kind != Kind::Receive && !operation.source) ||
                           (operation.kind != Kind::Send && !operation.destination))))
    return refuse(InvalidArgument);
  if (message && operation.peer == state.rank)
    return refuse(InvalidUsage); // hardware takes it in groups only, and nobody here does that
  if (depth == 0)
    return launch({{communicator, stream, operation}});
  posted.push_back({communicator, stream, operation});
  return Success;
}

} // namespace

Result ncclGetVersion(int *version) {
  if (const Result planned = plannedFailure("ncclGetVersion"))
    return planned;
  *version = 22700;
  return Success;
}

Result ncclGetUniqueId(UniqueId *id) {
  if (const Result planned = plannedFailure("ncclGetUniqueId"))
    return planned;
  *id = {};
  const std::string text = "colossal-nccl-" + std::to_string(::getpid()) + "-" + std::to_string(random()());
  std::memcpy(id->internal, text.data(), text.size());
  return Success;
}

Result ncclCommInitRankConfig(Comm *made, int size, UniqueId id, int rank, Config *config) {
  if (const Result planned = plannedFailure("ncclCommInitRankConfig"))
    return planned;
  if (!made || size < 1 || rank < 0 || rank >= size || std::strncmp(id.internal, "colossal-nccl-", 14) != 0)
    return InvalidArgument;
  if (config &&
      (config->magic != Config().magic || config->version < leastVersion || config->size < sizeof(Config)))
    return InvalidArgument;
  auto state = std::make_shared<State>();
  state->rank = static_cast<unsigned>(rank), state->size = static_cast<unsigned>(size);
  state->blocking = !config || config->blocking != 0;
  const std::string name = id.internal;
  auto start = [state, name] {
    const bool good = state->mesh.connect(name, state->rank, state->size, state->stop);
    state->result = good ? Success : SystemError;
  };
  *made = new CommHandle{state, {}};
  if (state->blocking) {
    start();
    return static_cast<Result>(state->result.load());
  }
  (*made)->starter = std::thread(start);
  return InProgress;
}

static Result release(Comm communicator) {
  if (!communicator)
    return InvalidArgument;
  if (communicator->starter.joinable())
    communicator->starter.join();
  delete communicator;
  return Success;
}

Result ncclCommFinalize(Comm communicator) {
  if (const Result planned = plannedFailure("ncclCommFinalize"))
    return planned;
  return communicator ? Success : InvalidArgument;
}

Result ncclCommDestroy(Comm communicator) {
  if (const Result planned = plannedFailure("ncclCommDestroy"))
    return planned;
  return release(communicator);
}

Result ncclCommAbort(Comm communicator) {
  if (const Result planned = plannedFailure("ncclCommAbort"))
    return planned;
  if (!communicator)
    return InvalidArgument;
  State &state = *communicator->state;
  {
    std::lock_guard<std::mutex> lock(state.mutex);
    state.stop = true;
  }
  state.changed.notify_all();
  return release(communicator);
}

Result ncclCommGetAsyncError(Comm communicator, Result *result) {
  if (const Result planned = plannedFailure("ncclCommGetAsyncError"))
    return planned;
  if (!communicator)
    return InvalidArgument;
  State &state = *communicator->state;
  *result = static_cast<Result>(state.result.load());
  std::lock_guard<std::mutex> lock(state.mutex);
  if (*result == Success && state.lost) {
    state.error = "a peer has closed its connection";
    state.result = *result = RemoteError;
  } else if (*result == Success && state.busy > 0) {
    --state.busy;
    *result = InProgress;
  }
  return Success;
}

const char *ncclGetErrorString(Result result) {
  switch (result) {
  case Success: return "no error";
  case UnhandledCudaError: return "unhandled cuda error";
  case SystemError: return "unhandled system error";
  case InternalError: return "internal error";
  case InvalidArgument: return "invalid argument";
  case InvalidUsage: return "invalid usage";
  case RemoteError: return "remote process exited or there was a network error";
  case InProgress: return "operation in progress";
  }
  return "unknown result code";
}

const char *ncclGetLastError(Comm communicator) {
  thread_local std::string text;
  if (!communicator)
    return "";
  std::lock_guard<std::mutex> lock(communicator->state->mutex);
  text = communicator->state->error;
  return text.c_str();
}

Result ncclAllReduce(const void *source, void *destination, size_t count, DataType type, RedOp op,
                     Comm communicator, Stream stream) {
  if (const Result planned = plannedFailure("ncclAllReduce"))
    return planned;
  return post(communicator, stream, {Kind::AllReduce, source, destination, count, type, op, 0});
}
Result ncclBroadcast(const void *source, void *destination, size_t count, DataType type, int root,
                     Comm communicator, Stream stream) {
  if (const Result planned = plannedFailure("ncclBroadcast"))
    return planned;
  return post(communicator, stream,
              {Kind::Broadcast, source, destination, count, type, Sum, static_cast<unsigned>(root)});
}
Result ncclAllGather(const void *source, void *destination, size_t count, DataType type, Comm communicator,
                     Stream stream) {
  if (const Result planned = plannedFailure("ncclAllGather"))
    return planned;
  return post(communicator, stream, {Kind::AllGather, source, destination, count, type, Sum, 0});
}
Result ncclReduceScatter(const void *source, void *destination, size_t count, DataType type, RedOp op,
                         Comm communicator, Stream stream) {
  if (const Result planned = plannedFailure("ncclReduceScatter"))
    return planned;
  return post(communicator, stream, {Kind::ReduceScatter, source, destination, count, type, op, 0});
}
Result ncclSend(const void *source, size_t count, DataType type, int peer, Comm communicator, Stream stream) {
  if (const Result planned = plannedFailure("ncclSend"))
    return planned;
  return post(communicator, stream,
              {Kind::Send, source, nullptr, count, type, Sum, static_cast<unsigned>(peer)});
}
Result ncclRecv(void *destination, size_t count, DataType type, int peer, Comm communicator, Stream stream) {
  if (const Result planned = plannedFailure("ncclRecv"))
    return planned;
  return post(communicator, stream,
              {Kind::Receive, nullptr, destination, count, type, Sum, static_cast<unsigned>(peer)});
}

Result ncclGroupStart() {
  if (const Result planned = plannedFailure("ncclGroupStart"))
    return planned;
  ++depth;
  return Success;
}

Result ncclGroupEnd() {
  if (const Result planned = plannedFailure("ncclGroupEnd"))
    return planned;
  if (depth == 0)
    return InvalidUsage;
  if (--depth > 0)
    return Success;
  std::vector<Posted> operations = std::move(posted);
  posted.clear();
  const Result error = std::exchange(groupError, Success);
  return error == Success ? launch(std::move(operations)) : error;
}

} // namespace colossal::nccl

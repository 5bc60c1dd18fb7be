// What operations do: who hands whom what, and sums in an order that is not that of the members.
#include "Communicator.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

namespace colossal::nccl {

namespace {

float fromHalf(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
  // Exponents are 112 apart; the product is exact, subnormal values too.
  std::uint32_t wide = magnitude << 13;
  float value;
  std::memcpy(&value, &wide, 4);
  value *= 0x1p112f;
  if (magnitude >= 0x7c00) {
    wide = 0x7f800000 | magnitude << 13;
    std::memcpy(&value, &wide, 4);
  }
  std::memcpy(&wide, &value, 4);
  wide |= sign;
  std::memcpy(&value, &wide, 4);
  return value;
}

/// To nearest, ties to even; by trying the neighbours.
std::uint16_t toHalf(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const float magnitude = value < 0 ? -value : value;
  if (value != value)
    return sign | 0x7e00;
  if (magnitude >= 65520)
    return sign | 0x7c00;
  std::uint16_t low = 0, high = 0x7c00; // fromHalf(low) <= magnitude < fromHalf(high)
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (fromHalf(middle) <= magnitude ? low : high) = middle;
  }
  const float below = magnitude - fromHalf(low);
  const float above = (high == 0x7c00 ? 65536.0f : fromHalf(high)) - magnitude;
  return sign | (below < above || (below == above && low % 2 == 0) ? low : high);
}

float fromBfloat(std::uint16_t bits) {
  const std::uint32_t wide = std::uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

std::uint16_t toBfloat(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if (value != value)
    return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <class T>
T combine(RedOp op, T a, T b) {
  switch (op) {
  case Prod: return static_cast<T>(a * b);
  case Max: return a > b ? a : b;
  case Min: return a < b ? a : b;
  default: return static_cast<T>(a + b);
  }
}

/// Over members; element e begins with another member than its neighbours far away, as in a ring.
template <class Stored, class Wide, Wide (*widen)(Stored), Stored (*narrow)(Wide)>
void reduceAs(RedOp op, const std::vector<const std::byte *> &parts, std::size_t count, std::byte *out) {
  const std::size_t members = parts.size();
  for (std::size_t e = 0; e < count; ++e) {
    const std::size_t first = (e * members / (count ? count : 1) + 1) % members;
    auto part = [&](std::size_t step) {
      Stored value;
      std::memcpy(&value, parts[(first + step) % members] + e * sizeof value, sizeof value);
      return widen(value);
    };
    Stored total = narrow(part(0));
    for (std::size_t step = 1; step < members; ++step)
      total = narrow(combine<Wide>(op, widen(total), part(step))); // rounded at each member
    std::memcpy(out + e * sizeof total, &total, sizeof total);
  }
}

template <class T>
T same(T value) {
  return value;
}
/// Sums wrap around.
template <class T>
void reducePlain(RedOp op, const std::vector<const std::byte *> &parts, std::size_t count, std::byte *out) {
  reduceAs<T, T, same<T>, same<T>>(op, parts, count, out);
}

void reduce(DataType type, RedOp op, const std::vector<const std::byte *> &parts, std::size_t count,
            std::byte *out) {
  const bool isSigned = op == Max || op == Min; // else the bits are the same
  switch (type) {
  case Int8:
    return isSigned ? reducePlain<std::int8_t>(op, parts, count, out)
                    : reducePlain<std::uint8_t>(op, parts, count, out);
  case Uint8: return reducePlain<std::uint8_t>(op, parts, count, out);
  case Int32:
    return isSigned ? reducePlain<std::int32_t>(op, parts, count, out)
                    : reducePlain<std::uint32_t>(op, parts, count, out);
  case Uint32: return reducePlain<std::uint32_t>(op, parts, count, out);
  case Int64:
    return isSigned ? reducePlain<std::int64_t>(op, parts, count, out)
                    : reducePlain<std::uint64_t>(op, parts, count, out);
  case Uint64: return reducePlain<std::uint64_t>(op, parts, count, out);
  case Float16: return reduceAs<std::uint16_t, float, fromHalf, toHalf>(op, parts, count, out);
  case Float32: return reducePlain<float>(op, parts, count, out);
  case Float64: return reducePlain<double>(op, parts, count, out);
  case Bfloat16: return reduceAs<std::uint16_t, float, fromBfloat, toBfloat>(op, parts, count, out);
  }
}

std::uint64_t nameOf(const Operation &operation) {
  const bool matches = operation.kind == Kind::Send || operation.kind == Kind::Receive;
  // The two sides of a message agree in its bytes only; members of a collective in all.
  return matches ? 0
                 : static_cast<std::uint64_t>(operation.kind) | std::uint64_t(operation.type) << 8 |
                       std::uint64_t(operation.op) << 16 | std::uint64_t(operation.peer) << 24;
}

/// How much of each buffer an operation uses.
std::size_t sourceBytes(const Operation &operation, const State &state) {
  const std::size_t bytes = operation.count * elementBytes(operation.type);
  switch (operation.kind) {
  case Kind::ReduceScatter: return bytes * state.size;
  case Kind::Receive: return 0;
  case Kind::Broadcast: return operation.peer == state.rank ? bytes : 0;
  default: return bytes;
  }
}
std::size_t destinationBytes(const Operation &operation, const State &state) {
  const std::size_t bytes = operation.count * elementBytes(operation.type);
  return operation.kind == Kind::AllGather ? bytes * state.size : operation.kind == Kind::Send ? 0 : bytes;
}

struct Group {
  std::shared_ptr<State> state;
  std::vector<Operation> operations;
  std::uint64_t number;

  std::string runCollective(const Operation &operation, std::byte *in, std::byte *out);
  std::string run(const cuda::EmulatedUse *uses);
};

std::string Group::runCollective(const Operation &operation, std::byte *in, std::byte *out) {
  State &own = *state;
  const std::size_t bytes = operation.count * elementBytes(operation.type);
  const std::uint64_t name = nameOf(operation);
  std::vector<Transfer> transfers;
  std::vector<std::vector<std::byte>> received(own.size);
  const bool reduces = operation.kind == Kind::AllReduce || operation.kind == Kind::ReduceScatter;
  auto blockOf = [&](unsigned member) {
    return in + (operation.kind == Kind::ReduceScatter ? member * bytes : 0);
  };
  if (operation.kind == Kind::Broadcast) {
    for (unsigned peer = 0; peer < own.size && own.rank == operation.peer; ++peer)
      if (peer != own.rank)
        transfers.push_back({peer, true, name, in, bytes});
    if (own.rank != operation.peer)
      transfers.push_back({operation.peer, false, name, out, bytes});
  } else {
    for (unsigned peer = 0; peer < own.size; ++peer) {
      if (peer == own.rank)
        continue;
      transfers.push_back({peer, true, name, blockOf(peer), bytes});
      std::byte *place = out + peer * bytes;
      if (reduces) {
        received[peer].resize(bytes);
        place = received[peer].data();
      }
      transfers.push_back({peer, false, name, place, bytes});
    }
  }
  if (std::string problem = own.mesh.exchange(transfers, own.stop, own.lost); !problem.empty() || own.stop)
    return problem;
  if (reduces) {
    std::vector<const std::byte *> parts;
    for (unsigned member = 0; member < own.size; ++member)
      parts.push_back(member == own.rank ? blockOf(member) : received[member].data());
    std::vector<std::byte> total(bytes); // out may be in
    reduce(operation.type, operation.op, parts, operation.count, total.data());
    if (bytes)
      std::memcpy(out, total.data(), bytes);
  } else if (operation.kind == Kind::AllGather) {
    std::memmove(out + own.rank * bytes, in, bytes);
  } else if (own.rank == operation.peer && in != out) {
    std::memmove(out, in, bytes);
  }
  return {};
}

std::string Group::run(const cuda::EmulatedUse *uses) {
  State &own = *state;
  std::vector<Transfer> messages;
  for (std::size_t i = 0; i < operations.size(); ++i)
    if (const Operation &operation = operations[i];
        operation.kind == Kind::Send || operation.kind == Kind::Receive)
      messages.push_back({operation.peer, operation.kind == Kind::Send, nameOf(operation),
                          uses[2 * i + (operation.kind == Kind::Send ? 0 : 1)].data,
                          operation.count * elementBytes(operation.type)});
  if (std::string problem = own.mesh.exchange(messages, own.stop, own.lost); !problem.empty() || own.stop)
    return problem;
  for (std::size_t i = 0; i < operations.size(); ++i)
    if (operations[i].kind != Kind::Send && operations[i].kind != Kind::Receive)
      if (std::string problem = runCollective(operations[i], uses[2 * i].data, uses[2 * i + 1].data);
          !problem.empty() || own.stop)
        return problem;
  return {};
}

void runGroup(void *argument, const cuda::EmulatedUse *uses) {
  auto &group = *static_cast<Group *>(argument);
  State &state = *group.state;
  {
    std::unique_lock<std::mutex> lock(state.mutex);
    state.changed.wait(lock, [&] { return state.done + 1 >= group.number || state.stop; });
  }
  std::string problem;
  if (!state.stop)
    problem = group.run(uses);
  if (!problem.empty()) {
    state.fail(InvalidUsage, problem);
    // A kernel that has lost its way does not come back before it is aborted.
    std::unique_lock<std::mutex> lock(state.mutex);
    state.changed.wait(lock, [&] { return state.stop.load(); });
  }
  std::lock_guard<std::mutex> lock(state.mutex);
  state.done = std::max(state.done, group.number);
  state.changed.notify_all();
}

cuda::EmulatedEnqueue findEnqueue() {
  static const cuda::EmulatedEnqueue found = [] {
    void *driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *symbol = driver ? ::dlsym(driver, cuda::emulatedEnqueueName) : nullptr;
    cuda::EmulatedEnqueue address = nullptr;
    std::memcpy(&address, &symbol, sizeof address);
    return address;
  }();
  return found;
}

} // namespace

void State::fail(Result code, const std::string &why) {
  std::lock_guard<std::mutex> lock(mutex);
  if (error.empty())
    error = why;
  if (result == Success)
    result = code;
  std::fprintf(stderr, "emulated NCCL: %s\n", why.c_str());
}

std::size_t elementBytes(DataType type) {
  constexpr std::size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return type <= Bfloat16 ? sizes[type] : 0;
}

Result enqueue(const std::shared_ptr<State> &state, Stream stream, std::vector<Operation> operations) {
  const cuda::EmulatedEnqueue enqueueOnDriver = findEnqueue();
  if (!enqueueOnDriver) {
    state->fail(SystemError, "the driver is none that stands in for one");
    return SystemError;
  }
  // Of each operation what it reads and what it writes; an empty one of the other's place where there is
  // none.
  std::vector<cuda::EmulatedUse> uses;
  for (const Operation &operation : operations) {
    const std::size_t reads = sourceBytes(operation, *state), writes = destinationBytes(operation, *state);
    const auto address = [](const void *pointer) {
      return static_cast<cuda::DevicePointer>(reinterpret_cast<std::uintptr_t>(pointer));
    };
    const cuda::DevicePointer source = address(reads ? operation.source : operation.destination),
                              destination = address(writes ? operation.destination : operation.source);
    if (source % elementBytes(operation.type) || destination % elementBytes(operation.type)) {
      state->fail(InvalidArgument, "a buffer is not aligned to its elements");
      return InvalidArgument;
    }
    uses.push_back({source, reads, false, nullptr});
    uses.push_back({destination, writes, true, nullptr});
  }
  std::uint64_t number = 0;
  {
    std::lock_guard<std::mutex> lock(state->mutex);
    number = ++state->issued;
  }
  auto *group =
      new Group{state, std::move(operations), number}; // a graph may run it again, as long as it likes
  const cuda::Result result =
      enqueueOnDriver(stream, "an operation of NCCL", uses.data(), uses.size(), runGroup, group);
  if (result == cuda::Success)
    return Success;
  delete group;
  state->fail(UnhandledCudaError, "the driver refuses the work: error " + std::to_string(result));
  return UnhandledCudaError;
}

} // namespace colossal::nccl

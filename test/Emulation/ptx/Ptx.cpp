// Modules and launches.
#include "Ptx.h"

#include "Block.h"
#include "Decode.h"

#include <algorithm>
#include <numeric>
#include <ostream>
#include <thread>

namespace colossal::ptx {
namespace {

constexpr std::uint64_t kMaximalThreads = 1024, kMaximalShared = 227 << 10;

std::string_view lineOf(std::string_view text, unsigned line) {
  for (unsigned at = 1; at < line && !text.empty(); ++at)
    text.remove_prefix(std::min(text.find('\n') + 1, text.size()));
  text = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return text;
}

/// Blocks in an order that the seed decides, each once.
class Order {
public:
  Order(std::uint64_t count, std::uint64_t seed) : count(count) {
    std::mt19937_64 generator(seed);
    start = generator() % count;
    do
      stride = 1 + generator() % count;
    while (std::gcd(stride, count) != 1);
  }
  std::uint64_t at(std::uint64_t step) const {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(step) * stride + start) % count);
  }

private:
  std::uint64_t count, start, stride;
};

std::string impossible(const Kernel &kernel, const Program &program, const Launch &launch) {
  auto show = [](const Dim3 &d) {
    return std::to_string(d.x) + " x " + std::to_string(d.y) + " x " + std::to_string(d.z);
  };
  std::uint64_t threads = launch.block.count();
  if (!threads || threads > kMaximalThreads || !launch.grid.count() ||
      launch.grid.count() >= Cell::kManyBlocks - 1)
    return "a grid of " + show(launch.grid) + " blocks of " + show(launch.block) +
           " threads cannot be launched";
  if (kernel.requiredBlock &&
      (kernel.requiredBlock->x != launch.block.x || kernel.requiredBlock->y != launch.block.y ||
       kernel.requiredBlock->z != launch.block.z))
    return "the kernel needs blocks of " + show(*kernel.requiredBlock) + " threads, not " +
           show(launch.block);
  if (kernel.maximalThreads && threads > *kernel.maximalThreads)
    return "the kernel has at most " + std::to_string(*kernel.maximalThreads) + " threads a block, not " +
           std::to_string(threads);
  if (launch.parameters.size() != kernel.parameterBytes)
    return "the kernel has " + std::to_string(kernel.parameterBytes) + " bytes of parameters, not " +
           std::to_string(launch.parameters.size());
  if (program.dynamicShared + launch.dynamicShared > kMaximalShared)
    return "a block has at most " + std::to_string(kMaximalShared) + " bytes of shared memory, not " +
           std::to_string(program.dynamicShared + launch.dynamicShared);
  return "";
}

std::string impossible(std::vector<Buffer> buffers) {
  std::sort(buffers.begin(), buffers.end(),
            [](const Buffer &a, const Buffer &b) { return a.address < b.address; });
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Buffer &buffer = buffers[i];
    if ((buffer.address + buffer.size) >> kWindowShift || (buffer.size && !buffer.data) ||
        (reinterpret_cast<std::uintptr_t>(buffer.data) - buffer.address) % 16)
      return "buffer '" + buffer.name +
             "' has an address that no device memory has, or no host memory aligned like it";
    if (i && buffers[i - 1].address + buffers[i - 1].size > buffer.address)
      return "buffers '" + buffers[i - 1].name + "' and '" + buffer.name + "' overlap";
  }
  return "";
}

void mergeFaults(std::map<std::pair<unsigned, FaultKind>, Fault> &into,
                 const std::map<std::pair<unsigned, FaultKind>, Fault> &from) {
  for (const auto &[key, fault] : from) {
    auto [place, fresh] = into.try_emplace(key, fault);
    if (!fresh)
      place->second.count += fault.count;
  }
}

} // namespace

struct Module::Contents {
  std::string text;
  std::vector<Kernel> kernels;
  std::vector<Program> programs;
  std::vector<Variable> variables;
  std::vector<Buffer> buffers; ///< of the variables
  std::vector<std::unique_ptr<std::max_align_t[]>> storage;

  void place(const Syntax &syntax, std::map<std::string_view, Symbol> &symbols,
             std::vector<Refused> &refused);
};

void Module::Contents::place(const Syntax &syntax, std::map<std::string_view, Symbol> &symbols,
                             std::vector<Refused> &refused) {
  std::vector<const SyntaxVariable *> placed;
  for (const SyntaxVariable &variable : syntax.variables) {
    if (variable.space == ".shared")
      continue;
    if (variable.external) {
      refused.emplace_back(variable.line,
                           "'" + std::string(variable.name) + "' is defined in another module");
      continue;
    }
    // With room to align the variable as it asks to be.
    std::size_t alignment = std::max<std::size_t>(variable.alignment, 16);
    storage.emplace_back(
        new std::max_align_t[(variable.size() + alignment) / sizeof(std::max_align_t) + 1]());
    void *data = storage.back().get();
    std::size_t room = variable.size() + alignment;
    std::align(alignment, variable.size(), data, room);
    std::uint64_t address = reinterpret_cast<std::uintptr_t>(data);
    bool global = variable.space == ".global";
    variables.push_back({std::string(variable.name), address, variable.size()});
    buffers.push_back({std::string(variable.name), address, variable.size(), data, global});
    symbols[variable.name] = {global ? Space::Global : Space::Constant, address, variable.size()};
    placed.push_back(&variable);
  }
  for (std::size_t i = 0; i < placed.size(); ++i) {
    const SyntaxVariable &variable = *placed[i];
    std::size_t element = typeSize(variable.type), at = 0;
    for (const SyntaxVariable::Value &value : variable.values) {
      std::uint64_t bits = static_cast<std::uint64_t>(value.bits);
      if (!value.symbol.empty()) {
        auto symbol = symbols.find(value.symbol);
        if (symbol == symbols.end()) {
          refused.emplace_back(variable.line,
                               "the address of '" + std::string(value.symbol) + "' is not known here");
          break;
        }
        bits += symbol->second.address;
      }
      if (at + element > variable.size()) {
        refused.emplace_back(variable.line, "more values than '" + std::string(variable.name) + "' has");
        break;
      }
      std::memcpy(static_cast<std::byte *>(buffers[i].data) + at, &bits, element);
      at += element;
    }
  }
}

Module::Module() : contents(std::make_unique<Contents>()) {}
Module::~Module() = default;

std::unique_ptr<Module> Module::load(std::string text, Diagnostics &diagnostics) {
  std::unique_ptr<Module> module(new Module);
  Contents &contents = *module->contents;
  contents.text = std::move(text);
  std::vector<Refused> refused;
  try {
    Syntax syntax = parse(contents.text);
    std::map<std::string_view, Symbol> symbols;
    contents.place(syntax, symbols, refused);
    for (const SyntaxFunction &function : syntax.functions)
      if (function.entry && function.defined) {
        contents.programs.push_back(decode(syntax, function, symbols, refused));
        contents.kernels.push_back(contents.programs.back().kernel);
      }
  } catch (const Refused &error) {
    refused.push_back(error);
  }
  for (const Refused &error : refused) {
    Diagnostic diagnostic{error.line, std::string(lineOf(contents.text, error.line)), error.what()};
    // A function that several kernels call is refused once.
    if (std::none_of(diagnostics.begin(), diagnostics.end(), [&](const Diagnostic &other) {
          return other.line == diagnostic.line && other.what == diagnostic.what;
        }))
      diagnostics.push_back(diagnostic);
  }
  return refused.empty() ? std::move(module) : nullptr;
}

const std::vector<Kernel> &Module::kernels() const {
  return contents->kernels;
}

const Kernel *Module::find(std::string_view name) const {
  for (const Kernel &kernel : contents->kernels)
    if (kernel.name == name)
      return &kernel;
  return nullptr;
}

const std::vector<Module::Variable> &Module::variables() const {
  return contents->variables;
}

Report Module::run(const Launch &launch) {
  Report report;
  const Kernel *kernel = find(launch.kernel);
  if (!kernel) {
    report.error = "the module has no kernel '" + launch.kernel + "'";
    return report;
  }
  const Program &program = contents->programs[static_cast<std::size_t>(kernel - contents->kernels.data())];
  std::vector<Buffer> buffers = launch.buffers;
  buffers.insert(buffers.end(), contents->buffers.begin(), contents->buffers.end());
  report.error = impossible(*kernel, program, launch);
  if (report.error.empty())
    report.error = impossible(buffers);
  if (!report.error.empty())
    return report;

  Memory memory(buffers, launch.checkGlobalRaces);
  Order order(launch.grid.count(), launch.seed);
  std::atomic<std::uint64_t> next{0};
  std::mutex mutex;
  std::map<std::pair<unsigned, FaultKind>, Fault> faults;
  auto work = [&] {
    Block block(program, launch, memory, contents->text);
    for (std::uint64_t step; (step = next++) < launch.grid.count();)
      block.run(order.at(step));
    std::lock_guard<std::mutex> lock(mutex);
    report.warpInstructions += block.warpInstructions;
    report.laneInstructions += block.laneInstructions;
    mergeFaults(faults, block.faults);
  };
  std::vector<std::thread> helpers;
  for (unsigned i = 1; i < std::min<std::uint64_t>(launch.threads, launch.grid.count()); ++i)
    helpers.emplace_back(work);
  work();
  for (std::thread &helper : helpers)
    helper.join();
  for (auto &[key, fault] : faults)
    report.faults.push_back(std::move(fault));
  if (launch.reportTouched)
    for (const std::unique_ptr<Region> &region : memory.all())
      if (std::any_of(launch.buffers.begin(), launch.buffers.end(),
                      [&](const Buffer &buffer) { return buffer.address == region->buffer.address; }))
        region->listTouched(program.globalGranule, report.touched);
  return report;
}

std::string_view name(FaultKind kind) {
  switch (kind) {
  case FaultKind::OutOfBounds: return "out of bounds";
  case FaultKind::ReadOnlyWrite: return "write to read-only memory";
  case FaultKind::Misaligned: return "misaligned access";
  case FaultKind::UninitializedShared: return "uninitialized shared memory";
  case FaultKind::SharedRace: return "race in shared memory";
  case FaultKind::GlobalRace: return "race in global memory";
  case FaultKind::NonCoherentRead: return "non-coherent read of written memory";
  case FaultKind::PendingCopy: return "access before cp.async has ended";
  case FaultKind::DivergentBarrier: return "divergent barrier";
  case FaultKind::DivergentShuffle: return "divergent exchange between lanes";
  case FaultKind::InvalidOperand: return "invalid operand";
  case FaultKind::StackOverflow: return "stack overflow";
  case FaultKind::Trap: return "trap";
  case FaultKind::EndlessBlock: return "endless block";
  }
  return "";
}

std::ostream &operator<<(std::ostream &out, const Fault &fault) {
  out << fault.kernel << ", line " << fault.line << ": " << name(fault.kind) << ": " << fault.what << "\n  "
      << fault.text << "\n  block (" << fault.block.x << ", " << fault.block.y << ", " << fault.block.z
      << "), warp " << fault.warp << ", lane " << fault.lane;
  if (!fault.buffer.empty())
    out << ", address 0x" << std::hex << fault.address << std::dec << " of " << fault.buffer;
  if (fault.count > 1)
    out << ", and " << fault.count - 1 << " more like it";
  return out << "\n";
}

} // namespace colossal::ptx

// The plan's tables: mesh, arenas, weight files, parameters, code, and the tensors that enter and leave
// programs.
#include "runtime/device/Images.h"
#include "runtime/validate/Checker.h"
#include "runtime/validate/Order.h"

#include "colossal/Plan/DataType.h"

#include <cctype>
#include <cstring>
#include <elf.h>
#include <map>

namespace colossal::runtime {

namespace {

template <class Repeated>
std::string indexed(const char *table, const Repeated &rows, int index) {
  return std::string(table) + " " + std::to_string(index) + " of " + std::to_string(rows.size()) + ": ";
}

bool within(uint64_t offset, uint64_t bytes, uint64_t size) {
  return offset <= size && bytes <= size - offset;
}

/// Enough of the ELF rules that the dynamic loader reads nothing outside the image.
Status checkElf(const std::byte *image, uint64_t bytes, const std::string &architecture) {
  Elf64_Ehdr header;
  if (bytes < sizeof header)
    return invalid("the image is too small for an ELF object");
  std::memcpy(&header, image, sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB)
    return invalid("the image is no 64-bit little-endian ELF object");
  if (header.e_type != ET_DYN)
    return invalid("the image is no shared object");
  const std::map<std::string, Elf64_Half> machines = {{"x86_64", EM_X86_64}, {"aarch64", EM_AARCH64}};
  if (auto machine = machines.find(architecture);
      machine != machines.end() && machine->second != header.e_machine)
    return invalid("the image is for another machine than " + architecture);
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0 ||
      !within(header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr), bytes))
    return invalid("the image's program headers lie outside it");
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, image + header.e_phoff + i * sizeof segment, sizeof segment);
    if (segment.p_type != PT_NULL && !within(segment.p_offset, segment.p_filesz, bytes))
      return invalid("a segment lies outside the image");
    if (segment.p_type == PT_LOAD && (segment.p_filesz > segment.p_memsz || segment.p_memsz > maxExtent))
      return invalid("a segment has impossible sizes");
    if (segment.p_type == PT_INTERP)
      return invalid("the image asks for an interpreter");
  }
  return {};
}

/// What is known of a format before a device looks at it.
Status checkImage(const std::byte *image, const plan::Image &says) {
  switch (says.format()) {
  case plan::Image::ELF: return checkElf(image, says.bytes(), says.architecture());
  case plan::Image::CUBIN: // the driver, which has no fixed version of it, judges it
    if (says.bytes() < SELFMAG || std::memcmp(image, ELFMAG, SELFMAG) != 0)
      return invalid("the image is no cubin");
    return {};
  case plan::Image::PTX:
    if (says.bytes() == 0 || std::memchr(image, 0, says.bytes()) != image + says.bytes() - 1)
      return invalid("the image is no text that ends with its first zero byte");
    return {};
  default: return {Code::Unsupported, "this runtime knows no format " + std::to_string(says.format())};
  }
}

} // namespace

Status Checker::checkTables() {
  if (plan.version() == 0 || plan.version() > plan::schemaVersion)
    return {Code::Unsupported, "the plan has schema version " + std::to_string(plan.version()) +
                                   "; this runtime reads up to " + std::to_string(plan::schemaVersion)};
  if (plan.message_slots() > maxMessageSlots)
    return invalid("more than " + std::to_string(maxMessageSlots) + " messages may wait");
  if (plan.message_slot_bytes() > 0)
    COLOSSAL_RETURN_IF_ERROR(needVersion(5, "messages that are too long to wait"));
  COLOSSAL_RETURN_IF_ERROR(checkStages());
  for (const plan::StageView &each : stages) {
    stage = &each;
    if (Status status = checkArenas(); !status.ok())
      return {status.code(), status.message() + each.suffix()};
  }
  COLOSSAL_RETURN_IF_ERROR(checkParameters());
  return checkCode();
}

Status Checker::checkStages() {
  if (plan.stages_size() > 0)
    COLOSSAL_RETURN_IF_ERROR(needVersion(2, "stages"));
  COLOSSAL_RETURN_IF_ERROR(plan::readStages(plan, stages));
  ranks = 0;
  for (const plan::StageView &each : stages) {
    if (each.mesh->axes_size() > 16)
      return invalid("the mesh" + each.suffix() + " has more than 16 axes");
    ranks += each.ranks;
  }
  if (ranks > maxRanks)
    return invalid("there are more than " + std::to_string(maxRanks) + " ranks");
  return {};
}

Status Checker::checkArenas() {
  for (int i = 0; i < stage->arenas->size(); ++i) {
    const plan::Arena &arena = stage->arenas->Get(i);
    std::string where = indexed("arena", *stage->arenas, i);
    if (arena.space() != plan::Arena::DEVICE && arena.space() != plan::Arena::PINNED_HOST)
      return {Code::Unsupported,
              where + "this runtime has no such memory space (" + std::to_string(arena.space()) + ")"};
    if (arena.life() < plan::Arena::WEIGHTS || arena.life() > plan::Arena::WORKSPACE)
      return invalid(where + "unknown life " + std::to_string(arena.life()));
    if (arena.bytes() > maxExtent)
      return invalid(where + std::to_string(arena.bytes()) + " bytes are more than any rank has");
    if (arena.alignment() < 64 || (arena.alignment() & (arena.alignment() - 1)) != 0 ||
        arena.alignment() > 1u << 30)
      return invalid(where + "alignment " + std::to_string(arena.alignment()) +
                     " is no power of two from 64 up");
  }
  return {};
}

Status Checker::checkParameters() {
  for (int i = 0; i < plan.files_size(); ++i)
    if (plan.files(i).path().empty() || plan.files(i).path().find('\0') != std::string::npos)
      return invalid(indexed("weight file", plan.files(), i) + "it has no proper path");
  std::set<std::string> names;
  for (int i = 0; i < plan.parameters_size(); ++i) {
    const plan::Parameter &parameter = plan.parameters(i);
    std::string where = indexed("parameter", plan.parameters(), i) + "'" + parameter.name() + "': ";
    if (!names.insert(parameter.name()).second)
      return invalid(where + "the name is taken");
    uint64_t elements;
    uint64_t size = plan::elementBytes(parameter.type());
    if (size == 0 || parameter.shape_size() > maxDims || !productWithin(parameter.shape(), elements))
      return invalid(where + "its type or shape is not valid");
    if (!parameter.inlined() && plan::storedBits(parameter.type()) == 0)
      return invalid(where + "strings do not lie in weight files");
    if (elements > maxExtent / 8 ||
        parameter.bytes() !=
            (parameter.inlined() ? elements * size : plan::storedBytes(parameter.type(), elements)))
      return invalid(where + "its shape needs " + std::to_string(elements) + " elements of type " +
                     plan::dataTypeName(parameter.type()) + ", it has " + std::to_string(parameter.bytes()) +
                     " bytes");
    if (parameter.inlined()) {
      if (!within(parameter.offset(), parameter.bytes(), data.size))
        return invalid(where + "it lies outside the data section");
    } else {
      if (parameter.file() >= static_cast<uint32_t>(plan.files_size()))
        return invalid(where + "there is no weight file " + std::to_string(parameter.file()));
      if (!within(parameter.offset(), parameter.bytes(),
                  plan.files(static_cast<int>(parameter.file())).bytes()))
        return invalid(where + "it lies outside its file");
    }
  }
  return {};
}

Status Checker::checkCode() {
  for (int i = 0; i < plan.modules_size(); ++i) {
    const plan::Module &module = plan.modules(i);
    for (const plan::Image &image : imagesOf(module, plan.target())) {
      std::string where = indexed("module", plan.modules(), i);
      if (!within(image.offset(), image.bytes(), code.size))
        return invalid(where + "it lies outside the code section");
      if (Status status = checkImage(code.data + image.offset(), image); !status.ok())
        return {status.code(), where + status.message()};
    }
  }
  for (int i = 0; i < plan.kernels_size(); ++i) {
    const plan::Kernel &kernel = plan.kernels(i);
    if (kernel.module() >= static_cast<uint32_t>(plan.modules_size()))
      return invalid(indexed("kernel", plan.kernels(), i) + "there is no module " +
                     std::to_string(kernel.module()));
    bool plain = !kernel.symbol().empty() && kernel.symbol().size() < 1024;
    for (unsigned char c : kernel.symbol())
      plain = plain && (std::isalnum(c) || c == '_' || c == '.' || c == '$');
    if (!plain)
      return invalid(indexed("kernel", plan.kernels(), i) + "its symbol is not a name");
  }
  return {};
}

Status Checker::checkBinding(const plan::Binding &binding, bool isCheck) const {
  if (plan::elementBytes(binding.type()) == 0)
    return invalid("its type is not valid");
  if (isCheck && !binding.has_range())
    return invalid("it has no range");
  if (binding.has_range() && binding.type() != plan::I32 && binding.type() != plan::I64)
    return invalid("it has a range, and is no index");
  if (binding.range().also_size() > 0)
    return needVersion(3, "indices beside a range");
  return {};
}

Status Checker::checkShard(const plan::BoundShard &shard, bool output) {
  Scope scope;
  scope.environment = Environment(*stage);
  COLOSSAL_RETURN_IF_ERROR(checkRef(*shard.buffer, "its buffer", scope, !output));
  if (shard.buffer->offset() % plan::elementBytes(shard.binding->type()) != 0)
    return invalid("its buffer is not aligned to its elements");
  return checkBox(*shard.box, shard.binding->shape(), shard.binding->type(), *shard.buffer, scope);
}

Status Checker::checkHeldOnce(int program, const plan::Binding &output) {
  // The ranks' boxes, equal ones once, must be disjoint and hold as many elements as the tensor has: none is
  // lost, none given twice.
  uint64_t elements = 1, held = 0;
  std::vector<uint64_t> refined; // extents
  std::set<std::vector<int64_t>> boxes;
  bool isFirst = true;
  for (const plan::StageView &each : stages)
    for (const plan::BoundShard &shard : each.outputs(program)) {
      if (shard.binding != &output)
        continue;
      std::vector<const plan::Expr *> exprs;
      std::vector<uint64_t> extents;
      for (const plan::BoxDim &dim : shard.box->dims()) {
        exprs.push_back(&dim.start());
        exprs.push_back(&dim.valid());
        extents.push_back(dim.global());
      }
      if (!isFirst && extents != refined)
        return invalid("stages refine its dimensions differently");
      if (isFirst)
        for (uint64_t extent : extents)
          elements *= extent;
      isFirst = false;
      refined = std::move(extents);
      Scope scope;
      scope.environment = Environment(each);
      COLOSSAL_RETURN_IF_ERROR(forAll(exprs, scope, [&](const std::vector<int64_t> &values) {
        uint64_t volume = 1;
        for (size_t i = 1; i < values.size(); i += 2)
          volume *= static_cast<uint64_t>(values[i]);
        if (boxes.insert(values).second)
          held += volume;
        return held > elements ? invalid("the ranks' boxes overlap without being equal") : Status();
      }));
    }
  if (isFirst)
    return invalid("no stage makes it");
  if (held != elements)
    return invalid("the ranks hold " + std::to_string(held) + " of its " + std::to_string(elements) +
                   " elements");
  // In the order of their starts, only boxes that begin before the end of one can meet it.
  auto isEmpty = [](const std::vector<int64_t> &box) {
    for (size_t i = 1; i < box.size(); i += 2)
      if (box[i] == 0)
        return true;
    return box.empty();
  };
  for (auto box = boxes.begin(); box != boxes.end(); ++box)
    for (auto other = std::next(box); other != boxes.end() && !isEmpty(*box); ++other) {
      COLOSSAL_RETURN_IF_ERROR(spend(1));
      if ((*other)[0] >= (*box)[0] + (*box)[1])
        break;
      bool meet = !isEmpty(*other);
      for (size_t i = 0; i < box->size() && meet; i += 2)
        meet = (*box)[i] < (*other)[i] + (*other)[i + 1] && (*other)[i] < (*box)[i] + (*box)[i + 1];
      if (meet)
        return invalid("the ranks' boxes overlap without being equal");
    }
  return {};
}

Status Checker::checkBindings(int index) {
  const plan::Program &program = plan.programs(index);
  const std::string owner = "program '" + program.name() + "', ";
  auto failed = [&](const char *kind, const std::string &name, const Status &status) {
    return Status(status.code(), owner + kind + " '" + name + "': " + status.message());
  };
  std::set<std::string> inputs, outputs;
  for (const plan::Binding &binding : program.inputs()) {
    Status status =
        inputs.insert(binding.name()).second ? checkBinding(binding, false) : invalid("the name is taken");
    if (!status.ok())
      return failed("input", binding.name(), status);
  }
  for (const plan::Binding &binding : program.outputs()) {
    Status status =
        outputs.insert(binding.name()).second ? checkBinding(binding, false) : invalid("the name is taken");
    if (!status.ok())
      return failed("output", binding.name(), status);
  }
  for (const plan::Binding &binding : program.checks())
    if (Status status = checkBinding(binding, true); !status.ok())
      return failed("check", binding.name(), status);
  for (const plan::FixedInput &input : program.fixed_inputs()) {
    uint64_t elements = 0, size = plan::elementBytes(input.type());
    Status status;
    if (!inputs.insert(input.name()).second)
      status = invalid("the name is taken");
    else if (size == 0 || input.shape_size() > maxDims || !productWithin(input.shape(), elements) ||
             elements > maxExtent / size || elements * size != input.bytes())
      status = invalid("its type, shape and bytes do not agree");
    else if (!within(input.offset(), input.bytes(), data.size))
      status = invalid("it lies outside the data section");
    if (!status.ok())
      return failed("fixed input", input.name(), status);
  }
  for (const plan::StageView &each : stages) {
    stage = &each;
    auto checkShards = [&](const char *kind, const std::vector<plan::BoundShard> &shards, bool output) {
      std::set<const plan::Binding *> seen;
      for (const plan::BoundShard &shard : shards) {
        Status status = seen.insert(shard.binding).second ? checkShard(shard, output)
                                                          : invalid("a stage holds two parts of it");
        if (!status.ok())
          return failed(kind, shard.binding->name(), {status.code(), status.message() + each.suffix()});
      }
      return Status();
    };
    COLOSSAL_RETURN_IF_ERROR(checkShards("input", each.inputs(index), false));
    COLOSSAL_RETURN_IF_ERROR(checkShards("output", each.outputs(index), true));
    COLOSSAL_RETURN_IF_ERROR(checkShards("check", each.checks(index), true));
  }
  for (const plan::Binding &binding : program.outputs())
    if (Status status = checkHeldOnce(index, binding); !status.ok())
      return failed("output", binding.name(), status);
  return {};
}

Status Checker::checkProgram(int index) {
  const plan::Program &program = plan.programs(index);
  if (program.role() < plan::Program::LOAD || program.role() > plan::Program::RESTORE)
    return invalid("program '" + program.name() + "': unknown role");
  COLOSSAL_RETURN_IF_ERROR(checkBindings(index));
  events = program.events();
  for (const plan::StageView &each : stages) {
    stage = &each;
    signalledBy.clear();
    signalled.clear();
    visited[0].clear();
    visited[1].clear();
    Scope scope;
    scope.environment = Environment(each);
    scope.owner = "program '" + program.name() + "'" + each.suffix();
    scope.loading = program.role() == plan::Program::LOAD;
    COLOSSAL_RETURN_IF_ERROR(walk(each.body(index), scope));
  }
  return checkOrderOf(index);
}

Status Checker::checkOrderOf(int program) {
  const auto spending = [this](uint64_t work) { return spend(work); };
  bool messages = false;
  for (const plan::StageView &each : stages) {
    std::set<uint32_t> queues;
    const std::function<void(const plan::InstructionList &)> look = [&](const plan::InstructionList &body) {
      for (const plan::Instruction &instruction : body) {
        queues.insert(instruction.queue());
        messages |= instruction.has_send() || instruction.has_recv();
        look(instruction.repeat().body());
        look(instruction.predicate().body());
      }
    };
    look(each.body(program));
    const std::vector<bool> called = each.functions();
    for (size_t function = 0; function < called.size(); ++function)
      if (called[function])
        look(plan.functions(static_cast<int>(function)).body());
    if (queues.size() < 2)
      continue; // one queue is an order
    // Ranks that differ in nothing that their order depends on are looked at once.
    const std::vector<bool> axes = orderAxes(each, program);
    for (uint64_t rank = each.firstRank; rank < each.firstRank + each.ranks; ++rank) {
      const plan::MeshPosition position = each.positionOf(rank);
      bool isFirst = true;
      for (size_t axis = 0; axis < axes.size(); ++axis)
        isFirst = isFirst && (axes[axis] || position.coordinates[axis] == 0);
      if (isFirst)
        COLOSSAL_RETURN_IF_ERROR(checkOrder(each, program, position, spending));
    }
  }
  // Without messages all ranks of a stage meet in one text, in one order: the first instruction that has not
  // ended on all of them can go on.
  if (!messages)
    return {};
  COLOSSAL_RETURN_IF_ERROR(checkMeetings(stages, program, false, spending));
  return messagesInOrder ? checkMeetings(stages, program, true, spending) : Status();
}

Status validatePlan(const plan::Plan &plan, plan::ByteView code, plan::ByteView data, bool messagesInOrder) {
  Checker checker(plan, code, data, messagesInOrder);
  COLOSSAL_RETURN_IF_ERROR(checker.checkTables());
  std::set<std::string> names;
  int loads = 0;
  for (int index = 0; index < plan.programs_size(); ++index) {
    const plan::Program &program = plan.programs(index);
    if (program.name().empty() || !names.insert(program.name()).second)
      return invalid("program '" + program.name() + "': the name is empty or taken");
    loads += program.role() == plan::Program::LOAD;
    COLOSSAL_RETURN_IF_ERROR(checker.checkProgram(index));
  }
  if (loads != 1)
    return invalid("there are " + std::to_string(loads) + " load programs; there must be one");
  return checker.checkStates();
}

} // namespace colossal::runtime

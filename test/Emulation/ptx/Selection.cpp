// What a family of instructions takes: modifiers by name, operands as registers, numbers, addresses and
// labels.
#include "Decoder.h"

#include <algorithm>
#include <cstring>

namespace colossal::ptx {
namespace {

const std::map<std::string_view, Type> &typeNames() {
  static const std::map<std::string_view, Type> names = {
      {"pred", Type::Pred},     {"b8", Type::B8},       {"b16", Type::B16},    {"b32", Type::B32},
      {"b64", Type::B64},       {"u8", Type::U8},       {"u16", Type::U16},    {"u32", Type::U32},
      {"u64", Type::U64},       {"s8", Type::S8},       {"s16", Type::S16},    {"s32", Type::S32},
      {"s64", Type::S64},       {"f16", Type::F16},     {"bf16", Type::BF16},  {"f16x2", Type::F16x2},
      {"bf16x2", Type::BF16x2}, {"f32", Type::F32},     {"f64", Type::F64},    {"f32x2", Type::F32x2},
      {"tf32", Type::Tf32},     {"e4m3", Type::E4M3},   {"e5m2", Type::E5M2},  {"e4m3x2", Type::E4M3x2},
      {"e5m2x2", Type::E5M2x2}, {"s16x2", Type::S16x2}, {"u16x2", Type::U16x2}};
  return names;
}

} // namespace

unsigned bytesOf(Type type) {
  switch (type) {
  case Type::None:
  case Type::Pred: return 0;
  case Type::B8:
  case Type::U8:
  case Type::S8:
  case Type::E4M3:
  case Type::E5M2: return 1;
  case Type::B16:
  case Type::U16:
  case Type::S16:
  case Type::F16:
  case Type::BF16:
  case Type::E4M3x2:
  case Type::E5M2x2: return 2;
  case Type::B32:
  case Type::U32:
  case Type::S32:
  case Type::F32:
  case Type::F16x2:
  case Type::BF16x2:
  case Type::Tf32:
  case Type::S16x2:
  case Type::U16x2: return 4;
  case Type::B64:
  case Type::U64:
  case Type::S64:
  case Type::F64:
  case Type::F32x2: return 8;
  }
  return 0;
}

bool isFloat(Type type) {
  return type >= Type::F16 && type <= Type::E5M2x2;
}

bool isSigned(Type type) {
  return type == Type::S8 || type == Type::S16 || type == Type::S32 || type == Type::S64;
}

Selection::Selection(Decoder &decoder, const Statement &statement) : statement(statement), decoder(decoder) {
  std::string_view rest = statement.name;
  for (bool first = true; !rest.empty(); first = false) {
    std::size_t end = std::min(rest.find('.'), rest.size());
    if (first)
      opcode = rest.substr(0, end);
    else
      modifiers.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

bool Selection::take(std::string_view modifier) {
  auto found = std::find(modifiers.begin(), modifiers.end(), modifier);
  if (found == modifiers.end())
    return false;
  modifiers.erase(found);
  return true;
}

int Selection::takeOne(std::initializer_list<std::string_view> choices) {
  int number = 0;
  for (std::string_view choice : choices) {
    if (take(choice))
      return number;
    ++number;
  }
  return -1;
}

Type Selection::takeType() {
  for (auto modifier = modifiers.begin(); modifier != modifiers.end(); ++modifier)
    if (auto type = typeNames().find(*modifier); type != typeNames().end()) {
      modifiers.erase(modifier);
      return type->second;
    }
  return Type::None;
}

void Selection::takeHints() {
  for (std::string_view hint : {"ca",
                                "cg",
                                "cs",
                                "lu",
                                "cv",
                                "wb",
                                "wt",
                                "cta",
                                "gpu",
                                "sys",
                                "uni",
                                "L1::evict_normal",
                                "L1::evict_unchanged",
                                "L1::evict_first",
                                "L1::evict_last",
                                "L1::no_allocate",
                                "L2::evict_normal",
                                "L2::evict_first",
                                "L2::evict_last",
                                "L2::64B",
                                "L2::128B",
                                "L2::256B"})
    take(hint);
}

void Selection::finish() const {
  if (modifiers.empty())
    return;
  std::string left;
  for (std::string_view modifier : modifiers)
    left += "." + std::string(modifier);
  refuse("'" + left + "' of '" + std::string(opcode) + "' is not executed");
}

void Selection::refuse(const std::string &what) const {
  throw Refused(statement.line, what);
}

const Operand &Selection::operand(std::size_t index) const {
  if (index >= statement.operands.size())
    refuse("an operand is missing");
  return statement.operands[index];
}

void Selection::expect(std::size_t operands) const {
  expect(operands, operands);
}

void Selection::expect(std::size_t least, std::size_t most) const {
  if (count() < least || count() > most)
    refuse("'" + std::string(opcode) + "' with " + std::to_string(count()) + " operands is not executed");
}

Slot Selection::source(const Operand &operand, Type type) {
  unsigned bytes = 0;
  Slot slot = sourceOfAnySize(operand, type, bytes);
  if (bytes != bytesOf(type))
    refuse("'" + std::string(operand.name) + "' has " + std::to_string(bytes) + " bytes where " +
           std::to_string(bytesOf(type)) + " are needed");
  return slot;
}

Slot Selection::sourceOfAnySize(const Operand &operand, Type type, unsigned &bytes) {
  if (operand.kind == Operand::Name && !operand.negated) {
    Register found;
    if (!decoder.findRegister(operand.name, found) && !decoder.findSpecial(operand.name, found))
      refuse("there is no register '" + std::string(operand.name) + "'");
    if (found.predicate)
      refuse("'" + std::string(operand.name) + "' is a predicate");
    bytes = found.bytes;
    return found.slot;
  }
  bytes = bytesOf(type);
  std::uint64_t bits = static_cast<std::uint64_t>(operand.value);
  switch (operand.kind) {
  case Operand::Integer: break;
  case Operand::Single:
    if (bytes != 4)
      refuse("a single-precision number where another type is needed");
    break;
  case Operand::Double:
    if (type == Type::F32) {
      double value;
      std::memcpy(&value, &operand.value, sizeof value);
      float narrow = static_cast<float>(value);
      std::uint32_t narrowBits;
      std::memcpy(&narrowBits, &narrow, sizeof narrow);
      bits = narrowBits;
    } else if (bytes != 8) {
      refuse("a double-precision number where another type is needed");
    }
    break;
  default: refuse("expected a register or a number");
  }
  if (bytes < 2)
    bytes = 2;
  return decoder.constant(bytes, bytes == 8 ? bits : bits & ((std::uint64_t(1) << bytes * 8) - 1));
}

Slot Selection::destination(const Operand &operand, Type type) {
  unsigned bytes = bytesOf(type);
  Slot slot = destinationOfAnySize(operand, bytes);
  if (bytes != bytesOf(type))
    refuse("'" + std::string(operand.name) + "' has " + std::to_string(bytes) + " bytes where " +
           std::to_string(bytesOf(type)) + " are needed");
  return slot;
}

Slot Selection::destinationOfAnySize(const Operand &operand, unsigned &bytes) {
  if (operand.kind == Operand::Sink) {
    bytes = bytes ? bytes : 8;
    return 0;
  }
  Register found;
  if (operand.kind != Operand::Name || !decoder.findRegister(operand.name, found) || found.predicate)
    refuse("expected a register to write to");
  bytes = found.bytes;
  return found.slot;
}

Slot Selection::predicate(const Operand &operand, bool &negated) {
  negated = operand.negated;
  if (operand.kind == Operand::Integer)
    return decoder.constant(0, operand.value ? kAllLanes : 0);
  Register found;
  if (operand.kind != Operand::Name || !decoder.findRegister(operand.name, found) || !found.predicate)
    refuse("expected a predicate, found '" + std::string(operand.name) + "'");
  return found.slot;
}

Slot Selection::predicateDestination(std::string_view name) {
  if (name.empty() || name == "_")
    return 0;
  Register found;
  if (!decoder.findRegister(name, found) || !found.predicate)
    refuse("expected a predicate to write to, found '" + std::string(name) + "'");
  return found.slot;
}

std::int64_t Selection::number(std::size_t index) const {
  if (operand(index).kind != Operand::Integer)
    refuse("operand " + std::to_string(index + 1) + " must be a number");
  return operand(index).value;
}

const Symbol *Selection::symbol(std::string_view name) const {
  return decoder.findSymbol(name);
}

bool Selection::isClock(const Operand &operand) const {
  return operand.kind == Operand::Name && Decoder::isClock(operand.name);
}

void Selection::memory(const Operand &operand, Space space) {
  if (operand.kind != Operand::Address)
    refuse("expected an address in [ ]");
  result.space = space;
  result.immediate = operand.value;
  result.base = Instruction::None;
  if (operand.name.empty())
    return;
  Register found;
  if (decoder.findRegister(operand.name, found)) {
    if (found.predicate || found.bytes < 4)
      refuse("an address needs 4 or 8 bytes");
    result.a = found.slot;
    result.base = found.bytes == 8 ? Instruction::Wide : Instruction::Narrow;
    return;
  }
  const Symbol *symbol = decoder.findSymbol(operand.name);
  if (!symbol)
    refuse("there is no '" + std::string(operand.name) + "'");
  bool generic = space == Space::Generic;
  // The .param variables of calls are kept in local memory.
  if (space == Space::Parameter)
    result.space = symbol->space;
  else if (generic || (space == Space::Global && symbol->space == Space::Constant))
    result.space = symbol->space;
  else if (space != symbol->space)
    refuse("'" + std::string(operand.name) + "' lies in another memory space");
  result.immediate += static_cast<std::int64_t>(symbol->address);
  if (symbol->space == Space::Local)
    result.base = Instruction::Frame;
}

void Selection::append(std::int32_t value) {
  std::vector<std::int32_t> &lists = decoder.program.lists;
  if (!result.count)
    result.list = static_cast<std::uint32_t>(lists.size());
  lists.push_back(value);
  ++result.count;
}

void Selection::noteGranule(Space space, unsigned bytes) {
  unsigned granule = static_cast<unsigned>(__builtin_ctz(bytes));
  if (space == Space::Shared || space == Space::Generic)
    decoder.program.sharedGranule = std::min(decoder.program.sharedGranule, granule);
  if (space == Space::Global || space == Space::Generic)
    decoder.program.globalGranule = std::min(decoder.program.globalGranule, granule);
}

void Selection::noteFence() {
  decoder.program.fences = true;
}

void Selection::jump(std::string_view label) {
  decoder.fixes.push_back({false, decoder.program.code.size(), label, decoder.scope, statement.line});
}

void Selection::jumpTable(std::string_view name) {
  const Statement *targets = nullptr;
  for (std::size_t at = decoder.scope; !targets; at = decoder.scopes[at].parent) {
    auto found = decoder.scopes[at].targets.find(name);
    if (found != decoder.scopes[at].targets.end())
      targets = found->second;
    else if (at == 0)
      refuse("there are no .branchtargets '" + std::string(name) + "' above");
  }
  for (const Operand &target : targets->operands) {
    decoder.fixes.push_back({true, decoder.program.lists.size(), target.name, decoder.scope, statement.line});
    append(0);
  }
}

std::uint32_t Selection::callSite() {
  std::size_t at = 0;
  Decoder::Pending pending;
  auto symbols = [&](const Operand &list) {
    std::vector<Symbol> found;
    for (const Operand &element : list.elements) {
      const Symbol *symbol = decoder.findSymbol(element.name);
      if (!symbol || symbol->space != Space::Local)
        refuse("'" + std::string(element.name) + "' is no variable in .param");
      found.push_back(*symbol);
    }
    return found;
  };
  if (operand(at).kind == Operand::Vector)
    pending.results = symbols(operand(at++));
  std::string_view name = operand(at++).name;
  auto callee = decoder.functions.find(name);
  if (callee == decoder.functions.end() || !callee->second->defined || callee->second->entry)
    refuse("calls '" + std::string(name) + "', which the module does not define as a function");
  if (at < count())
    pending.arguments = symbols(operand(at++));
  expect(at);
  pending.callee = callee->second;
  if (pending.arguments.size() != callee->second->parameters.size() ||
      pending.results.size() != callee->second->results.size())
    refuse("calls '" + std::string(name) + "' with another number of arguments or results");
  pending.site = static_cast<std::uint32_t>(decoder.program.calls.size());
  decoder.program.calls.emplace_back();
  decoder.program.calls.back().routine = decoder.routineOf(*callee->second);
  decoder.pendingCalls.push_back(pending);
  return pending.site;
}

} // namespace colossal::ptx

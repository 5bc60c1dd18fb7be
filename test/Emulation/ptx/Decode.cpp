#include "Decode.h"

#include <algorithm>
#include <cctype>
#include <cstring>

namespace colossal::ptx {
namespace {

constexpr std::size_t kRegisterAlignment = 64;
/// Where results go that nobody wants: the first bytes of each frame.
constexpr std::size_t kSinkBytes = kLanes * 8;

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

struct SpecialName {
  Special special;
  bool wide;
};
const std::map<std::string_view, SpecialName> &specialNames() {
  static const std::map<std::string_view, SpecialName> names = {
      {"%tid.x", {Special::ThreadX, false}},
      {"%tid.y", {Special::ThreadY, false}},
      {"%tid.z", {Special::ThreadZ, false}},
      {"%ntid.x", {Special::BlockSizeX, false}},
      {"%ntid.y", {Special::BlockSizeY, false}},
      {"%ntid.z", {Special::BlockSizeZ, false}},
      {"%ctaid.x", {Special::BlockX, false}},
      {"%ctaid.y", {Special::BlockY, false}},
      {"%ctaid.z", {Special::BlockZ, false}},
      {"%nctaid.x", {Special::GridX, false}},
      {"%nctaid.y", {Special::GridY, false}},
      {"%nctaid.z", {Special::GridZ, false}},
      {"%laneid", {Special::Lane, false}},
      {"%warpid", {Special::WarpIndex, false}},
      {"%nwarpid", {Special::WarpCount, false}},
      {"%lanemask_eq", {Special::LanesEqual, false}},
      {"%lanemask_lt", {Special::LanesLess, false}},
      {"%lanemask_le", {Special::LanesLessEqual, false}},
      {"%lanemask_gt", {Special::LanesGreater, false}},
      {"%lanemask_ge", {Special::LanesGreaterEqual, false}},
      {"%dynamic_smem_size", {Special::DynamicShared, false}},
      {"%total_smem_size", {Special::TotalShared, false}},
      {"%gridid", {Special::GridIndex, true}},
      {"%smid", {Special::Multiprocessor, false}},
      {"%nsmid", {Special::Multiprocessor, false}},
      {"%clock", {Special::Clock, false}},
      {"%clock_hi", {Special::Clock, false}},
      {"%clock64", {Special::Clock, true}},
      {"%globaltimer", {Special::Clock, true}}};
  return names;
}

std::size_t alignUp(std::size_t value, std::size_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
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

/// Decodes a kernel and, one after the other, what it calls.
class Decoder {
public:
  Decoder(const Syntax &syntax, const SyntaxFunction &kernel,
          const std::map<std::string_view, Symbol> &variables, std::vector<Refused> &diagnostics)
      : kernel(kernel), variables(variables), diagnostics(diagnostics) {
    for (const SyntaxFunction &function : syntax.functions)
      if (function.defined || !functions.count(function.name))
        functions[function.name] = &function;
    for (const SyntaxVariable &variable : syntax.variables)
      if (variable.space == ".shared")
        sharedVariables[variable.name] = &variable;
  }

  Program run() {
    describeKernel();
    layOutShared();
    routineOf(kernel);
    for (std::size_t i = 0; i < worklist.size(); ++i)
      decodeRoutine(i);
    for (Pending &pending : pendingCalls)
      fillCallSite(pending);
    return std::move(program);
  }

private:
  friend class Selection;

  struct Range {
    unsigned count = 0;
    Register prototype;
    std::vector<Slot> slots;
  };
  struct Scope {
    std::size_t parent;
    std::unordered_map<std::string_view, Register> registers;
    std::unordered_map<std::string_view, Range> ranges;
    std::unordered_map<std::string_view, Symbol> symbols;
    std::unordered_map<std::string_view, std::uint32_t> labels;
    std::unordered_map<std::string_view, const Statement *> targets;
  };
  struct Fix {
    bool inList;
    std::size_t place;
    std::string_view label;
    std::size_t scope;
    unsigned line;
  };
  struct Pending {
    std::uint32_t site;
    const SyntaxFunction *callee;
    std::vector<Symbol> arguments, results;
  };
  struct Layout {
    std::vector<Symbol> parameters, results;
  };

  void describeKernel() {
    Kernel &info = program.kernel;
    info.name = kernel.name;
    info.requiredBlock = kernel.requiredBlock;
    info.maximalThreads = kernel.maximalThreads;
    for (const SyntaxVariable &parameter : kernel.parameters) {
      info.parameterBytes = alignUp(info.parameterBytes, parameter.alignment);
      info.parameters.push_back({std::string(parameter.name), info.parameterBytes, parameter.size()});
      info.parameterBytes += parameter.size();
    }
  }

  /// Shared variables of the kernel and of all that it can call get their places; dynamic memory comes after
  /// them.
  void layOutShared() {
    std::vector<const SyntaxFunction *> reached = {&kernel};
    std::size_t end = 0, dynamicAlignment = 16;
    auto place = [&](const SyntaxVariable &variable) {
      if (sharedPlaces.count(&variable))
        return;
      if (variable.unsized) {
        dynamicAlignment = std::max(dynamicAlignment, variable.alignment);
        return;
      }
      end = alignUp(end, variable.alignment);
      sharedPlaces[&variable] = end;
      end += variable.size();
    };
    auto visit = [&](std::string_view name) {
      if (auto found = sharedVariables.find(name); found != sharedVariables.end())
        place(*found->second);
      auto function = functions.find(name);
      if (function != functions.end() &&
          std::find(reached.begin(), reached.end(), function->second) == reached.end())
        reached.push_back(function->second);
    };
    for (std::size_t i = 0; i < reached.size(); ++i)
      for (const Statement &statement : reached[i]->body) {
        if (statement.kind == Statement::Variable && statement.variable.space == ".shared")
          place(statement.variable);
        for (const Operand &operand : statement.operands)
          visit(operand.name);
      }
    program.kernel.staticShared = end;
    program.dynamicShared = alignUp(end, dynamicAlignment);
  }

  std::uint32_t routineOf(const SyntaxFunction &function) {
    auto [place, fresh] = routineIndex.try_emplace(&function, static_cast<std::uint32_t>(worklist.size()));
    if (fresh) {
      worklist.push_back(&function);
      program.routines.emplace_back();
      program.routines.back().name = function.name;
      layouts.emplace_back();
    }
    return place->second;
  }

  Symbol localVariable(const SyntaxVariable &variable) {
    std::size_t &end = program.routines[routine].localBytes;
    end = alignUp(end, std::min<std::size_t>(variable.alignment, 16));
    Symbol symbol{Space::Local, end, variable.size()};
    end += variable.size();
    return symbol;
  }

  void decodeRoutine(std::size_t index) {
    const SyntaxFunction &function = *worklist[index];
    routine = index;
    scopes.clear();
    scopes.emplace_back();
    scope = 0;
    fixes.clear();
    specials.clear();
    program.routines[index].entry = static_cast<std::uint32_t>(program.code.size());
    program.routines[index].registerBytes = kSinkBytes;
    if (function.entry)
      for (std::size_t i = 0; i < function.parameters.size(); ++i)
        scopes[0].symbols[function.parameters[i].name] = {
            Space::Parameter, program.kernel.parameters[i].offset, function.parameters[i].size()};
    else
      for (auto [list, layout] : {std::pair{&function.parameters, &layouts[index].parameters},
                                  std::pair{&function.results, &layouts[index].results}})
        for (const SyntaxVariable &variable : *list) {
          if (variable.space != ".param")
            diagnostics.emplace_back(variable.line, "a function's parameters must be in .param");
          layout->push_back(localVariable(variable));
          scopes[0].symbols[variable.name] = layout->back();
        }
    for (const Statement &statement : function.body)
      try {
        decodeStatement(statement);
      } catch (const Refused &refused) {
        diagnostics.push_back(refused);
      }
    try {
      // Whoever falls off the end returns.
      Statement end;
      end.kind = Statement::Instruction;
      end.line = function.body.empty() ? function.line : function.body.back().line;
      end.name = "ret";
      decodeStatement(end);
      for (const Fix &fix : fixes)
        resolve(fix);
    } catch (const Refused &refused) {
      diagnostics.push_back(refused);
    }
    if (function.entry)
      program.kernel.local = program.routines[index].localBytes;
  }

  void decodeStatement(const Statement &statement) {
    switch (statement.kind) {
    case Statement::ScopeBegin:
      scopes.emplace_back();
      scopes.back().parent = scope;
      scope = scopes.size() - 1;
      return;
    case Statement::ScopeEnd: scope = scopes[scope].parent; return;
    case Statement::Label:
      scopes[scope].labels[statement.name] = static_cast<std::uint32_t>(program.code.size());
      return;
    case Statement::Targets: scopes[scope].targets[statement.name] = &statement; return;
    case Statement::Registers: return declareRegisters(statement);
    case Statement::Variable: return declareVariable(statement.variable);
    case Statement::Instruction: break;
    }
    Selection selection(*this, statement);
    selection.result.line = statement.line;
    if (!statement.predicate.empty()) {
      Operand guard;
      guard.kind = Operand::Name;
      guard.name = statement.predicate;
      bool negated = false;
      selection.result.predicate = selection.predicate(guard, negated);
      selection.result.negated = statement.negated;
    }
    bool known = selectInteger(selection) || selectFloat(selection) || selectCompare(selection) ||
                 selectConvert(selection) || selectAccess(selection) || selectAtomic(selection) ||
                 selectMatrix(selection) || selectCollective(selection) || selectControl(selection);
    if (!known)
      selection.refuse("the instruction '" + std::string(selection.base()) + "' is not executed");
    selection.finish();
    program.code.push_back(selection.result);
  }

  void declareRegisters(const Statement &statement) {
    const SyntaxRegisters &declared = statement.registers;
    Register prototype;
    prototype.predicate = declared.type == ".pred";
    prototype.bytes = prototype.predicate ? 0 : static_cast<unsigned>(typeSize(declared.type));
    if (!prototype.predicate && (!prototype.bytes || prototype.bytes > 8))
      throw Refused(statement.line,
                    "registers of type '" + std::string(declared.type) + "' are not executed");
    // Nothing smaller than 16 bits is computed with.
    prototype.bytes = prototype.bytes == 1 ? 2 : prototype.bytes;
    if (!declared.count) {
      scopes[scope].registers[declared.name] = prototype;
      return;
    }
    Range &range = scopes[scope].ranges[declared.name];
    range.count = *declared.count;
    range.prototype = prototype;
    range.slots.assign(range.count, kNoSlot);
  }

  void declareVariable(const SyntaxVariable &variable) {
    Symbol symbol;
    if (variable.space == ".local" || variable.space == ".param") {
      symbol = localVariable(variable);
    } else if (variable.space == ".shared") {
      symbol = sharedSymbol(variable);
    } else {
      throw Refused(variable.line,
                    "a variable in " + std::string(variable.space) + " inside a function is not executed");
    }
    scopes[scope].symbols[variable.name] = symbol;
  }

  Symbol sharedSymbol(const SyntaxVariable &variable) const {
    if (variable.unsized)
      return {Space::Shared, program.dynamicShared, 0};
    return {Space::Shared, sharedPlaces.at(&variable), variable.size()};
  }

  Slot newSlot(const Register &prototype) {
    std::size_t &end = program.routines[routine].registerBytes;
    std::size_t size = prototype.predicate ? 4 : prototype.bytes * kLanes;
    end = alignUp(end, prototype.predicate ? 4 : kRegisterAlignment);
    Slot slot = static_cast<Slot>(end);
    end += size;
    return slot;
  }

  bool findRegister(std::string_view name, Register &found) {
    std::size_t digits = name.size();
    while (digits && std::isdigit(static_cast<unsigned char>(name[digits - 1])))
      --digits;
    for (std::size_t at = scope;; at = scopes[at].parent) {
      if (auto place = scopes[at].registers.find(name); place != scopes[at].registers.end()) {
        if (place->second.slot == kNoSlot)
          place->second.slot = newSlot(place->second);
        found = place->second;
        return true;
      }
      auto range = scopes[at].ranges.find(name.substr(0, digits));
      if (range != scopes[at].ranges.end() && digits < name.size()) {
        std::size_t number = std::stoul(std::string(name.substr(digits)));
        if (number < range->second.count) {
          found = range->second.prototype;
          Slot &slot = range->second.slots[number];
          found.slot = slot = slot == kNoSlot ? newSlot(found) : slot;
          return true;
        }
      }
      if (at == 0)
        return false;
    }
  }

  bool findSpecial(std::string_view name, Register &found) {
    auto special = specialNames().find(name);
    if (special == specialNames().end())
      return false;
    found = Register();
    found.bytes = special->second.wide ? 8 : 4;
    auto [place, fresh] = specials.try_emplace(name, kNoSlot);
    if (fresh) {
      place->second = newSlot(found);
      program.routines[routine].specials.push_back(
          {special->second.special, place->second, special->second.wide});
    }
    found.slot = place->second;
    return true;
  }

  const Symbol *findSymbol(std::string_view name) {
    for (std::size_t at = scope;; at = scopes[at].parent) {
      if (auto place = scopes[at].symbols.find(name); place != scopes[at].symbols.end())
        return &place->second;
      if (at == 0)
        break;
    }
    if (auto shared = sharedVariables.find(name); shared != sharedVariables.end())
      return &(scopes[0].symbols[name] = sharedSymbol(*shared->second));
    auto variable = variables.find(name);
    return variable == variables.end() ? nullptr : &variable->second;
  }

  Slot constant(unsigned bytes, std::uint64_t bits) {
    auto [place, fresh] = constants.try_emplace({bytes, bits}, kNoSlot);
    if (fresh) {
      std::size_t at = alignUp(program.constants.size(), bytes ? kRegisterAlignment : 4);
      program.constants.resize(at + (bytes ? bytes * kLanes : 4));
      if (bytes)
        for (unsigned lane = 0; lane < kLanes; ++lane)
          std::memcpy(&program.constants[at + lane * bytes], &bits, bytes);
      else
        std::memcpy(&program.constants[at], &bits, 4);
      place->second = ~static_cast<Slot>(at);
    }
    return place->second;
  }

  void resolve(const Fix &fix) {
    for (std::size_t at = fix.scope;; at = scopes[at].parent) {
      if (auto place = scopes[at].labels.find(fix.label); place != scopes[at].labels.end()) {
        if (fix.inList)
          program.lists[fix.place] = static_cast<std::int32_t>(place->second);
        else
          program.code[fix.place].immediate = place->second;
        return;
      }
      if (at == 0)
        throw Refused(fix.line, "there is no label '" + std::string(fix.label) + "'");
    }
  }

  void fillCallSite(const Pending &pending) {
    const Layout &layout = layouts[routineOf(*pending.callee)];
    CallSite &site = program.calls[pending.site];
    for (std::size_t i = 0; i < pending.arguments.size(); ++i)
      site.arguments.push_back({pending.arguments[i].address, layout.parameters[i].address,
                                std::min(pending.arguments[i].size, layout.parameters[i].size)});
    for (std::size_t i = 0; i < pending.results.size(); ++i)
      site.results.push_back({layout.results[i].address, pending.results[i].address,
                              std::min(pending.results[i].size, layout.results[i].size)});
  }

  const SyntaxFunction &kernel;
  const std::map<std::string_view, Symbol> &variables;
  std::vector<Refused> &diagnostics;
  std::map<std::string_view, const SyntaxFunction *> functions;
  std::map<std::string_view, const SyntaxVariable *> sharedVariables;
  std::map<const SyntaxVariable *, std::size_t> sharedPlaces;

  Program program;
  std::vector<const SyntaxFunction *> worklist;
  std::map<const SyntaxFunction *, std::uint32_t> routineIndex;
  std::vector<Layout> layouts;
  std::vector<Pending> pendingCalls;
  std::map<std::pair<unsigned, std::uint64_t>, Slot> constants;

  // Of the routine that is being decoded.
  std::size_t routine = 0, scope = 0;
  std::vector<Scope> scopes;
  std::vector<Fix> fixes;
  std::map<std::string_view, Slot> specials;
};

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
  auto special = operand.kind == Operand::Name ? specialNames().find(operand.name) : specialNames().end();
  return special != specialNames().end() && special->second.special == Special::Clock;
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

Program decode(const Syntax &syntax, const SyntaxFunction &kernel,
               const std::map<std::string_view, Symbol> &variables, std::vector<Refused> &diagnostics) {
  return Decoder(syntax, kernel, variables, diagnostics).run();
}

} // namespace colossal::ptx

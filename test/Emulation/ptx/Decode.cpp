// Routines, scopes and the places of names. What instructions take is in Selection.cpp.
#include "Decoder.h"

#include <algorithm>
#include <cctype>
#include <cstring>

namespace colossal::ptx {
namespace {

constexpr std::size_t kRegisterAlignment = 64;
/// Where results go that nobody wants: the first bytes of each frame.
constexpr std::size_t kSinkBytes = kLanes * 8;

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

Decoder::Decoder(const Syntax &syntax, const SyntaxFunction &kernel,
                 const std::map<std::string_view, Symbol> &variables, std::vector<Refused> &diagnostics)
    : kernel(kernel), variables(variables), diagnostics(diagnostics) {
  for (const SyntaxFunction &function : syntax.functions)
    if (function.defined || !functions.count(function.name))
      functions[function.name] = &function;
  for (const SyntaxVariable &variable : syntax.variables)
    if (variable.space == ".shared")
      sharedVariables[variable.name] = &variable;
}

Program Decoder::run() {
  describeKernel();
  layOutShared();
  routineOf(kernel);
  for (std::size_t i = 0; i < worklist.size(); ++i)
    decodeRoutine(i);
  for (Pending &pending : pendingCalls)
    fillCallSite(pending);
  return std::move(program);
}

void Decoder::describeKernel() {
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

void Decoder::layOutShared() {
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

std::uint32_t Decoder::routineOf(const SyntaxFunction &function) {
  auto [place, fresh] = routineIndex.try_emplace(&function, static_cast<std::uint32_t>(worklist.size()));
  if (fresh) {
    worklist.push_back(&function);
    program.routines.emplace_back();
    program.routines.back().name = function.name;
    layouts.emplace_back();
  }
  return place->second;
}

Symbol Decoder::localVariable(const SyntaxVariable &variable) {
  std::size_t &end = program.routines[routine].localBytes;
  end = alignUp(end, std::min<std::size_t>(variable.alignment, 16));
  Symbol symbol{Space::Local, end, variable.size()};
  end += variable.size();
  return symbol;
}

void Decoder::decodeRoutine(std::size_t index) {
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
      scopes[0].symbols[function.parameters[i].name] = {Space::Parameter, program.kernel.parameters[i].offset,
                                                        function.parameters[i].size()};
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

void Decoder::decodeStatement(const Statement &statement) {
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

void Decoder::declareRegisters(const Statement &statement) {
  const SyntaxRegisters &declared = statement.registers;
  Register prototype;
  prototype.predicate = declared.type == ".pred";
  prototype.bytes = prototype.predicate ? 0 : static_cast<unsigned>(typeSize(declared.type));
  if (!prototype.predicate && (!prototype.bytes || prototype.bytes > 8))
    throw Refused(statement.line, "registers of type '" + std::string(declared.type) + "' are not executed");
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

void Decoder::declareVariable(const SyntaxVariable &variable) {
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

Symbol Decoder::sharedSymbol(const SyntaxVariable &variable) const {
  if (variable.unsized)
    return {Space::Shared, program.dynamicShared, 0};
  return {Space::Shared, sharedPlaces.at(&variable), variable.size()};
}

Slot Decoder::newSlot(const Register &prototype) {
  std::size_t &end = program.routines[routine].registerBytes;
  std::size_t size = prototype.predicate ? 4 : prototype.bytes * kLanes;
  end = alignUp(end, prototype.predicate ? 4 : kRegisterAlignment);
  Slot slot = static_cast<Slot>(end);
  end += size;
  return slot;
}

bool Decoder::findRegister(std::string_view name, Register &found) {
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

bool Decoder::isClock(std::string_view name) {
  auto special = specialNames().find(name);
  return special != specialNames().end() && special->second.special == Special::Clock;
}

bool Decoder::findSpecial(std::string_view name, Register &found) {
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

const Symbol *Decoder::findSymbol(std::string_view name) {
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

Slot Decoder::constant(unsigned bytes, std::uint64_t bits) {
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

void Decoder::resolve(const Fix &fix) {
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

void Decoder::fillCallSite(const Pending &pending) {
  const Layout &layout = layouts[routineOf(*pending.callee)];
  CallSite &site = program.calls[pending.site];
  for (std::size_t i = 0; i < pending.arguments.size(); ++i)
    site.arguments.push_back({pending.arguments[i].address, layout.parameters[i].address,
                              std::min(pending.arguments[i].size, layout.parameters[i].size)});
  for (std::size_t i = 0; i < pending.results.size(); ++i)
    site.results.push_back({layout.results[i].address, pending.results[i].address,
                            std::min(pending.results[i].size, layout.results[i].size)});
}

Program decode(const Syntax &syntax, const SyntaxFunction &kernel,
               const std::map<std::string_view, Symbol> &variables, std::vector<Refused> &diagnostics) {
  return Decoder(syntax, kernel, variables, diagnostics).run();
}

} // namespace colossal::ptx

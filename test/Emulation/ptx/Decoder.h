// One kernel on its way from syntax to the compact form: the routines that it reaches, the names in their
// scopes, and the places of registers, variables and constants. Selection.cpp asks for these.
#ifndef COLOSSAL_EMULATION_PTX_DECODER_H
#define COLOSSAL_EMULATION_PTX_DECODER_H

#include "Decode.h"

namespace colossal::ptx {

/// Decodes a kernel and, one after the other, what it calls.
class Decoder {
public:
  Decoder(const Syntax &syntax, const SyntaxFunction &kernel,
          const std::map<std::string_view, Symbol> &variables, std::vector<Refused> &diagnostics);

  Program run();

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

  void describeKernel();
  /// Shared variables of the kernel and of all that it can call get their places; dynamic memory comes after
  /// them.
  void layOutShared();
  /// Its number; one that is new will be decoded.
  std::uint32_t routineOf(const SyntaxFunction &function);
  /// A place in the frame of the routine that is being decoded.
  Symbol localVariable(const SyntaxVariable &variable);
  void decodeRoutine(std::size_t index);
  void decodeStatement(const Statement &statement);
  void declareRegisters(const Statement &statement);
  void declareVariable(const SyntaxVariable &variable);
  Symbol sharedSymbol(const SyntaxVariable &variable) const;
  /// Registers get a place in the frame when they are first named.
  Slot newSlot(const Register &prototype);
  /// Looks in the scope that is open and in those around it.
  bool findRegister(std::string_view name, Register &found);
  /// Whether the special register of this name changes while the warp runs.
  static bool isClock(std::string_view name);
  bool findSpecial(std::string_view name, Register &found);
  const Symbol *findSymbol(std::string_view name);
  /// `bytes` of all lanes; 0: a predicate.
  Slot constant(unsigned bytes, std::uint64_t bits);
  /// Puts the place of a label, which may follow, where it is jumped to.
  void resolve(const Fix &fix);
  /// What a call copies to its callee's parameters and back, once the callee is decoded.
  void fillCallSite(const Pending &pending);

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

} // namespace colossal::ptx

#endif

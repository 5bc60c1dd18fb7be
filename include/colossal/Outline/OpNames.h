//===- OpNames.h - what people call ops -------------------------------------===//
//
// Ops go by the ONNX names in their locations; options name them by regular expressions over these.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_OUTLINE_OPNAMES_H
#define COLOSSAL_OUTLINE_OPNAMES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>
#include <regex>
#include <string>
#include <vector>

namespace colossal::outline {

/// All ONNX names (nodes, then tensors) in a location, each once.
std::vector<std::string> getNames(mlir::Location location);
/// The first of them, or "".
llvm::StringRef getFirstName(mlir::Location location);

/// What the copy of an op is called that computes again what the op called `name` has computed.
std::string nameAgain(llvm::StringRef name);
/// What a gradient of the op of that name is called.
std::string nameGradient(llvm::StringRef name);
/// The name of the op whose gradient is called so; empty where that is no gradient's name.
llvm::StringRef nameOfGradient(llvm::StringRef name);
/// Makes of names that nameAgain has given, also with a number or a program behind, those of the ops that
/// were copied. Whether there were any.
bool nameFirstTime(std::vector<std::string> &names);

/// A name for each op of `function` that has a sharding rule: the first of its names, or its kind of op where
/// it has none, with "#2", "#3", ... appended from the second op on that would be called the same. Parameters
/// are called as in the model.
llvm::DenseMap<mlir::Operation *, std::string> getUniqueNames(mlir::func::FuncOp function);

/// A regular expression over names, as pins have it.
class NamePattern {
public:
  /// None where `text` is no regular expression, or longer than 1,000 characters and not one name; `error`
  /// then says what is wrong.
  static std::optional<NamePattern> parse(const std::string &text, std::string &error);
  /// Does the whole of one of `names` match? Names of more than 4,000 bytes match only an expression that is
  /// one name.
  bool matches(llvm::ArrayRef<std::string> names) const;
  /// The only name that matches, where the expression is one name.
  const std::optional<std::string> &getLiteral() const { return literal; }

private:
  std::regex expression;
  std::optional<std::string> literal;
};

/// `name` as a regular expression that matches nothing else.
std::string escapeName(llvm::StringRef name);
void appendEscaped(llvm::StringRef name, std::string &text);

/// The same pins in fewer lines: names that differ by their numbers only, as those of layers do, become one
/// expression, "/h\.\d+/MatMul=n:x", where all of them have one layout. `pins`: REGEX=LAYOUT, one a line,
/// each for one name.
std::string joinPins(llvm::StringRef pins);

} // namespace colossal::outline

#endif // COLOSSAL_OUTLINE_OPNAMES_H

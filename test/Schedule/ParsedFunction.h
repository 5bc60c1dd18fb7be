//===- ParsedFunction.h - a function from text, for the schedule's tests ----===//
#ifndef COLOSSAL_TEST_SCHEDULE_PARSEDFUNCTION_H
#define COLOSSAL_TEST_SCHEDULE_PARSEDFUNCTION_H

#include "dialects/Colossal/Colossal.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <map>
#include <string>
#include <vector>

namespace colossal::test {

/// A module with one function of ops that are named by their locations: `%y = ... loc("name")`.
class ParsedFunction {
public:
  explicit ParsedFunction(const std::string &text) {
    context.loadDialect<ColossalDialect, dist::DistDialect, mlir::arith::ArithDialect,
                        mlir::func::FuncDialect>();
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    if (!module)
      return;
    for (mlir::Operation &op : (*module->getOps<mlir::func::FuncOp>().begin()).front().without_terminator()) {
      ops.push_back(&op);
      if (auto name = mlir::dyn_cast<mlir::NameLoc>(op.getLoc()))
        byName[name.getName().str()] = &op;
    }
  }
  bool isValid() const { return static_cast<bool>(module); }
  /// Program order, without the terminator.
  std::vector<mlir::Operation *> ops;
  std::map<std::string, mlir::Operation *> byName;

private:
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

} // namespace colossal::test

#endif // COLOSSAL_TEST_SCHEDULE_PARSEDFUNCTION_H

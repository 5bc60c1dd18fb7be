// colossal-opt: every pass and phase by name, on MLIR text, for tests and for people who look inside.
#include "colossal/Layout/Layout.h"
#include "colossal/Partition/Partition.h"
#include "dialects/Colossal/Colossal.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<colossal::ColossalDialect, colossal::dist::DistDialect, mlir::arith::ArithDialect,
                  mlir::func::FuncDialect, mlir::shard::ShardDialect>();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  mlir::registerSymbolDCEPass();
  colossal::layout::registerPasses();
  colossal::partition::registerPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Colossal's passes, one by one\n", registry));
}

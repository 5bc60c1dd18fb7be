//===- Executor.h - assigned programs, compiled and run ---------------------===//
//
// The road behind the search, as users go it: partition, schedule, code generation, emission to a plan file;
// then the runtime opens that file and runs it with ranks as threads.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_TEST_PARTITION_EXECUTOR_H
#define COLOSSAL_TEST_PARTITION_EXECUTOR_H

#include "Interpreter.h"

#include "colossal/Codegen/Target.h"

namespace colossal::test {

class Executor {
public:
  /// For `target`; null: this CPU. Files go into a folder of their own, which goes away with this.
  explicit Executor(std::shared_ptr<const codegen::Target> target = nullptr);
  ~Executor();
  /// Writes the file "weights": the values of the parameters of `function`, where these say that they lie.
  void writeWeights(mlir::func::FuncOp function, const std::map<std::string, Tensor> &parameters);
  /// Compiles `module`, which has a mesh and assignments (and is used up), and runs it once. Fills `results`,
  /// whole tensors. Returns "" or what went wrong, with the first diagnostic.
  std::string run(mlir::ModuleOp module, const std::vector<Tensor> &arguments, std::vector<Tensor> &results);

private:
  std::shared_ptr<const codegen::Target> target;
  std::string folder;
};

} // namespace colossal::test

#endif // COLOSSAL_TEST_PARTITION_EXECUTOR_H

//===- Interpreter.h - partitioned functions, run on all ranks at once ------===//
//
// Runs a function of local tensors rank by rank, op by op: ops by their element code, collectives by their
// definitions. It shares no code with the partitioner beyond the attributes it reads, so that a mistake there
// cannot hide here.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_TEST_PARTITION_INTERPRETER_H
#define COLOSSAL_TEST_PARTITION_INTERPRETER_H

#include "dialects/Dist/Dist.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>
#include <string>
#include <vector>

namespace colossal::test {

/// A tensor, or an index value (no type). Numbers of the tests are small enough for doubles to hold them
/// exactly.
struct Tensor {
  mlir::RankedTensorType type;
  std::vector<double> data;
};

mlir::Attribute toAttribute(const Tensor &tensor, mlir::MLIRContext *context);
Tensor fromAttribute(mlir::DenseElementsAttr attribute);

/// Where the elements of one rank's shard lie: for each local element its row-major place in the global
/// tensor, or -1 for padding.
std::vector<int64_t> getPlaces(dist::ShardingAttr sharding, dist::MeshAttr mesh, int64_t rank);
/// The shard of `global`, with `padding` where nothing lies.
Tensor takeShard(const Tensor &global, dist::ShardingAttr sharding, dist::MeshAttr mesh, int64_t rank,
                 double padding);
/// The global tensor of all ranks' shards. Says in `error` where an element is on no rank, or replicas differ
/// by more than `tolerance` times the largest element.
Tensor joinShards(const std::vector<Tensor> &shards, dist::ShardingAttr sharding, dist::MeshAttr mesh,
                  double tolerance, std::string &error);

class Interpreter {
public:
  explicit Interpreter(dist::MeshAttr mesh) : mesh(mesh) {}
  /// Global values of parameters, by name.
  std::map<std::string, Tensor> parameters;
  /// Arguments per rank; results per rank. Throws std::runtime_error where something cannot be run.
  std::vector<std::vector<Tensor>> run(mlir::func::FuncOp function,
                                       std::vector<std::vector<Tensor>> arguments);

private:
  dist::MeshAttr mesh;
  std::vector<llvm::DenseMap<mlir::Value, Tensor>> values; ///< per rank

  int64_t getCoordinate(int64_t rank, unsigned axis) const;
  /// The ranks of the group of `rank` over `axes`, in order.
  std::vector<int64_t> getGroup(int64_t rank, llvm::ArrayRef<int64_t> axes) const;
  void runOp(mlir::Operation &op);
  bool runScalar(mlir::Operation &op, int64_t rank);
  bool runCollective(mlir::Operation &op);
  bool runDist(mlir::Operation &op);
  void runElements(mlir::Operation &op, int64_t rank);
};

} // namespace colossal::test

#endif // COLOSSAL_TEST_PARTITION_INTERPRETER_H

// Builds plans for tests without the compiler: arenas, buffers, instructions in a few words, kernels from a
// shared object compiled from C (test/Runtime/Kernels.c).
#ifndef COLOSSAL_TEST_RUNTIME_PLANBUILDER_H
#define COLOSSAL_TEST_RUNTIME_PLANBUILDER_H

#include "colossal/Plan/Container.h"
#include "runtime/execute/Session.h"
#include "runtime/validate/Validate.h"

#include <string>
#include <vector>

namespace colossal::runtime {

plan::Expr constant(int64_t value);
plan::Expr coordinate(uint32_t axis);
plan::Expr counter(uint32_t depth);
plan::Expr binary(plan::Expr::Op op, plan::Expr lhs, plan::Expr rhs);

/// Whether plans are made for GPUs: with COLOSSAL_TEST_DEVICE=cuda in the environment, where a driver must be
/// or what stands in for it. They hold the kernels of Kernels.cu then.
bool plansAreForCuda();

/// A plan in the making. Public: tests change whatever they want to test.
struct PlanBuilder {
  /// Names arenas "weights", "activations" and "io" (indices 0, 1, 2) of `arenaBytes` each, an empty load
  /// program (index 0) and an infer program (index 1), and holds the test kernels. Axes are named a, b, c.
  explicit PlanBuilder(std::vector<uint32_t> mesh = {}, uint64_t arenaBytes = 1 << 16);

  plan::Plan plan;
  std::string code, data;

  static constexpr uint32_t weights = 0, activations = 1, io = 2;
  plan::Program &load() { return *plan.mutable_programs(0); }
  plan::Program &infer() { return *plan.mutable_programs(1); }

  plan::BufferRef buffer(uint32_t arena, uint64_t offset, uint64_t bytes,
                         std::vector<int64_t> strides = {}) const;
  /// A box that splits dimension `dim` of `shape` over axis `axis` (-1: replicated), padded where it does not
  /// divide.
  plan::Box box(const std::vector<uint64_t> &shape, int dim = -1, int axis = -1) const;
  void input(const std::string &name, plan::DataType type, const std::vector<uint64_t> &shape,
             const plan::Box &box, uint64_t offset);
  void output(const std::string &name, plan::DataType type, const std::vector<uint64_t> &shape,
              const plan::Box &box, uint64_t offset);
  uint32_t kernel(const std::string &symbol, uint32_t buffers, uint32_t params);
  /// Appends to a body, infer's unless said otherwise.
  plan::Instruction &add(const std::string &source = "test");
  plan::Launch &launch(uint32_t kernel, std::vector<plan::BufferRef> buffers, uint32_t writes,
                       std::vector<plan::Expr> params, uint64_t tiles);

  Status validate() const;
  std::string path(const std::string &name) const;
  Status write(const std::string &path) const;
  /// Writes to a file of its own under the test's temporary folder and opens it.
  Status open(std::unique_ptr<Session> &session, SessionOptions options = {}) const;
};

/// A tensor of floats.
Tensor floats(std::vector<uint64_t> shape, const std::vector<float> &values);
std::vector<float> floatsOf(const Tensor &tensor);

} // namespace colossal::runtime

#endif // COLOSSAL_TEST_RUNTIME_PLANBUILDER_H

// Plans for tests.
#include "PlanBuilder.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <unistd.h>

namespace colossal::runtime {

plan::Expr constant(int64_t value) {
  plan::Expr expr;
  expr.set_constant(value);
  return expr;
}

plan::Expr coordinate(uint32_t axis) {
  plan::Expr expr;
  expr.set_coordinate(axis);
  return expr;
}

plan::Expr counter(uint32_t depth) {
  plan::Expr expr;
  expr.set_counter(depth);
  return expr;
}

plan::Expr binary(plan::Expr::Op op, plan::Expr lhs, plan::Expr rhs) {
  plan::Expr expr;
  expr.mutable_binary()->set_op(op);
  *expr.mutable_binary()->mutable_lhs() = std::move(lhs);
  *expr.mutable_binary()->mutable_rhs() = std::move(rhs);
  return expr;
}

PlanBuilder::PlanBuilder(std::vector<uint32_t> mesh, uint64_t arenaBytes) {
  plan.set_version(plan::schemaVersion);
  const char *axes[] = {"a", "b", "c"};
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    plan::MeshAxis &added = *plan.mutable_mesh()->add_axes();
    added.set_name(axes[axis]);
    added.set_size(mesh[axis]);
  }
  plan.mutable_target()->set_device("cpu");
  plan.mutable_target()->set_triple("x86_64-unknown-linux-gnu");
  plan.mutable_target()->add_features("sse2");
  const std::pair<const char *, plan::Arena::Life> arenas[] = {
      {"weights", plan::Arena::WEIGHTS}, {"activations", plan::Arena::ACTIVATIONS}, {"io", plan::Arena::IO}};
  for (auto [name, life] : arenas) {
    plan::Arena &arena = *plan.add_arenas();
    arena.set_name(name);
    arena.set_space(plan::Arena::DEVICE);
    arena.set_life(life);
    arena.set_bytes(arenaBytes);
    arena.set_alignment(64);
  }
  plan::Program &load = *plan.add_programs();
  load.set_name("load");
  load.set_role(plan::Program::LOAD);
  plan::Program &infer = *plan.add_programs();
  infer.set_name("infer");
  infer.set_role(plan::Program::INFER);
  infer.set_events(16);

  const bool cuda = plansAreForCuda();
  std::ifstream file(cuda ? COLOSSAL_TEST_PTX : COLOSSAL_TEST_KERNELS, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  code = bytes.str();
  plan::Module &module = *plan.add_modules();
  if (!cuda) {
    module.set_bytes(code.size());
    return;
  }
  plan.clear_target();
  plan.mutable_target()->set_device("cuda");
  plan.mutable_target()->set_triple("nvptx64-nvidia-cuda");
  plan.mutable_target()->set_cpu("sm_80");
  code += '\0';
  plan::Image &image = *module.add_images();
  image.set_format(plan::Image::PTX);
  image.set_architecture("sm_80");
  image.set_bytes(code.size());
}

bool plansAreForCuda() {
  const char *device = std::getenv("COLOSSAL_TEST_DEVICE");
  return device && std::string(device) == "cuda";
}

plan::BufferRef PlanBuilder::buffer(uint32_t arena, uint64_t offset, uint64_t bytes,
                                    std::vector<int64_t> strides) const {
  plan::BufferRef ref;
  ref.set_arena(arena);
  ref.set_offset(offset);
  ref.set_bytes(bytes);
  for (int64_t stride : strides)
    ref.add_strides(stride);
  return ref;
}

plan::Box PlanBuilder::box(const std::vector<uint64_t> &shape, int dim, int axis) const {
  plan::Box box;
  for (size_t d = 0; d < shape.size(); ++d) {
    plan::BoxDim &added = *box.add_dims();
    added.set_global(shape[d]);
    added.set_local(shape[d]);
    *added.mutable_start() = constant(0);
    *added.mutable_valid() = constant(static_cast<int64_t>(shape[d]));
    if (static_cast<int>(d) != dim)
      continue;
    const uint64_t parts = plan.mesh().axes(axis).size();
    const auto local = static_cast<int64_t>((shape[d] + parts - 1) / parts);
    added.set_local(static_cast<uint64_t>(local));
    plan::Expr start = binary(plan::Expr::MUL, coordinate(static_cast<uint32_t>(axis)), constant(local));
    *added.mutable_valid() =
        binary(plan::Expr::MAX, constant(0),
               binary(plan::Expr::MIN, constant(local),
                      binary(plan::Expr::SUB, constant(static_cast<int64_t>(shape[d])), start)));
    *added.mutable_start() = std::move(start);
  }
  return box;
}

namespace {
void fillBinding(plan::Binding &binding, const PlanBuilder &builder, const std::string &name,
                 plan::DataType type, const std::vector<uint64_t> &shape, const plan::Box &box,
                 uint64_t offset) {
  binding.set_name(name);
  binding.set_type(type);
  binding.mutable_shape()->Assign(shape.begin(), shape.end());
  *binding.mutable_box() = box;
  uint64_t bytes = plan::elementBytes(type);
  for (const plan::BoxDim &dim : box.dims())
    bytes *= dim.local();
  *binding.mutable_buffer() = builder.buffer(PlanBuilder::io, offset, bytes);
}
} // namespace

void PlanBuilder::input(const std::string &name, plan::DataType type, const std::vector<uint64_t> &shape,
                        const plan::Box &box, uint64_t offset) {
  fillBinding(*infer().add_inputs(), *this, name, type, shape, box, offset);
}

void PlanBuilder::output(const std::string &name, plan::DataType type, const std::vector<uint64_t> &shape,
                         const plan::Box &box, uint64_t offset) {
  fillBinding(*infer().add_outputs(), *this, name, type, shape, box, offset);
}

uint32_t PlanBuilder::kernel(const std::string &symbol, uint32_t buffers, uint32_t params) {
  plan::Kernel &kernel = *plan.add_kernels();
  kernel.set_symbol(symbol);
  kernel.set_buffers(buffers);
  kernel.set_params(params);
  return static_cast<uint32_t>(plan.kernels_size() - 1);
}

plan::Instruction &PlanBuilder::add(const std::string &source) {
  plan::Instruction &instruction = *infer().add_body();
  instruction.set_source(source);
  return instruction;
}

plan::Launch &PlanBuilder::launch(uint32_t kernel, std::vector<plan::BufferRef> buffers, uint32_t writes,
                                  std::vector<plan::Expr> params, uint64_t tiles) {
  plan::Launch &launch = *add().mutable_launch();
  launch.set_kernel(kernel);
  for (plan::BufferRef &ref : buffers)
    *launch.add_buffers() = std::move(ref);
  for (plan::Expr &param : params)
    *launch.add_params() = std::move(param);
  launch.set_writes(writes);
  launch.set_tiles(tiles);
  return launch;
}

namespace {
plan::ByteView view(const std::string &bytes) {
  return {reinterpret_cast<const std::byte *>(bytes.data()), bytes.size()};
}
} // namespace

Status PlanBuilder::validate() const {
  return validatePlan(plan, view(code), view(data));
}

std::string PlanBuilder::path(const std::string &name) const {
  return ::testing::TempDir() + "colossal-" + std::to_string(::getpid()) + "-" + name;
}

Status PlanBuilder::write(const std::string &path) const {
  return plan::writePlan(path, plan, view(code), view(data));
}

Status PlanBuilder::open(std::unique_ptr<Session> &session, SessionOptions options) const {
  const std::string file = path("open.cplan");
  COLOSSAL_RETURN_IF_ERROR(write(file));
  if (options.threads == 0)
    options.threads = 1;
  Status status = Session::open(file, options, session);
  ::unlink(file.c_str());
  return status;
}

Tensor floats(std::vector<uint64_t> shape, const std::vector<float> &values) {
  Tensor tensor;
  tensor.type = plan::F32;
  tensor.shape = std::move(shape);
  tensor.bytes.resize(values.size() * 4);
  if (!values.empty())
    std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

std::vector<float> floatsOf(const Tensor &tensor) {
  std::vector<float> values(tensor.bytes.size() / 4);
  if (!values.empty())
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

} // namespace colossal::runtime

//===- Executor.cpp - assigned programs, compiled and run -------------------===//
#include "Executor.h"

#include "colossal/Codegen/Targets.h"
#include "colossal/Compiler/Compiler.h"
#include "dialects/Colossal/Colossal.h"
#include "mlir/IR/Diagnostics.h"
#include "runtime/execute/Session.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

using namespace mlir;
using namespace colossal;
using namespace colossal::test;

namespace {

plan::DataType getDataType(Type type) {
  if (type.isF32())
    return plan::F32;
  if (type.isF64())
    return plan::F64;
  if (type.isInteger(1))
    return plan::BOOL;
  if (type.isInteger(8))
    return type.isUnsignedInteger() ? plan::U8 : plan::I8;
  return type.isInteger(32) ? plan::I32 : plan::I64;
}

template <class T>
void store(const std::vector<double> &values, std::vector<std::byte> &bytes) {
  bytes.resize(values.size() * sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T value = static_cast<T>(values[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
}

runtime::Tensor toRuntime(const Tensor &tensor) {
  runtime::Tensor out;
  out.type = getDataType(tensor.type.getElementType());
  out.shape.assign(tensor.type.getShape().begin(), tensor.type.getShape().end());
  switch (out.type) {
  case plan::F32: store<float>(tensor.data, out.bytes); break;
  case plan::F64: store<double>(tensor.data, out.bytes); break;
  case plan::BOOL: store<uint8_t>(tensor.data, out.bytes); break;
  case plan::I8: store<int8_t>(tensor.data, out.bytes); break;
  case plan::U8: store<uint8_t>(tensor.data, out.bytes); break;
  case plan::I32: store<int32_t>(tensor.data, out.bytes); break;
  default: store<int64_t>(tensor.data, out.bytes); break;
  }
  return out;
}

} // namespace

/// What of a plan's collectives is not a run of bytes for each peer; "" if nothing.
static std::string findStrided(const plan::Plan &plan) {
  for (const plan::Program &program : plan.programs())
    for (const plan::Instruction &instruction : program.body()) {
      const plan::Collective &collective = instruction.collective();
      if (!instruction.has_collective() || collective.kind() == plan::Collective::EXCHANGE)
        continue;
      const bool isRun =
          collective.sizes_size() == 1 && collective.src_strides(0) == 1 && collective.dst_strides(0) == 1;
      if (!isRun)
        return "a collective moves blocks with strides: " + instruction.ShortDebugString();
    }
  return "";
}

/// How the plan's module differs from the images that were made; "" if it does not.
static std::string findWrongImage(const CompileResult &compiled) {
  const std::vector<codegen::CodeImage> &images = compiled.code.images;
  if (compiled.plan.modules_size() != (images.empty() ? 0 : 1))
    return "the plan has " + std::to_string(compiled.plan.modules_size()) + " modules";
  if (images.empty())
    return "";
  const plan::Module &module = compiled.plan.modules(0);
  // One image of this host is said as the first version of the format says it.
  const bool isAlone = module.images_size() == 0;
  if (isAlone != (images.size() == 1) ||
      (!isAlone && module.images_size() != static_cast<int>(images.size())))
    return "a module of " + std::to_string(module.images_size()) + " images, of " +
           std::to_string(images.size());
  if (!isAlone && (compiled.plan.version() < 2 || module.bytes() != 0))
    return "a module of images in a plan of version " + std::to_string(compiled.plan.version());
  for (auto [i, image] : llvm::enumerate(images)) {
    const plan::Image said = isAlone ? plan::Image() : module.images(static_cast<int>(i));
    const uint64_t offset = isAlone ? module.offset() : said.offset(),
                   bytes = isAlone ? module.bytes() : said.bytes();
    if (!isAlone && (static_cast<int>(said.format()) != static_cast<int>(image.format) ||
                     said.architecture() != image.architecture))
      return "image " + std::to_string(i) + " is " + said.ShortDebugString();
    if (offset % 64 != 0 || compiled.images.substr(offset, bytes) != image.bytes)
      return "image " + std::to_string(i) + " does not lie at byte " + std::to_string(offset);
  }
  return "";
}

/// What COLOSSAL_TEST_TARGET says, whose device has to be there; else this host.
static std::shared_ptr<const codegen::Target> createTestTarget() {
  const char *name = std::getenv("COLOSSAL_TEST_TARGET");
  return llvm::cantFail(codegen::createTarget(name ? name : "cpu"));
}

Executor::Executor(std::shared_ptr<const codegen::Target> wanted)
    : target(wanted ? std::move(wanted) : createTestTarget()) {
  std::string name = (std::filesystem::temp_directory_path() / "colossal-XXXXXX").string();
  folder = ::mkdtemp(name.data()) ? name : "";
}

Executor::~Executor() {
  std::error_code ignored;
  if (!folder.empty())
    std::filesystem::remove_all(folder, ignored);
}

void Executor::writeWeights(func::FuncOp function, const std::map<std::string, Tensor> &parameters) {
  std::ofstream file(folder + "/weights", std::ios::binary);
  for (auto parameter : function.getOps<ParameterOp>()) {
    std::vector<std::byte> bytes = toRuntime(parameters.at(parameter.getName().str())).bytes;
    file.seekp(parameter.getOffset());
    file.write(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  }
}

std::string Executor::run(ModuleOp module, const std::vector<Tensor> &arguments,
                          std::vector<Tensor> &results) {
  std::string said;
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
    if (said.empty())
      said = diagnostic.str();
    return success();
  });
  auto function = *module.getOps<func::FuncOp>().begin();
  auto name = [&](StringRef stem, unsigned i) {
    return StringAttr::get(module.getContext(), stem + std::to_string(i));
  };
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    function.setArgAttr(i, "colossal.name", name("a", i));
  SmallVector<Type> types(function.getResultTypes());
  for (unsigned i = 0; i < types.size(); ++i)
    function.setResultAttr(i, "colossal.name", name("y", i));

  CompileOptions options;
  options.import.modelPath = folder + "/model.onnx";
  options.planPath = folder + "/plan";
  options.schedule.threads = 1;
  options.schedule.target = target;
  options.schedule.rankThreads = 1;
  CompileResult compiled;
  if (failed(runPhases(module, options, Phase::Search, Phase::Plan, compiled)))
    return "cannot be compiled: " + said;
  if (target->collectiveBlocks() == codegen::CollectiveBlocks::Contiguous)
    if (std::string strided = findStrided(compiled.plan); !strided.empty())
      return strided;
  if (std::string wrong = findWrongImage(compiled); !wrong.empty())
    return wrong;
  if (OutputError error = writePlanFile(compiled, options.planPath))
    return error.message;

  runtime::SessionOptions how;
  how.threads = 1;
  std::unique_ptr<runtime::Session> session;
  if (runtime::Status status = runtime::Session::open(options.planPath, how, session); !status.ok())
    return status.describe();
  runtime::Tensors inputs, outputs;
  for (auto [i, argument] : llvm::enumerate(arguments))
    inputs["a" + std::to_string(i)] = toRuntime(argument);
  int program = 0;
  runtime::Status status = session->select(inputs, program);
  if (status.ok())
    status = session->run(program, inputs);
  if (status.ok())
    status = session->outputs(program, outputs);
  if (!status.ok())
    return status.describe();
  results.clear();
  for (auto [i, type] : llvm::enumerate(types)) {
    runtime::Tensor &output = outputs["y" + std::to_string(i)];
    results.push_back({cast<RankedTensorType>(type), runtime::toDoubles(output)});
  }
  return "";
}

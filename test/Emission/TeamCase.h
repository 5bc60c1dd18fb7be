// One op with random operands, its kernel for a team, and what the folder says: what tests of teams share.
#ifndef COLOSSAL_TEST_EMISSION_TEAMCASE_H
#define COLOSSAL_TEST_EMISSION_TEAMCASE_H

#include "Elements.h"

#include "colossal/Codegen/ElementFolder.h"
#include "colossal/Codegen/Kernel/Alignment.h"
#include "colossal/Codegen/Kernel/FusedKernel.h"
#include "colossal/Codegen/Kernel/TileKernel.h"
#include "colossal/Codegen/Kernel/VectorMemory.h"
#include "dialects/Colossal/Colossal.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>
#include <random>

namespace colossal::test {

class TeamCase {
public:
  /// `text` is `(arguments) | op`. Null `op` where it cannot be parsed.
  TeamCase(mlir::MLIRContext &context, llvm::StringRef text) : context(context) {
    using namespace mlir;
    auto [arguments, body] = text.split(" | ");
    const bool hasTwoResults = body.rsplit("->").second.contains(", tensor");
    std::string name = hasTwoResults ? "%r:2 = " : "%r = ";
    std::string source = "func.func @f" + arguments.str() + " {\n  " + name + body.str() + "\n  return\n}\n";
    module = parseSourceString<ModuleOp>(source, &context);
    if (!module)
      return;
    auto function = *module->getOps<func::FuncOp>().begin();
    op = &function.getBody().front().front();
    std::mt19937 random(7);
    spec.function = function;
    for (Type argument : function.getArgumentTypes()) {
      auto type = cast<RankedTensorType>(argument);
      SmallVector<Attribute> numbers;
      for (int64_t i = 0; i < type.getNumElements(); ++i)
        numbers.push_back(
            isa<FloatType>(type.getElementType())
                ? Attribute(FloatAttr::get(type.getElementType(), std::normal_distribution<>()(random)))
                : IntegerAttr::get(type.getElementType(), int64_t(random() % 5)));
      values.push_back(DenseElementsAttr::get(type, numbers));
      storage.push_back(toBytes(cast<DenseElementsAttr>(values.back())));
      strides.push_back(denseStrides(type));
      spec.inputs.push_back({denseStrides(type)});
    }
    for (Type result : op->getResultTypes()) {
      auto type = cast<RankedTensorType>(result);
      spec.outputs.push_back({denseStrides(type)});
      strides.push_back(denseStrides(type));
      storage.emplace_back(type.getNumElements() * kernel::elementBytes(type.getElementType()), 0x5a);
    }
  }

  /// That its tensors lie at multiples of `bytes` is known.
  void align(int64_t bytes) { alignment = bytes; }

  /// Whether a tile is one member's.
  bool walksTiles() const { return mlir::isa<TileEmissionOpInterface>(op); }

  llvm::Expected<kernel::GeneratedKernel> generate(const kernel::Team &team) {
    if (walksTiles())
      return kernel::generateTiles(context, team, op, strides);
    mlir::func::FuncOp function = spec.function;
    op->getBlock()->getTerminator()->setOperands(op->getResults());
    function.setType(mlir::FunctionType::get(&context, function.getArgumentTypes(), op->getResultTypes()));
    for (unsigned i = 0; alignment && i < function.getNumArguments(); ++i)
      kernel::setArgumentAlignment(function, i, alignment);
    for (unsigned i = 0; alignment && i < op->getNumResults(); ++i)
      kernel::setResultAlignment(function, i, alignment);
    return kernel::generateFused(context, team, spec);
  }

  /// Compares what lies in the results' storage with the folder's.
  void expectFolded(double tolerance = 4e-6) const {
    using namespace mlir;
    for (unsigned result = 0; result < op->getNumResults(); ++result) {
      FailureOr<DenseElementsAttr> expected = foldElements(op, values, result);
      ASSERT_TRUE(succeeded(expected));
      DenseElementsAttr found =
          fromBytes(cast<RankedTensorType>(expected->getType()), storage[values.size() + result]);
      auto a = found.getValues<Attribute>(), b = expected->getValues<Attribute>();
      int shown = 0;
      for (int64_t i = 0; i < found.getNumElements() && shown < 4; ++i)
        if (!isClose(a[i], b[i], tolerance) && ++shown)
          ADD_FAILURE() << "result " << result << ", element " << i << ": " << toText(a[i]) << ", expected "
                        << toText(b[i]);
    }
  }

  mlir::Operation *op = nullptr;
  /// Operands, then results: bytes of each.
  std::vector<std::vector<char>> storage;

private:
  mlir::MLIRContext &context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  int64_t alignment = 0;
  llvm::SmallVector<mlir::Attribute> values;
  kernel::FusedSpec spec;
  llvm::SmallVector<llvm::SmallVector<int64_t>> strides;
};

} // namespace colossal::test

#endif // COLOSSAL_TEST_EMISSION_TEAMCASE_H

//===- ParameterPart.cpp - parameters that are a box of a tensor of the model ===//
#include "dialects/Dist/ParameterPart.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;

std::optional<ParameterPart> dist::getParameterPart(Operation *parameter) {
  auto part = parameter->getAttrOfType<DictionaryAttr>(kPartOfAttrName);
  if (!part)
    return std::nullopt;
  return ParameterPart{part.getAs<StringAttr>("name"), part.getAs<DenseI64ArrayAttr>("shape").asArrayRef(),
                       part.getAs<DenseI64ArrayAttr>("starts")};
}

void dist::setParameterPart(Operation *parameter, StringAttr name, ArrayRef<int64_t> shape,
                            ArrayRef<int64_t> starts) {
  Builder b(parameter->getContext());
  parameter->setAttr(kPartOfAttrName,
                     b.getDictionaryAttr({b.getNamedAttr("name", name),
                                          b.getNamedAttr("shape", b.getDenseI64ArrayAttr(shape)),
                                          b.getNamedAttr("starts", b.getDenseI64ArrayAttr(starts))}));
}

std::optional<unsigned> dist::countJoinedFactors(DimShardingAttr dim, int64_t start, int64_t size,
                                                 MeshAttr mesh) {
  ArrayRef<FactorShardAttr> factors = dim.getFactors();
  int64_t unit = 1;
  for (FactorShardAttr factor : factors)
    unit *= factor.getSize();
  int64_t local = 1; // of the joined ones
  for (auto [i, factor] : llvm::enumerate(factors)) {
    // A run goes on in a factor that is whole, or where it is one element of all before.
    if (local > 1 && !factor.getAxes().empty())
      return std::nullopt;
    local *= getLocalSize(factor.getSize(), factor.getAxes(), mesh);
    unit /= factor.getSize();
    if (start % unit == 0 && size % unit == 0)
      return i + 1;
  }
  return std::nullopt;
}

bool dist::isBox(ShardingAttr sharding, const ParameterPart &part, MeshAttr mesh) {
  for (auto [dim, start, size] : llvm::zip_equal(sharding.getDims(), part.starts.asArrayRef(), part.shape))
    if (!countJoinedFactors(dim, start, size, mesh))
      return false;
  return true;
}

//===- Loop.cpp - layouts over a loop axis ----------------------------------===//
#include "dialects/Dist/Loop.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace colossal::dist;

MeshAttr colossal::dist::getRankMesh(MeshAttr mesh) {
  return mesh.getLoopAxis() < 0 ? mesh : MeshAttr::get(mesh.getContext(), mesh.getAxes().drop_back());
}

static bool hasLoop(FactorShardAttr factor, MeshAttr mesh) {
  return mesh.getLoopAxis() >= 0 &&
         llvm::is_contained(factor.getAxes(), static_cast<unsigned>(mesh.getLoopAxis()));
}

std::optional<LoopPlace> colossal::dist::findLoop(ShardingAttr sharding, MeshAttr mesh) {
  for (auto [d, dim] : llvm::enumerate(sharding.getDims())) {
    int64_t outer = 1;
    for (FactorShardAttr factor : dim.getFactors()) {
      if (hasLoop(factor, mesh))
        return LoopPlace{static_cast<unsigned>(d), outer, factor.getSize()};
      outer *= factor.getSize();
    }
  }
  return std::nullopt;
}

Attribute colossal::dist::toAttribute(MLIRContext *context, LoopPlace place) {
  return DenseI64ArrayAttr::get(context, {static_cast<int64_t>(place.dim), place.outer, place.size});
}

std::optional<LoopPlace> colossal::dist::getLoopPlace(DictionaryAttr attributes) {
  auto words = attributes ? attributes.getAs<DenseI64ArrayAttr>(kLoopPlaceAttrName) : DenseI64ArrayAttr();
  if (!words || words.size() != 3)
    return std::nullopt;
  return LoopPlace{static_cast<unsigned>(words[0]), words[1], words[2]};
}

/// `sharding` with the loop axis taken off, and the factor that it stood on of the size that `resize` gives.
static ShardingAttr takeLoop(ShardingAttr sharding, MeshAttr mesh,
                             llvm::function_ref<int64_t(int64_t)> resize) {
  SmallVector<DimShardingAttr> dims;
  for (DimShardingAttr dim : sharding.getDims()) {
    SmallVector<SmallVector<unsigned>> axes;
    SmallVector<std::pair<int64_t, ArrayRef<unsigned>>> parts;
    axes.reserve(dim.getFactors().size()); // which `parts` refers to
    bool isChanged = false;
    for (FactorShardAttr factor : dim.getFactors()) {
      axes.emplace_back(factor.getAxes());
      const bool loops = hasLoop(factor, mesh);
      if (loops)
        llvm::erase(axes.back(), static_cast<unsigned>(mesh.getLoopAxis()));
      parts.push_back({loops ? resize(factor.getSize()) : factor.getSize(), axes.back()});
      isChanged |= loops;
    }
    dims.push_back(isChanged ? makeDimSharding(mesh.getContext(), parts) : dim);
  }
  return ShardingAttr::get(mesh.getContext(), dims, sharding.getPartialAxes(), sharding.getPartialKind());
}

ShardingAttr colossal::dist::getTurnSharding(ShardingAttr sharding, MeshAttr mesh) {
  return takeLoop(sharding, mesh, [&](int64_t size) {
    return static_cast<int64_t>(llvm::divideCeil(size, mesh.getNumTurns()));
  });
}

ShardingAttr colossal::dist::dropLoop(ShardingAttr sharding, MeshAttr mesh) {
  return takeLoop(sharding, mesh, [](int64_t size) { return size; });
}

ShardingAttr colossal::dist::addLoop(ShardingAttr sharding, LoopPlace place, MeshAttr mesh) {
  const auto loop = static_cast<unsigned>(mesh.getLoopAxis());
  SmallVector<DimShardingAttr> dims(sharding.getDims());
  SmallVector<SmallVector<unsigned>> axes;
  SmallVector<std::pair<int64_t, ArrayRef<unsigned>>> parts;
  axes.reserve(dims[place.dim].getFactors().size() + 1);
  int64_t outer = 1;
  bool isPlaced = false;
  for (FactorShardAttr factor : dims[place.dim].getFactors()) {
    int64_t size = factor.getSize();
    // Factors without axes are seen as any product of the same size.
    if (!isPlaced && outer <= place.outer && outer * size > place.outer) {
      if (factor.getAxes().empty() && place.outer % outer == 0 &&
          outer * size % (place.outer * place.size) == 0) {
        axes.push_back({loop});
        int64_t before = place.outer / outer;
        parts.append({{before, {}}, {place.size, axes.back()}, {size / before / place.size, {}}});
        isPlaced = true;
      } else if (outer == place.outer && size == place.size) {
        axes.push_back({loop});
        axes.back().append(factor.getAxes().begin(), factor.getAxes().end());
        parts.push_back({size, axes.back()});
        isPlaced = true;
      } else {
        return {};
      }
    } else {
      parts.push_back({size, factor.getAxes()});
    }
    outer *= size;
  }
  if (!isPlaced)
    return {};
  dims[place.dim] = makeDimSharding(mesh.getContext(), parts);
  return ShardingAttr::get(mesh.getContext(), dims, sharding.getPartialAxes(), sharding.getPartialKind());
}

bool colossal::dist::isBox(ShardingAttr sharding, MeshAttr mesh) {
  for (DimShardingAttr dim : sharding.getDims())
    for (FactorShardAttr factor : dim.getFactors())
      if (hasLoop(factor, mesh) && factor.getAxes().size() > 1 && factor.getSize() % mesh.getNumTurns() != 0)
        return false;
  return true;
}

//===- Dist.cpp - meshes and shardings --------------------------------------===//
//
// Registration, text forms and invariants of the mesh and sharding attributes.
//
//===----------------------------------------------------------------------===//
#include "dialects/Dist/FactorRule.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace colossal::dist;

#include "dialects/Dist/DistDialect.cpp.inc"
#include "dialects/Dist/DistEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Dist/DistAttrs.cpp.inc"
#include "dialects/Dist/Interfaces.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Dist/DistOps.cpp.inc"

void DistDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Dist/DistOps.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Dist/DistAttrs.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Mesh
//===----------------------------------------------------------------------===//

LogicalResult MeshAttr::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<MeshAxisAttr> axes) {
  // As many as a plan may have; sets of axes are words elsewhere.
  constexpr size_t kMaxAxes = 16;
  if (axes.size() > kMaxAxes)
    return emitError() << "a mesh has at most " << kMaxAxes << " axes, found " << axes.size();
  llvm::SmallVector<StringRef> names;
  for (auto [i, axis] : llvm::enumerate(axes)) {
    if (axis.getName().empty() || llvm::is_contained(names, axis.getName().getValue()))
      return emitError() << "mesh axis names must be unique and not empty (C1), found '"
                         << axis.getName().getValue() << "'";
    if (axis.getSize() < 1)
      return emitError() << "mesh axis '" << axis.getName().getValue() << "' has size " << axis.getSize()
                         << ", expected a positive one (C2)";
    if (axis.getLoop() && i + 1 < axes.size())
      return emitError() << "mesh axis '" << axis.getName().getValue()
                         << "' is a loop, which the last axis alone may be (C3)";
    names.push_back(axis.getName().getValue());
  }
  return success();
}

int64_t MeshAttr::getNumRanks() const {
  int64_t ranks = 1;
  for (int64_t size : getRankSizes())
    ranks *= size;
  return ranks;
}

SmallVector<int64_t> MeshAttr::getRankSizes() const {
  SmallVector<int64_t> sizes;
  for (MeshAxisAttr axis : getAxes())
    sizes.push_back(axis.getLoop() ? 1 : axis.getSize());
  return sizes;
}

int64_t MeshAttr::getLoopAxis() const {
  return !getAxes().empty() && getAxes().back().getLoop() ? static_cast<int64_t>(getNumAxes()) - 1 : -1;
}

int64_t MeshAttr::findAxis(StringRef name) const {
  for (auto [i, axis] : llvm::enumerate(getAxes()))
    if (axis.getName().getValue() == name)
      return i;
  return -1;
}

Attribute MeshAttr::parse(AsmParser &parser, Type) {
  SmallVector<MeshAxisAttr> axes;
  auto parseAxis = [&]() -> ParseResult {
    std::string name;
    int64_t size;
    if (parser.parseString(&name) || parser.parseEqual() || parser.parseInteger(size))
      return failure();
    bool loop = succeeded(parser.parseOptionalKeyword("loop"));
    axes.push_back(
        MeshAxisAttr::get(parser.getContext(), StringAttr::get(parser.getContext(), name), size, loop));
    return success();
  };
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseAxis) ||
      parser.parseGreater())
    return {};
  return MeshAttr::getChecked([&] { return parser.emitError(loc); }, parser.getContext(), axes);
}

void MeshAttr::print(AsmPrinter &printer) const {
  printer << "<[";
  llvm::interleaveComma(getAxes(), printer, [&](MeshAxisAttr axis) {
    printer << axis.getName() << " = " << axis.getSize() << (axis.getLoop() ? " loop" : "");
  });
  printer << "]>";
}

//===----------------------------------------------------------------------===//
// Shardings
//===----------------------------------------------------------------------===//

static void printFactor(AsmPrinter &printer, FactorShardAttr factor) {
  printer << factor.getSize();
  if (factor.getAxes().empty())
    return;
  printer << ":(";
  llvm::interleaveComma(factor.getAxes(), printer);
  printer << ")";
}

static ParseResult parseAxes(AsmParser &parser, SmallVectorImpl<unsigned> &axes) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, [&] {
    axes.emplace_back();
    return parser.parseInteger(axes.back());
  });
}

static FailureOr<FactorShardAttr> parseFactor(AsmParser &parser) {
  int64_t size;
  SmallVector<unsigned> axes;
  if (parser.parseInteger(size))
    return failure();
  if (succeeded(parser.parseOptionalColon()) && parseAxes(parser, axes))
    return failure();
  return FactorShardAttr::get(parser.getContext(), size, axes);
}

static void printDim(AsmPrinter &printer, DimShardingAttr dim) {
  printer << "[";
  llvm::interleaveComma(dim.getFactors(), printer,
                        [&](FactorShardAttr factor) { printFactor(printer, factor); });
  printer << "]";
}

static FailureOr<DimShardingAttr> parseDim(AsmParser &parser) {
  SmallVector<FactorShardAttr> factors;
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() -> ParseResult {
        FailureOr<FactorShardAttr> factor = parseFactor(parser);
        if (failed(factor))
          return failure();
        factors.push_back(*factor);
        return success();
      }))
    return failure();
  return DimShardingAttr::get(parser.getContext(), factors);
}

Attribute FactorShardAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  FailureOr<FactorShardAttr> factor = parseFactor(parser);
  return failed(factor) || parser.parseGreater() ? Attribute() : *factor;
}

void FactorShardAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printFactor(printer, *this);
  printer << ">";
}

Attribute DimShardingAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  FailureOr<DimShardingAttr> dim = parseDim(parser);
  return failed(dim) || parser.parseGreater() ? Attribute() : *dim;
}

void DimShardingAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printDim(printer, *this);
  printer << ">";
}

// #dist.sharding<[8:(0)], [3, 12:(1), 64], partial sum (2)>
Attribute ShardingAttr::parse(AsmParser &parser, Type) {
  SmallVector<DimShardingAttr> dims;
  SmallVector<unsigned> partialAxes;
  ReductionKind kind = ReductionKind::Sum;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, [&]() -> ParseResult {
        if (succeeded(parser.parseOptionalKeyword("partial"))) {
          StringRef name;
          if (parser.parseKeyword(&name))
            return failure();
          auto parsed = symbolizeReductionKind(name);
          if (!parsed)
            return parser.emitError(loc) << "unknown reduction '" << name << "'";
          kind = *parsed;
          return parseAxes(parser, partialAxes);
        }
        FailureOr<DimShardingAttr> dim = parseDim(parser);
        if (failed(dim))
          return failure();
        dims.push_back(*dim);
        return success();
      }))
    return {};
  return ShardingAttr::getChecked([&] { return parser.emitError(loc); }, parser.getContext(), dims,
                                  partialAxes, kind);
}

void ShardingAttr::print(AsmPrinter &printer) const {
  printer << "<";
  llvm::interleaveComma(getDims(), printer, [&](DimShardingAttr dim) { printDim(printer, dim); });
  if (isPartial()) {
    printer << (getDims().empty() ? "" : ", ") << "partial " << stringifyReductionKind(getPartialKind())
            << " (";
    llvm::interleaveComma(getPartialAxes(), printer);
    printer << ")";
  }
  printer << ">";
}

LogicalResult ShardingAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   ArrayRef<DimShardingAttr> dims, ArrayRef<unsigned> partialAxes,
                                   ReductionKind) {
  uint32_t seen = 0;
  auto use = [&](unsigned axis) -> LogicalResult {
    if (axis >= 32)
      return emitError() << "mesh axis index " << axis << " is not below 32 (C2)";
    if (seen & (1u << axis))
      return emitError() << "mesh axis " << axis << " occurs more than once (C1)";
    seen |= 1u << axis;
    return success();
  };
  for (DimShardingAttr dim : dims)
    for (FactorShardAttr factor : dim.getFactors()) {
      if (factor.getSize() < 0)
        return emitError() << "factor size " << factor.getSize() << " is negative (C2)";
      for (unsigned axis : factor.getAxes())
        if (failed(use(axis)))
          return failure();
    }
  for (unsigned axis : partialAxes)
    if (failed(use(axis)))
      return failure();
  return success();
}

bool ShardingAttr::isReplicated() const {
  return !isPartial() && llvm::all_of(getDims(), [](DimShardingAttr dim) {
    return llvm::all_of(dim.getFactors(), [](FactorShardAttr factor) { return factor.getAxes().empty(); });
  });
}

ShardingAttr ShardingAttr::getReplicated(MLIRContext *context, ArrayRef<int64_t> shape) {
  SmallVector<DimShardingAttr> dims;
  for (int64_t size : shape)
    dims.push_back(DimShardingAttr::get(context, FactorShardAttr::get(context, size, {})));
  return get(context, dims, {}, ReductionKind::Sum);
}

SmallVector<int64_t> ShardingAttr::getGlobalShape() const {
  SmallVector<int64_t> shape;
  for (DimShardingAttr dim : getDims()) {
    shape.push_back(1);
    for (FactorShardAttr factor : dim.getFactors())
      shape.back() *= factor.getSize();
  }
  return shape;
}

SmallVector<int64_t> ShardingAttr::getLocalShape(MeshAttr mesh) const {
  SmallVector<int64_t> shape;
  for (DimShardingAttr dim : getDims()) {
    shape.push_back(1);
    for (FactorShardAttr factor : dim.getFactors())
      shape.back() *= getLocalSize(factor.getSize(), factor.getAxes(), mesh);
  }
  return shape;
}

DimShardingAttr colossal::dist::makeDimSharding(MLIRContext *context,
                                                ArrayRef<std::pair<int64_t, ArrayRef<unsigned>>> parts) {
  SmallVector<std::pair<int64_t, ArrayRef<unsigned>>> merged;
  for (auto [size, axes] : parts) {
    if (axes.empty() && size == 1)
      continue;
    if (axes.empty() && !merged.empty() && merged.back().second.empty())
      merged.back().first *= size;
    else
      merged.push_back({size, axes});
  }
  if (merged.empty())
    merged.push_back({1, {}});
  SmallVector<FactorShardAttr> factors;
  for (auto [size, axes] : merged)
    factors.push_back(FactorShardAttr::get(context, size, axes));
  return DimShardingAttr::get(context, factors);
}

int64_t colossal::dist::getLocalSize(int64_t size, ArrayRef<unsigned> axes, MeshAttr mesh) {
  for (unsigned axis : axes) {
    int64_t n = mesh.getAxisSize(axis);
    size = (size + n - 1) / n;
  }
  return size;
}

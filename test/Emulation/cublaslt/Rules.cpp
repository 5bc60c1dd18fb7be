// Types, shapes, strides, epilogues.
#include "Rules.h"

#include <climits>

namespace colossal::cublaslt {

namespace {

constexpr std::uint64_t tag = 0x636f6c6f7373616c; // "colossal"

bool isSupported(const Problem &p) {
  const DataType in = p.a->type, out = p.d->type;
  if (p.b->type != in || p.c->type != out)
    return false;
  switch (p.operation->compute) {
  case Compute32F:
    return p.operation->scale == R32F && (in == R32F || in == R16F || in == R16BF) &&
           (out == in || out == R32F);
  case Compute32FFastTF32: return p.operation->scale == R32F && in == R32F && out == R32F;
  case Compute64F: return p.operation->scale == R64F && in == R64F && out == R64F;
  }
  return false;
}

bool isEpilogue(std::uint32_t epilogue) {
  return epilogue == EpilogueDefault || epilogue == EpilogueRelu || epilogue == EpilogueBias ||
         epilogue == EpilogueReluBias || epilogue == EpilogueGelu || epilogue == EpilogueGeluBias;
}

std::uint64_t types(const Problem &p) {
  return std::uint64_t(p.operation->compute) << 32 | std::uint64_t(p.a->type) << 16 | p.d->type;
}

} // namespace

std::uint64_t elementBytes(DataType type) {
  switch (type) {
  case R64F: return 8;
  case R32F: return 4;
  default: return 2;
  }
}

Result check(const Problem &p, std::string &why) {
  auto refuse = [&](Result result, const std::string &text) {
    why = text;
    return result;
  };
  for (auto [layout, name] :
       {std::pair(p.a, "A"), std::pair(p.b, "B"), std::pair(p.c, "C"), std::pair(p.d, "D")}) {
    if (layout->rows == 0 || layout->columns == 0 || layout->rows > INT_MAX || layout->columns > INT_MAX)
      return refuse(InvalidValue, std::string(name) + " is empty or too large");
    if (layout->leading < 0 || static_cast<std::uint64_t>(layout->leading) < layout->rows)
      return refuse(InvalidValue, std::string(name) + " has a leading dimension of less than its rows");
    if (layout->batch < 1 || layout->batch != p.d->batch)
      return refuse(InvalidValue, std::string(name) + " has another batch than D");
  }
  const bool first = p.operation->transposeFirst == OperationT,
             second = p.operation->transposeSecond == OperationT;
  if ((first ? p.a->columns : p.a->rows) != p.m() || (second ? p.b->rows : p.b->columns) != p.n() ||
      (second ? p.b->columns : p.b->rows) != p.k() || p.c->rows != p.m() || p.c->columns != p.n())
    return refuse(InvalidValue, "shapes do not agree");
  if (p.d->batch > 1 && p.d->stride == 0)
    return refuse(InvalidValue, "all results of the batch have one place");
  if (!isSupported(p))
    return refuse(NotSupported, "there is no kernel for these types and this way to compute");
  if (!isEpilogue(p.operation->epilogue))
    return refuse(InvalidValue, "unknown epilogue " + std::to_string(p.operation->epilogue));
  if (p.operation->epilogue != EpilogueDefault && p.operation->compute == Compute64F)
    return refuse(NotSupported, "there is no epilogue for doubles");
  if (hasBias(p.operation->epilogue) && p.operation->biasType != -1 &&
      static_cast<DataType>(p.operation->biasType) != p.d->type)
    return refuse(NotSupported, "the bias has another type than D");
  return Success;
}

Way wayOf(const Problem &p, Way::Kind kind) {
  const std::uint64_t partial = elementBytes(p.operation->compute == Compute64F ? R64F : R32F);
  switch (kind) {
  case Way::Split: return {kind, 16, splitParts * p.batch() * p.m() * p.n() * partial};
  case Way::Aligned: return {kind, 16, 0};
  case Way::Plain: break;
  }
  return {Way::Plain, elementBytes(p.a->type), 0};
}

bool fits(const Problem &p, const Way &way) {
  if (way.kind == Way::Split && p.k() < 64)
    return false;
  for (const MatrixLayoutHandle *layout : {p.a, p.b, p.d}) {
    const std::uint64_t size = elementBytes(layout->type);
    if ((layout->columns > 1 && static_cast<std::uint64_t>(layout->leading) * size % way.alignment) ||
        (layout->batch > 1 && static_cast<std::uint64_t>(layout->stride) * size % way.alignment))
      return way.kind == Way::Plain;
  }
  return true;
}

Algorithm encode(const Problem &p, const Way &way) {
  return {{tag, way.kind, types(p), 0, 0, 0, 0, 0}};
}

bool decode(const Problem &p, const Algorithm &algorithm, Way &way) {
  if (algorithm.data[0] != tag || algorithm.data[2] != types(p) || algorithm.data[1] < Way::Plain ||
      algorithm.data[1] > Way::Split)
    return false;
  way = wayOf(p, static_cast<Way::Kind>(algorithm.data[1]));
  return fits(p, way);
}

} // namespace colossal::cublaslt

//===- Contents.cpp - what stands in a parameter ------------------------------===//
#include "Contents.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/Support/Path.h"

#include <cmath>
#include <cstring>

using namespace mlir;
using namespace colossal;
using namespace colossal::training;

double Contents::operator[](int64_t i) const {
  const char *at = data + i * width;
  if (width == 4) {
    float value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  if (width == 8) {
    double value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  llvm::APFloat value(cast<FloatType>(element).getFloatSemantics(), llvm::APInt(16, bits));
  bool isInexact = false;
  value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &isInexact);
  return value.convertToDouble();
}

bool Contents::isUniform() const {
  return count > 0 && std::memcmp(data, data + width, (count - 1) * width) == 0;
}

bool Contents::repeats(int64_t parts) const {
  if (parts < 2 || count % parts != 0 || isUniform())
    return false;
  const size_t bytes = static_cast<size_t>(count / parts) * width;
  return std::memcmp(data, data + bytes, static_cast<size_t>(parts - 1) * bytes) == 0;
}

bool Contents::equals(const Contents &other) const {
  return element == other.element && count == other.count &&
         std::memcmp(data, other.data, count * width) == 0;
}

std::optional<Contents> ContentsReader::read(ParameterOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  Contents contents;
  contents.element = type.getElementType();
  if (!contents.element.isF32() && !contents.element.isF64() && !contents.element.isF16() &&
      !contents.element.isBF16())
    return std::nullopt;
  contents.width = contents.element.getIntOrFloatBitWidth() / 8;
  contents.count = type.getNumElements();
  if (auto data = dyn_cast_or_null<DenseElementsAttr>(op.getDataAttr())) {
    if (data.isSplat() || static_cast<int64_t>(data.getRawData().size()) != contents.count * contents.width)
      return std::nullopt;
    contents.data = data.getRawData().data();
    return contents;
  }
  llvm::SmallString<256> path(op.getFile().empty() ? StringRef(modelPath) : op.getFile());
  if (!op.getFile().empty()) {
    path = llvm::sys::path::parent_path(modelPath);
    llvm::sys::path::append(path, op.getFile());
  }
  auto [entry, isNew] = files.try_emplace(std::string(path));
  if (isNew)
    if (auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false))
      entry->second = std::move(*file);
  const llvm::MemoryBuffer *file = entry->second.get();
  const uint64_t bytes = contents.count * contents.width;
  if (!file || op.getOffset() > file->getBufferSize() || bytes > file->getBufferSize() - op.getOffset())
    return std::nullopt;
  contents.data = file->getBufferStart() + op.getOffset();
  return contents;
}

/// Rows that are looked at: enough that no numbers agree by chance.
static constexpr int64_t kRows = 64, kFewestRows = 8;

/// Whether every column of a table of rows of `width` continues as cosines and sines of equal steps do: the
/// sum of two neighbours is the same multiple of what stands between. Rows that are all equal tell nothing.
static bool isTrigonometric(const Contents &contents, int64_t width) {
  const int64_t rows = contents.size() / std::max<int64_t>(width, 1);
  if (rows < kFewestRows || width < 1)
    return false;
  bool changes = false;
  for (int64_t c = 0; c < width; ++c) {
    auto at = [&](int64_t row) { return contents[row * width + c]; };
    double scale = 0, factor = 0, largest = 0;
    for (int64_t r = 0; r < std::min(rows, kRows); ++r) {
      changes |= at(r) != at(0);
      scale = std::max(scale, std::abs(at(r)));
      if (r > 0 && r + 1 < std::min(rows, kRows) && std::abs(at(r)) > largest) {
        largest = std::abs(at(r));
        factor = (at(r - 1) + at(r + 1)) / at(r);
      }
    }
    if (!(scale <= 2) || std::abs(factor) > 2 + 1e-3)
      return false;
    for (int64_t r = 1; r + 1 < std::min(rows, kRows); ++r)
      if (!(std::abs(at(r - 1) + at(r + 1) - factor * at(r)) <= 2e-3 * std::max(scale, 1e-6)))
        return false;
  }
  return changes;
}

/// Two values only, of which one is 0: the other one, or none.
static std::optional<double> findMaskValue(const Contents &contents) {
  std::optional<double> other;
  bool hasZero = false;
  for (int64_t i = 0; i < contents.size(); ++i) {
    const double value = contents[i];
    if (value == 0)
      hasZero = true;
    else if (other && *other != value)
      return std::nullopt;
    else
      other = value;
  }
  return hasZero ? other : std::nullopt;
}

/// Of a table of rows of `width`: whether rows and columns are numbers at equal steps, as the distances of
/// positions are.
static bool isEvenTable(const Contents &contents, int64_t width) {
  const int64_t rows = width > 0 ? contents.size() / width : 0;
  if (rows < 3 || width < 3 || rows * width != contents.size())
    return false;
  const double first = contents[0], along = contents[1] - first, down = contents[width] - first;
  if (along == 0 && down == 0)
    return false;
  const double scale = std::abs(along) + std::abs(down);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < width; ++c) {
      const double value = contents[r * width + c];
      const double even = first + static_cast<double>(r) * down + static_cast<double>(c) * along;
      if (!(std::abs(value - even) <= 1e-5 * scale + 1e-6 * std::abs(value)))
        return false;
    }
  return true;
}

/// Of a table of rows of `width`: whether each has numbers at equal steps of its own, as slopes of heads
/// times distances are.
static bool hasEvenRows(const Contents &contents, int64_t width) {
  const int64_t rows = width > 0 ? contents.size() / width : 0;
  if (width < 4 || rows * width != contents.size()) // three may be even by chance
    return false;
  for (int64_t r = 0; r < rows; ++r) {
    const double first = contents[r * width], step = contents[r * width + 1] - first;
    if (step == 0)
      return false;
    for (int64_t c = 2; c < width; ++c) {
      const double value = contents[r * width + c];
      if (!(std::abs(value - first - static_cast<double>(c) * step) <=
            1e-4 * std::abs(step) + 1e-6 * std::abs(value)))
        return false;
    }
  }
  return true;
}

bool training::areFrequencies(const Contents &contents) {
  constexpr int64_t kMany = 6; // that are in order by chance once in 360 times
  const int64_t size = contents.size();
  if (size < 2)
    return true;
  const bool rises = contents[1] > contents[0];
  for (int64_t i = 1; i < size; ++i)
    if (!(rises ? contents[i] > contents[i - 1] : contents[i] < contents[i - 1]))
      return false;
  const double first = contents[0], last = contents[size - 1];
  const bool hasOneSign = std::min(first, last) >= 0 || std::max(first, last) <= 0;
  return hasOneSign && (size >= kMany || first == 1 || last == 1);
}

/// What is added to a score so that it is masked is this or less; Swin's masks add -100.
static constexpr double kMostMasked = -100;

std::string training::describeFixedContents(const Contents &contents, ArrayRef<int64_t> shape) {
  const int64_t size = contents.size(), width = shape.empty() ? 1 : shape.back();
  if (size < 3 || contents.isUniform())
    return "";
  if (size != llvm::count_if(shape, [](int64_t s) { return s != 1; }) && shape.size() > 1)
    if (std::optional<double> value = findMaskValue(contents);
        value && (*value <= kMostMasked || *value == 1))
      return *value == 1 ? "a mask of zeros and ones" : "a mask";
  const bool isVector = llvm::count_if(shape, [](int64_t s) { return s != 1; }) == 1;
  if (isVector) {
    const double step = contents[1] - contents[0], ratio = contents[1] / contents[0];
    bool isEven = step != 0, isGeometric = contents[0] != 0 && ratio > 0 && ratio != 1;
    for (int64_t i = 1; i < size; ++i) {
      isEven &= std::abs(contents[i] - contents[i - 1] - step) <=
                1e-5 * std::abs(step) + 1e-6 * std::abs(contents[i]);
      isGeometric &= std::abs(contents[i] - contents[i - 1] * ratio) <= 1e-4 * std::abs(contents[i]);
    }
    return isEven        ? "evenly spaced numbers"
           : isGeometric ? "a geometric sequence, as frequencies and slopes are"
                         : "";
  }
  if (isEvenTable(contents, width))
    return "a table of evenly spaced numbers, as distances are";
  if (hasEvenRows(contents, width))
    return "rows of evenly spaced numbers, as slopes times distances are";
  return isTrigonometric(contents, width) ? kCosinesAndSines.str() : "";
}

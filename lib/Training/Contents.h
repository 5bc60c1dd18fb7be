//===- Contents.h - what stands in a parameter --------------------------------===//
#ifndef COLOSSAL_LIB_TRAINING_CONTENTS_H
#define COLOSSAL_LIB_TRAINING_CONTENTS_H

#include "dialects/Colossal/Colossal.h"
#include "llvm/Support/MemoryBuffer.h"

#include <map>
#include <memory>
#include <string>

namespace colossal::training {

/// Elements of a parameter of floats, read where they lie.
class Contents {
public:
  int64_t size() const { return count; }
  double operator[](int64_t i) const;
  /// All elements have the same bits.
  bool isUniform() const;
  /// All are equal, or all rows of a matrix of this shape are: they say nothing of where they come from.
  bool isUniformIn(llvm::ArrayRef<int64_t> shape) const {
    return isUniform() || (shape.size() > 1 && repeats(shape.front()));
  }
  /// It is one part `parts` times, and that part is not uniform.
  bool repeats(int64_t parts) const;
  /// Both have the same type and bits.
  bool equals(const Contents &other) const;

private:
  friend class ContentsReader;
  const char *data = nullptr;
  int64_t count = 0;
  mlir::Type element;
  unsigned width = 0;
};

/// Reads parameters of one model; what it gives stays as long as it does.
class ContentsReader {
public:
  explicit ContentsReader(std::string modelPath) : modelPath(std::move(modelPath)) {}
  /// None where the file is not there (a model that is imported without its weights), or elements are no
  /// floats of 16, 32 or 64 bits.
  std::optional<Contents> read(ParameterOp op);

private:
  std::string modelPath;
  std::map<std::string, std::unique_ptr<llvm::MemoryBuffer>> files;
};

inline constexpr llvm::StringLiteral kCosinesAndSines = "a table of cosines and sines";

/// Whether a vector may be what positions are multiplied by before sines and cosines: numbers of one sign
/// that rise or fall, which weights do not; where there are few of them, from 1 or to 1.
bool areFrequencies(const Contents &contents);

/// What a tensor of these contents must be that nobody trains ("a mask", kCosinesAndSines, ...), or "".
std::string describeFixedContents(const Contents &contents, llvm::ArrayRef<int64_t> shape);

} // namespace colossal::training

#endif // COLOSSAL_LIB_TRAINING_CONTENTS_H

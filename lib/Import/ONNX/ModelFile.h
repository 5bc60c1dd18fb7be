//===- ModelFile.h - an ONNX file and the bytes of its tensors --------------===//
//
// Maps a model file and parses it without copying its weights: while the wire format is walked, the dense
// payloads of tensors (raw_data, packed float_data and double_data) are left out of what protobuf sees, and
// their places in the file are recorded. External data is opened here too. Everything in a model is
// untrusted: lengths, offsets and paths are checked before they are used.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_IMPORT_ONNX_MODELFILE_H
#define COLOSSAL_LIB_IMPORT_ONNX_MODELFILE_H

#include "onnx-ml.pb.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace colossal::onnx_import {

/// Bytes of a file mapped read-only.
class MappedFile {
public:
  /// Maps the regular file `path`, opened as a user gives it (links are followed).
  static llvm::Expected<std::unique_ptr<MappedFile>> open(const std::string &path);
  /// Maps `relative`, which a model names, below folder `folder`. Refused: absolute paths, `..`, links on the
  /// way, files with several names (hard links), and whatever is not a regular file. The file checked is the
  /// file mapped. With `absent`, a file that does not exist (the path being allowed) sets it and gives null,
  /// not an error.
  static llvm::Expected<std::unique_ptr<MappedFile>>
  openBelow(const std::string &folder, llvm::StringRef relative, bool *absent = nullptr);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;

  llvm::ArrayRef<uint8_t> bytes() const { return {data, size}; }

private:
  MappedFile() = default;
  static llvm::Expected<std::unique_ptr<MappedFile>> map(int descriptor, const std::string &path);
  const uint8_t *data = nullptr;
  size_t size = 0;
};

/// Where a tensor's dense little-endian bytes lie.
struct TensorBytes {
  std::string file; ///< as the model gives it; empty for the model's own file
  int64_t offset = 0;
  llvm::ArrayRef<uint8_t> bytes;
  bool missing = false; ///< the file is not there (ModelFile::setAllowMissing); `bytes` is empty
};

class ModelFile {
public:
  /// The boundary: inputs, outputs and initializers, without nodes and what is known of values between them.
  enum class Part { All, Boundary };

  /// Maps and parses `path`. Errors say what is wrong with the file.
  static llvm::Expected<std::unique_ptr<ModelFile>> open(const std::string &path, Part part = Part::All);

  const onnx::ModelProto &proto() const { return *model; }
  /// What exporters say of the graph's initializer `name` (kIsModuleParameter, kIsModuleBuffer of
  /// ParameterRoles.h); "" where they say nothing.
  llvm::StringRef getModuleRole(llvm::StringRef name);
  /// Whether external data whose file does not exist is described (TensorBytes::missing) and not an error.
  void setAllowMissing(bool allow) { allowMissing = allow; }
  /// The dense bytes of `tensor`, if its encoding has them in a file (not copied into the proto); null
  /// otherwise, where its values are in the proto's own fields. The number of bytes is checked against the
  /// shape. Errors: a payload of another size, external data that may not or cannot be read.
  llvm::Expected<std::optional<TensorBytes>> findBytes(const onnx::TensorProto &tensor);

private:
  std::string folder;
  std::unique_ptr<MappedFile> file;
  google::protobuf::Arena arena; // thousands of small messages are freed as one
  onnx::ModelProto *model = google::protobuf::Arena::CreateMessage<onnx::ModelProto>(&arena);
  std::vector<std::pair<uint64_t, uint64_t>> places; // offset and length of payloads left out of `model`
  std::map<std::string, std::unique_ptr<MappedFile>> external;
  std::optional<llvm::StringMap<llvm::StringRef>> moduleRoles; ///< found where they are asked for first
  bool allowMissing = false;
};

/// Number of elements of a shape; an error if a dimension is negative or the product overflows or exceeds
/// 2^40.
llvm::Expected<int64_t> countElements(const onnx::TensorProto &tensor);
/// Bits that an element of an ONNX type takes in raw data, where small ones are packed; 0 of strings and of
/// what is not supported.
unsigned getElementBits(int32_t onnxType);
/// Bytes of the raw data of so many elements.
int64_t getDataBytes(int32_t onnxType, int64_t count);

} // namespace colossal::onnx_import

#endif // COLOSSAL_LIB_IMPORT_ONNX_MODELFILE_H

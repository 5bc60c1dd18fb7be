// Safetensors: the length of a header in eight bytes, the header (JSON: names, types, shapes, places), the
// tensors, dense and row-major. Read as an attacker's.
#ifndef COLOSSAL_RUNTIME_IO_SAFETENSORS_H
#define COLOSSAL_RUNTIME_IO_SAFETENSORS_H

#include "runtime/io/MappedFile.h"
#include "runtime/io/Tensor.h"

#include <functional>

namespace colossal::runtime {

class SafetensorsFile {
public:
  struct Entry {
    plan::DataType type;
    std::vector<uint64_t> shape;
    uint64_t offset, bytes; ///< in the file
  };

  /// Maps the file and checks its header: types that are known, places that are as long as shapes say, inside
  /// the file, and of no two tensors.
  static Status open(const std::string &path, SafetensorsFile &file);

  const std::map<std::string, Entry> &entries() const { return table; }
  const std::byte *data(const Entry &entry) const { return file.data() + entry.offset; }
  const MappedFile &mapped() const { return file; }

private:
  MappedFile file;
  std::map<std::string, Entry> table;
};

/// The type's name in such files; null where they have none.
const char *safetensorsType(plan::DataType type);

/// A tensor to write.
struct SafetensorsTensor {
  std::string name;
  plan::DataType type;
  std::vector<uint64_t> shape;
};
/// What comes before the tensors' bytes, which follow in the order given. `metadata`: texts by name.
std::string safetensorsHeader(const std::vector<SafetensorsTensor> &tensors,
                              const std::map<std::string, std::string> &metadata);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_IO_SAFETENSORS_H

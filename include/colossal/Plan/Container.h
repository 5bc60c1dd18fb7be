// The file around a plan: header, section table, and the sections (plan, data, code), each with a digest.
// docs/PlanFormat.md gives the bytes. The compiler writes it, the runtime maps it; neither LLVM nor MLIR is
// seen here.
#ifndef COLOSSAL_PLAN_CONTAINER_H
#define COLOSSAL_PLAN_CONTAINER_H

#include "colossal/Plan/Plan.pb.h"
#include "colossal/Plan/Status.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace colossal::plan {

/// Version of the header, table and digests; not of the schema inside (Plan.version).
constexpr uint32_t containerVersion = 1;
/// The greatest schema version that this code reads. It writes the least that has what a plan uses.
constexpr uint32_t schemaVersion = 5;
/// Alignment of the data section, and of the code section, in the file.
constexpr uint64_t sectionAlignment = 64;
constexpr uint64_t codeAlignment = 4096;

/// Bytes that somebody else owns.
struct ByteView {
  const std::byte *data = nullptr;
  size_t size = 0;
};

/// Writes `path` atomically: the bytes go to a temporary file beside it, are synced, and take its name at the
/// end, so that a reader sees the old file or the whole new one. The file is made readable by all and
/// writable by its owner. The same plan, code and data give the same bytes.
Status writePlan(const std::string &path, const Plan &plan, ByteView code, ByteView data);

/// A plan file, mapped. Opening checks sizes and digests before anything is parsed, but does not validate the
/// plan's contents (runtime/validate does). Movable; views live as long as it.
class PlanFile {
public:
  PlanFile() = default;
  PlanFile(PlanFile &&other) noexcept;
  PlanFile &operator=(PlanFile &&other) noexcept;
  ~PlanFile();

  /// Who may write to the file is checked on the open descriptor if `checkOwner`: group and world must not,
  /// and the owner must be the user or root.
  static Status open(const std::string &path, bool checkOwner, PlanFile &file);

  const Plan &plan() const { return message; }
  ByteView code() const { return codeView; }
  ByteView data() const { return dataView; }
  /// Folder of the file, to which relative weight paths refer; no trailing slash.
  const std::string &folder() const { return parent; }
  uint64_t bytes() const { return mapped; }
  /// Of all of the file, as opening compared it; 32 hexadecimal digits.
  std::string digest() const;

private:
  Status read();

  Plan message;
  ByteView codeView, dataView;
  std::string parent;
  void *base = nullptr;
  uint64_t mapped = 0;
};

} // namespace colossal::plan

#endif // COLOSSAL_PLAN_CONTAINER_H

// Entries of a .zip archive that lie there as they are, not deflated, so that they can be mapped.
#ifndef COLOSSAL_RUNTIME_IO_STOREDENTRIES_H
#define COLOSSAL_RUNTIME_IO_STOREDENTRIES_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace colossal::runtime {

struct StoredEntry {
  std::string name;
  uint64_t offset = 0, bytes = 0; ///< in the archive
};

/// Lists the entries of an archive, all of whose bytes are given and of which only the directory is touched.
/// False where one is deflated or encrypted, or where the archive is damaged or of a form that is not known
/// here: whoever reads it otherwise finds out what is wrong. Checksums are not compared.
bool listStoredEntries(std::string_view archive, std::vector<StoredEntry> &entries);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_IO_STOREDENTRIES_H

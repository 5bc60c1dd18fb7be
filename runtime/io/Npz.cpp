// .npz archives by libzip. An entry's stated size is checked before memory is asked for.
#include "runtime/io/Npy.h"

#include <cstring>
#include <filesystem>
#include <list>
#include <unistd.h>
#include <zip.h>

namespace colossal::runtime {

namespace {

// A deflated entry expands at most about a thousandfold; a greater claim is a bomb or damage.
constexpr uint64_t greatestExpansion = 1100;

Status readEntry(zip_t *archive, zip_uint64_t index, std::string &name, Tensor &tensor) {
  zip_stat_t info;
  if (zip_stat_index(archive, index, 0, &info) != 0 || !(info.valid & ZIP_STAT_SIZE) ||
      !(info.valid & ZIP_STAT_NAME) || !(info.valid & ZIP_STAT_COMP_SIZE))
    return {Code::InvalidArgument, "an entry has no name or size"};
  name = info.name;
  if (name.size() > 4 && name.compare(name.size() - 4, 4, ".npy") == 0)
    name.resize(name.size() - 4);
  if (info.size / greatestExpansion > info.comp_size + 64)
    return {Code::InvalidArgument, "array '" + name + "' claims more bytes than the file can hold"};
  std::string bytes(info.size, '\0');
  zip_file_t *file = zip_fopen_index(archive, index, 0);
  if (!file)
    return {Code::InvalidArgument, "array '" + name + "': " + zip_strerror(archive)};
  uint64_t done = 0;
  while (done < bytes.size()) {
    zip_int64_t got = zip_fread(file, bytes.data() + done, bytes.size() - done);
    if (got <= 0)
      break;
    done += static_cast<uint64_t>(got);
  }
  // The checksum is verified when the end is read.
  char rest;
  const bool whole = done == bytes.size() && zip_fread(file, &rest, 1) == 0;
  zip_fclose(file);
  if (!whole)
    return {Code::InvalidArgument, "array '" + name + "' is damaged"};
  Status status = parseNpy(bytes, tensor);
  return status.ok() ? status : Status(status.code(), "array '" + name + "': " + status.message());
}

} // namespace

Status readNpz(const std::string &path, Tensors &tensors) {
  if (::access(path.c_str(), F_OK) != 0)
    return {Code::NotFound, "cannot open " + path + ": " + std::strerror(errno)};
  int error = 0;
  zip_t *archive = zip_open(path.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &error);
  if (!archive) {
    zip_error_t description;
    zip_error_init_with_code(&description, error);
    Status status(Code::InvalidArgument,
                  path + " is not a readable .npz file: " + zip_error_strerror(&description));
    zip_error_fini(&description);
    return status;
  }
  Status status;
  for (zip_int64_t index = 0; index < zip_get_num_entries(archive, 0) && status.ok(); ++index) {
    std::string name;
    Tensor tensor;
    status = readEntry(archive, static_cast<zip_uint64_t>(index), name, tensor);
    if (!status.ok())
      status = {status.code(), path + ": " + status.message()};
    else if (!tensors.emplace(name, std::move(tensor)).second)
      status = {Code::InvalidArgument, path + ": array '" + name + "' is given twice"};
  }
  zip_discard(archive);
  return status;
}

Status writeNpz(const std::string &path, const Tensors &tensors) {
  std::error_code unknown;
  if (std::filesystem::exists(path, unknown) && !std::filesystem::is_regular_file(path, unknown))
    return {Code::Io,
            "cannot write " + path + ": it is not a regular file, and a .npz file would take its place"};
  int error = 0;
  zip_t *archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error);
  if (!archive)
    return {Code::Io, "cannot write " + path};
  std::list<std::string> contents; // must live until the archive is closed
  for (const auto &[name, tensor] : tensors) {
    contents.push_back(formatNpy(tensor));
    zip_source_t *source = zip_source_buffer(archive, contents.back().data(), contents.back().size(), 0);
    zip_int64_t index =
        source ? zip_file_add(archive, (name + ".npy").c_str(), source, ZIP_FL_ENC_UTF_8) : -1;
    if (index < 0) {
      Status status(Code::Io, "cannot write " + path + ": " + zip_strerror(archive));
      if (source)
        zip_source_free(source);
      zip_discard(archive);
      return status;
    }
    // The same outputs give the same bytes: no compression, no clock.
    zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
    zip_file_set_dostime(archive, static_cast<zip_uint64_t>(index), 0, 0x21, 0);
  }
  if (tensors.empty()) {
    zip_discard(archive);
    return {Code::InvalidArgument, "there is nothing to write to " + path};
  }
  // libzip writes beside the file and renames.
  if (zip_close(archive) != 0) {
    Status status(Code::Io, "cannot write " + path + ": " + zip_strerror(archive));
    zip_discard(archive);
    return status;
  }
  return {};
}

} // namespace colossal::runtime

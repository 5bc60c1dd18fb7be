// Weight files, mapped on first use and checked against the recorded size.
#include "runtime/execute/Weights.h"

#include "runtime/execute/RandomValues.h"

#include "colossal/Plan/DataType.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <set>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace colossal::runtime {

namespace {

bool isFolder(const std::string &path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool exists(const std::string &path) {
  return ::access(path.c_str(), F_OK) == 0;
}

} // namespace

void Weights::configure(const plan::Plan &thePlan, plan::ByteView section, std::string planFolder,
                        std::string movedTo, std::optional<uint64_t> randomSeed) {
  plan = &thePlan;
  data = section;
  folder = std::move(planFolder);
  moved = std::move(movedTo);
  seed = randomSeed;
  mappings.resize(static_cast<size_t>(plan->files_size()));
}

void Weights::close() {
  std::lock_guard<std::mutex> lock(mutex);
  for (Mapping &mapping : mappings) {
    if (mapping.base)
      ::munmap(mapping.base, mapping.bytes);
    mapping = {};
  }
}

Status Weights::openGiven(std::string &remark) {
  const std::string ending = ".safetensors";
  if (moved.size() < ending.size() ||
      moved.compare(moved.size() - ending.size(), ending.size(), ending) != 0 || isFolder(moved))
    return {};
  const std::string name = moved.substr(moved.rfind('/') + 1);
  for (const plan::WeightFile &file : plan->files())
    if (file.path().substr(file.path().rfind('/') + 1) == name)
      return {};
  auto opened = std::make_unique<SafetensorsFile>();
  COLOSSAL_RETURN_IF_ERROR(SafetensorsFile::open(moved, *opened));
  uint64_t found = 0;
  std::string differing, apart;
  std::set<std::string> names;
  for (const plan::Parameter &parameter : plan->parameters()) {
    names.insert(parameter.name());
    const auto entry = opened->entries().find(parameter.name());
    if (entry == opened->entries().end())
      continue;
    ++found;
    const std::vector<uint64_t> shape(parameter.shape().begin(), parameter.shape().end());
    if (entry->second.type != parameter.type() || entry->second.shape != shape)
      differing += (differing.empty() ? "'" : ", '") + parameter.name() + "' (" +
                   describeType(entry->second.type, entry->second.shape) + " there, " +
                   describeType(parameter.type(), shape) + " in the plan)";
  }
  if (found == 0)
    return {Code::InvalidArgument, moved +
                                       " has none of the plan's parameters: its tensors must have the names "
                                       "that they have in the model's file"};
  // NAME@NODE: each node that reads NAME has trained its own.
  for (const auto &[name, entry] : opened->entries())
    if (const size_t at = name.find('@'); apart.empty() && at != std::string::npos &&
                                          names.count(name) == 0 && names.count(name.substr(0, at)) > 0)
      apart = name;
  if (!apart.empty())
    return {Code::InvalidArgument,
            moved + " has '" + apart +
                "', and the plan has one tensor for what was "
                "trained apart: compile the model that colossal-run export --onnx writes"};
  if (!differing.empty())
    return {Code::InvalidArgument,
            moved + " is of another model: other types or shapes have " + differing.substr(0, 400)};
  const auto all = static_cast<uint64_t>(plan->parameters_size());
  if (found < all)
    remark = std::to_string(all - found) + " of the plan's " + std::to_string(all) +
             " parameters are not in " + moved + ", and are read from the model";
  if (opened->entries().size() > found)
    remark += (remark.empty() ? "" : "; ") + std::to_string(opened->entries().size() - found) +
              " of its tensors are no parameters of the plan";
  given = std::move(opened);
  return {};
}

Status Weights::locate(uint32_t file, std::string &path) const {
  const plan::WeightFile &recorded = plan->files(static_cast<int>(file));
  path = recorded.path();
  if (moved.empty() || given) {
    if (path[0] != '/')
      path = folder + "/" + path;
  } else if (isFolder(moved)) {
    // The recorded path below the folder if it is there, else the file's own name.
    std::string below = moved + "/" + recorded.path();
    path = path[0] != '/' && exists(below) ? below : moved + "/" + path.substr(path.rfind('/') + 1);
  } else if (plan->files_size() == 1) {
    path = moved;
  } else {
    return {Code::InvalidArgument, "the plan reads " + std::to_string(plan->files_size()) +
                                       " weight files; --weights must name the folder that holds them"};
  }
  return {};
}

Status Weights::map(uint32_t file, const std::byte *&base) {
  std::lock_guard<std::mutex> lock(mutex);
  Mapping &mapping = mappings[file];
  base = static_cast<const std::byte *>(mapping.base);
  if (base)
    return {};
  const plan::WeightFile &recorded = plan->files(static_cast<int>(file));
  std::string path;
  COLOSSAL_RETURN_IF_ERROR(locate(file, path));
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return {errno == ENOENT ? Code::NotFound : Code::Io, "cannot open weight file " + path + ": " +
                                                             std::strerror(errno) +
                                                             " (--weights says where it is now)"};
  struct stat info;
  Status status;
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
    status = {Code::Io, "weight file " + path + " is not a regular file"};
  else if (static_cast<uint64_t>(info.st_size) != recorded.bytes())
    status = {Code::Io, "weight file " + path + " has " + std::to_string(info.st_size) +
                            " bytes; when the plan was compiled it had " + std::to_string(recorded.bytes())};
  else if (info.st_size > 0) {
    void *mapped = ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    if (mapped == MAP_FAILED)
      status = {Code::Io, "cannot map weight file " + path + ": " + std::strerror(errno)};
    else
      mapping = {mapped, static_cast<uint64_t>(info.st_size)};
  }
  ::close(fd);
  base = static_cast<const std::byte *>(mapping.base);
  return status;
}

uint64_t Weights::elementBytes(uint32_t parameter) const {
  return plan::elementBytes(plan->parameters(static_cast<int>(parameter)).type());
}

Status Weights::read(uint32_t index, const ResolvedBox &box, ShardPart part, std::byte *shard) {
  const plan::Parameter &parameter = plan->parameters(static_cast<int>(index));
  const uint64_t size = plan::elementBytes(parameter.type());
  if (given)
    if (const auto entry = given->entries().find(parameter.name()); entry != given->entries().end()) {
      box.toShard(given->data(entry->second), shard, part, size);
      return {};
    }
  if (parameter.inlined()) {
    box.toShard(data.data + parameter.offset(), shard, part, size);
    return {};
  }
  if (seed) {
    if (box.padded())
      std::memset(shard, 0, (part.end - part.begin) * size);
    RandomValues values = RandomValues::weights(*seed, parameter.name(), parameter.type(),
                                                {parameter.shape().begin(), parameter.shape().end()});
    box.forRows(part, [&](uint64_t from, uint64_t to, uint64_t, uint64_t length) {
      values.fill(from, length, shard + to * size);
    });
    return {};
  }
  if (box.validElements() == 0) {
    std::memset(shard, 0, (part.end - part.begin) * size);
    return {};
  }
  const std::byte *base = nullptr;
  COLOSSAL_RETURN_IF_ERROR(map(parameter.file(), base));
  const std::byte *values = base + parameter.offset();
  if (plan::storedBits(parameter.type()) >= 8) {
    box.toShard(values, shard, part, size);
    return {};
  }
  if (box.padded())
    std::memset(shard, 0, (part.end - part.begin) * size);
  box.forRows(part, [&](uint64_t from, uint64_t to, uint64_t, uint64_t length) {
    for (uint64_t e = 0; e < length; ++e)
      shard[to + e] = plan::unpackElement(values, from + e, parameter.type());
  });
  return {};
}

} // namespace colossal::runtime

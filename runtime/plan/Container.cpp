// The plan file's bytes: written atomically, mapped and checked before use. docs/PlanFormat.md is the
// specification.
#include "colossal/Plan/Container.h"

#include "colossal/Plan/OutputFile.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace colossal::plan {

namespace {

constexpr char magic[8] = {'C', 'P', 'L', 'A', 'N', '\r', '\n', '\x1a'};
using Digest = std::array<unsigned char, 16>;

enum SectionKind : uint32_t { PlanSection = 1, DataSection = 2, CodeSection = 3 };
constexpr uint32_t sectionCount = 3;

// Little-endian, like everything in the file; a big-endian host is refused at compile time.
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the plan's integers are read in place");

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t sections;
  uint64_t fileBytes;
  Digest digest; // of header and table, with this field zero
  unsigned char reserved[24];
};
static_assert(sizeof(Header) == 64);

struct Section {
  uint32_t kind;
  uint32_t alignment;
  uint64_t offset;
  uint64_t bytes;
  Digest digest;
  unsigned char reserved[24];
};
static_assert(sizeof(Section) == 64);

struct Head {
  Header header;
  Section table[sectionCount];
};

Digest digestOf(const void *data, size_t size) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, size));
  Digest digest;
  std::memcpy(digest.data(), canonical.digest, digest.size());
  return digest;
}

Digest digestOf(Head head) {
  head.header.digest = {};
  return digestOf(&head, sizeof head);
}

uint64_t roundUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

Status failure(const std::string &what, const std::string &path) {
  Code code = errno == ENOENT ? Code::NotFound : Code::Io;
  return {code, what + " " + path + ": " + std::strerror(errno)};
}

Status writeTo(int fd, const std::string &path, Head &head, ByteView const (&sections)[sectionCount]) {
  COLOSSAL_RETURN_IF_ERROR(writeAll(fd, &head, sizeof head, path));
  uint64_t position = sizeof head;
  static constexpr unsigned char zeros[codeAlignment] = {};
  for (uint32_t i = 0; i < sectionCount; ++i) {
    COLOSSAL_RETURN_IF_ERROR(writeAll(fd, zeros, head.table[i].offset - position, path));
    COLOSSAL_RETURN_IF_ERROR(writeAll(fd, sections[i].data, sections[i].size, path));
    position = head.table[i].offset + sections[i].size;
  }
  // Whoever may write to a plan makes others run code, so that this does not depend on the user's mask.
  return ::fchmod(fd, 0644) == 0 ? Status() : failure("cannot write", path);
}

std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos)
    return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status broken(const std::string &message) {
  return {Code::InvalidPlan, "not a valid plan file: " + message};
}

} // namespace

Status writePlan(const std::string &path, const Plan &plan, ByteView code, ByteView data) {
  std::string serialized;
  {
    google::protobuf::io::StringOutputStream stream(&serialized);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    if (plan.ByteSizeLong() > INT32_MAX || !plan.SerializeToCodedStream(&coded))
      return {Code::InvalidArgument, "the plan's description exceeds 2 GiB"};
  }
  ByteView sections[sectionCount] = {
      {reinterpret_cast<const std::byte *>(serialized.data()), serialized.size()}, data, code};
  constexpr SectionKind kinds[] = {PlanSection, DataSection, CodeSection};
  Head head;
  std::memset(&head, 0, sizeof head);
  std::memcpy(head.header.magic, magic, sizeof magic);
  head.header.version = containerVersion;
  head.header.sections = sectionCount;
  uint64_t position = sizeof head;
  for (uint32_t i = 0; i < sectionCount; ++i) {
    Section &section = head.table[i];
    section.kind = kinds[i];
    section.alignment = kinds[i] == CodeSection ? codeAlignment : sectionAlignment;
    section.offset = roundUp(position, section.alignment);
    section.bytes = sections[i].size;
    section.digest = digestOf(sections[i].data, sections[i].size);
    position = section.offset + section.bytes;
  }
  head.header.fileBytes = position;
  head.header.digest = digestOf(head);

  return replaceFile(path, [&](int fd) { return writeTo(fd, path, head, sections); });
}

PlanFile::PlanFile(PlanFile &&other) noexcept {
  *this = std::move(other);
}

PlanFile &PlanFile::operator=(PlanFile &&other) noexcept {
  std::swap(message, other.message);
  std::swap(codeView, other.codeView);
  std::swap(dataView, other.dataView);
  std::swap(parent, other.parent);
  std::swap(base, other.base);
  std::swap(mapped, other.mapped);
  return *this;
}

PlanFile::~PlanFile() {
  if (base)
    ::munmap(base, mapped);
}

Status PlanFile::open(const std::string &path, bool checkOwner, PlanFile &file) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return failure("cannot open", path);
  struct stat info;
  Status status;
  if (::fstat(fd, &info) != 0)
    status = failure("cannot examine", path);
  else if (!S_ISREG(info.st_mode))
    status = broken(path + " is not a regular file");
  else if (checkOwner && (info.st_mode & (S_IWGRP | S_IWOTH)))
    status = {Code::Permission,
              path + " may be written by its group or by others; a plan holds machine code, so only "
                     "its owner may (chmod go-w)"};
  else if (checkOwner && info.st_uid != ::geteuid() && info.st_uid != 0)
    status = {Code::Permission, path + " belongs to user " + std::to_string(info.st_uid) +
                                    "; a plan holds machine code, so it must be yours or root's"};
  else if (static_cast<uint64_t>(info.st_size) < sizeof(Head))
    status = broken(path + " has only " + std::to_string(info.st_size) + " bytes");
  PlanFile opened;
  if (status.ok()) {
    void *base = ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    if (base == MAP_FAILED) {
      status = failure("cannot map", path);
    } else {
      opened.base = base;
      opened.mapped = static_cast<uint64_t>(info.st_size);
      opened.parent = folderOf(path);
      status = opened.read();
    }
  }
  ::close(fd);
  if (status.ok())
    file = std::move(opened);
  return status;
}

std::string PlanFile::digest() const {
  Head head;
  std::memcpy(&head, base, sizeof head);
  std::string text;
  for (unsigned char byte : head.header.digest)
    for (int shift : {4, 0})
      text += "0123456789abcdef"[byte >> shift & 15];
  return text;
}

Status PlanFile::read() {
  const auto *bytes = static_cast<const std::byte *>(base);
  Head head;
  std::memcpy(&head, bytes, sizeof head);
  if (std::memcmp(head.header.magic, magic, sizeof magic) != 0)
    return broken("it does not begin with the plan's magic bytes");
  if (head.header.version != containerVersion)
    return {Code::Unsupported, "the plan file has container version " + std::to_string(head.header.version) +
                                   "; this runtime reads version " + std::to_string(containerVersion)};
  if (head.header.sections != sectionCount)
    return broken("it names " + std::to_string(head.header.sections) + " sections");
  if (head.header.fileBytes != mapped)
    return broken("it should have " + std::to_string(head.header.fileBytes) + " bytes, but has " +
                  std::to_string(mapped));
  if (head.header.digest != digestOf(head))
    return broken("the header's digest does not match");

  constexpr SectionKind kinds[] = {PlanSection, DataSection, CodeSection};
  constexpr const char *names[] = {"plan", "data", "code"};
  ByteView views[sectionCount];
  uint64_t position = sizeof head;
  for (uint32_t i = 0; i < sectionCount; ++i) {
    const Section &section = head.table[i];
    uint64_t alignment = kinds[i] == CodeSection ? codeAlignment : sectionAlignment;
    if (section.kind != kinds[i] || section.alignment != alignment ||
        section.offset != roundUp(position, alignment))
      return broken(std::string("the ") + names[i] + " section is misplaced");
    if (section.offset > mapped || section.bytes > mapped - section.offset)
      return broken(std::string("the ") + names[i] + " section ends beyond the file");
    for (uint64_t at = position; at < section.offset; ++at)
      if (bytes[at] != std::byte{0})
        return broken("the padding between sections is not zero");
    views[i] = {bytes + section.offset, static_cast<size_t>(section.bytes)};
    position = section.offset + section.bytes;
  }
  if (position != mapped)
    return broken("bytes follow the last section");
  for (uint32_t i = 0; i < sectionCount; ++i)
    if (digestOf(views[i].data, views[i].size) != head.table[i].digest)
      return broken(std::string("the digest of the ") + names[i] +
                    " section does not match: the file was altered or damaged");
  if (views[0].size > INT32_MAX || !message.ParseFromArray(views[0].data, static_cast<int>(views[0].size)))
    return broken("the plan section cannot be parsed");
  dataView = views[1];
  codeView = views[2];
  return {};
}

} // namespace colossal::plan

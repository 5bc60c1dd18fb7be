// Events by Protobuf; a reader may look while the file grows, so each is written at once.
#include "runtime/training/EventFile.h"

#include "Event.pb.h"
#include "colossal/Plan/OutputFile.h"
#include "runtime/training/CheckpointFolder.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace colossal::runtime {

static double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

uint32_t crc32c(std::string_view bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> made{};
    for (uint32_t i = 0; i < made.size(); ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit)
        value = value & 1 ? value >> 1 ^ 0x82f63b78u : value >> 1;
      made[i] = value;
    }
    return made;
  }();
  uint32_t crc = ~0u;
  for (const char byte : bytes)
    crc = table[(crc ^ static_cast<unsigned char>(byte)) & 0xff] ^ crc >> 8;
  return ~crc;
}

std::string frameRecord(std::string_view bytes) {
  // Masked, since checksums of what holds checksums say little.
  const auto masked = [](std::string_view of) {
    const uint32_t crc = crc32c(of), mask = (crc >> 15 | crc << 17) + 0xa282ead8u;
    return std::string(reinterpret_cast<const char *>(&mask), sizeof mask);
  };
  const uint64_t size = bytes.size();
  const std::string length(reinterpret_cast<const char *>(&size), sizeof size);
  return length + masked(length) + std::string(bytes) + masked(bytes);
}

EventFile::~EventFile() {
  if (descriptor >= 0)
    ::close(descriptor);
}

Status EventFile::open(const std::string &folder) {
  COLOSSAL_RETURN_IF_ERROR(makeFolder(folder));
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1) != 0 || !host[0])
    std::strcpy(host, "localhost");
  path = folder + "/events.out.tfevents." + std::to_string(static_cast<int64_t>(now())) + "." + host + "." +
         std::to_string(::getpid());
  descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor < 0)
    return {Code::Io, "cannot write " + path + ": " + std::strerror(errno)};
  training::Event first;
  first.set_wall_time(now());
  first.set_file_version("brain.Event:2");
  return write(first.SerializeAsString());
}

Status EventFile::add(uint64_t step, const std::map<std::string, double> &scalars) {
  training::Event event;
  event.set_wall_time(now());
  event.set_step(static_cast<int64_t>(step));
  for (const auto &[tag, number] : scalars) {
    training::Summary::Value &value = *event.mutable_summary()->add_value();
    value.set_tag(tag);
    value.set_simple_value(static_cast<float>(number));
  }
  return write(event.SerializeAsString());
}

Status EventFile::write(const std::string &event) {
  const std::string record = frameRecord(event);
  return plan::writeAll(descriptor, record.data(), record.size(), path);
}

} // namespace colossal::runtime

// What the executor's tests share: a device whose buffers lie far apart, and launches with their parameters
// packed.
#ifndef COLOSSAL_EMULATION_PTX_HARNESS_H
#define COLOSSAL_EMULATION_PTX_HARNESS_H

#include "Ptx.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <fstream>
#include <random>
#include <sstream>

namespace colossal::ptx {

/// Loads, and fails the test with all diagnostics where the text is refused.
inline std::unique_ptr<Module> loaded(const std::string &text) {
  Module::Diagnostics diagnostics;
  std::unique_ptr<Module> module = Module::load(text, diagnostics);
  for (const Module::Diagnostic &diagnostic : diagnostics)
    ADD_FAILURE() << "line " << diagnostic.line << ": " << diagnostic.what << "\n  " << diagnostic.text;
  return module;
}

/// A kernel `f` from declarations and instructions, with parameters p0, p1, ... of 64 bits.
inline std::string kernelText(const std::string &body, unsigned parameters) {
  std::string text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry f(";
  for (unsigned i = 0; i < parameters; ++i)
    text += (i ? ", " : "") + std::string(".param .u64 p") + std::to_string(i);
  return text + ")\n{\n" + body + "\nret;\n}\n";
}

inline std::string fileText(const std::string &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class Device {
public:
  /// The device's address of a copy of `values`, which is of size * sizeof(T) bytes.
  template <class T>
  std::uint64_t put(const std::string &name, const std::vector<T> &values, bool writable = true) {
    std::size_t bytes = values.size() * sizeof(T);
    storage.emplace_back(bytes / sizeof(std::max_align_t) + 1);
    std::memcpy(storage.back().data(), values.data(), bytes);
    std::uint64_t address = 0x700000000 + (std::uint64_t(buffers.size()) << 32);
    buffers.push_back({name, address, bytes, storage.back().data(), writable});
    return address;
  }
  template <class T>
  std::vector<T> get(std::uint64_t address) const {
    for (const Buffer &buffer : buffers)
      if (buffer.address == address) {
        std::vector<T> values(buffer.size / sizeof(T));
        std::memcpy(values.data(), buffer.data, buffer.size);
        return values;
      }
    return {};
  }
  template <class... Arguments>
  Launch launch(const std::string &kernel, Dim3 grid, Dim3 block, Arguments... arguments) const {
    Launch launch;
    launch.kernel = kernel;
    launch.grid = grid;
    launch.block = block;
    launch.buffers = buffers;
    (pack(launch.parameters, arguments), ...);
    return launch;
  }

private:
  template <class T>
  static void pack(std::vector<std::byte> &bytes, T value) {
    std::size_t at = (bytes.size() + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    bytes.resize(at + sizeof(T));
    std::memcpy(bytes.data() + at, &value, sizeof(T));
  }
  std::vector<Buffer> buffers;
  std::deque<std::vector<std::max_align_t>> storage;
};

inline std::string describe(const Report &report) {
  std::ostringstream out;
  out << report.error;
  for (const Fault &fault : report.faults)
    out << fault;
  return out.str();
}

inline std::vector<float> randomFloats(std::size_t count, float low, float high, unsigned seed = 1) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> values(low, high);
  std::vector<float> result(count);
  for (float &value : result)
    value = values(generator);
  return result;
}

} // namespace colossal::ptx

#endif

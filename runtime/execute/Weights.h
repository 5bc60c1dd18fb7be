// Where parameters come from: mapped weight files, the plan's data section, or a random generator. A rank
// touches only the pages of its boxes.
#ifndef COLOSSAL_RUNTIME_EXECUTE_WEIGHTS_H
#define COLOSSAL_RUNTIME_EXECUTE_WEIGHTS_H

#include "runtime/execute/Boxes.h"

#include "runtime/io/Safetensors.h"

#include "colossal/Plan/Container.h"

#include <memory>
#include <mutex>
#include <optional>

namespace colossal::runtime {

class Weights {
public:
  Weights() = default;
  Weights(const Weights &) = delete;
  Weights &operator=(const Weights &) = delete;
  ~Weights() { close(); }

  /// `folder` is the plan's. `moved`, if not empty, is where the weights lie now: a folder that holds files
  /// of the recorded names, or the file itself where the plan has one. With a seed no file is opened. Files
  /// are opened at first use, and their size must be the recorded one.
  void configure(const plan::Plan &plan, plan::ByteView data, std::string folder, std::string moved,
                 std::optional<uint64_t> randomSeed);

  /// Where `moved` is a .safetensors file (and not the plan's own file of that name): opens it. Parameters
  /// that it has, under the names of the model's file, are read from there, the others from where the plan
  /// says. Fails where it has none of them, or one with another type or shape. `remark` says what of either
  /// was left over.
  Status openGiven(std::string &remark);
  /// Whether that is so.
  bool areGiven() const { return given != nullptr; }
  bool areRandom() const { return seed.has_value(); }

  /// Where the plan's file of that index lies now.
  Status locate(uint32_t file, std::string &path) const;

  /// Fills a part of a shard, which lies at `shard`, with a parameter's box; padding is zero. Any rank's
  /// thread may call it.
  Status read(uint32_t parameter, const ResolvedBox &box, ShardPart part, std::byte *shard);
  uint64_t elementBytes(uint32_t parameter) const;

  /// Unmaps the files; a later read maps them again.
  void close();

private:
  struct Mapping {
    void *base = nullptr;
    uint64_t bytes = 0;
  };
  Status map(uint32_t file, const std::byte *&base);

  const plan::Plan *plan = nullptr;
  plan::ByteView data;
  std::string folder, moved;
  std::optional<uint64_t> seed;
  std::mutex mutex;
  std::vector<Mapping> mappings;
  std::unique_ptr<SafetensorsFile> given;
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_EXECUTE_WEIGHTS_H

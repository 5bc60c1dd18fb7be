// Hostile plans from good ones: well-formed messages with fields altered, whatever their kind.
#ifndef COLOSSAL_TEST_RUNTIME_MUTATOR_H
#define COLOSSAL_TEST_RUNTIME_MUTATOR_H

#include <google/protobuf/message.h>

#include <random>

namespace colossal::runtime {

/// Repeatable: the same seed makes the same changes.
class Mutator {
public:
  explicit Mutator(uint64_t seed) : random(seed) {}

  /// Changes one field somewhere below `message`: sizes, offsets, indices, enumerations, names, presence,
  /// order.
  void mutate(google::protobuf::Message &message);
  /// A number below `count`.
  size_t pick(size_t count) { return random() % count; }

private:
  /// Small, aligned, a power of two or next to one, or near the greatest.
  uint64_t number();
  std::mt19937_64 random;
};

} // namespace colossal::runtime

#endif // COLOSSAL_TEST_RUNTIME_MUTATOR_H

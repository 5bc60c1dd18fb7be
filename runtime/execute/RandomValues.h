// Values that depend on a seed, a name and an element's global index only: the same on any mesh and any
// machine.
#ifndef COLOSSAL_RUNTIME_EXECUTE_RANDOMVALUES_H
#define COLOSSAL_RUNTIME_EXECUTE_RANDOMVALUES_H

#include "colossal/Plan/Plan.pb.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace colossal::runtime {

class RandomValues {
public:
  /// Weights: floats of two dimensions are about normal with deviation 0.02, of three or more 1/sqrt(fan-in)
  /// (fan-in is the product of all dimensions but the first), of one or none 1 + 0.02 n, so that scales and
  /// variances are sane. Integers are 0, booleans false: they often are shapes and indices.
  static RandomValues weights(uint64_t seed, const std::string &name, plan::DataType type,
                              const std::vector<uint64_t> &shape);
  /// Inputs: floats are about standard normal; integers and booleans 0 or 1, which are valid as token ids and
  /// masks.
  static RandomValues inputs(uint64_t seed, const std::string &name, plan::DataType type);

  /// Writes elements [begin, begin + count) of the tensor.
  void fill(uint64_t begin, uint64_t count, std::byte *out) const;

private:
  uint64_t key = 0;
  plan::DataType type = plan::F32;
  float mean = 0, deviation = 1;
  bool bits = false; // integers take a random bit
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_EXECUTE_RANDOMVALUES_H

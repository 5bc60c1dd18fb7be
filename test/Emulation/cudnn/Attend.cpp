// Attention, a query at a time: scores in floats, weights rounded to the tensors' type before they meet the
// values.
#include "Places.h"
#include "Work.h"

#include <cmath>
#include <limits>

namespace colossal::cudnn {

namespace {

/// What a stream runs, as often as it comes to it.
struct Work {
  Call call;
  Places q, k, v, mask, o;
};

/// A tensor's elements as floats, in the order of its dimensions.
std::vector<float> readAll(const Tensor &tensor, const Places &places, const EmulatedUse *uses) {
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  forEach(tensor, [&](std::int64_t i, std::int64_t offset) {
    values[static_cast<size_t>(i)] = read<float>(places.at(uses, offset), tensor.type);
  });
  return values;
}

float rounded(float value, DataType type) {
  std::byte bytes[8]; // as wide as any type is
  write(value, type, bytes);
  return read<float>(bytes, type);
}

void run(void *argument, const EmulatedUse *uses) {
  const Work &work = *static_cast<const Work *>(argument);
  const Call &call = work.call;
  const Attention &a = *call.graph->attention;
  const std::vector<float> q = readAll(a.q, work.q, uses), k = readAll(a.k, work.k, uses),
                           v = readAll(a.v, work.v, uses),
                           mask = a.mask ? readAll(*a.mask, work.mask, uses) : std::vector<float>();
  const auto batch = static_cast<size_t>(a.q.sizes[0]), heads = static_cast<size_t>(a.q.sizes[1]),
             queries = static_cast<size_t>(a.q.sizes[2]), width = static_cast<size_t>(a.q.sizes[3]),
             keyHeads = static_cast<size_t>(a.k.sizes[1]), keys = static_cast<size_t>(a.k.sizes[2]),
             valueWidth = static_cast<size_t>(a.v.sizes[3]);
  auto maskAt = [&](size_t b, size_t h, size_t i, size_t j) {
    size_t place = 0;
    const size_t index[] = {b, h, i, j};
    for (size_t d = 0; d < 4; ++d)
      place = place * static_cast<size_t>(a.mask->sizes[d]) + (a.mask->sizes[d] == 1 ? 0 : index[d]);
    return mask[place];
  };
  std::vector<float> result(static_cast<size_t>(a.o.elements())), scores(keys), sums(valueWidth);
  for (size_t b = 0; b < batch; ++b)
    for (size_t h = 0; h < heads; ++h)
      for (size_t i = 0; i < queries; ++i) {
        const size_t group = b * keyHeads + h / (heads / keyHeads);
        const float *query = &q[((b * heads + h) * queries + i) * width];
        float greatest = -std::numeric_limits<float>::infinity(), total = 0;
        for (size_t j = 0; j < keys; ++j) {
          const float *key = &k[(group * keys + j) * width];
          float score = 0;
          for (size_t d = 0; d < width; ++d)
            score += query[d] * key[d];
          score *= call.scale;
          if (a.mask)
            score += maskAt(b, h, i, j);
          if (a.hidden && static_cast<std::int64_t>(i) + call.offset < static_cast<std::int64_t>(j))
            score = call.hidden;
          scores[j] = score;
          greatest = std::max(greatest, score);
        }
        for (float &score : scores)
          total += score = std::exp(score - greatest);
        std::fill(sums.begin(), sums.end(), 0.0f);
        for (size_t j = 0; j < keys; ++j) {
          const float weight = rounded(scores[j], a.q.type), *value = &v[(group * keys + j) * valueWidth];
          for (size_t d = 0; d < valueWidth; ++d)
            sums[d] += weight * value[d];
        }
        for (size_t d = 0; d < valueWidth; ++d)
          result[((b * heads + h) * queries + i) * valueWidth + d] = sums[d] / total;
      }
  forEach(a.o, [&](std::int64_t i, std::int64_t offset) {
    write(result[static_cast<size_t>(i)], a.o.type, work.o.at(uses, offset));
  });
}

} // namespace

Result enqueueAttention(const Call &call, Stream stream) {
  const Attention &a = *call.graph->attention;
  std::vector<EmulatedUse> uses;
  const Places q(a.q, call.q, false, uses), k(a.k, call.k, false, uses), v(a.v, call.v, false, uses),
      mask(a.mask ? *a.mask : Tensor{0, 1, Float, {}, {}, true, false}, call.mask, false, uses);
  if (!a.mask)
    uses.pop_back(); // the one element of a tensor without dimensions
  const Places o(a.o, call.o, true, uses);
  // A graph may run it at any later time: it stays.
  auto *work = new Work{call, q, k, v, mask, o};
  const Result result = enqueue("attention of cuDNN", uses, run, work, stream);
  if (result != Success)
    delete work;
  return result;
}

} // namespace colossal::cudnn

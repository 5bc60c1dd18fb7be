#include "MiniBuckets.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace colossal::search {

namespace {
/// Values are cut at most here: sums of the functions of a bucket then stay below 2^31.
constexpr std::int32_t kLargest = 1 << 24;
/// Entries of the largest table that may be asked for, and of the smallest.
constexpr double kWidest = 0x1p24, kNarrowest = 16;
} // namespace

MiniBuckets::MiniBuckets(const Core &core, const ExactDual &dual, const std::vector<char> &keep,
                         __int128 upper, std::uint64_t room, const std::function<bool()> &stop)
    : core(core), stop(stop), total(*dual.bound()), upper(upper), kept(core.nodes) {
  for (int i = 0; i < core.nodes; ++i)
    for (int c = core.first[i]; c < core.first[i + 1]; ++c)
      if (keep[c])
        kept[i].push_back(c - core.first[i]);
  addFunctions();
  // As wide as the room allows.
  double limit = kWidest;
  while (plan(limit) > static_cast<double>(room) && limit > kNarrowest)
    limit /= 4;
  layOut();
  load(dual);
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    if ((stopped = stop()))
      return;
    eliminate(b);
  }
  for (const Bucket &bucket : buckets)
    if (bucket.rest.empty())
      least += entries[functions[bucket.output].first];
}

std::optional<__int128> MiniBuckets::bound() const {
  __int128 sum = total + (static_cast<__int128>(least) << shift);
  return sum > upper ? std::nullopt : std::optional<__int128>(sum);
}

/// Whole-number costs of nodes and edges, from zero up, in 2^shift.
void MiniBuckets::load(const ExactDual &dual) {
  std::size_t size = 0;
  for (Function &function : functions) {
    function.first = size;
    size += static_cast<std::size_t>(sizeOf(function.scope));
  }
  entries.assign(size, 0);
  std::vector<double> raw;
  // First what is left of the bound, then in what unit to count, then the entries.
  for (int pass = 0; pass < 2; ++pass) {
    for (Source source : sources) {
      residual(dual, source, raw);
      double low = *std::min_element(raw.begin(), raw.end());
      if (pass == 0) {
        total += static_cast<__int128>(low) - static_cast<__int128>(dual.taken(source.node, source.half));
        continue;
      }
      if (source.function < 0)
        continue;
      Value *out = entries.data() + functions[source.function].first;
      for (std::size_t k = 0; k < raw.size(); ++k)
        out[k] = static_cast<Value>(
            std::min<double>(cut, std::floor(std::ldexp(std::min(raw[k] - low, 0x1p60), -shift))));
    }
    if (pass > 0)
      break;
    __int128 gap = upper - total + 1;
    if (gap <= 0) {
      // Nothing is left to show.
      gap = 1;
    }
    while ((gap >> shift) >= kLargest)
      ++shift;
    cut = static_cast<Value>((gap + (__int128{1} << shift) - 1) >> shift);
  }
}

/// Costs of a node's candidates, or of an edge's pairs, that are left; the node eliminated first is last.
void MiniBuckets::residual(const ExactDual &dual, const Source &source, std::vector<double> &out) const {
  out.clear();
  if (source.half < 0) {
    for (int k : kept[source.node])
      out.push_back(dual.nodeCost(source.node, k));
    return;
  }
  int i = source.node, j = core.halves[source.half].other;
  bool swapped = position[i] > position[j];
  for (int k : kept[swapped ? i : j])
    for (int l : kept[swapped ? j : i])
      out.push_back(dual.edgeCost(i, source.half, swapped ? k : l, swapped ? l : k));
}

/// Walks the rows of a bucket: for each choice of `rest`, in order, where each input's entries for the
/// bucket's node begin.
class MiniBuckets::Rows {
public:
  Rows(const MiniBuckets &all, const Bucket &bucket) {
    std::size_t dims = bucket.rest.size();
    for (int node : bucket.rest)
      size.push_back(all.count(node));
    digit.assign(dims, 0);
    for (int f : bucket.inputs) {
      const Function &function = all.functions[f];
      at.push_back(function.first);
      // Strides of each of the bucket's nodes, the last scope entry being the bucket's node.
      std::size_t stride = 1, p = function.scope.size();
      stride *= all.count(function.scope[--p]);
      std::vector<std::ptrdiff_t> mine(dims, 0);
      for (std::size_t d = dims; d-- > 0 && p > 0;)
        if (bucket.rest[d] == function.scope[p - 1]) {
          mine[d] = static_cast<std::ptrdiff_t>(stride);
          stride *= size[d];
          --p;
        }
      strides.push_back(std::move(mine));
    }
  }
  /// Moves on; false after the last.
  bool next() {
    for (std::size_t d = digit.size(); d-- > 0;) {
      if (++digit[d] < size[d]) {
        for (std::size_t f = 0; f < at.size(); ++f)
          at[f] += strides[f][d];
        return true;
      }
      digit[d] = 0;
      for (std::size_t f = 0; f < at.size(); ++f)
        at[f] -= strides[f][d] * (size[d] - 1);
    }
    return false;
  }
  std::vector<std::size_t> at; ///< per input

private:
  std::vector<int> size, digit;
  std::vector<std::vector<std::ptrdiff_t>> strides;
};

/// The sum of a bucket's functions in the row that `rows` stands at.
void MiniBuckets::sumRow(const Bucket &bucket, const Rows &rows, Value *sum) const {
  int n = count(bucket.node);
  if (bucket.level >= 0)
    std::copy_n(levels[bucket.level].data(), n, sum);
  else
    std::fill_n(sum, n, 0);
  for (std::size_t at : rows.at) {
    const Value *row = entries.data() + at;
    for (int k = 0; k < n; ++k)
      sum[k] += row[k];
  }
}

/// Per candidate of the bucket's node, the least sum of its functions.
void MiniBuckets::marginal(const Bucket &bucket, Value *out) {
  int n = count(bucket.node);
  Value *sum = scratch.data();
  std::fill_n(out, n, std::numeric_limits<Value>::max());
  Rows rows(*this, bucket);
  do {
    sumRow(bucket, rows, sum);
    for (int k = 0; k < n; ++k)
      out[k] = std::min(out[k], sum[k]);
  } while (rows.next());
  spent += static_cast<std::uint64_t>(sizeOf(bucket.rest)) * n * bucket.inputs.size();
}

/// The mini-buckets of a node are eliminated together, with the first.
void MiniBuckets::eliminate(std::size_t number) {
  if (number > 0 && buckets[number - 1].node == buckets[number].node)
    return;
  std::size_t end = number + 1;
  while (end < buckets.size() && buckets[end].node == buckets[number].node)
    ++end;
  int n = count(buckets[number].node);
  if (end - number > 1) {
    // Moves costs between them until each has the same marginal: what they then reach is most.
    std::vector<std::vector<Value>> own(end - number, std::vector<Value>(n));
    for (std::size_t b = number; b < end; ++b)
      marginal(buckets[b], own[b - number].data());
    auto parts = static_cast<std::int64_t>(own.size());
    for (int k = 0; k < n; ++k) {
      std::int64_t sum = 0;
      for (const auto &values : own)
        sum += values[k];
      for (auto &values : own)
        values[k] = static_cast<Value>(sum / parts) - values[k];
    }
    for (std::size_t b = number; b < end; ++b) {
      buckets[b].level = static_cast<int>(levels.size());
      levels.push_back(std::move(own[b - number]));
    }
  }
  for (std::size_t b = number; b < end; ++b) {
    const Bucket &bucket = buckets[b];
    Value *out = entries.data() + functions[bucket.output].first, *sum = scratch.data();
    Rows rows(*this, bucket);
    do {
      sumRow(bucket, rows, sum);
      *out++ = std::min(cut, *std::min_element(sum, sum + n));
    } while (rows.next());
    spent += static_cast<std::uint64_t>(sizeOf(bucket.rest)) * n * bucket.inputs.size();
  }
}

/// The way back through one bucket: the least total with each candidate, and what each message's receiver and
/// all others cost at least for each of its entries.
void MiniBuckets::back(const Bucket &bucket, std::vector<Value> &low) {
  int n = count(bucket.node);
  low.assign(n, std::numeric_limits<Value>::max());
  const Function &output = functions[bucket.output];
  // Of a function of no node: all other such.
  Value alone = static_cast<Value>(std::min<std::int64_t>(cut, least - entries[output.first]));
  const Value *others = bucket.rest.empty() ? &alone : returned.data() + (output.first - originals);
  Value *sum = scratch.data();
  Rows rows(*this, bucket);
  do {
    Value other = *others++;
    if (other >= cut)
      continue;
    sumRow(bucket, rows, sum);
    for (int k = 0; k < n; ++k) {
      sum[k] += other;
      low[k] = std::min(low[k], sum[k]);
    }
    for (std::size_t f = 0; f < bucket.inputs.size(); ++f) {
      if (!functions[bucket.inputs[f]].message)
        continue;
      const Value *known = entries.data() + rows.at[f];
      Value *out = returned.data() + (rows.at[f] - originals);
      for (int k = 0; k < n; ++k)
        out[k] = std::min(out[k], sum[k] - known[k]);
    }
  } while (rows.next());
  spent += static_cast<std::uint64_t>(sizeOf(bucket.rest)) * n * bucket.inputs.size();
}

int MiniBuckets::fix(std::vector<char> &keep) {
  if (stopped)
    return 0;
  int dropped = 0;
  returned.assign(entries.size() - originals, cut);
  std::vector<Value> low;
  for (std::size_t b = buckets.size(); b-- > 0 && !stop();) {
    back(buckets[b], low);
    int i = buckets[b].node;
    for (int k = 0; k < count(i); ++k) {
      char &mine = keep[core.first[i] + kept[i][k]];
      dropped += mine && low[k] >= cut;
      mine &= low[k] < cut;
    }
  }
  return dropped;
}

std::vector<int> MiniBuckets::decode() const {
  std::vector<int> x(core.nodes, 0), digit(core.nodes, 0);
  std::vector<std::int64_t> sum;
  for (std::size_t b = buckets.size(); b > 0;) {
    int node = buckets[b - 1].node, n = count(node);
    sum.assign(n, 0);
    for (; b > 0 && buckets[b - 1].node == node; --b)
      for (int f : buckets[b - 1].inputs) {
        const Function &function = functions[f];
        std::size_t at = 0;
        for (int other : function.scope)
          at = at * count(other) + (other == node ? 0 : digit[other]);
        for (int k = 0; k < n; ++k)
          sum[k] += entries[function.first + at + k];
      }
    digit[node] = static_cast<int>(std::min_element(sum.begin(), sum.end()) - sum.begin());
  }
  for (int i = 0; i < core.nodes; ++i)
    x[i] = kept[i][digit[i]];
  return x;
}

} // namespace colossal::search

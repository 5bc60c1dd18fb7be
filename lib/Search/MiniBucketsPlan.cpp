// Which node goes when, and how its bucket is divided: before any number is touched.
#include "MiniBuckets.h"

#include <algorithm>
#include <set>

namespace colossal::search {

namespace {
/// More functions in a bucket could overflow (MiniBuckets.cpp).
constexpr std::size_t kMostInputs = 30;
} // namespace

double MiniBuckets::sizeOf(const std::vector<int> &scope) const {
  double size = 1;
  for (int node : scope)
    size *= count(node);
  return size;
}

/// Nodes with one candidate are no variables: their edges are functions of the other end.
void MiniBuckets::addFunctions() {
  for (int i = 0; i < core.nodes; ++i) {
    auto add = [&](int half, std::vector<int> scope) {
      scope.erase(std::remove_if(scope.begin(), scope.end(), [&](int node) { return count(node) == 1; }),
                  scope.end());
      sources.push_back({i, half, scope.empty() ? -1 : static_cast<int>(functions.size())});
      if (!scope.empty())
        functions.push_back({std::move(scope), 0, false});
    };
    add(-1, {i});
    for (int h = core.halfFirst[i]; h < core.halfFirst[i + 1]; ++h)
      if (core.halves[h].other < i)
        add(h, {core.halves[h].other, i});
  }
  given = functions.size();
}

/// Divides what knows `node` into buckets, larger functions first, each into the first bucket that has room.
void MiniBuckets::divide(int node, std::vector<int> mine, double limit) {
  std::stable_sort(mine.begin(), mine.end(),
                   [&](int a, int b) { return sizeOf(functions[a].scope) > sizeOf(functions[b].scope); });
  std::size_t start = buckets.size();
  for (int f : mine) {
    Bucket *to = nullptr;
    std::vector<int> joined;
    for (std::size_t b = start; b < buckets.size() && !to; ++b) {
      joined = buckets[b].rest;
      for (int other : functions[f].scope)
        if (other != node && std::find(joined.begin(), joined.end(), other) == joined.end())
          joined.push_back(other);
      if (sizeOf(joined) * count(node) <= limit && buckets[b].inputs.size() < kMostInputs)
        to = &buckets[b];
    }
    if (!to) {
      joined = functions[f].scope;
      joined.erase(std::remove(joined.begin(), joined.end(), node), joined.end());
      to = &buckets.emplace_back();
      to->node = node;
    }
    to->rest = std::move(joined);
    to->inputs.push_back(f);
  }
}

/// Chooses order and buckets with tables of about `limit` entries at most; returns how many entries all have.
/// The next node is the one whose functions know the fewest combinations.
double MiniBuckets::plan(double limit) {
  functions.resize(given);
  buckets.clear();
  divided = 0;
  std::vector<std::vector<int>> of(core.nodes); // functions that know a node
  for (std::size_t f = 0; f < functions.size(); ++f)
    for (int node : functions[f].scope)
      of[node].push_back(static_cast<int>(f));
  std::vector<int> mark(core.nodes, 0);
  int stamp = 0;
  auto combinations = [&](int node) {
    double size = count(node);
    mark[node] = ++stamp;
    for (int f : of[node])
      for (int other : functions[f].scope)
        if (mark[other] != stamp) {
          mark[other] = stamp;
          size *= count(other);
        }
    return size;
  };
  std::vector<double> size(core.nodes, 0);
  std::set<std::pair<double, int>> queue;
  for (int i = 0; i < core.nodes; ++i)
    if (count(i) > 1)
      queue.emplace(size[i] = combinations(i), i);
  double all = 0;
  std::vector<int> touched;
  while (!queue.empty()) {
    int node = queue.begin()->second;
    queue.erase(queue.begin());
    std::size_t start = buckets.size();
    divide(node, of[node], limit);
    divided += buckets.size() > start + 1;
    touched.clear();
    for (std::size_t b = start; b < buckets.size(); ++b) {
      Bucket &bucket = buckets[b];
      bucket.output = static_cast<int>(functions.size());
      functions.push_back({bucket.rest, 0, true});
      all += sizeOf(bucket.rest) * count(node);
      auto gone = [&](int f) {
        return std::find(bucket.inputs.begin(), bucket.inputs.end(), f) != bucket.inputs.end();
      };
      for (int other : bucket.rest) {
        std::vector<int> &list = of[other];
        list.erase(std::remove_if(list.begin(), list.end(), gone), list.end());
        list.push_back(bucket.output);
        touched.push_back(other);
      }
    }
    for (int other : touched) {
      queue.erase({size[other], other});
      queue.emplace(size[other] = combinations(other), other);
    }
  }
  return all;
}

/// Brings all scopes into the order of elimination, last first.
void MiniBuckets::layOut() {
  position.assign(core.nodes, -1);
  std::size_t widest = 1;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    position[buckets[b].node] = static_cast<int>(b);
    widest = std::max<std::size_t>(widest, count(buckets[b].node));
  }
  auto later = [&](int a, int b) { return position[a] > position[b]; };
  for (Function &function : functions)
    std::sort(function.scope.begin(), function.scope.end(), later);
  for (Bucket &bucket : buckets)
    std::sort(bucket.rest.begin(), bucket.rest.end(), later);
  scratch.resize(widest);
  originals = 0;
  for (std::size_t f = 0; f < given; ++f)
    originals += static_cast<std::size_t>(sizeOf(functions[f].scope));
}

} // namespace colossal::search

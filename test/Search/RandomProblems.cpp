#include "RandomProblems.h"

#include "colossal/Search/Verifier.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace colossal::search {

Problem randomProblem(const Recipe &recipe, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  auto cost = [&]() -> Cost {
    if (below(100) < recipe.forbidden)
      return kForbidden;
    return below(recipe.largest + recipe.largest / 4 + 1) - recipe.largest / 4;
  };
  Problem problem;
  std::int64_t sum = 0;
  for (int i = 0; i < recipe.nodes; ++i) {
    Node &node = problem.nodes.emplace_back();
    std::int64_t begin = below(8), end = begin + below(5);
    for (std::int64_t k = 1 + below(recipe.candidates); k > 0; --k) {
      Candidate &candidate = node.candidates.emplace_back();
      candidate.cost = below(10) ? std::abs(cost() % 100) : cost();
      // Mostly one interval a node, as a tensor has, sometimes recomputed: several.
      for (std::int64_t pieces = recipe.memory ? 1 + (below(5) == 0) : 0; pieces > 0; --pieces) {
        std::int64_t bytes = below(10);
        candidate.memory.push_back({begin, end, bytes});
        sum += bytes;
        if (below(4) == 0) {
          begin = below(8);
          end = begin + below(5);
        }
      }
    }
  }
  if (recipe.memory)
    problem.memoryLimit = sum / 6 + below(sum / 3 + 1);
  for (int e = 0; e < recipe.edges; ++e) {
    std::vector<std::int32_t> nodes(recipe.nodes);
    std::iota(nodes.begin(), nodes.end(), 0);
    std::shuffle(nodes.begin(), nodes.end(), random);
    nodes.resize(std::min<std::size_t>(nodes.size(), 1 + (below(4) ? 1 : below(recipe.widest))));
    std::vector<std::shared_ptr<const Classes>> classes(nodes.size());
    std::size_t size = 1;
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      auto candidates = static_cast<std::int32_t>(problem.nodes[nodes[n]].candidates.size());
      if (recipe.classes > 0 && below(100) < recipe.classes) {
        auto made = std::make_shared<Classes>();
        made->count = static_cast<std::int32_t>(1 + below(candidates));
        for (std::int32_t k = 0; k < candidates; ++k) // none is left empty
          made->of.push_back(k < made->count ? k : static_cast<std::int32_t>(below(made->count)));
        std::shuffle(made->of.begin(), made->of.end(), random);
        candidates = made->count;
        classes[n] = std::move(made);
      }
      size *= static_cast<std::size_t>(candidates);
    }
    auto table = std::make_shared<CostTable>();
    bool follower = nodes.size() == 2 && below(100) < recipe.followers;
    for (std::size_t k = 0; k < size; ++k) {
      std::size_t cols = classes.back() ? static_cast<std::size_t>(classes.back()->count)
                                        : problem.nodes[nodes.back()].candidates.size();
      bool matches = (k / cols) % cols == k % cols;
      table->push_back(follower && !matches ? kForbidden : cost());
    }
    if (e > 0 && below(4) == 0 && problem.edges.back().table->size() == size)
      table = std::const_pointer_cast<CostTable>(problem.edges.back().table);
    problem.edges.push_back({nodes, table, std::move(classes)});
  }
  return problem;
}

std::vector<Assignment> findOptima(const Problem &problem) {
  Assignment x(problem.nodes.size(), 0);
  std::vector<Assignment> best;
  std::optional<Total> least;
  while (true) {
    Verdict verdict = verify(problem, x);
    if (verdict.feasible() && (!least || verdict.cost <= *least)) {
      if (least != verdict.cost)
        best.clear();
      least = verdict.cost;
      best.push_back(x);
    }
    std::size_t i = 0;
    for (; i < x.size(); ++i) {
      if (++x[i] < static_cast<std::int32_t>(problem.nodes[i].candidates.size()))
        break;
      x[i] = 0;
    }
    if (i == x.size())
      return best;
  }
}

std::optional<Total> enumerate(const Problem &problem) {
  std::vector<Assignment> optima = findOptima(problem);
  return optima.empty() ? std::nullopt : std::optional(verify(problem, optima.front()).cost);
}

} // namespace colossal::search

// Random small problems of every shape the format allows, and enumeration as their judge.
#ifndef COLOSSAL_TEST_SEARCH_RANDOM_PROBLEMS_H
#define COLOSSAL_TEST_SEARCH_RANDOM_PROBLEMS_H

#include "colossal/Search/Problem.h"

#include <optional>
#include <ostream>
#include <vector>

namespace colossal::search {

struct Recipe {
  int nodes = 5;
  int candidates = 3;
  int edges = 6;
  int widest = 3;     ///< nodes of an edge, at most
  int forbidden = 10; ///< per cent of costs that are forbidden
  int followers = 30; ///< per cent of pairwise edges that are a permutation, all else forbidden
  bool memory = true;
  Cost largest = 20; ///< costs are drawn from [-largest / 4, largest]
  int classes = 0;   ///< per cent of an edge's nodes whose candidates share rows
};
/// What test names say of a recipe: GoogleTest finds it by its name.
inline void PrintTo(const Recipe &recipe, std::ostream *out) {
  *out << recipe.nodes << " nodes, " << recipe.edges << " edges, " << recipe.followers << " % followers";
}
Problem randomProblem(const Recipe &recipe, std::uint64_t seed);

/// The feasible assignments of the least cost, by trying all; empty where there is none.
std::vector<Assignment> findOptima(const Problem &problem);
/// Their cost; none where there is none.
std::optional<Total> enumerate(const Problem &problem);

} // namespace colossal::search

#endif // COLOSSAL_TEST_SEARCH_RANDOM_PROBLEMS_H

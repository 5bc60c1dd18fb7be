// Problems and solutions as text. Two JSON forms are read, told apart by their keys:
//
// Ours, for tests and for problems written by hand. null stands for kForbidden, or, among "classes", for a
// node each of whose candidates is a class of its own; "memory" and "classes" may be left out:
//   { "memory_limit": 100,
//     "nodes": [ {"name": "a", "candidates": [ {"cost": 3, "memory": [[0, 4, 60]]}, {"cost": null} ]} ],
//     "edges": [ {"nodes": [0, 1], "table": [0, null, 5, 7], "classes": [[0, 1], null]} ] }
//
// The contest form of the intra-operator parallelism benchmark (google/iopddl), where costs of 10^18 and more
// stand for kForbidden and each node has one interval:
//   { "problem": { "name": "x",
//       "nodes": {"intervals": [[0, 4]], "costs": [[3, 5]], "usages": [[60, 0]]},
//       "edges": {"nodes": [[0, 1]], "costs": [[0, 1, 5, 7]]}, "usage_limit": 100 } }
//
// Equal tables come out shared. Files may be gzipped. Messages name file, byte offset and key.
#ifndef COLOSSAL_SEARCH_PROBLEMTEXT_H
#define COLOSSAL_SEARCH_PROBLEMTEXT_H

#include "colossal/Search/Problem.h"

#include <string>
#include <string_view>

namespace colossal::search {

enum class ProblemForm { Native, Contest };

struct ReadResult {
  Problem problem;
  ProblemForm form = ProblemForm::Native;
  /// Empty on success; the problem has then passed validate().
  std::string error;
};

ReadResult parseProblem(std::string_view text);
ReadResult readProblem(const std::string &path);

/// The native form, which parseProblem gives back unchanged.
std::string printProblem(const Problem &problem);

} // namespace colossal::search

#endif // COLOSSAL_SEARCH_PROBLEMTEXT_H

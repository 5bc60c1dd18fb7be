//===- Cases.h - the ops of the layout harness, and what each must split ----===//
//
// Written by hand, apart from the rules: `splits` is what each op must be able to split, by the names of
// Names.h. A rule that does not reach it fails the harness.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_TEST_PARTITION_CASES_H
#define COLOSSAL_TEST_PARTITION_CASES_H

#include <string>
#include <vector>

namespace colossal::test {

struct Case {
  const char *name;
  const char *splits; ///< names, separated by blanks
  /// Arguments "%a: type, ..." ("type<max>" draws integers below max), the op, and the types of its results.
  const char *arguments;
  const char *op;
  const char *result;
};

extern const std::vector<Case> cases;

/// MLIR text of a function with that op. Integer bounds of arguments are their attributes `test.below`.
std::string getText(const Case &each);

} // namespace colossal::test

#endif // COLOSSAL_TEST_PARTITION_CASES_H

// A variable of the environment that a test sets.
#ifndef COLOSSAL_TEST_RUNTIME_VARIABLE_H
#define COLOSSAL_TEST_RUNTIME_VARIABLE_H

#include <cstdlib>
#include <string>

/// For as long as it lives, an environment variable has a value.
class Variable {
public:
  Variable(const char *called, const std::string &value) : name(called) { ::setenv(name, value.c_str(), 1); }
  ~Variable() { ::unsetenv(name); }
  Variable(const Variable &) = delete;
  Variable &operator=(const Variable &) = delete;

private:
  const char *name;
};

#endif // COLOSSAL_TEST_RUNTIME_VARIABLE_H

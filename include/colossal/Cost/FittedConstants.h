// The few numbers of a machine that no data sheet gives: they are fitted to measurements. A machine file
// states each with its value, unit and meaning, and there are at most 15 of them. None depends on a model, a
// batch or a table's row.
#ifndef COLOSSAL_COST_FITTEDCONSTANTS_H
#define COLOSSAL_COST_FITTEDCONSTANTS_H

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace colossal::cost {

/// What is known about one constant, the same for every machine.
struct FittedConstantInfo {
  const char *name;
  const char *unit;
  const char *meaning;
  /// Used where a machine file does not state it.
  double fallback;
  /// Accepted values: low <= value <= high.
  double low, high;
};

/// All constants that a machine file may state. At most 15.
const std::vector<FittedConstantInfo> &fittedConstants();

/// The values of one machine. A name outside `fittedConstants` is a mistake of the caller's and gives 0.
class FittedConstants {
public:
  double operator[](std::string_view name) const;
  void set(const std::string &name, double value) { values[name] = value; }
  const std::map<std::string, double> &stated() const { return values; }

private:
  std::map<std::string, double> values;
};

} // namespace colossal::cost

#endif // COLOSSAL_COST_FITTEDCONSTANTS_H

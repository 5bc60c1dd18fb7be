// What a JSON reader forgives and people do not mean: a key that stands twice, of which the last one would
// silently count.
#ifndef COLOSSAL_COST_CHECKEDJSON_H
#define COLOSSAL_COST_CHECKEDJSON_H

#include <string>
#include <string_view>

namespace colossal::cost {

struct JsonFlaw {
  std::string place; ///< "mesh", "levels[1].links"; empty for the whole
  std::string what;  ///< empty: there is none
};

/// The first thing that is wrong with the text as JSON (with line and column), or an object's key that stands
/// twice.
JsonFlaw findJsonFlaw(std::string_view text);

} // namespace colossal::cost

#endif // COLOSSAL_COST_CHECKEDJSON_H

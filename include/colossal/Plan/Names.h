// Names of instructions that are called in several places.
#ifndef COLOSSAL_PLAN_NAMES_H
#define COLOSSAL_PLAN_NAMES_H

#include "colossal/Plan/Plan.pb.h"

#include <string>

namespace colossal::plan {

/// `text` with its gaps filled, as Call.names says: "{0}" by the first of `names`, "{0+2}" by the number that
/// it is and 2 more, or by the numbers of a list, "{3,6}", each and 2 more. What is no gap, or none that
/// `names` can fill, stays as it is.
std::string fillNames(const std::string &text, const google::protobuf::RepeatedPtrField<std::string> &names);

} // namespace colossal::plan

#endif // COLOSSAL_PLAN_NAMES_H

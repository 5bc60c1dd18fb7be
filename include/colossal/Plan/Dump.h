// A plan as text, for people and for tests that compare plans.
#ifndef COLOSSAL_PLAN_DUMP_H
#define COLOSSAL_PLAN_DUMP_H

#include "colossal/Plan/Plan.pb.h"

#include <string>

namespace colossal::plan {

/// All of the plan but its data and code, one thing a line; equal plans give equal text.
std::string dumpPlan(const Plan &plan);
/// An expression in infix notation; coordinates by their axes' names.
std::string dumpExpr(const Expr &expr, const Mesh &mesh);

} // namespace colossal::plan

#endif // COLOSSAL_PLAN_DUMP_H

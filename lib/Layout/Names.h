//===- Names.h - what pins and reports call ops and factors -----------------===//
//
// Ops go by the ONNX names in their locations, factors by the roles that their op gives them.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_LAYOUT_NAMES_H
#define COLOSSAL_LIB_LAYOUT_NAMES_H

#include "colossal/Outline/OpNames.h"
#include "colossal/Partition/Refinement.h"

#include <string>
#include <vector>

namespace colossal::layout {

using outline::escapeName;
using outline::getNames;
using outline::getUniqueNames;

/// A name for each refined factor, in the order of `refined.rule`: the role; role0, role1, ... where the op
/// has several of that role; "d0", "d1", ... for factors without one. A factor of several parts has ".0",
/// ".1", ... appended, outermost first. Example: contract(tensor<4x128x768>, tensor<768x2304>) with n = 3 x
/// 12 x 64: m0, m1, k, n.0, n.1, n.2.
std::vector<std::string> getFactorNames(const dist::RefinedRule &refined);

/// A layout as pins write it: "[4:data,128,3*12:model*64]", "partial(model)" added where it is partial. Pins
/// do not speak of loop axes: those follow from what the mesh loops over.
std::string printSharding(dist::ShardingAttr sharding, dist::MeshAttr mesh);
/// An op's assignment as pins write it: "m0:data,n.1:model", or "replicated".
std::string printAssignment(const dist::RefinedRule &refined, const dist::Assignment &assignment,
                            dist::MeshAttr mesh);

} // namespace colossal::layout

#endif // COLOSSAL_LIB_LAYOUT_NAMES_H

//===- LayoutMarks.h - what earlier phases ask of layouts -------------------===//
//
// Attributes of ops that narrow what the layout search may choose for them, as far as any of an op's layouts
// is so. Pins go before them; the search takes them from the ops.
//
//   dist.batch_over            array<i64: F, A>: axis A of the mesh stands on factor F, which counts rows of
//                              the batch
//   colossal.replicated_over   array<i64: A, ...>: these axes stand on no factor (State.h has the same of
//                              states), but for ops that hand on sums which are to meet; not with the first
//   colossal.stored_over       array<i64: A, ...>: as many of these axes as fit stand on factors (State.h has
//                              the same of states); not with the others
//
//   dist.widens_sums           of a cast to a wider float: partial sums go through it, and are added up
//                              between ranks and turns behind it
//
// A step asks for the first two by `batch_axis` of its module's dist::kTrainingAttrName, the name of the axis
// along which the batch is to lie in both of its passes, and by `whole_sums`, with which each rank along it
// has all of what is summed up over the batch.
//
// Two more say what the turns of a loop do, of what they could all share:
//
//   dist.each_turn             of an op, which computes nothing: what is made of its result alone is brought
//                              to its readers in each turn anew, and not once before the loop. The
//                              partitioner hands it on to the collectives that do so
//   scatters_in_turns          of the training dictionary: each turn reduces between ranks what turns add up
//                              where that leaves a rank less of it, and not the sum behind the loop
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_DIST_LAYOUTMARKS_H
#define COLOSSAL_DIALECTS_DIST_LAYOUTMARKS_H

#include "llvm/ADT/StringRef.h"

namespace colossal::dist {

inline constexpr llvm::StringLiteral kBatchOverAttrName = "dist.batch_over",
                                     kBatchAxisAttrName = "batch_axis", kWholeSumsAttrName = "whole_sums",
                                     kEachTurnAttrName = "dist.each_turn",
                                     kWidensSumsAttrName = "dist.widens_sums",
                                     kScattersInTurnsAttrName = "scatters_in_turns";

} // namespace colossal::dist

#endif // COLOSSAL_DIALECTS_DIST_LAYOUTMARKS_H

//===- SharedTexts.h - one text for stages that are equal -------------------===//
#ifndef COLOSSAL_LIB_PLAN_SHAREDTEXTS_H
#define COLOSSAL_LIB_PLAN_SHAREDTEXTS_H

#include "colossal/Plan/Plan.pb.h"

#include <vector>

namespace colossal::plan {

/// Gives `plan`, whose stages have no texts yet, those of `texts`, one a stage. Stages that do the same with
/// other parameters, and with peers at the same distance, share one:
///
/// - a peer is what it is for the first of them, moved by the distance between their ranks times that of
///   their numbers;
/// - parameters are renumbered in the order in which stages load them, so that those of equal places lie at
///   equal distances (where functions count on their order it is left as it is), and the load program is a
///   function that is called with the stage's distance from the first, which it passes on to what it calls;
/// - tags of messages are numbered anew between each two stages;
/// - names of operators that differ are joined: of 'h.3.attn' and 'h.6.attn' it is 'h.{3,6}.attn'.
///
/// The plan's functions, each of one stage, become those of the texts: they are compared with the texts that
/// call them, equal ones are written once, and their names say whose they are ('block0 of stages 1, 2').
/// Where no two stages are equal nothing else is changed.
void shareTexts(Plan &plan, std::vector<StageText> texts);

/// One name of several: what all begin and end with once, and between braces what differs; the name itself
/// where they are all the same.
std::string joinNames(const std::vector<std::string> &names);

} // namespace colossal::plan

#endif // COLOSSAL_LIB_PLAN_SHAREDTEXTS_H

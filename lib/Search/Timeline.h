// Rule R7 of Reduction.h: memory over the author's time becomes pieces over as few steps as matter.
#ifndef COLOSSAL_SEARCH_TIMELINE_H
#define COLOSSAL_SEARCH_TIMELINE_H

#include "Core.h"
#include "colossal/Search/Problem.h"

namespace colossal::search {

/// The pieces of one node's candidates: disjoint, by begin.
using NodePieces = std::vector<std::vector<Piece>>;

/// Lays a problem's memory over numbered steps, each with the problem's limit as its capacity.
void layTimeline(const Problem &problem, std::vector<NodePieces> &nodes, std::vector<double> &capacity);

/// Makes pieces that overlap or touch disjoint and maximal, by begin.
void normalizePieces(std::vector<Piece> &pieces);

/// Whether `a` holds at most what `b` holds at every step.
bool holdsNoMore(const std::vector<Piece> &a, const std::vector<Piece> &b);

/// Takes bytes that all candidates of a node hold off the capacity, drops the steps that cannot bind, and
/// renumbers the rest; `origin`, one entry per step, is renumbered with them. Returns the most that the least
/// bytes exceed the capacity by: above zero nothing fits.
double tightenTimeline(const std::vector<NodePieces *> &nodes, std::vector<double> &capacity,
                       std::vector<int> &origin);

} // namespace colossal::search

#endif // COLOSSAL_SEARCH_TIMELINE_H

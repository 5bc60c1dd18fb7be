// The links between the units of one network level as a graph, and what a collective gets out of it.
// Bandwidth is not stored per number of devices: rings are found in the links, so that two of the eight
// devices of a hybrid cube mesh get one link and all eight get six.
#ifndef COLOSSAL_COST_LINKGRAPH_H
#define COLOSSAL_COST_LINKGRAPH_H

#include <string>
#include <vector>

namespace colossal::cost {

/// `count` equal full-duplex links between nodes `from` and `to`.
struct GraphEdge {
  int from = 0;
  int to = 0;
  int count = 1;
};

/// Nodes 0 .. units-1 are the level's units, units .. units+switches-1 are switches (which forward at the
/// rate of their links and hold no data). Example: four devices on a ring are
/// {{0,1,1},{1,2,1},{2,3,1},{3,0,1}}; eight devices with twelve links each into one switch are {{0,8,12},
/// ..., {7,8,12}}.
struct LinkGraph {
  int switches = 0;
  std::vector<GraphEdge> edges;
  /// Bytes/s that one link carries in each direction at the same time, as collectives reach it.
  double bandwidth = 0;
  /// Time per byte between two units without a link, which a third one forwards, over the time on a link;
  /// >= 1.
  double forwardFactor = 1;

  bool empty() const { return edges.empty(); }
};

/// What a set of units gets, all in bytes/s per unit.
struct GraphBandwidth {
  /// Of reduce-scatter, all-gather and broadcast: all rings together, each of which visits every unit.
  double ring = 0;
  /// Of an all-to-all: what a unit sends to all others together while they send to it.
  double allToAll = 0;
  /// Between two units that follow each other in `members`: the worst pair.
  double neighbour = 0;
  /// Rings found, each direction of a cycle counted as one.
  int rings = 0;
};

/// Rings are cycles through all `members` that share no link: each is used in both directions at once, for
/// links are full-duplex. Two members use all their links as one ring each. As many cycles are packed as a
/// bounded search finds (exact up to about eight units). If the members have no cycle of direct links, cycles
/// may pass through a third unit between two members, each such hop `forwardFactor` times slower. Zero rings
/// where even that does not connect them.
GraphBandwidth measureGraph(const LinkGraph &graph, int units, const std::vector<int> &members);

/// Empty if every node of an edge is there, counts and factors are in range, and every unit reaches every
/// other over links, switches and at most one forwarding unit; otherwise what is wrong, with its place under
/// `place`.
std::string checkGraph(const LinkGraph &graph, int units, const std::string &place);

} // namespace colossal::cost

#endif // COLOSSAL_COST_LINKGRAPH_H

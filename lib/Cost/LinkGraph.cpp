// Rings in a link graph. Switches are folded into their links first, then cycles through all members are
// packed by a depth-first search that takes one cycle after another and goes back while work is left.
#include "colossal/Cost/LinkGraph.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace colossal::cost {

namespace {

/// Paths tried while packing cycles; the largest graphs of interest need a few thousand.
constexpr std::int64_t kSearchSteps = 200000;

using Matrix = std::vector<std::vector<int>>;

/// Links by pair of nodes, switches included.
Matrix countLinks(const LinkGraph &graph, int nodes) {
  Matrix links(nodes, std::vector<int>(nodes, 0));
  for (const GraphEdge &edge : graph.edges) {
    links[edge.from][edge.to] += edge.count;
    links[edge.to][edge.from] += edge.count;
  }
  return links;
}

/// Packs cycles through all members over `links` (member by member). A member's links into switches are a
/// budget of its own: they reach every other member with links into the same switch.
class CyclePacking {
public:
  CyclePacking(Matrix direct, std::vector<std::vector<int>> uplinks)
      : links(std::move(direct)), uplinks(std::move(uplinks)), count(static_cast<int>(links.size())) {}

  int pack() {
    bound = std::numeric_limits<int>::max();
    for (int m = 0; m < count; ++m) {
      int degree = 0;
      for (int other = 0; other < count; ++other)
        degree += links[m][other];
      for (int up : uplinks[m])
        degree += up;
      bound = std::min(bound, degree / 2);
    }
    best = 0;
    steps = 0;
    beginCycle(0);
    return best;
  }

private:
  /// Takes a link between two members, directly or through switch `over` (-1: directly).
  bool take(int from, int to, int over) {
    if (over < 0) {
      if (links[from][to] == 0)
        return false;
      --links[from][to];
      --links[to][from];
      return true;
    }
    if (uplinks[from][over] == 0 || uplinks[to][over] == 0)
      return false;
    --uplinks[from][over];
    --uplinks[to][over];
    return true;
  }
  void giveBack(int from, int to, int over) {
    if (over < 0) {
      ++links[from][to];
      ++links[to][from];
    } else {
      ++uplinks[from][over];
      ++uplinks[to][over];
    }
  }
  bool isDone() const { return best >= bound || steps > kSearchSteps; }

  void beginCycle(int found) {
    best = std::max(best, found);
    if (isDone())
      return;
    std::vector<bool> visited(count, false);
    visited[0] = true;
    extend(0, 1, visited, found);
  }
  void extend(int at, int length, std::vector<bool> &visited, int found) {
    ++steps;
    if (isDone())
      return;
    int switches = static_cast<int>(uplinks[at].size());
    if (length == count) {
      for (int over = -1; over < switches && !isDone(); ++over)
        if (take(at, 0, over)) {
          beginCycle(found + 1);
          giveBack(at, 0, over);
        }
      return;
    }
    // Members with few links left come first: they are the ones that a packing strands.
    std::vector<int> order;
    for (int next = 1; next < count; ++next)
      if (!visited[next])
        order.push_back(next);
    auto left = [&](int member) {
      int sum = 0;
      for (int other = 0; other < count; ++other)
        sum += links[member][other];
      for (int up : uplinks[member])
        sum += up;
      return sum;
    };
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return left(a) < left(b); });
    for (int next : order) {
      for (int over = -1; over < switches && !isDone(); ++over) {
        if (!take(at, next, over))
          continue;
        visited[next] = true;
        extend(next, length + 1, visited, found);
        visited[next] = false;
        giveBack(at, next, over);
      }
    }
  }

  Matrix links;
  std::vector<std::vector<int>> uplinks;
  int count;
  int bound = 0, best = 0;
  std::int64_t steps = 0;
};

/// The members' own links: directly to each other, and into each switch.
struct MemberLinks {
  Matrix direct;
  std::vector<std::vector<int>> uplinks;
};

MemberLinks selectMembers(const Matrix &links, int units, const std::vector<int> &members) {
  int count = static_cast<int>(members.size()), nodes = static_cast<int>(links.size());
  MemberLinks own{Matrix(count, std::vector<int>(count, 0)), std::vector<std::vector<int>>(count)};
  for (int a = 0; a < count; ++a) {
    for (int b = 0; b < count; ++b)
      if (a != b)
        own.direct[a][b] = links[members[a]][members[b]];
    for (int over = units; over < nodes; ++over)
      own.uplinks[a].push_back(links[members[a]][over]);
  }
  return own;
}

/// Links from a to b: their own, those through a switch, and failing both the widest way through a third
/// unit, whose time per byte is `factor`.
struct Way {
  double links = 0;
  double factor = 1;
};

Way findWay(const LinkGraph &graph, const Matrix &links, int units, int a, int b) {
  Way way;
  way.links = links[a][b];
  for (std::size_t over = units; over < links.size(); ++over)
    way.links += std::min(links[a][over], links[b][over]);
  if (way.links > 0)
    return way;
  for (int third = 0; third < units; ++third)
    if (third != a && third != b)
      way.links = std::max<double>(way.links, std::min(links[a][third], links[third][b]));
  way.factor = graph.forwardFactor;
  return way;
}

/// Rings where members are connected through others only: as many as the member with the fewest links can
/// feed, a cycle takes two of its links, and both its directions are used.
int countForwardedRings(const Matrix &links, const std::vector<int> &members) {
  int fewest = std::numeric_limits<int>::max();
  for (int member : members) {
    int degree = 0;
    for (int other : links[member])
      degree += other;
    fewest = std::min(fewest, degree);
  }
  return fewest;
}

/// Rings over switches alone: each takes one link of every member, a direction into the switch and one out of
/// it.
int countSwitchRings(const MemberLinks &own) {
  int rings = 0;
  for (std::size_t over = 0; over < own.uplinks.front().size(); ++over) {
    int fewest = std::numeric_limits<int>::max();
    for (const std::vector<int> &uplinks : own.uplinks)
      fewest = std::min(fewest, uplinks[over]);
    rings += fewest;
  }
  return rings;
}

} // namespace

GraphBandwidth measureGraph(const LinkGraph &graph, int units, const std::vector<int> &members) {
  GraphBandwidth result;
  int count = static_cast<int>(members.size());
  if (count < 2)
    return result;
  Matrix links = countLinks(graph, units + graph.switches);
  double fewest = std::numeric_limits<double>::infinity(), ways = std::numeric_limits<double>::infinity();
  for (int a = 0; a < count; ++a)
    for (int b = a + 1; b < count; ++b) {
      Way way = findWay(graph, links, units, members[a], members[b]);
      ways = std::min(ways, way.links / way.factor);
      if (b == a + 1)
        fewest = std::min(fewest, way.links / way.factor);
    }
  if (ways == 0)
    return result;
  result.neighbour = fewest * graph.bandwidth;

  if (count == 2) {
    result.rings = static_cast<int>(findWay(graph, links, units, members[0], members[1]).links);
    result.ring = result.allToAll = result.neighbour;
    return result;
  }
  MemberLinks own = selectMembers(links, units, members);
  result.rings = std::max(countSwitchRings(own), 2 * CyclePacking(own.direct, own.uplinks).pack());
  result.ring = result.rings * graph.bandwidth;
  if (result.rings == 0) {
    // Members hang on others by all their links, so a ring enters and leaves over the same pair, a direction
    // each.
    Matrix inside(units, std::vector<int>(units + graph.switches, 0));
    bool connectedInside = true;
    for (int a : members) {
      int degree = 0;
      for (int b : members)
        degree += inside[a][b] = links[a][b];
      for (int over = units; over < units + graph.switches; ++over)
        degree += inside[a][over] = links[a][over];
      connectedInside = connectedInside && degree > 0;
    }
    result.rings = countForwardedRings(connectedInside ? inside : links, members);
    result.ring = result.rings * graph.bandwidth / graph.forwardFactor;
  }
  // Every pair exchanges an equal part over its own way; a unit's links into switches serve all its pairs.
  double slowest = 0;
  for (int a = 0; a < count; ++a) {
    double uplinks = 0, overSwitch = 0;
    for (int up : own.uplinks[a])
      uplinks += up;
    for (int b = 0; b < count; ++b) {
      if (a == b)
        continue;
      if (own.direct[a][b] == 0 && uplinks > 0) {
        ++overSwitch;
        continue;
      }
      Way way = findWay(graph, links, units, members[a], members[b]);
      slowest = std::max(slowest, way.factor / way.links);
    }
    if (overSwitch > 0)
      slowest = std::max(slowest, overSwitch / uplinks);
  }
  result.allToAll = (count - 1) * graph.bandwidth / slowest;
  return result;
}

std::string checkGraph(const LinkGraph &graph, int units, const std::string &place) {
  int nodes = units + graph.switches;
  for (std::size_t e = 0; e < graph.edges.size(); ++e) {
    const GraphEdge &edge = graph.edges[e];
    std::string where = place + ".pairs[" + std::to_string(e) + "]";
    for (int node : {edge.from, edge.to})
      if (node < 0 || node >= nodes)
        return where + ": there is no node " + std::to_string(node) + "; there are " + std::to_string(units) +
               " units and " + std::to_string(graph.switches) + " switches";
    if (edge.from == edge.to)
      return where + ": links a node with itself";
  }
  Matrix links = countLinks(graph, nodes);
  for (int a = 0; a < units; ++a)
    for (int b = a + 1; b < units; ++b)
      if (findWay(graph, links, units, a, b).links == 0)
        return place + ".pairs: units " + std::to_string(a) + " and " + std::to_string(b) +
               " are connected neither by links, nor by a switch, nor through one other unit";
  return "";
}

} // namespace colossal::cost

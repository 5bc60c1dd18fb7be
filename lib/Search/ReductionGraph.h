// The mutable graph that the reductions work on, and the trail by which an answer finds its way back.
#ifndef COLOSSAL_SEARCH_REDUCTIONGRAPH_H
#define COLOSSAL_SEARCH_REDUCTIONGRAPH_H

#include "Reduction.h"
#include "Timeline.h"

#include <functional>
#include <unordered_map>

namespace colossal::search {

struct Reduction::Graph {
  struct Edge {
    int a = 0, b = 0; ///< rows are a's candidates
    TablePtr table;   ///< null: removed
  };
  struct Node {
    std::vector<double> cost;
    NodePieces pieces;
    std::vector<int> origin; ///< per candidate: its number in the input
    std::vector<int> edges;  ///< may hold removed ones
    bool alive = true;
    bool queued = false;
  };
  /// One step of the trail, undone last first.
  struct TrailEntry {
    enum Kind { Keep, Follow, Minimise1, Minimise2, Fix } kind;
    int node = 0, first = 0, second = 0;
    /// Keep: old candidate of each new one. Follow: candidate of `node` for each of `first`. Minimise: the
    /// best candidate for each combination of `first` and `second`, row-major. Fix: one entry.
    std::shared_ptr<const std::vector<int>> map;
    int width = 0; ///< Minimise2: candidates of `second` when it was recorded
  };

  std::vector<Node> nodes;
  std::vector<Edge> edges;
  std::vector<double> capacity;
  std::vector<int> stepOrigin; ///< per step: its number in the input
  std::vector<TrailEntry> trail;
  std::vector<int> queue;
  double offset = 0;
  bool infeasible = false;
  bool limitUsed = false; ///< R8 has taken something away
  std::string reason;
  std::size_t originals = 0;

  /// Equal contents give the same pointer.
  TablePtr intern(Table table);
  TablePtr intern(const TablePtr &table);

  void enqueue(int i);
  /// Applies the rules until none applies, or `stop` says that time is up.
  void run(const std::function<bool()> &stop);
  /// Frees all but the trail and what tells which nodes are left.
  void forgetTables();

  // Rules; each returns whether it changed the node.
  bool dropForbidden(int i);
  bool simplifyEdges(int i);
  bool mergeFollower(int i);
  bool dropDominated(int i);
  bool minimiseOut(int i);

  // Rule R8, over all nodes and edges; `capacity` must be tightened and the pieces normal. Each returns
  // whether it changed anything.
  bool dropOversized();
  bool forbidClashes();

  void keepOnly(int i, const std::vector<int> &kept);
  void setTable(int e, TablePtr table);
  void removeEdge(int e);
  void addEdge(int a, int b, TablePtr table);
  int otherEnd(int e, int i) const { return edges[e].a == i ? edges[e].b : edges[e].a; }
  /// The table with node i's candidates as rows.
  TablePtr facing(int e, int i);
  TablePtr transposed(const TablePtr &table);
  void cleanEdges(int i);
  bool holdsMemory(int i) const;
  std::string describe(int i) const;

private:
  struct Split {
    TablePtr rest;
    std::vector<double> row, col;
  };
  const Split &split(const TablePtr &table);
  const std::vector<int> &deadRows(const TablePtr &table);
  /// follower: entry per row, the one allowed column, or empty where some row allows several.
  const std::vector<int> &uniqueColumns(const TablePtr &table);
  void follow(int leader, int follower, int edge, const std::vector<int> &map);
  bool minimise2(int i);

  std::unordered_map<std::uint64_t, std::vector<TablePtr>> interned;
  std::unordered_map<const Table *, TablePtr> transposes;
  std::unordered_map<const Table *, Split> splits;
  std::unordered_map<const Table *, std::vector<int>> followMaps, dead;
  struct Minimised {
    TablePtr first, second, result;
    std::vector<double> cost;
    std::shared_ptr<const std::vector<int>> choice;
  };
  std::unordered_map<std::uint64_t, std::vector<Minimised>> minimised;
};

} // namespace colossal::search

#endif // COLOSSAL_SEARCH_REDUCTIONGRAPH_H

// The mutable graph that the reductions work on, and the trail by which an answer finds its way back.
#ifndef COLOSSAL_SEARCH_REDUCTIONGRAPH_H
#define COLOSSAL_SEARCH_REDUCTIONGRAPH_H

#include "Reduction.h"
#include "Timeline.h"

#include <functional>
#include <unordered_map>

namespace colossal::search {

Table transpose(const Table &table);

/// The classes of a node's candidates on an edge (see search::Classes), without gaps. Equal ones are one
/// object.
struct ClassMap {
  std::vector<int> of; ///< by candidate
  int count = 0;
};
using MapPtr = std::shared_ptr<const ClassMap>;

/// Classes of candidates that are in one class by both maps; for each its class by either.
struct CommonClasses {
  ClassMap map;
  std::vector<std::pair<int, int>> from;
};
CommonClasses meet(const ClassMap &a, const ClassMap &b);

struct Reduction::Graph {
  struct Edge {
    int a = 0, b = 0;  ///< rows are a's classes
    TablePtr table;    ///< null: removed
    MapPtr rows, cols; ///< of a and b
  };
  /// An edge as one of its nodes sees it: rows are that node's classes.
  struct View {
    TablePtr table;
    MapPtr mine, theirs;
  };
  struct Node {
    std::vector<double> cost;
    NodePieces pieces;
    std::vector<int> origin; ///< per candidate: its number in the input
    std::vector<int> edges;  ///< may hold removed ones
    bool alive = true;
    bool queued = false;
  };
  /// A node between two others that was minimised out: what its best candidate follows from. Keeping this is
  /// smaller than the best candidate of each combination, of which only one is ever asked for.
  struct Between {
    TablePtr first, second; ///< rows are the node's classes, columns those of its neighbours
    MapPtr ofFirst, ofSecond;
    std::vector<double> cost;
    int choose(int firstClass, int secondClass) const;
  };
  /// One step of the trail, undone last first.
  struct TrailEntry {
    enum Kind { Keep, Follow, Minimise1, Minimise2, Fix } kind;
    int node = 0, first = 0, second = 0;
    /// Keep: old candidate of each new one. Follow: candidate of `node` for each of `first`. Minimise1: the
    /// best candidate for each of `first`. Fix: one entry.
    std::shared_ptr<const std::vector<int>> map;
    std::shared_ptr<const Between> between = {};  ///< Minimise2
    MapPtr firstClasses = {}, secondClasses = {}; ///< Minimise2: of the neighbours
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
  MapPtr intern(ClassMap map);
  /// Every candidate a class of its own.
  MapPtr identity(std::size_t candidates);

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
  /// Gives edge e, as node i sees it, another table and other classes.
  void setEdge(int e, int i, View view);
  void removeEdge(int e);
  void addEdge(int a, int b, View view);
  int otherEnd(int e, int i) const { return edges[e].a == i ? edges[e].b : edges[e].a; }
  View facing(int e, int i);
  /// The table by candidates: rows `rows`, columns `cols`.
  TablePtr spread(const TablePtr &table, const MapPtr &rows, const MapPtr &cols);
  TablePtr transposed(const TablePtr &table);
  void cleanEdges(int i);
  bool holdsMemory(int i) const;
  std::string describe(int i) const;

private:
  /// A table as a row part, a column part, and the rest, in which equal rows and equal columns are one.
  struct Split {
    TablePtr rest; ///< null where nothing is left
    std::vector<double> row, col;
    std::vector<int> rowOf, colOf; ///< of the rest, for each of the table
  };
  const Split &split(const TablePtr &table);
  /// Rows and columns in which all is forbidden.
  struct Dead {
    std::vector<int> rows, cols;
  };
  const Dead &findDead(const TablePtr &table);
  /// By row: the columns of its least and of its greatest cost.
  struct Extremes {
    std::vector<int> least, most;
  };
  const Extremes &findExtremes(const TablePtr &table);
  /// follower: entry per row, the one allowed column, or empty where some row allows several.
  const std::vector<int> &uniqueColumns(const TablePtr &table);
  void follow(int leader, int follower, int edge, const std::vector<int> &map);
  /// Of the candidates of node i, those of use beside the others; those of layers that are alike are found
  /// once.
  std::vector<int> findUndominated(int i);
  bool minimise2(int i);
  TablePtr combine(const Between &node);
  /// `table` and classes of its rows, by candidate, without the rows that no candidate has.
  std::pair<TablePtr, MapPtr> compact(TablePtr table, std::vector<int> of);
  MapPtr renumber(const MapPtr &map, const std::vector<int> &number);

  std::unordered_map<std::uint64_t, std::vector<TablePtr>> interned;
  std::unordered_map<std::uint64_t, std::vector<MapPtr>> internedMaps;
  std::unordered_map<const Table *, TablePtr> transposes;
  std::unordered_map<const Table *, Split> splits;
  std::unordered_map<const Table *, std::vector<int>> followMaps;
  std::unordered_map<const Table *, Dead> dead;
  std::unordered_map<const Table *, Extremes> extremes;
  /// A node without memory that was compared: its costs, what it has on its edges, and what was kept.
  struct Compared {
    std::vector<double> cost;
    std::vector<View> views;
    std::vector<int> kept;
  };
  std::unordered_map<std::uint64_t, std::vector<Compared>> compared;
  struct Minimised {
    std::shared_ptr<const Between> node;
    TablePtr result;
  };
  std::unordered_map<std::uint64_t, std::vector<Minimised>> minimised;
  double minimising = 0; ///< work spent on large nodes, in sums of two costs
};

} // namespace colossal::search

#endif // COLOSSAL_SEARCH_REDUCTIONGRAPH_H

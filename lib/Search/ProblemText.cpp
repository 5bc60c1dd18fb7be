// A pull reader over the two JSON forms. Contest files reach hundreds of megabytes in which a few thousand
// tables repeat, so a table's text is looked up before it is parsed.
#include "colossal/Search/ProblemText.h"

#include "colossal/Output/OutputFile.h"

#include <nlohmann/json.hpp>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

namespace colossal::search {

namespace {

/// Walks a JSON text. The first error sticks, every later call does nothing and loops end.
class Reader {
public:
  explicit Reader(std::string_view text) : begin(text.data()), at(begin), end(begin + text.size()) {}

  std::string error;

  bool ok() const { return error.empty(); }
  bool fail(const std::string &what) {
    if (error.empty())
      error = "byte " + std::to_string(at - begin) + (place.empty() ? "" : ", in " + place) + ": " + what;
    return false;
  }

  char peek() {
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
      ++at;
    return at < end ? *at : '\0';
  }
  bool take(char c) {
    if (!ok() || peek() != c)
      return false;
    ++at;
    return true;
  }
  bool expect(char c) {
    return take(c) ||
           fail(std::string("expected '") + c + "'" + (at < end ? "" : ", found the end of the text"));
  }
  bool takeNull() {
    peek();
    if (!ok() || end - at < 4 || std::memcmp(at, "null", 4) != 0)
      return false;
    at += 4;
    return true;
  }

  /// Calls `element(index)` for each element of an array.
  template <class F>
  void array(F element) {
    if (!expect('[') || take(']'))
      return;
    for (std::size_t index = 0; ok(); ++index) {
      element(index);
      if (ok() && !take(',')) {
        expect(']');
        return;
      }
    }
  }
  /// Calls `member(key)` for each member of an object; it must consume the value.
  template <class F>
  void object(F member) {
    if (!expect('{') || take('}'))
      return;
    std::vector<std::string> keys; // few
    while (ok()) {
      std::string key = string();
      if (ok() && std::find(keys.begin(), keys.end(), key) != keys.end())
        fail("key '" + key + "' stands twice");
      keys.push_back(key);
      if (!expect(':'))
        return;
      std::string outer = place;
      place += (place.empty() ? "" : ".") + key;
      member(key);
      place = outer;
      if (ok() && !take(',')) {
        expect('}');
        return;
      }
    }
  }

  std::string string() {
    std::string out;
    if (!expect('"'))
      return out;
    const char *start = at - 1;
    bool plain = true;
    while (at < end && *at != '"') {
      plain &= *at != '\\';
      at += *at == '\\' && end - at > 1 ? 2 : 1;
    }
    if (at >= end) {
      fail("string without end");
      return out;
    }
    ++at;
    if (plain)
      return std::string(start + 1, at - 1);
    auto parsed = nlohmann::json::parse(start, at, nullptr, false);
    if (!parsed.is_string())
      fail("bad string");
    else
      out = parsed.get<std::string>();
    return out;
  }

  /// A whole number; those beyond 64 bits saturate. 1e18 and 3.0 are whole numbers too.
  std::int64_t integer() {
    peek();
    if (!ok())
      return 0;
    const char *start = at;
    bool negative = at < end && *at == '-';
    at += negative;
    const char *digits = at;
    std::uint64_t value = 0;
    while (at < end && *at >= '0' && *at <= '9' && at - digits < 18)
      value = value * 10 + static_cast<std::uint64_t>(*at++ - '0');
    bool more = at < end && ((*at >= '0' && *at <= '9') || *at == '.' || *at == 'e' || *at == 'E');
    if (at == digits && !more) {
      fail("expected a whole number");
      return 0;
    }
    if (!more)
      return negative ? -static_cast<std::int64_t>(value) : static_cast<std::int64_t>(value);
    return longInteger(start);
  }

  void skip(int depth = 0) {
    if (depth > 200) {
      fail("nested more than 200 deep");
      return;
    }
    char c = peek();
    if (c == '{')
      object([&](const std::string &) { skip(depth + 1); });
    else if (c == '[')
      array([&](std::size_t) { skip(depth + 1); });
    else if (c == '"')
      string();
    else {
      const char *start = at;
      while (at < end && (std::isalnum(static_cast<unsigned char>(*at)) || std::strchr("+-.", *at)))
        ++at;
      if (!nlohmann::json::accept(start, at)) {
        at = start;
        fail("expected a value");
      }
    }
  }

  void finish() {
    peek();
    if (ok() && at < end)
      fail("text after the end");
  }

  const char *begin, *at, *end;
  std::string place;

private:
  std::int64_t longInteger(const char *start) {
    while (at < end && (std::isdigit(static_cast<unsigned char>(*at)) || std::strchr("+-.eE", *at)))
      ++at;
    std::string text(start, at);
    char *rest = nullptr;
    errno = 0;
    long long exact = std::strtoll(text.c_str(), &rest, 10);
    if (*rest == '\0') // saturates by itself
      return exact == std::numeric_limits<long long>::max() ? exact - 1 : exact;
    double value = std::strtod(text.c_str(), &rest);
    if (*rest != '\0' || !std::isfinite(value) || value != std::floor(value)) {
      at = start;
      fail("expected a whole number, found '" + text + "'");
      return 0;
    }
    if (std::fabs(value) >= 9e18)
      return value > 0 ? std::numeric_limits<std::int64_t>::max() - 1
                       : std::numeric_limits<std::int64_t>::min();
    return static_cast<std::int64_t>(value);
  }
};

/// Parses tables, each distinct text once. The text must outlive it.
class TableReader {
public:
  explicit TableReader(bool contest) : contest(contest) {}

  std::shared_ptr<const CostTable> read(Reader &in) {
    if (in.peek() == '[') {
      const void *close = std::memchr(in.at, ']', in.end - in.at);
      if (close) {
        std::string_view text(in.at, static_cast<const char *>(close) - in.at);
        auto found = seen.find(text);
        if (found != seen.end()) {
          in.at = static_cast<const char *>(close) + 1;
          return found->second;
        }
        auto table = parse(in);
        seen.emplace(text, table);
        return table;
      }
    }
    return parse(in);
  }

  Cost cost(Reader &in) const {
    if (!contest && in.takeNull())
      return kForbidden;
    std::int64_t value = in.integer();
    return contest && value >= kMaxCost ? kForbidden : value;
  }

private:
  std::shared_ptr<const CostTable> parse(Reader &in) {
    auto table = std::make_shared<CostTable>();
    in.array([&](std::size_t) { table->push_back(cost(in)); });
    table->shrink_to_fit();
    return table;
  }

  bool contest;
  std::unordered_map<std::string_view, std::shared_ptr<const CostTable>> seen;
};

void readNumbers(Reader &in, const std::string &what, std::vector<std::int32_t> &numbers) {
  in.array([&](std::size_t) {
    std::int64_t number = in.integer();
    if (in.ok() && (number < 0 || number > (1 << 30)))
      in.fail(what + " " + std::to_string(number) + " is out of range");
    numbers.push_back(static_cast<std::int32_t>(number));
  });
}

void readNodeList(Reader &in, std::vector<std::int32_t> &nodes) {
  readNumbers(in, "node", nodes);
}

std::shared_ptr<const Classes> readClasses(Reader &in) {
  if (in.takeNull())
    return nullptr;
  auto classes = std::make_shared<Classes>();
  readNumbers(in, "class", classes->of);
  for (std::int32_t each : classes->of)
    classes->count = std::max(classes->count, each + 1);
  return classes;
}

void readNative(Reader &in, Problem &problem) {
  TableReader tables(false);
  auto readCandidate = [&](Candidate &candidate) {
    in.object([&](const std::string &key) {
      if (key == "cost")
        candidate.cost = tables.cost(in);
      else if (key == "memory")
        in.array([&](std::size_t) {
          std::int64_t v[3] = {0, 0, 0};
          std::size_t count = 0;
          in.array([&](std::size_t k) {
            std::int64_t value = in.integer();
            if (k < 3)
              v[k] = value;
            count = k + 1;
          });
          if (in.ok() && count != 3)
            in.fail("a piece of memory is [begin, end, bytes]");
          if (in.ok() && v[0] > v[1])
            in.fail("memory from step " + std::to_string(v[0]) + " to " + std::to_string(v[1]) +
                    " ends before it begins");
          candidate.memory.push_back({v[0], v[1], v[2]});
        });
      else
        in.fail("unknown key '" + key + "'");
    });
  };
  in.object([&](const std::string &key) {
    if (key == "name")
      problem.name = in.string();
    else if (key == "memory_limit") {
      if (!in.takeNull())
        problem.memoryLimit = in.integer();
    } else if (key == "nodes")
      in.array([&](std::size_t) {
        Node &node = problem.nodes.emplace_back();
        in.object([&](const std::string &key) {
          if (key == "name")
            node.name = in.string();
          else if (key == "candidates")
            in.array([&](std::size_t) { readCandidate(node.candidates.emplace_back()); });
          else
            in.fail("unknown key '" + key + "'");
        });
      });
    else if (key == "edges")
      in.array([&](std::size_t) {
        Edge &edge = problem.edges.emplace_back();
        in.object([&](const std::string &key) {
          if (key == "nodes")
            readNodeList(in, edge.nodes);
          else if (key == "table")
            edge.table = tables.read(in);
          else if (key == "classes")
            in.array([&](std::size_t) { edge.classes.push_back(readClasses(in)); });
          else
            in.fail("unknown key '" + key + "'");
        });
      });
    else
      in.fail("unknown key '" + key + "'");
  });
}

/// The three lists of the contest's nodes, which may stand in any order.
struct ContestNodes {
  bool hasCosts = false, hasIntervals = false, hasUsages = false;
  std::vector<std::pair<std::int64_t, std::int64_t>> intervals;
  std::vector<std::vector<std::int64_t>> usages;
};

void readContestNodes(Reader &in, Problem &problem, ContestNodes &lists) {
  TableReader costs(true);
  in.object([&](const std::string &key) {
    lists.hasCosts |= key == "costs";
    lists.hasIntervals |= key == "intervals";
    lists.hasUsages |= key == "usages";
    if (key == "intervals")
      in.array([&](std::size_t index) {
        std::int64_t v[2] = {0, 0};
        std::size_t count = 0;
        in.array([&](std::size_t k) {
          std::int64_t value = in.integer();
          if (k < 2)
            v[k] = value;
          count = k + 1;
        });
        if (in.ok() && count != 2 && count != 0)
          in.fail("interval " + std::to_string(index) + " is not [from, to]");
        if (in.ok() && v[0] > v[1])
          in.fail("interval " + std::to_string(index) + " is from " + std::to_string(v[0]) + " to " +
                  std::to_string(v[1]) + ": it ends before it begins");
        lists.intervals.emplace_back(v[0], v[1]);
      });
    else if (key == "usages")
      in.array([&](std::size_t) {
        auto &usage = lists.usages.emplace_back();
        in.array([&](std::size_t) { usage.push_back(in.integer()); });
      });
    else if (key == "costs")
      in.array([&](std::size_t) {
        Node &node = problem.nodes.emplace_back();
        in.array([&](std::size_t) { node.candidates.emplace_back().cost = costs.cost(in); });
      });
    else
      in.skip();
  });
}

void joinContestNodes(Reader &in, Problem &problem, const ContestNodes &lists) {
  std::size_t n = problem.nodes.size();
  auto sized = [&](const char *what, std::size_t size) {
    return size == n || in.fail("problem.nodes has " + std::to_string(n) + " costs and " +
                                std::to_string(size) + " " + what);
  };
  if (!lists.hasCosts) {
    in.fail("problem.nodes has no 'costs'");
    return;
  }
  // A problem without memory has neither.
  if (lists.hasIntervals != lists.hasUsages) {
    in.fail(std::string("problem.nodes has no '") + (lists.hasUsages ? "intervals'" : "usages'"));
    return;
  }
  if (!lists.hasUsages || !sized("intervals", lists.intervals.size()) ||
      !sized("usages", lists.usages.size()))
    return;
  for (std::size_t i = 0; i < n; ++i) {
    auto &candidates = problem.nodes[i].candidates;
    auto [begin, end] = lists.intervals[i];
    const auto &usage = lists.usages[i];
    if (usage.size() != candidates.size()) {
      in.fail("problem.nodes.usages[" + std::to_string(i) + "]: has " + std::to_string(usage.size()) +
              " entries for " + std::to_string(candidates.size()) + " costs");
      return;
    }
    for (std::size_t k = 0; k < usage.size(); ++k)
      if (usage[k] != 0 && begin < end)
        candidates[k].memory.push_back({begin, end, usage[k]});
  }
}

void readContest(Reader &in, Problem &problem) {
  TableReader tables(true);
  ContestNodes lists;
  std::vector<std::shared_ptr<const CostTable>> edgeTables;
  std::vector<std::vector<std::int32_t>> edgeNodes;
  bool hasNodes = false, hasEdges = false;
  in.object([&](const std::string &key) {
    hasNodes |= key == "nodes";
    hasEdges |= key == "edges";
    if (key == "name")
      problem.name = in.string();
    else if (key == "usage_limit") {
      if (!in.takeNull())
        problem.memoryLimit = in.integer();
    } else if (key == "nodes")
      readContestNodes(in, problem, lists);
    else if (key == "edges")
      in.object([&](const std::string &key) {
        if (key == "nodes")
          in.array([&](std::size_t) { readNodeList(in, edgeNodes.emplace_back()); });
        else if (key == "costs")
          in.array([&](std::size_t) { edgeTables.push_back(tables.read(in)); });
        else
          in.skip();
      });
    else
      in.skip();
  });
  if (in.ok() && (!hasNodes || !hasEdges))
    in.fail(std::string("the problem has no '") + (hasNodes ? "edges'" : "nodes'"));
  if (in.ok() && edgeNodes.size() != edgeTables.size())
    in.fail("problem.edges has " + std::to_string(edgeNodes.size()) + " nodes and " +
            std::to_string(edgeTables.size()) + " costs");
  if (!in.ok())
    return;
  joinContestNodes(in, problem, lists);
  problem.edges.reserve(edgeNodes.size());
  for (std::size_t e = 0; e < edgeNodes.size(); ++e)
    problem.edges.push_back({std::move(edgeNodes[e]), std::move(edgeTables[e])});
}

/// Inflates gzip, or returns plain bytes. Empty error on success.
std::string readBytes(const std::string &path, std::string &bytes) {
  noteInput(path);
  gzFile file = gzopen(path.c_str(), "rb");
  if (!file) {
    noteUnusableInput();
    return "cannot be opened: " + std::string(std::strerror(errno));
  }
  gzbuffer(file, 1 << 20);
  constexpr std::size_t kStep = std::size_t{16} << 20;
  std::size_t size = 0;
  int count = 0;
  do {
    bytes.resize(size + kStep);
    count = gzread(file, bytes.data() + size, kStep);
    size += count > 0 ? static_cast<std::size_t>(count) : 0;
  } while (count == static_cast<int>(kStep));
  bytes.resize(size);
  int code = 0;
  const char *message = gzerror(file, &code);
  if (code == Z_ERRNO) // the system's, a folder say, and not the format's
    noteUnusableInput();
  std::string error = code != Z_OK && code != Z_STREAM_END ? "cannot be read: " + std::string(message) : "";
  if (gzclose_r(file) != Z_OK && error.empty())
    error = "ends within its compressed data";
  return error;
}

} // namespace

ReadResult parseProblem(std::string_view text) {
  ReadResult result;
  Reader in(text);
  // The contest's form has one key, "problem", at the top.
  Reader probe(text);
  bool contest = probe.take('{') && probe.string() == "problem";
  if (contest) {
    result.form = ProblemForm::Contest;
    in.object([&](const std::string &key) {
      if (key == "problem")
        readContest(in, result.problem);
      else
        in.skip();
    });
  } else {
    readNative(in, result.problem);
  }
  in.finish();
  result.error = in.ok() ? validate(result.problem) : in.error;
  // A problem of nothing is a file that was not written as it was meant to be.
  if (result.error.empty() && result.problem.nodes.empty())
    result.error = "the problem has no nodes: there is nothing to choose";
  return result;
}

ReadResult readProblem(const std::string &path) {
  ReadResult result;
  std::string bytes;
  result.error = readBytes(path, bytes);
  if (result.error.empty())
    result = parseProblem(bytes);
  if (!result.error.empty())
    result.error = path + ": " + result.error;
  return result;
}

std::string printProblem(const Problem &problem) {
  using nlohmann::json;
  auto cost = [](Cost value) { return value == kForbidden ? json(nullptr) : json(value); };
  json out;
  if (!problem.name.empty())
    out["name"] = problem.name;
  if (problem.memoryLimit)
    out["memory_limit"] = *problem.memoryLimit;
  out["nodes"] = json::array();
  for (const Node &node : problem.nodes) {
    json candidates = json::array();
    for (const Candidate &candidate : node.candidates) {
      json entry{{"cost", cost(candidate.cost)}};
      for (const MemoryUse &use : candidate.memory)
        entry["memory"].push_back({use.begin, use.end, use.bytes});
      candidates.push_back(std::move(entry));
    }
    json entry{{"candidates", std::move(candidates)}};
    if (!node.name.empty())
      entry["name"] = node.name;
    out["nodes"].push_back(std::move(entry));
  }
  out["edges"] = json::array();
  for (const Edge &edge : problem.edges) {
    json table = json::array();
    for (Cost value : *edge.table)
      table.push_back(cost(value));
    json entry{{"nodes", edge.nodes}, {"table", std::move(table)}};
    if (std::any_of(edge.classes.begin(), edge.classes.end(),
                    [](const auto &each) { return each != nullptr; })) {
      json list = json::array();
      for (const auto &each : edge.classes)
        list.push_back(each ? json(each->of) : json());
      entry["classes"] = std::move(list);
    }
    out["edges"].push_back(std::move(entry));
  }
  return out.dump();
}

} // namespace colossal::search

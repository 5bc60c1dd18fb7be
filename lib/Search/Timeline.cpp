// Rule R7.
#include "Timeline.h"

#include <algorithm>
#include <cmath>

namespace colossal::search {

void layTimeline(const Problem &problem, std::vector<NodePieces> &nodes, std::vector<double> &capacity) {
  nodes.assign(problem.nodes.size(), {});
  capacity.clear();
  std::vector<std::int64_t> moments;
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    nodes[i].resize(problem.nodes[i].candidates.size());
    if (problem.memoryLimit)
      for (const Candidate &candidate : problem.nodes[i].candidates)
        for (const MemoryUse &use : candidate.memory)
          if (use.begin < use.end && use.bytes != 0) {
            moments.push_back(use.begin);
            moments.push_back(use.end);
          }
  }
  if (moments.empty())
    return;
  std::sort(moments.begin(), moments.end());
  moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
  capacity.assign(moments.size() - 1, static_cast<double>(*problem.memoryLimit));
  auto step = [&](std::int64_t moment) {
    return static_cast<int>(std::lower_bound(moments.begin(), moments.end(), moment) - moments.begin());
  };
  for (std::size_t i = 0; i < problem.nodes.size(); ++i)
    for (std::size_t k = 0; k < nodes[i].size(); ++k) {
      for (const MemoryUse &use : problem.nodes[i].candidates[k].memory)
        if (use.begin < use.end && use.bytes != 0)
          nodes[i][k].push_back({step(use.begin), step(use.end), static_cast<double>(use.bytes)});
      normalizePieces(nodes[i][k]);
    }
}

void normalizePieces(std::vector<Piece> &pieces) {
  bool good = true;
  for (std::size_t p = 1; p < pieces.size() && good; ++p)
    good = pieces[p - 1].end < pieces[p].begin ||
           (pieces[p - 1].end == pieces[p].begin && pieces[p - 1].bytes != pieces[p].bytes);
  if (good)
    return;
  std::vector<std::pair<int, double>> changes;
  changes.reserve(pieces.size() * 2);
  for (const Piece &piece : pieces) {
    changes.emplace_back(piece.begin, piece.bytes);
    changes.emplace_back(piece.end, -piece.bytes);
  }
  std::sort(changes.begin(), changes.end());
  pieces.clear();
  double held = 0;
  for (std::size_t c = 0; c < changes.size();) {
    int at = changes[c].first;
    for (; c < changes.size() && changes[c].first == at; ++c)
      held += changes[c].second;
    if (held == 0 || c == changes.size())
      continue;
    int end = changes[c].first;
    if (!pieces.empty() && pieces.back().end == at && pieces.back().bytes == held)
      pieces.back().end = end;
    else
      pieces.push_back({at, end, held});
  }
}

bool holdsNoMore(const std::vector<Piece> &a, const std::vector<Piece> &b) {
  std::size_t q = 0;
  for (const Piece &piece : a) {
    while (q < b.size() && b[q].end <= piece.begin)
      ++q;
    int covered = piece.begin;
    for (std::size_t r = q; covered < piece.end; ++r) {
      if (r == b.size() || b[r].begin > covered || b[r].bytes < piece.bytes)
        return false;
      covered = b[r].end;
    }
  }
  return true;
}

namespace {

/// Subtracts from each candidate what all hold; adds that to `least` and what the fullest holds beyond it to
/// `most`, both as differences between steps.
void splitCommon(NodePieces &node, std::vector<double> &least, std::vector<double> &most) {
  std::vector<int> moments;
  for (const auto &pieces : node)
    for (const Piece &piece : pieces) {
      moments.push_back(piece.begin);
      moments.push_back(piece.end);
    }
  if (moments.empty())
    return;
  std::sort(moments.begin(), moments.end());
  moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
  std::size_t spans = moments.size() - 1;
  std::vector<double> low(spans, 0), high(spans, 0);
  std::vector<std::size_t> holders(spans, 0);
  auto eachSpan = [&](const std::vector<Piece> &pieces, auto visit) {
    std::size_t s = 0;
    for (const Piece &piece : pieces) {
      s = std::lower_bound(moments.begin() + s, moments.end(), piece.begin) - moments.begin();
      for (; s < spans && moments[s] < piece.end; ++s)
        visit(s, piece.bytes);
    }
  };
  for (const auto &pieces : node)
    eachSpan(pieces, [&](std::size_t s, double bytes) {
      low[s] = holders[s] ? std::min(low[s], bytes) : bytes;
      high[s] = std::max(high[s], bytes);
      ++holders[s];
    });
  bool any = false;
  for (std::size_t s = 0; s < spans; ++s) {
    if (holders[s] < node.size())
      low[s] = 0;
    any |= low[s] > 0;
    least[moments[s]] += low[s];
    least[moments[s + 1]] -= low[s];
    most[moments[s]] += high[s] - low[s];
    most[moments[s + 1]] -= high[s] - low[s];
  }
  if (!any)
    return;
  for (auto &pieces : node) {
    std::vector<Piece> rest;
    eachSpan(pieces, [&](std::size_t s, double bytes) {
      if (bytes > low[s])
        rest.push_back({moments[s], moments[s + 1], bytes - low[s]});
    });
    pieces = std::move(rest);
    normalizePieces(pieces);
  }
}

} // namespace

double tightenTimeline(const std::vector<NodePieces *> &nodes, std::vector<double> &capacity,
                       std::vector<int> &origin) {
  int steps = static_cast<int>(capacity.size());
  std::vector<double> least(steps + 1, 0), most(steps + 1, 0);
  for (NodePieces *node : nodes)
    splitCommon(*node, least, most);
  double low = 0, high = 0, excess = 0;
  std::vector<char> keep(steps, 0);
  for (int t = 0; t < steps; ++t) {
    low += least[t];
    high += most[t];
    capacity[t] -= low;
    excess = std::max(excess, -capacity[t]);
    keep[t] = high > capacity[t];
  }
  // begins[t], ends[t]: pieces that begin, or end, at a step up to t.
  std::vector<int> begins(steps + 1, 0), ends(steps + 1, 0);
  for (NodePieces *node : nodes)
    for (const auto &pieces : *node)
      for (const Piece &piece : pieces) {
        ++begins[piece.begin];
        ++ends[piece.end];
      }
  for (int t = 1; t <= steps; ++t) {
    begins[t] += begins[t - 1];
    ends[t] += ends[t - 1];
  }
  // Of two neighbouring steps the one whose pieces are a subset of the other's is dropped if it has no less
  // room.
  std::vector<int> kept;
  for (int t = 0; t < steps; ++t) {
    if (!keep[t])
      continue;
    bool dropped = false;
    while (!kept.empty()) {
      int before = kept.back();
      if (ends[t] == ends[before] && capacity[before] >= capacity[t]) {
        kept.pop_back();
      } else {
        dropped = begins[t] == begins[before] && capacity[t] >= capacity[before];
        break;
      }
    }
    if (!dropped)
      kept.push_back(t);
  }
  std::vector<int> number(steps + 1, 0);
  for (int t = 0, n = 0; t <= steps; ++t) {
    number[t] = n;
    n += n < static_cast<int>(kept.size()) && kept[n] == t;
  }
  for (NodePieces *node : nodes)
    for (auto &pieces : *node) {
      std::size_t out = 0;
      for (const Piece &piece : pieces) {
        Piece moved{number[piece.begin], number[piece.end], piece.bytes};
        if (moved.begin < moved.end)
          pieces[out++] = moved;
      }
      pieces.resize(out);
      normalizePieces(pieces);
    }
  for (std::size_t n = 0; n < kept.size(); ++n) {
    capacity[n] = capacity[kept[n]];
    origin[n] = origin[kept[n]];
  }
  capacity.resize(kept.size());
  origin.resize(kept.size());
  return excess;
}

} // namespace colossal::search

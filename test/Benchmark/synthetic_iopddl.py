#!/usr/bin/env python3
"""Writes instances of the kinds that the intra-operator parallelism benchmark has, up to its largest and beyond.

    test/Benchmark/synthetic_iopddl.py --kind KIND [--nodes N] [--candidates K] [--slack 0.02] [--seed S] -o OUT.json[.gz]

A model is a chain of equal blocks, run forward and then backward: weights that live from start to end, activations that
live from their forward to their backward step, gradients that live shortly. Each node's candidates are ways to split a
tensor over a mesh: the more ways, the fewer bytes and the more communication.

  training   forward and backward, half of the table entries forbidden, followers
  reduced    the same with forbidden choices removed beforehand: fewer edges, dense tables
  inference  forward only, small, with costs dominated by what memory forbids
  free       training without a memory limit
  hyper      training with edges over three nodes and one, and edges that tie the same nodes twice
  wide       few nodes with up to 400 candidates
  planted    training with an answer planted whose cost is the optimum, printed on standard error

Every instance has an answer planted that is allowed and fits: the limit is (1 + slack) times its peak.
"""
import argparse
import gzip
import itertools
import random
import sys

FORBIDDEN = 10**18


class Maker:
    def __init__(self, kind, nodes, candidates, slack, seed):
        self.kind, self.random = kind, random.Random(seed)
        self.candidates, self.slack = candidates, slack
        self.intervals, self.costs, self.usages, self.planted = [], [], [], []
        self.edge_nodes, self.edge_costs, self.value = [], [], 0
        self.tables = {}
        per_block = 48 if kind in ("inference", "wide") else 160
        self.blocks = max(1, nodes // per_block)
        self.block = self.make_block(per_block)
        self.stretch()

    def make_layouts(self, count, axes):
        """Where each mesh axis lies: on one of three dimensions, or nowhere (replicated). One of them splits over all."""
        every = list(itertools.product((None, 0, 1, 2), repeat=axes))
        chosen = self.random.sample(every, min(count, len(every)))
        if not any(None not in layout for layout in chosen):
            chosen[0] = tuple(self.random.randrange(3) for _ in range(axes))
        return chosen

    def make_block(self, size):
        """The pattern that repeats: layouts, bytes and costs of each node, and how far back its sources lie."""
        axes = 4 if self.kind == "wide" else 3 if self.candidates > 12 else 2
        pattern = []
        for j in range(size):
            follows = j > 0 and self.random.random() < 0.45
            if follows:
                layouts = pattern[-1]["layouts"]
            else:
                count = max(1, int(self.random.lognormvariate(0, 0.6) * self.candidates * 0.85))
                layouts = self.make_layouts(count * self.random.choice((1, 1, 4)) if self.kind == "wide" else count, axes)
            size_bytes = 2 ** self.random.randint(12, 24)
            ways = [4 ** sum(axis is not None for axis in layout) for layout in layouts]
            work = self.random.choice((0, 0, 2 ** self.random.randint(4, 20)))
            pattern.append({
                "layouts": layouts, "bytes": size_bytes, "usage": [size_bytes // w for w in ways],
                # Work done by each device, and a way that suits the operation less.
                "cost": [work * 64 // w + (work // 8 if work and self.random.random() < 0.3 else 0) for w in ways],
                "follows": follows, "role": self.random.choice(("weight", "activation", "activation", "temporary")),
                "sources": [1] * (follows or self.random.random() < 0.9) +
                           ([self.random.randint(2, 12)] if self.random.random() < 0.6 else []),
                "pick": pattern[-1]["pick"] if follows else self.pick(ways)})
        return pattern

    def pick(self, ways):
        """The planted candidate: mostly one of those that split furthest."""
        return self.random.choice([k for k, w in enumerate(ways) if w == max(ways)] if self.random.random() < 0.8
                                  else range(len(ways)))

    def table(self, source, target, n):
        """Costs of one edge, shared by all blocks: following, or resharding from the source's layout."""
        key = (source, target, n)
        if key in self.tables:
            return self.tables[key]
        a, b = self.block[source], self.block[target]
        rows, cols = len(a["layouts"]), len(b["layouts"])
        follows = n == 0 and b["follows"] and self.kind != "reduced"
        unit = a["bytes"] // 64
        moves = self.kind in ("reduced", "free", "planted") or self.random.random() < 0.5
        out = []
        for r, have in enumerate(a["layouts"]):
            for c, want in enumerate(b["layouts"]):
                gathers = sum(x is not None and y is None for x, y in zip(have, want))
                turns = sum(x is not None and y is not None and x != y for x, y in zip(have, want))
                if follows and r != c:
                    out.append(FORBIDDEN)
                elif turns and not moves and (r, c) != (a["pick"], b["pick"]):
                    out.append(FORBIDDEN)
                else:
                    out.append(unit * (3 * gathers + turns))
        if self.kind == "planted":
            out[a["pick"] * cols + b["pick"]] = 0
        self.tables[key] = out
        return out

    def stretch(self):
        """Lays the blocks over time and ties them together."""
        size = len(self.block)
        backward = self.kind not in ("inference", "wide")
        total = self.blocks * size
        horizon = total * (2 if backward else 1)
        for b in range(self.blocks):
            for j, node in enumerate(self.block):
                t = b * size + j
                end = {"weight": horizon, "activation": horizon - t if backward else t + 40, "temporary": t + 4}[node["role"]]
                begin = 0 if node["role"] == "weight" else t
                self.intervals.append((begin, max(begin + 1, end)) if self.random.random() < 0.9 else (0, 0))
                self.usages.append(node["usage"])
                self.costs.append(node["cost"])
                self.planted.append(node["pick"])
                for n, d in enumerate(node["sources"]):
                    if t - d >= 0 and not (self.kind == "reduced" and self.random.random() < 0.5):
                        self.tie([t - d, t], self.table((j - d) % size, j, n))
                if self.kind == "hyper" and t > 2 and self.random.random() < 0.1:
                    counts = [len(self.usages[t - 2]), len(self.usages[t - 1]), len(node["usage"])]
                    if counts[0] * counts[1] * counts[2] < 3000:
                        self.tie([t - 2, t - 1, t], [self.random.randint(0, 2**18) if self.random.random() < 0.5 else 0
                                                     for _ in range(counts[0] * counts[1] * counts[2])])
                    self.tie([t], [self.random.randint(0, 2**16) for _ in node["usage"]])
                    self.tie([t - 1, t], [self.random.randint(0, 2**16) for _ in range(counts[1] * counts[2])])
        if self.kind == "planted":
            self.plant()

    def tie(self, nodes, table):
        self.edge_nodes.append(nodes)
        self.edge_costs.append(table)

    def plant(self):
        """Makes the planted answer cost zero everywhere, then moves costs between tables and nodes at random, which
        keeps every answer's cost but hides the zero."""
        own = []
        for i, cost in enumerate(self.costs):
            cost = list(cost)
            cost[self.planted[i]] = 0
            own.append([c + 2**20 for c in cost])
            self.value += 2**20
        for e, (a, b) in enumerate(self.edge_nodes):
            rows, cols = len(own[a]), len(own[b])
            shift = [self.random.randint(0, 2**16) for _ in range(cols)]
            old = self.edge_costs[e]
            self.edge_costs[e] = [FORBIDDEN if old[k] == FORBIDDEN else old[k] + shift[k % cols] for k in range(rows * cols)]
            own[b] = [c - s for c, s in zip(own[b], shift)]
        self.costs = own

    def peak(self, choose):
        changes = {}
        for (begin, end), usage, i in zip(self.intervals, self.usages, range(len(self.usages))):
            if begin < end:
                changes[begin] = changes.get(begin, 0) + choose(i, usage)
                changes[end] = changes.get(end, 0) - choose(i, usage)
        held = most = 0
        for step in sorted(changes):
            held += changes[step]
            most = max(most, held)
        return most

    def limit(self):
        if self.kind == "free":
            return None
        return int((1 + self.slack) * self.peak(lambda i, usage: usage[self.planted[i]]))

    def write(self, out):
        rendered = {}

        def text(values):
            if id(values) not in rendered:
                rendered[id(values)] = "[" + ",".join(map(str, values)) + "]"
            return rendered[id(values)]
        join = lambda lists: ",".join(map(text, lists))
        out.write('{"problem":{"name":"synthetic-%s","nodes":{"intervals":[%s],"costs":[%s],"usages":[%s]},' % (
            self.kind, ",".join("[%d,%d]" % i for i in self.intervals), join(self.costs), join(self.usages)))
        out.write('"edges":{"nodes":[%s],"costs":[' % ",".join("[" + ",".join(map(str, n)) + "]" for n in self.edge_nodes))
        for n, table in enumerate(self.edge_costs):
            out.write(("," if n else "") + text(table))
        out.write("]}")
        if (limit := self.limit()) is not None:
            out.write(',"usage_limit":%d' % limit)
        out.write("}}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", required=True,
                        choices=["training", "reduced", "inference", "free", "hyper", "wide", "planted"])
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--candidates", type=int, default=9)
    parser.add_argument("--slack", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", required=True)
    arguments = parser.parse_args()
    maker = Maker(arguments.kind, arguments.nodes, arguments.candidates, arguments.slack, arguments.seed)
    with (gzip.open(arguments.output, "wt", compresslevel=1) if arguments.output.endswith(".gz")
          else open(arguments.output, "w")) as out:
        maker.write(out)
    if arguments.kind == "planted":
        print(maker.value, file=sys.stderr)


if __name__ == "__main__":
    main()

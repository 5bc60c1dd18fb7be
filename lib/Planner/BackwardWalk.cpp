// Gradients come and go in buffers, of which a tensor's gradient has one or, until something needs their sum
// or all of them in one place, several.
#include "BackwardWalk.h"

#include <algorithm>
#include <cmath>

namespace colossal::planner {

namespace {

/// Sizes are products of shares.
bool isSame(double a, double b) {
  return std::abs(a - b) <= 1e-6 * std::max(a, b);
}

class Walker {
public:
  explicit Walker(const BackwardWalk &walk);
  BackwardWalk::Peak run();

private:
  struct Buffer {
    double bytes = 0;
    int users = 0;
  };
  void send(const WalkedOp &op);
  void hold(const WalkedOp &op);
  void look(double more = 0, double part = 0);
  int add(double bytes);
  void give(int tensor, int buffer);
  void share(int from, int to);
  void release(int tensor);
  bool isWhole(int tensor) const;
  bool isPadded(int operand, int result) const;
  bool isOwn(int tensor) const;
  double size(int tensor) const { return walk.bytes[tensor]; }
  void makeWhole(int tensor);
  void drop(std::size_t op);
  double dropsOfSize(std::size_t op, double bytes);
  const WalkedOp *makerOf(int tensor) const;
  void enter(std::size_t op, int segment);
  void view(const WalkedOp &op);
  void add(const WalkedOp &op);
  void stream(std::size_t at);
  void scale(const WalkedOp &op);
  void contract(std::size_t at);
  void attend(std::size_t at);

  const BackwardWalk &walk;
  std::vector<Buffer> buffers;
  std::vector<std::vector<int>> parts;         ///< by tensor: buffers of its gradient
  std::vector<int> open;                       ///< by tensor: operations whose gradients add to it, to come
  std::vector<int> makers;                     ///< by tensor: operation, or -1
  std::vector<std::vector<std::size_t>> lasts; ///< by operation: values that it is the last to read
  std::vector<std::size_t> again;              ///< values that are made again
  std::vector<bool> isGone;                    ///< by value
  std::vector<bool> isInParts;                 ///< by tensor: what goes on with its gradient puts it together
  double alive = 0, kept = 0, made = 0, all = 0; ///< made: gradients of parameters
  double sent = 0;      ///< of the last parameter's gradient, which ranks may still exchange
  double sentParts = 0; ///< of it, what each gets a part of
  /// The last exchanges of parameters' gradients, which stay whole until so many more have begun.
  std::array<double, cost::kExchangesUnderWay> heldParts{};
  std::size_t exchanges = 0;
  double held = 0;        ///< their sum
  double narrow = 0;      ///< of parameters whose products are done
  double underWay = 0;    ///< bytes of gradients that ranks are exchanging
  bool isInFirst = false; ///< the walk has come to the first segment
  bool isAtHead = false;  ///< the walk has come to a loss that is not in parts, and to no product yet
  BackwardWalk::Peak peak;
};

Walker::Walker(const BackwardWalk &walk)
    : walk(walk), parts(walk.bytes.size()), open(walk.bytes.size(), 0), makers(walk.bytes.size(), -1),
      lasts(walk.ops.size()), isGone(walk.values.size(), false), isInParts(walk.bytes.size(), false) {
  buffers.reserve(2 * walk.ops.size());
  for (std::size_t o = 0; o < walk.ops.size(); ++o) {
    for (int tensor : walk.ops[o].operands)
      ++open[tensor];
    for (int tensor : walk.ops[o].results)
      makers[tensor] = static_cast<int>(o);
    all += walk.ops[o].parameterGradients;
  }
  for (std::size_t v = 0; v < walk.values.size(); ++v) {
    lasts[walk.values[v].reader].push_back(v);
    if (walk.values[v].segment < 0)
      kept += walk.values[v].bytes;
    else {
      isGone[v] = true; // until it is made
      again.push_back(v);
    }
  }
  alive = kept;
}

/// A moment, with so many bytes more than what lives on, and a microbatch's part of gradients of parameters.
void Walker::look(double more, double part) {
  const double beside = alive + more - kept;
  peak.beside = std::max(peak.beside, beside);
  double &inPart = isInFirst ? peak.continued : peak.before;
  inPart = std::max(inPart, beside);
  peak.turn = std::max(peak.turn, beside + part);
  peak.exchanged = std::max(peak.exchanged, beside + part + sent);
  peak.exchangedHalf = std::max(peak.exchangedHalf, beside + part + sent + sentParts / 2);
  peak.once = std::max(peak.once, beside + made - all);
  auto reach = [&](cost::HeldBytes &most, double more) {
    most.most = std::max(most.most, beside + more);
    most.turn = std::max(most.turn, beside + more + part);
    most.once = std::max(most.once, beside + more + made - all);
  };
  const std::size_t begun = std::min(exchanges, heldParts.size());
  reach(peak.held[begun], held);
  reach(peak.heldNarrow[begun], held - narrow);
}

/// What an operation has made stays until more exchanges than are under way at a time have begun.
void Walker::hold(const WalkedOp &op) {
  for (int i = 0; i < op.exchanges; ++i) {
    double &part = heldParts[exchanges++ % heldParts.size()];
    held -= part;
    part = i == 0 ? op.parameterGradients - op.waiting : 0;
    held += part;
  }
}

/// From now on ranks exchange what the operation has made.
void Walker::send(const WalkedOp &op) {
  if (op.parameterGradients <= 0)
    return;
  hold(op);
  narrow += op.kind == WalkedOp::Contraction ? op.parameterGradients * walk.narrow : 0;
  sent = op.parameterGradients;
  sentParts = sent - op.unsent;
}

int Walker::add(double bytes) {
  buffers.push_back({bytes, 0});
  alive += bytes;
  return static_cast<int>(buffers.size()) - 1;
}

void Walker::give(int tensor, int buffer) {
  ++buffers[buffer].users;
  parts[tensor].push_back(buffer);
}

void Walker::share(int from, int to) {
  for (int buffer : parts[from])
    give(to, buffer);
}

void Walker::release(int tensor) {
  for (int buffer : parts[tensor])
    if (--buffers[buffer].users == 0)
      alive -= buffers[buffer].bytes;
  parts[tensor].clear();
}

bool Walker::isWhole(int tensor) const {
  return parts[tensor].size() == 1 && isSame(buffers[parts[tensor].front()].bytes, size(tensor));
}

bool Walker::isOwn(int tensor) const {
  return isWhole(tensor) && buffers[parts[tensor].front()].users == 1;
}

void Walker::makeWhole(int tensor) {
  if (isWhole(tensor) || parts[tensor].empty())
    return;
  const int whole = add(size(tensor));
  look();
  release(tensor);
  give(tensor, whole);
}

/// Whether an operand is the result without what was put around it, so that its gradient is read in the
/// result's. (What is repeated is so more than once.)
bool Walker::isPadded(int operand, int result) const {
  return size(operand) < size(result) && !isSame(size(operand), size(result)) &&
         2 * size(operand) > size(result);
}

/// What the operation was the last to read is gone.
void Walker::drop(std::size_t op) {
  for (std::size_t v : lasts[op])
    if (!isGone[v]) {
      isGone[v] = true;
      alive -= walk.values[v].bytes;
    }
}

/// Drops one value of that size, so that what is written may lie over it; 0 where there is none.
double Walker::dropsOfSize(std::size_t op, double bytes) {
  for (std::size_t v : lasts[op])
    if (!isGone[v] && isSame(walk.values[v].bytes, bytes)) {
      isGone[v] = true;
      alive -= bytes;
      return bytes;
    }
  return 0;
}

/// The operation that makes what a tensor is a view of.
const WalkedOp *Walker::makerOf(int tensor) const {
  while (makers[tensor] >= 0) {
    const WalkedOp &op = walk.ops[makers[tensor]];
    if (op.kind != WalkedOp::View || op.operands.empty())
      return &op;
    tensor = op.operands.front();
  }
  return nullptr;
}

/// What is made again for an operation, and with its segment, if that is a new one.
void Walker::enter(std::size_t op, int segment) {
  for (std::size_t v : again) {
    const WalkedValue &value = walk.values[v];
    const bool isAlone = value.from >= 0;
    if (isAlone ? value.from != static_cast<int>(op) : segment < 0 || value.segment != segment)
      continue;
    // The kernel that reads it makes it as it goes, unless another reads it as well.
    const WalkedOp::Kind kind = walk.ops[op].kind;
    if (isAlone && value.reader == op && (kind == WalkedOp::Pointwise || kind == WalkedOp::Scaling))
      continue;
    isGone[v] = false;
    alive += value.bytes;
  }
}

void Walker::view(const WalkedOp &op) {
  for (int result : op.results) {
    for (int operand : op.operands)
      if (isPadded(operand, result) || size(operand) >= size(result) || isSame(size(operand), size(result))) {
        share(result, operand);
      } else { // what was repeated is summed up
        give(operand, add(size(operand)));
        look();
      }
    release(result);
  }
}

void Walker::add(const WalkedOp &op) {
  for (int result : op.results) {
    double together = 0;
    for (int operand : op.operands)
      together += size(operand);
    for (int operand : op.operands)
      if (size(operand) >= size(result) || isSame(size(operand), size(result)) || isPadded(operand, result) ||
          isSame(together, size(result))) // the latter: they were joined
        share(result, operand);
      else if (!parts[result].empty()) {
        give(operand, add(size(operand)));
        look();
      }
    release(result);
  }
}

void Walker::stream(std::size_t at) {
  const WalkedOp &op = walk.ops[at];
  bool isTaken = false; // the result's own gradient
  for (int result : op.results) {
    if (parts[result].empty())
      continue;
    for (int operand : op.operands) {
      if (isPadded(operand, result)) {
        share(result, operand);
        continue;
      }
      // A kernel that sums up rows for a bias, too, writes over nothing.
      const WalkedOp *maker = makerOf(operand);
      const bool sums = open[operand] == 1 && maker && maker->sumsRows;
      if (sums) {
        give(operand, add(size(operand)));
        continue;
      }
      if (!isTaken && isOwn(result) && isSame(size(operand), size(result))) {
        isTaken = true;
        continue;
      }
      if (!isInParts[result]) // it writes over nothing what it puts together
        dropsOfSize(at, size(operand));
      give(operand, add(size(operand)));
    }
    look();
    for (int operand : op.operands)
      if (isTaken && parts[operand].empty() && isSame(size(operand), size(result))) {
        share(result, operand);
        break;
      }
    release(result);
  }
}

void Walker::scale(const WalkedOp &op) {
  for (int result : op.results) {
    if (parts[result].empty())
      continue;
    const double beside = size(result) + (isWhole(result) ? 0 : size(result));
    for (int operand : op.operands) {
      const int whole = add(size(operand));
      look(beside);
      if (open[operand] == 1) // what others have added is added up with it
        release(operand);
      give(operand, whole);
    }
    release(result);
  }
}

void Walker::contract(std::size_t at) {
  const WalkedOp &op = walk.ops[at];
  for (int result : op.results) {
    makeWhole(result);
    if (op.taken > size(result) && !isSame(op.taken, size(result)) && !parts[result].empty()) {
      const int gathered = add(op.taken);
      look();
      release(result);
      give(result, gathered);
    }
  }
  auto makesNext = [&](int operand) { // the kernel that makes the gradient goes on with that operation's
    const WalkedOp *maker = makerOf(operand);
    return maker && open[operand] == 1 && maker->kind == WalkedOp::Pointwise && maker->operands.size() == 1;
  };
  // So does one that stretches the gradient of a mean.
  auto isStretched = [&](int operand) {
    const WalkedOp *maker = makerOf(operand);
    return maker && maker->kind == WalkedOp::Linear && maker->operands.size() == 1 &&
           size(maker->operands.front()) > size(operand);
  };
  const bool isLate = std::any_of(op.operands.begin(), op.operands.end(),
                                  [&](int operand) { return makesNext(operand) || isStretched(operand); });
  const bool goesOn = std::any_of(op.operands.begin(), op.operands.end(), makesNext);
  const double heldBefore = held;
  auto scatter = [&] {
    const double whole = alive - kept + op.parameterGradients;
    peak.scatteredHeld = std::max(peak.scatteredHeld, whole + heldBefore - narrow);
    peak.scattered = std::max(peak.scattered, whole);
    peak.scatteredOnce = std::max(peak.scatteredOnce, whole + made - all);
  };
  const bool hasParts = op.inputParts > 0 && !op.operands.empty();
  const int ofInput = hasParts ? add(op.inputParts) : -1;
  for (bool isLater : {false, true}) {
    for (std::size_t o = 0; !hasParts && o < op.operands.size(); ++o) {
      const int operand = op.operands[o];
      if (makesNext(operand) != isLater)
        continue;
      if (o < op.made.size() && op.made[o] > size(operand) && !isSame(op.made[o], size(operand))) {
        look(op.made[o] + std::max(size(operand), op.besideInput)); // then ranks sum up
        give(operand, add(size(operand)));
        continue;
      }
      const WalkedOp *maker = makerOf(operand);
      const bool isSummedLater = open[operand] == 1 && maker && maker->kind == WalkedOp::Scaling;
      if (isSummedLater || !isOwn(operand))
        give(operand, add(size(operand)));
      look(op.besideInput);
    }
    if (isLater)
      continue;
    alive += op.exchanged; // while the others run
    underWay += op.exchanged;
    look(op.copied);
    // The product reads the copy, and what was copied is gone, where nothing else is to read it.
    double copied = op.copied;
    if (copied > 0 && !op.copiesGradient)
      dropsOfSize(at, copied);
    else if (copied > 0 && !goesOn)
      for (int result : op.results)
        copied -= isOwn(result) ? size(result) : 0;
    if (isAtHead && !hasParts) {
      peak.head = peak.beside;
      peak.headGradients = op.parameterGradients;
    }
    isAtHead = false;
    made += op.parameterGradients;
    look(std::max(copied, op.besideWeights), op.parameterGradients);
    if (const double beside = alive - kept;
        !hasParts && isLate && beside + op.parameterGradients > peak.late + peak.lateGradients) {
      peak.late = beside;
      peak.lateGradients = op.parameterGradients;
    }
    send(op);
    drop(at);
    if (goesOn)
      scatter();
    alive -= op.exchanged;
  }
  for (int result : op.results)
    release(result);
  if (!goesOn) // then nothing reads the result's gradient any more
    scatter();
  if (hasParts) {
    give(op.operands.front(), ofInput);
    isInParts[op.operands.front()] = true;
  }
}

void Walker::attend(std::size_t at) {
  const WalkedOp &op = walk.ops[at];
  for (int result : op.results)
    makeWhole(result);
  double gradients = 0, ofMask = 0;
  std::vector<double> sizes;
  for (int operand : op.operands)
    if (operand != op.mask) {
      sizes.push_back(size(operand));
      gradients += sizes.back();
    } else if (op.isNarrow && !isOwn(operand)) { // not written over wide slopes, but before other gradients
      ofMask = size(operand);
    }
  if (op.isInParts) {
    look(op.scores + std::max(gradients, ofMask));
  } else {
    look(op.scores + (sizes.empty() ? 0 : sizes.back())); // values' gradient, while the result is read
    double result = 0;
    for (int tensor : op.results)
      for (int part : parts[tensor])
        result += buffers[part].users == 1 ? buffers[part].bytes : 0;
    for (std::size_t v : lasts[at]) // the result itself
      if (!op.results.empty() && isSame(walk.values[v].bytes, size(op.results.front()))) {
        result += walk.values[v].bytes;
        break;
      }
    look(op.scores + gradients - result); // of a narrow mask: what the slopes are narrowed to
  }
  for (int tensor : op.results)
    release(tensor);
  for (int operand : op.operands)
    if (operand != op.mask || !isOwn(operand))
      give(operand, add(size(operand)));
}

BackwardWalk::Peak Walker::run() {
  for (int output : walk.outputs)
    if (parts[output].empty())
      give(output, add(size(output)));
  alive += walk.loss;
  look();
  int segment = -1;
  double loss = walk.loss;
  for (std::size_t i = walk.ops.size(); i-- > 0;) {
    const WalkedOp &op = walk.ops[i];
    // A segment is made again where it is read first.
    const bool reads = op.kind != WalkedOp::View && op.kind != WalkedOp::Linear;
    const bool isNew = reads && op.segment != segment;
    enter(i, isNew ? op.segment : -1);
    segment = reads ? op.segment : segment;
    // What ranks exchange stays where it was made until it is read.
    const double exchanged = reads ? underWay : 0;
    underWay -= exchanged;
    isInFirst |= op.segment == 0;
    const bool isReached = op.kind == WalkedOp::Loss || std::any_of(op.results.begin(), op.results.end(),
                                                                    [&](int r) { return !parts[r].empty(); });
    if (!isReached) {
      for (int operand : op.operands)
        --open[operand];
      continue;
    }
    alive += op.brought + exchanged;
    switch (op.kind) {
    case WalkedOp::View: view(op); break;
    case WalkedOp::Linear: add(op); break;
    case WalkedOp::Pointwise: stream(i); break;
    case WalkedOp::Scaling: scale(op); break;
    case WalkedOp::Contraction: contract(i); break;
    case WalkedOp::Attention: attend(i); break;
    case WalkedOp::Loss:
      drop(i);
      for (int operand : op.operands)
        give(operand, add(size(operand)));
      isAtHead = op.earlier <= 0;
      made += op.earlier;
      look(0, op.earlier);
      made -= op.earlier;
      break;
    }
    alive -= op.brought + exchanged;
    const bool hasMade = op.kind == WalkedOp::Contraction;
    if (!hasMade)
      made += op.parameterGradients;
    look(0, hasMade ? 0 : op.parameterGradients);
    if (!hasMade)
      send(op);
    if (op.kind != WalkedOp::View) {
      alive -= loss;
      loss = 0;
    }
    drop(i);
    for (int operand : op.operands)
      --open[operand];
  }
  look();
  for (std::size_t more = 0; more < peak.left.size(); ++more)
    for (std::size_t e = exchanges - std::min(exchanges, heldParts.size() - more); e < exchanges; ++e)
      peak.left[more] += heldParts[e % heldParts.size()];
  return peak;
}

} // namespace

BackwardWalk::Peak BackwardWalk::find() const {
  return Walker(*this).run();
}

} // namespace colossal::planner

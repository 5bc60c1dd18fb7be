//===- ExchangeQueue.h - collectives beside kernels, as the schedule has them ===//
//
// What the schedule does of exchanges (lib/Schedule/CollectiveQueue.h), and the search foresees of their
// memory.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_COST_EXCHANGEQUEUE_H
#define COLOSSAL_COST_EXCHANGEQUEUE_H

#include <cstddef>

namespace colossal::cost {

/// Exchanges that have begun before one of them must have ended: what ranks scatter stays whole until so many
/// more have.
constexpr std::size_t kExchangesUnderWay = 4;

/// Exchanges go on beside kernels, and ahead of their use, where activations take no more than 1 / this more
/// memory for it than they would in the way that takes the least.
constexpr int kExchangeShareOfMemory = 32;

} // namespace colossal::cost

#endif // COLOSSAL_COST_EXCHANGEQUEUE_H

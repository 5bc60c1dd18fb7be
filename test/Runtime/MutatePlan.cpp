// Validates altered copies of a compiled plan:  mutate-plan PLAN COUNT [SEED]
//                                                mutate-plan PLAN --order
//
// Digests protect a file from damage, not from its author. Each copy is what an author could write: one to
// three fields changed, everything else consistent. The validator must refuse it with a message or accept it,
// without a crash; nothing is run. Prints the counts; a refusal without a message is a failure. Meant for a
// build with COLOSSAL_SANITIZE.
//
// With --order, of whatever orders the plan's instructions and lets its messages meet one thing is changed at
// a time (OrderMutations.h): the validator must refuse all of these. Prints how many of each kind there were,
// and those that were accepted.
#include "Mutator.h"
#include "OrderMutations.h"

#include "colossal/Plan/Container.h"
#include "runtime/validate/Validate.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace colossal;
using namespace colossal::runtime;

static int changeOrder(const plan::PlanFile &file) {
  std::array<long, orderChangeCount> changes = {}, accepted = {};
  forEachOrderChange(file.plan(),
                     [&](OrderChange change, const std::string &where, const plan::Plan &altered) {
                       ++changes[static_cast<size_t>(change)];
                       if (validatePlan(altered, file.code(), file.data()).code() == Code::InvalidPlan)
                         return;
                       ++accepted[static_cast<size_t>(change)];
                       std::printf("accepted, %s: %s\n", describe(change), where.c_str());
                     });
  for (size_t change = 0; change < orderChangeCount; ++change)
    std::printf("%s: %ld of %ld refused\n", describe(static_cast<OrderChange>(change)),
                changes[change] - accepted[change], changes[change]);
  return accepted != decltype(accepted){};
}

int main(int argc, char **argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s PLAN COUNT [SEED] | PLAN --order\n", argv[0]);
    return 2;
  }
  plan::PlanFile file;
  Status status = plan::PlanFile::open(argv[1], false, file);
  if (status.ok())
    status = validatePlan(file.plan(), file.code(), file.data());
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.describe().c_str());
    return 1;
  }
  if (std::strcmp(argv[2], "--order") == 0)
    return changeOrder(file);
  const long count = std::strtol(argv[2], nullptr, 10);
  const uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
  long refused = 0, mute = 0;
  for (long i = 0; i < count; ++i) {
    Mutator mutator(seed * 1000003 + static_cast<uint64_t>(i));
    plan::Plan altered = file.plan();
    for (size_t changes = 1 + mutator.pick(3); changes > 0; --changes)
      mutator.mutate(altered);
    status = validatePlan(altered, file.code(), file.data());
    refused += !status.ok();
    if (!status.ok() && status.message().empty())
      ++mute;
  }
  std::printf("%ld altered plans: %ld refused, %ld accepted, %ld refused without a message\n", count, refused,
              count - refused, mute);
  // A validator that takes everything, or nothing, is broken.
  return mute > 0 || refused == 0 || (count >= 100 && refused == count);
}

// The generations that plans are made for.
#include "Chip.h"

using namespace colossal::nvidia;

namespace {
struct Row {
  const char *name, *feature;
};
constexpr Row rows[] = {{"sm_80", "+ptx80"}, {"sm_90", "+ptx80"}, {"sm_100", "+ptx86"}};
} // namespace

llvm::Expected<Chip> Chip::create(llvm::StringRef name) {
  std::string known;
  for (const Row &row : rows) {
    if (name == row.name)
      return Chip{row.name, row.feature};
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  return llvm::createStringError("no GPU is known as '" + name.str() + "'; known are " + known);
}

std::vector<Chip> Chip::all() {
  std::vector<Chip> chips;
  for (const Row &row : rows)
    chips.push_back({row.name, row.feature});
  return chips;
}

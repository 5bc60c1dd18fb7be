//===- Names.cpp - what pins and reports call ops and factors ---------------===//
#include "Names.h"

#include "dialects/Colossal/Colossal.h"
#include "dialects/Dist/Loop.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::layout;

std::vector<std::string> layout::getFactorNames(const RefinedRule &refined) {
  auto roleOf = [](const Factor &factor) { return factor.role.empty() ? StringRef("d") : factor.role; };
  llvm::StringMap<unsigned> total, seen;
  for (const Factor &factor : refined.own.factors)
    ++total[roleOf(factor)];
  std::vector<std::string> names(refined.rule.factors.size());
  for (auto [f, factor] : llvm::enumerate(refined.own.factors)) {
    std::string name = roleOf(factor).str();
    if (factor.role.empty() || total[name] > 1)
      name += std::to_string(seen[roleOf(factor)]++);
    ArrayRef<unsigned> parts = refined.parts[f];
    for (auto [i, part] : llvm::enumerate(parts))
      names[part] = parts.size() == 1 ? name : name + "." + std::to_string(i);
  }
  return names;
}

static std::string printAxes(ArrayRef<unsigned> axes, MeshAttr mesh) {
  std::string text;
  for (unsigned axis : axes)
    if (!mesh.getAxes()[axis].getLoop())
      text += (text.empty() ? "" : "+") + mesh.getAxes()[axis].getName().str();
  return text;
}

std::string layout::printSharding(ShardingAttr sharding, MeshAttr mesh) {
  std::string text = "[";
  sharding = dropLoop(sharding, mesh);
  for (auto [d, dim] : llvm::enumerate(sharding.getDims())) {
    text += d ? "," : "";
    for (auto [f, factor] : llvm::enumerate(dim.getFactors())) {
      text += (f ? "*" : "") + std::to_string(factor.getSize());
      if (!factor.getAxes().empty())
        text += ":" + printAxes(factor.getAxes(), mesh);
    }
  }
  text += "]";
  if (sharding.isPartial())
    text += " partial(" + printAxes(sharding.getPartialAxes(), mesh) + ")";
  return text;
}

std::string layout::printAssignment(const RefinedRule &refined, const Assignment &assignment, MeshAttr mesh) {
  std::vector<std::string> names = getFactorNames(refined);
  std::string text;
  for (auto [f, axes] : llvm::enumerate(assignment))
    if (std::string split = printAxes(axes, mesh); !split.empty())
      text += (text.empty() ? "" : ",") + names[f] + ":" + split;
  return text.empty() ? "replicated" : text;
}

//===- NameTemplates.h - names of several places as one text ----------------===//
//
// Instructions of a function are called in several places, and in each have other names: "/h.0/attn/MatMul",
// "/h.1/attn/MatMul". These become one text with gaps, "/h.{0}/attn/MatMul", and each place says what goes
// into the gaps; docs/PlanFormat.md has the rules. Exporters number nodes through the whole model, too:
// "MatMul_12" and "Add_14" in the one place, "MatMul_60" and "Add_62" in the other, are "MatMul_{0}" and
// "Add_{0+2}".
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_SCHEDULE_NAMETEMPLATES_H
#define COLOSSAL_LIB_SCHEDULE_NAMETEMPLATES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <map>
#include <string>
#include <vector>

namespace colossal::schedule {

class NameTemplates {
public:
  explicit NameTemplates(size_t places) : places(places) {}

  /// One text for the names, one of each place. Names are kept by reference until the object is gone.
  std::string add(llvm::ArrayRef<llvm::StringRef> names);

  /// What goes into the gaps in a place.
  std::vector<std::string> getNames(size_t place) const;

private:
  using Column = std::vector<llvm::StringRef>; ///< by place
  /// A gap for the strings: "{2}", or "{2+14}" where all are so much more than those of a known gap.
  std::string addGap(Column column);
  /// What all names begin and end with, and a gap between.
  std::string addMiddle(llvm::ArrayRef<llvm::StringRef> names);

  size_t places;
  std::vector<Column> columns;
  std::map<Column, std::string> gaps;
  /// By differences from the first place: the gap that is a number, and its number in the first place.
  std::map<std::vector<int64_t>, std::pair<size_t, int64_t>> numbers;
};

} // namespace colossal::schedule

#endif // COLOSSAL_LIB_SCHEDULE_NAMETEMPLATES_H

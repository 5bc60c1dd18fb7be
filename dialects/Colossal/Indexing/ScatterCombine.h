//===- ScatterCombine.h - the arithmetic of scatters ------------------------===//
//
// What an update does to the element that it meets; shared by the pulled form of scatters (Indexing.cpp) and
// by the kernel that goes through the updates one after another.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_COLOSSAL_INDEXING_SCATTERCOMBINE_H
#define COLOSSAL_DIALECTS_COLOSSAL_INDEXING_SCATTERCOMBINE_H

#include "dialects/Colossal/Colossal.h"

namespace colossal {

Element scatterCombine(ScatterReduction reduction, Element old, Element update);

} // namespace colossal

#endif // COLOSSAL_DIALECTS_COLOSSAL_INDEXING_SCATTERCOMBINE_H

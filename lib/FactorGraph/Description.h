// Operations and tensors of IR as any search sees them.
#ifndef COLOSSAL_LIB_FACTORGRAPH_DESCRIPTION_H
#define COLOSSAL_LIB_FACTORGRAPH_DESCRIPTION_H

#include "colossal/FactorGraph/FactorGraph.h"
#include "dialects/Dist/FactorRule.h"

namespace colossal::factors {

/// A factor as it stands: of the size that it has, whatever the batch.
Factor describe(const dist::Factor &given);

/// A tensor as it stands.
Tensor describe(mlir::Value value);

/// Adds to `use`, an operand or result whose dimensions have the factors `dims` of `all`, where they stand.
void addPlaces(const dist::TensorFactors &dims, const std::vector<Factor> &all, Use &use);

Operation::Kind getOperationKind(mlir::Operation *op);

} // namespace colossal::factors

#endif // COLOSSAL_LIB_FACTORGRAPH_DESCRIPTION_H

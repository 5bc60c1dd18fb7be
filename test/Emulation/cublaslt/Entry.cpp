// The entry points: what descriptors take, advice on algorithms, and which calls are refused.
#include "Multiply.h"

#include "test/Emulation/PlannedFailures.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#define COLOSSAL_CUBLASLT_EXPORT(type, symbol, arguments)                                                    \
  extern "C" __attribute__((visibility("default"))) type symbol arguments;

namespace colossal::cublaslt {

COLOSSAL_CUBLASLT(COLOSSAL_CUBLASLT_EXPORT)

namespace {

/// What COLOSSAL_EMULATED_CUBLASLT_FAIL wants of this call.
Result plannedFailure(const char *symbol) {
  static emulation::PlannedFailures planned("COLOSSAL_EMULATED_CUBLASLT_FAIL");
  return static_cast<Result>(planned.count(symbol));
}

Result refuse(Result result, const std::string &why) {
  std::fprintf(stderr, "emulated cuBLASLt: %s\n", why.c_str());
  return result;
}

/// Takes an attribute's value, whose size has to be that of the member.
template <class T>
Result take(T &member, const void *value, size_t bytes) {
  if (!value || bytes != sizeof member)
    return refuse(InvalidValue, "an attribute of " + std::to_string(bytes) + " bytes, which has " +
                                    std::to_string(sizeof member));
  std::memcpy(&member, value, sizeof member);
  return Success;
}

bool isAligned(const void *pointer, std::uint64_t alignment) {
  return reinterpret_cast<std::uintptr_t>(pointer) % alignment == 0;
}

} // namespace

size_t cublasLtGetVersion() {
  return 130000;
}

const char *cublasLtGetStatusName(Result result) {
  switch (result) {
  case Success: return "CUBLAS_STATUS_SUCCESS";
  case NotInitialized: return "CUBLAS_STATUS_NOT_INITIALIZED";
  case AllocFailed: return "CUBLAS_STATUS_ALLOC_FAILED";
  case InvalidValue: return "CUBLAS_STATUS_INVALID_VALUE";
  case ArchMismatch: return "CUBLAS_STATUS_ARCH_MISMATCH";
  case MappingError: return "CUBLAS_STATUS_MAPPING_ERROR";
  case ExecutionFailed: return "CUBLAS_STATUS_EXECUTION_FAILED";
  case InternalError: return "CUBLAS_STATUS_INTERNAL_ERROR";
  case NotSupported: return "CUBLAS_STATUS_NOT_SUPPORTED";
  case LicenseError: return "CUBLAS_STATUS_LICENSE_ERROR";
  }
  return "unknown";
}

const char *cublasLtGetStatusString(Result result) {
  switch (result) {
  case Success: return "success";
  case NotInitialized: return "the library was not initialized";
  case AllocFailed: return "the resource allocation failed";
  case InvalidValue: return "an unsupported value or parameter was passed to the function";
  case ArchMismatch:
    return "the function requires an architectural feature absent from the architecture of the device";
  case MappingError: return "an access to GPU memory space failed";
  case ExecutionFailed: return "the function failed to launch on the GPU";
  case InternalError: return "an internal operation failed";
  case NotSupported: return "the functionality requested is not supported";
  case LicenseError: return "the functionality requested requires some license";
  }
  return "unknown";
}

Result cublasLtCreate(Handle *handle) {
  if (const Result planned = plannedFailure("cublasLtCreate"))
    return planned;
  if (!handle)
    return InvalidValue;
  *handle = new CublasLtHandle;
  return Success;
}

Result cublasLtDestroy(Handle handle) {
  if (const Result planned = plannedFailure("cublasLtDestroy"))
    return planned;
  delete handle;
  return handle ? Success : NotInitialized;
}

//===----------------------------------------------------------------------===//
// Descriptors
//===----------------------------------------------------------------------===//

Result cublasLtMatmulDescCreate(MatmulDesc *made, ComputeType compute, DataType scale) {
  if (const Result planned = plannedFailure("cublasLtMatmulDescCreate"))
    return planned;
  if (!made)
    return InvalidValue;
  *made = new MatmulDescHandle{compute, scale, OperationN, OperationN, EpilogueDefault, nullptr, -1};
  return Success;
}

Result cublasLtMatmulDescDestroy(MatmulDesc operation) {
  if (const Result planned = plannedFailure("cublasLtMatmulDescDestroy"))
    return planned;
  delete operation;
  return Success;
}

Result cublasLtMatmulDescSetAttribute(MatmulDesc operation, MatmulDescAttribute attribute, const void *value,
                                      size_t bytes) {
  if (const Result planned = plannedFailure("cublasLtMatmulDescSetAttribute"))
    return planned;
  if (!operation)
    return InvalidValue;
  switch (attribute) {
  case DescTransA: return take(operation->transposeFirst, value, bytes);
  case DescTransB: return take(operation->transposeSecond, value, bytes);
  case DescEpilogue: return take(operation->epilogue, value, bytes);
  case DescBiasPointer: return take(operation->bias, value, bytes);
  case DescBiasDataType: return take(operation->biasType, value, bytes);
  }
  return refuse(InvalidValue, "an attribute of products that is not modelled");
}

Result cublasLtMatrixLayoutCreate(MatrixLayout *made, DataType type, uint64_t rows, uint64_t columns,
                                  int64_t leading) {
  if (const Result planned = plannedFailure("cublasLtMatrixLayoutCreate"))
    return planned;
  if (!made)
    return InvalidValue;
  *made = new MatrixLayoutHandle{type, rows, columns, leading, 1, 0};
  return Success;
}

Result cublasLtMatrixLayoutDestroy(MatrixLayout layout) {
  if (const Result planned = plannedFailure("cublasLtMatrixLayoutDestroy"))
    return planned;
  delete layout;
  return Success;
}

Result cublasLtMatrixLayoutSetAttribute(MatrixLayout layout, MatrixLayoutAttribute attribute,
                                        const void *value, size_t bytes) {
  if (const Result planned = plannedFailure("cublasLtMatrixLayoutSetAttribute"))
    return planned;
  if (!layout)
    return InvalidValue;
  switch (attribute) {
  case LayoutBatchCount: return take(layout->batch, value, bytes);
  case LayoutStridedBatchOffset: return take(layout->stride, value, bytes);
  }
  return refuse(InvalidValue, "an attribute of layouts that is not modelled");
}

Result cublasLtMatmulPreferenceCreate(Preference *made) {
  if (const Result planned = plannedFailure("cublasLtMatmulPreferenceCreate"))
    return planned;
  if (!made)
    return InvalidValue;
  *made = new PreferenceHandle;
  return Success;
}

Result cublasLtMatmulPreferenceDestroy(Preference preference) {
  if (const Result planned = plannedFailure("cublasLtMatmulPreferenceDestroy"))
    return planned;
  delete preference;
  return Success;
}

Result cublasLtMatmulPreferenceSetAttribute(Preference preference, PreferenceAttribute attribute,
                                            const void *value, size_t bytes) {
  if (const Result planned = plannedFailure("cublasLtMatmulPreferenceSetAttribute"))
    return planned;
  if (!preference)
    return InvalidValue;
  switch (attribute) {
  case PreferenceMaxWorkspaceBytes: return take(preference->workspaceBytes, value, bytes);
  case PreferenceMinAlignmentA:
  case PreferenceMinAlignmentB:
  case PreferenceMinAlignmentC:
  case PreferenceMinAlignmentD:
    return take(preference->alignment[attribute - PreferenceMinAlignmentA], value, bytes);
  }
  return refuse(InvalidValue, "an attribute of preferences that is not modelled");
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

Result cublasLtMatmulAlgoGetHeuristic(Handle handle, MatmulDesc operation, MatrixLayout a, MatrixLayout b,
                                      MatrixLayout c, MatrixLayout d, Preference preference, int wanted,
                                      HeuristicResult *results, int *count) {
  if (const Result planned = plannedFailure("cublasLtMatmulAlgoGetHeuristic"))
    return planned;
  if (!handle)
    return NotInitialized;
  if (!operation || !a || !b || !c || !d || !preference || !results || !count || wanted < 1)
    return InvalidValue;
  const Problem problem{operation, a, b, c, d};
  *count = 0;
  std::string why;
  if (Result result = check(problem, why); result != Success)
    return refuse(result, why);
  for (Way::Kind kind : kinds) {
    const Way way = wayOf(problem, kind);
    const bool aligned = std::all_of(std::begin(preference->alignment), std::end(preference->alignment),
                                     [&](std::uint32_t alignment) { return alignment % way.alignment == 0; });
    // The bias counts from where it lies at the time.
    const bool biasAligned = !hasBias(operation->epilogue) || isAligned(operation->bias, way.alignment);
    if (*count < wanted && aligned && biasAligned && fits(problem, way) &&
        way.workspaceBytes <= preference->workspaceBytes)
      results[(*count)++] = {encode(problem, way), way.workspaceBytes, Success, 1.0f, {}};
  }
  return *count ? Success : NotSupported;
}

Result cublasLtMatmulAlgoCheck(Handle handle, MatmulDesc operation, MatrixLayout a, MatrixLayout b,
                               MatrixLayout c, MatrixLayout d, const Algorithm *algorithm,
                               HeuristicResult *result) {
  if (const Result planned = plannedFailure("cublasLtMatmulAlgoCheck"))
    return planned;
  if (!handle)
    return NotInitialized;
  if (!operation || !a || !b || !c || !d || !algorithm || !result)
    return InvalidValue;
  const Problem problem{operation, a, b, c, d};
  std::string why;
  if (Result bad = check(problem, why); bad != Success)
    return refuse(bad, why);
  Way way;
  if (!decode(problem, *algorithm, way))
    return InvalidValue;
  result->workspaceBytes = way.workspaceBytes;
  result->state = Success;
  result->waves = 1;
  return Success;
}

Result cublasLtMatmul(Handle handle, MatmulDesc operation, const void *alpha, const void *first,
                      MatrixLayout a, const void *second, MatrixLayout b, const void *beta,
                      const void *addend, MatrixLayout c, void *result, MatrixLayout d,
                      const Algorithm *algorithm, void *workspace, size_t workspaceBytes, Stream stream) {
  if (const Result planned = plannedFailure("cublasLtMatmul"))
    return planned;
  if (!handle)
    return NotInitialized;
  if (!operation || !a || !b || !c || !d || !alpha || !beta || !first || !second || !addend || !result)
    return refuse(InvalidValue, "a product without descriptors, factors or operands");
  if (!algorithm || !stream)
    return refuse(NotSupported, "products without an algorithm, or on the default stream, are not modelled");
  const Problem problem{operation, a, b, c, d};
  std::string why;
  if (Result bad = check(problem, why); bad != Success)
    return refuse(bad, why);
  Product product{*operation, *a, *b, *d, {}, 1, 0, 0, 0, 0};
  if (!decode(problem, *algorithm, product.way))
    return refuse(InvalidValue, "an algorithm for another product");
  double factor = 0;
  if (operation->scale == R64F) {
    std::memcpy(&product.alpha, alpha, 8);
    std::memcpy(&factor, beta, 8);
  } else {
    float single;
    std::memcpy(&single, alpha, 4);
    product.alpha = static_cast<double>(single);
    std::memcpy(&single, beta, 4);
    factor = static_cast<double>(single);
  }
  if (factor != 0)
    return refuse(NotSupported, "products that are added to a matrix are not modelled");
  const std::uint64_t alignment = product.way.alignment;
  if (!isAligned(first, alignment) || !isAligned(second, alignment) || !isAligned(result, alignment))
    return refuse(InvalidValue, "an operand is not aligned to the " + std::to_string(alignment) +
                                    " bytes of the algorithm");
  if (hasBias(operation->epilogue) && (!operation->bias || !isAligned(operation->bias, alignment)))
    return refuse(InvalidValue, "no bias, or one that is not aligned to the " + std::to_string(alignment) +
                                    " bytes of the algorithm");
  if (!isAligned(workspace, workspaceAlignment))
    return refuse(InvalidValue, "the workspace is not aligned to 256 bytes");
  if (product.way.workspaceBytes > workspaceBytes || (product.way.workspaceBytes && !workspace))
    return refuse(InvalidValue, "the algorithm needs a workspace of " +
                                    std::to_string(product.way.workspaceBytes) + " bytes, and is given " +
                                    std::to_string(workspace ? workspaceBytes : 0));
  product.first = reinterpret_cast<std::uintptr_t>(first);
  product.second = reinterpret_cast<std::uintptr_t>(second);
  product.result = reinterpret_cast<std::uintptr_t>(result);
  product.workspace = reinterpret_cast<std::uintptr_t>(workspace);
  Result enqueued = enqueue(product, stream);
  return enqueued == Success ? Success : refuse(enqueued, "an operand lies in no memory of the GPU");
}

} // namespace colossal::cublaslt

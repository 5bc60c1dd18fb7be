// Contractions by cuBLASLt: the routine "contraction" of a plan on one GPU.
//
// The library's matrices lie column by column. A result that lies row by row is its transpose there: of a
// product A B it computes B' A', so that neither operand moves, and a bias along its rows is one along n.
#ifndef COLOSSAL_RUNTIME_CUDA_CUBLASLT_CONTRACTIONS_H
#define COLOSSAL_RUNTIME_CUDA_CUBLASLT_CONTRACTIONS_H

#include "runtime/cuda/Algorithms.h"
#include "runtime/cuda/Routine.h"
#include "runtime/cuda/cublaslt/Library.h"

namespace colossal::runtime {

/// What the routines of one GPU share. Calls come from its rank's thread, which has the GPU's context.
class Contractions {
public:
  /// Opens the library, which has to be there.
  static Status create(const CudaLibrary &driver, const Gpu &gpu, std::unique_ptr<Contractions> &made);
  ~Contractions();

  /// Of a validated call. Fails where the library has no algorithm for it. The routine ends before this.
  Status createRoutine(const plan::LibraryCall &call, std::unique_ptr<Routine> &routine);

  const CudaLibrary &driver;
  const CublasLtLibrary &library;
  Algorithms &algorithms;
  const bool tunes; ///< timesAlgorithms of the GPU
  cublaslt::Handle handle = nullptr;

private:
  Contractions(const CudaLibrary &driver, const CublasLtLibrary &library, Algorithms &algorithms, bool tunes)
      : driver(driver), library(library), algorithms(algorithms), tunes(tunes) {}
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_CUDA_CUBLASLT_CONTRACTIONS_H

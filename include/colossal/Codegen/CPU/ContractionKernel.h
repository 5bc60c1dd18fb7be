// Generator of contractions: C[b, m, n] = epilogue(sum over k of A[b, m, k] * B[b, k, n]).
//
// Each of b, m, n and k is a list of dimensions with their own strides, so that fused and permuted layouts
// (fused QKV, heads * width, views) need no copy. The right side is packed once at load (weights) or read or
// packed on the way (activations). Every sum runs over k in one fixed order inside one tile: results do not
// depend on threads.
//
// Buffers of the kernel: A, B, extra inputs, outputs, then the scratch.
#ifndef COLOSSAL_CODEGEN_CPU_CONTRACTIONKERNEL_H
#define COLOSSAL_CODEGEN_CPU_CONTRACTIONKERNEL_H

#include "colossal/Codegen/CPU/KernelFunction.h"
#include "colossal/Codegen/CPU/Processor.h"
#include <functional>

namespace colossal::cpu {

/// One dimension of a group, outermost first. Strides are of elements of A, B and C; what an operand does not
/// have is 0 (B has no m, A no n, C no k), and a batch stride of 0 broadcasts.
struct ContractionDim {
  int64_t size;
  int64_t a = 0, b = 0, c = 0;
};

/// Where an epilogue stands: one row m, `width` consecutive n. All indices are i64.
struct EpilogueIndex {
  KernelFunction &kernel;
  llvm::SmallVector<mlir::Value> batch; // one per batch dimension of the spec
  llvm::SmallVector<mlir::Value> m;     // one per m dimension
  llvm::SmallVector<mlir::Value> n;     // one per n dimension, of lane 0
  mlir::Value mLinear, nLinear;         // row-major over the m (n) dimensions; of lane 0
  int64_t width;                        // lanes
  mlir::Value mask;                     // vector of i1: lanes that exist; null: all
  /// Per n dimension the lanes' indices, vectors of i64; empty where all lanes lie consecutively in the last
  /// dimension (the usual case: load and store at the index of lane 0).
  llvm::SmallVector<mlir::Value> laneN;
};

/// Strides in elements of a tensor over the spec's batch, m and n dimensions; 0 broadcasts.
struct EpilogueStrides {
  llvm::SmallVector<int64_t> batch, m, n;
};

/// Reads what a tensor holds at the epilogue's place: `width` lanes of `element` (not converted).
mlir::Value loadAt(mlir::OpBuilder &builder, mlir::Location loc, const Processor &processor,
                   mlir::Value pointer, mlir::Type element, const EpilogueStrides &strides,
                   const EpilogueIndex &index);
/// Writes lanes of the value there.
void storeAt(mlir::OpBuilder &builder, mlir::Location loc, const Processor &processor, mlir::Value value,
             mlir::Value pointer, const EpilogueStrides &strides, const EpilogueIndex &index);

/// Takes the sums (vector<width x accumulate type>) and returns what is to be stored in C (any element type;
/// it is converted to C's), or null after having stored its results itself. Called at most twice per kernel
/// (whole panels and the last one), with the same structure.
using Epilogue =
    std::function<mlir::Value(mlir::OpBuilder &, mlir::Location, mlir::Value acc, const EpilogueIndex &)>;

struct ContractionSpec {
  mlir::Type aType, bType, cType; // f32 f64 f16 bf16, (u)i8..(u)i64 (spelled ui8 where unsigned)
  mlir::Type accumulate;          // f32 (f32, f16, bf16), f64, i32 (8 and 16 bit), i64
  llvm::SmallVector<ContractionDim> batch, m, n, k;
  /// The element of B that all indices 0 mean, from its buffer's beginning: strides of b may be negative. Not
  /// used where B is packed.
  int64_t bFirst = 0;
  /// B was laid out by generatePackWeights for the same n, k and bType, in pairs where `multipliesPairs`
  /// holds; the b strides are not used. Batch strides of b count packed matrices' elements (packedElements).
  bool packed = false;
  /// A was copied by generateRowCopy for the same spec; the a strides are not used.
  bool copied = false;
  Epilogue epilogue;                          // null: C = acc
  llvm::SmallVector<BufferSpec> extraInputs;  // read by the epilogue, buffers 2...
  llvm::SmallVector<BufferSpec> extraOutputs; // written by the epilogue, after C
  bool writesC = true;                        // false: the epilogue stores all results; C is no buffer
  bool noaliasC = true; // false: C may share memory with an extra input of the same layout
  unsigned params = 0;  // runtime parameters that the epilogue reads
  /// Extra inputs and outputs, by their places in those lists, whose elements lie as C's do: fetched with C's
  /// while a tile's sums are made.
  llvm::SmallVector<unsigned> inputsLikeC, outputsLikeC;
};

/// Whether the processor multiplies two neighbours in k of bf16 with two others and adds both products to an
/// f32 at once (AVX512_BF16). B is then packed in pairs.
bool multipliesPairs(const Processor &processor, mlir::Type aType, mlir::Type bType, mlir::Type accumulate);

/// Elements of one packed matrix: [panels][K][panel width], N padded with zeros to whole panels; in pairs
/// [panels][K / 2][panel width][2], K padded with zeros.
int64_t packedElements(const Processor &processor, mlir::Type bType, mlir::Type accumulate, int64_t n,
                       int64_t k, bool pairs = false);

/// A kernel that packs B (buffer 0, from its element `first` on strided by the dims' b) into buffer 1.
/// Batched matrices follow each other.
GeneratedKernel generatePackWeights(mlir::MLIRContext &context, const Processor &processor, mlir::Type bType,
                                    mlir::Type accumulate, llvm::ArrayRef<ContractionDim> batch,
                                    llvm::ArrayRef<ContractionDim> n, llvm::ArrayRef<ContractionDim> k,
                                    bool pairs = false, int64_t first = 0);

/// Elements, of the accumulate type, of a copy of A as register tiles read it, in which its rows lie apart; 0
/// where A is best read as it lies, or copied by each thread.
int64_t copiedElements(const Processor &processor, const ContractionSpec &spec);

/// A kernel that copies A (buffer 0) so into buffer 1.
GeneratedKernel generateRowCopy(mlir::MLIRContext &context, const Processor &processor,
                                const ContractionSpec &spec);

/// The contraction kernel. A spec that it cannot serve (types) is an error that says which.
llvm::Expected<GeneratedKernel> generateContraction(mlir::MLIRContext &context, const Processor &processor,
                                                    const ContractionSpec &spec);

} // namespace colossal::cpu

#endif // COLOSSAL_CODEGEN_CPU_CONTRACTIONKERNEL_H

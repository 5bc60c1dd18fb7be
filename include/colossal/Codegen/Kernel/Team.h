// What generators of kernels ask of a device: who computes a tile together, and how.
//
// A kernel is a range of tiles that depend on one another in nothing. A tile is computed by a *team*: one
// thread with vectors on a CPU, the threads of a warp or block on a GPU. Generators emit the code of one
// member. What lies along the dimension of the vectors is dealt out to the members vector by vector, in
// turn; everything around that is done by all of them alike. With one member that is ordinary code.
//
// The same member meets the same elements in every loop over a row, so that what it keeps in the scratch is
// its own. Partial results of a row are combined by the frame.
#ifndef COLOSSAL_CODEGEN_KERNEL_TEAM_H
#define COLOSSAL_CODEGEN_KERNEL_TEAM_H

#include "colossal/Codegen/Kernel/Instructions.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <memory>

namespace colossal::kernel {

/// One buffer of a kernel, seen as a strided array. Strides are of elements and may be 0 or negative; a
/// buffer whose strides are empty is dense and row-major.
struct BufferSpec {
  mlir::Type element; // a bool is i8
  llvm::SmallVector<int64_t> shape;
  llvm::SmallVector<int64_t> strides;
  /// False where the buffer plan may give it memory that another buffer of the launch also has (in place).
  bool noalias = true;
};

/// What a generator returns: the module and what a Launch states about it.
struct GeneratedKernel {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  int64_t tiles = 1;
  int64_t scratchBytes = 0;
  unsigned buffers = 0; // without the scratch
  unsigned params = 0;
};

/// A kernel being generated: the entry point of the device, and the body that generators fill.
class Frame {
public:
  virtual ~Frame() = default;
  /// Where the body is to be emitted.
  virtual mlir::OpBuilder &builder() = 0;
  virtual mlir::Location loc() const = 0;
  /// The address of a buffer, and of the scratch that the team shares, !llvm.ptr.
  virtual mlir::Value pointer(unsigned buffer) const = 0;
  virtual mlir::Value scratch() const = 0;
  /// A runtime parameter, i64.
  virtual mlir::Value param(unsigned index) const = 0;
  /// Emits `body` for the tiles that the team is given; the tile's number is i64.
  virtual void forEachTile(llvm::function_ref<void(mlir::Value tile)> body) = 0;
  /// The member that runs the code, i64 below the team's members(). Asked only of teams of several.
  virtual mlir::Value member() = 0;
  /// What `merge` makes of the `partial` of all members, in their order; all have it. Every member comes
  /// here. Asked only of teams of several.
  virtual mlir::Value combine(mlir::Value partial,
                              llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> merge) = 0;
  /// Hands the finished kernel over.
  virtual mlir::OwningOpRef<mlir::ModuleOp> take() = 0;
};

class Team {
public:
  /// What is done with the elements of a line after its last whole vector: one vector with a mask, or
  /// scalars.
  enum class Tail { Masked, Scalar };

  virtual ~Team() = default;
  virtual const Instructions &instructions() const = 0;
  /// Threads that compute a tile together.
  virtual int64_t members() const = 0;
  virtual Tail tail() const = 0;
  /// Lanes of all vectors of a kernel whose lines have `extent` elements (a power of two).
  virtual unsigned lanes(int64_t extent) const = 0;
  /// Bits of index arithmetic (32 or 64) where no offset, counted in elements, is beyond `largest`.
  virtual unsigned indexBits(int64_t largest) const = 0;
  /// Elements that one tile should have: enough to pay for its start, few enough to divide work.
  virtual int64_t tileElements() const = 0;
  /// Scratch that a row may take to keep values between its loops.
  virtual int64_t scratchLimit() const = 0;
  /// A team of one member, for tiles that cannot be shared.
  virtual const Team &alone() const = 0;

  /// Opens a kernel over `buffers` (inputs, then outputs) with `params` runtime integers; `scratchBytes` != 0
  /// gives it scratch, aligned to 64 bytes.
  virtual std::unique_ptr<Frame> open(mlir::MLIRContext &context, llvm::ArrayRef<BufferSpec> buffers,
                                      unsigned params, int64_t scratchBytes) const = 0;
};

/// The largest offset, in elements, that an index into any of `buffers` comes to.
int64_t largestOffset(llvm::ArrayRef<BufferSpec> buffers);

} // namespace colossal::kernel

#endif // COLOSSAL_CODEGEN_KERNEL_TEAM_H

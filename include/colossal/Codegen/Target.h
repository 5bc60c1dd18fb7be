//===- Target.h - the devices that code is made for -------------------------===//
//
// A target answers for one kind of device all that the schedule asks: which ops a kernel takes together, what
// lies how in memory, which kernels and library calls compute a group, and what becomes of the kernels in the
// end. The schedule keeps views, load chains, lifetimes and order, and knows no device. How to add one:
// docs/AddingATarget.md.
//
// A target is made once, where a program reads its command line (Targets.h), and travels as a value: it never
// changes, and has no state of a compilation in it.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_CODEGEN_TARGET_H
#define COLOSSAL_CODEGEN_TARGET_H

#include "colossal/Codegen/Kernel/FusedKernel.h"
#include "colossal/Codegen/Kernel/Team.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace colossal::schedule {
class LoweringTable;
} // namespace colossal::schedule

namespace colossal::codegen {

/// All kernels of a plan as machine code for one architecture. Plan.proto's Image says what is in `bytes` by
/// format and how architectures are written.
struct CodeImage {
  enum class Format { Elf = 1, Cubin = 2, Ptx = 3 } format = Format::Elf;
  std::string architecture; ///< "x86_64", "sm_90"
  std::string bytes;
};

/// The code of a plan, and what it needs where it runs. A device loads the image that suits it best.
struct GeneratedCode {
  std::vector<CodeImage> images;
  std::string triple, cpu;           ///< LLVM's
  std::vector<std::string> features; ///< that the processor must have
  size_t kernels = 0;
  std::string note = {}; ///< what the user should know of the images; mostly empty
};

/// Kernels on their way to the images of a plan. They are compiled while others are still generated.
class ImageBuilder {
public:
  virtual ~ImageBuilder() = default;
  /// Takes a kernel and returns its symbol, which begins with `name` and depends on the content only; equal
  /// kernels have one. The module is not changed.
  virtual std::string add(mlir::ModuleOp module, llvm::StringRef name) = 0;
  /// Whether addAhead does anything.
  virtual bool compilesAhead() const { return false; }
  /// Takes a kernel that will probably be added, so that it is compiled by then. Unless it is added, under
  /// the same name, it is no part of the images, nor is what is wrong with it an error. Returns a mark of its
  /// content, for addAgain.
  virtual std::string addAhead(mlir::ModuleOp module, llvm::StringRef name) {
    (void)module, (void)name;
    return "";
  }
  /// As `add` of the kernel that addAhead has returned `mark` for; none where the module is needed.
  virtual std::optional<std::string> addAgain(llvm::StringRef mark, llvm::StringRef name) {
    (void)mark, (void)name;
    return std::nullopt;
  }
  /// Waits for all kernels. Errors of all come joined.
  virtual llvm::Expected<GeneratedCode> finish() = 0;
};

/// What a routine's kernel computes besides the routine, on its result.
enum class Epilogue {
  None,
  Listed, ///< what Target::fitsEpilogue says
  Any     ///< whatever has element code at the result's own index
};

/// What collectives can send from and receive into.
enum class CollectiveBlocks {
  Strided,   ///< any block of a dense tensor, with strides
  Contiguous ///< one run of bytes for each peer
};

/// In which order the dimensions of values lie in memory; asked about the values of one function.
class MemoryOrders {
public:
  virtual ~MemoryOrders() = default;
  /// Dimensions, outermost first; nothing where the target does not care.
  virtual std::optional<llvm::SmallVector<unsigned>> orderOf(mlir::Value) { return std::nullopt; }
};

/// Of the gradients of a convolution: with respect to its input, and to its weights.
struct ConvolutionBytes {
  int64_t ofInput = 0, ofWeights = 0;
};

class Target {
public:
  virtual ~Target() = default;
  /// "cpu": the kind, and the device of the runtime that its plans are for.
  virtual llvm::StringRef name() const = 0;
  /// "cpu:znver4": what createTarget makes the same target of.
  virtual std::string spelling() const = 0;

  // Fusion
  /// Rewrites the ops of a local function into what the target computes best.
  virtual void prepare(mlir::func::FuncOp function) const = 0;
  virtual Epilogue epilogueOf(mlir::Operation *routine) const = 0;
  /// Whether the kernel of `routine` can compute `ops`, in this order, on its result.
  virtual bool fitsEpilogue(mlir::Operation *routine, llvm::ArrayRef<mlir::Operation *> ops) const = 0;
  /// Ops that one kernel may take.
  virtual unsigned maxGroupSize() const = 0;

  // Memory
  /// Of all arenas and of the storages in them, in bytes; a power of two.
  virtual int64_t alignment() const = 0;
  virtual std::unique_ptr<MemoryOrders> createMemoryOrders() const = 0;
  /// Bytes of the copy that a product of `rows` x `depth` by `depth` x `columns` elements has of its left
  /// side, where that lies transposed, as in a weight's gradient x^T dy; 0: it takes it as it lies.
  virtual int64_t copiedBytes(mlir::Type element, int64_t rows, int64_t columns, int64_t depth) const {
    return 0;
  }
  /// Bytes that the gradients of a convolution have beside what they read and make, where its windows are 3 x
  /// 3 with stride 1: what is transformed where that takes fewer products. `height` and `width`: of its
  /// input.
  virtual ConvolutionBytes convolutionBytes(mlir::Type element, int64_t batch, int64_t inputChannels,
                                            int64_t outputChannels, int64_t height, int64_t width) const {
    return {};
  }
  /// Whether a product is written over what it is added to, as a weight's gradient of one microbatch over the
  /// sum of those before; otherwise it has memory of its own, and is added from there.
  virtual bool addsProductsInPlace() const { return false; }

  // Instructions
  virtual CollectiveBlocks collectiveBlocks() const = 0;
  /// Whether a plan may run where a send waits for its receiver and no tags tell messages apart.
  virtual bool sendsWaitForReceivers() const { return false; }
  /// Adds the lowerings of what is computed by routines; those of loops, tiles, paddings and collectives are
  /// there already, and may be replaced.
  virtual void registerLowerings(schedule::LoweringTable &table) const = 0;
  /// Who computes the tiles of generated kernels.
  virtual const kernel::Team &team() const = 0;

  // Images
  /// `threads` compile at once; 0: on the caller's. Loads the dialects of kernels into the context.
  virtual std::unique_ptr<ImageBuilder> createImages(mlir::MLIRContext &context, unsigned threads) const = 0;
};

} // namespace colossal::codegen

#endif // COLOSSAL_CODEGEN_TARGET_H

//===- HostTarget.h - the CPU, to be changed in one thing -------------------===//
//
// A target that does what the target `cpu` does: what is derived from it is a device that does not exist, but
// whose plans run on this host.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_TEST_PARTITION_HOSTTARGET_H
#define COLOSSAL_TEST_PARTITION_HOSTTARGET_H

#include "colossal/Codegen/Targets.h"

namespace colossal::test {

class HostTarget : public codegen::Target {
public:
  llvm::StringRef name() const override { return cpu->name(); }
  std::string spelling() const override { return cpu->spelling(); }
  void prepare(mlir::func::FuncOp function) const override { cpu->prepare(function); }
  codegen::Epilogue epilogueOf(mlir::Operation *routine) const override { return cpu->epilogueOf(routine); }
  bool fitsEpilogue(mlir::Operation *routine, llvm::ArrayRef<mlir::Operation *> ops) const override {
    return cpu->fitsEpilogue(routine, ops);
  }
  unsigned maxGroupSize() const override { return cpu->maxGroupSize(); }
  int64_t alignment() const override { return cpu->alignment(); }
  std::unique_ptr<codegen::MemoryOrders> createMemoryOrders() const override {
    return cpu->createMemoryOrders();
  }
  codegen::CollectiveBlocks collectiveBlocks() const override { return cpu->collectiveBlocks(); }
  void registerLowerings(schedule::LoweringTable &table) const override { cpu->registerLowerings(table); }
  const kernel::Team &team() const override { return cpu->team(); }
  std::unique_ptr<codegen::ImageBuilder> createImages(mlir::MLIRContext &context,
                                                      unsigned threads) const override {
    return cpu->createImages(context, threads);
  }

private:
  std::shared_ptr<const codegen::Target> cpu = llvm::cantFail(codegen::createTarget("cpu"));
};

/// Collectives take no strides: as of devices whose communicators move contiguous blocks only.
class ContiguousTarget final : public HostTarget {
public:
  codegen::CollectiveBlocks collectiveBlocks() const override {
    return codegen::CollectiveBlocks::Contiguous;
  }
};

/// Plans hold images of other devices beside the host's, as plans for several generations of one device do:
/// two before it, which the host must pass over, and one behind it. Their bytes are no code beyond what a
/// runtime looks at, and so many that none ends where the next may begin.
class ManyImagesTarget final : public HostTarget {
public:
  std::unique_ptr<codegen::ImageBuilder> createImages(mlir::MLIRContext &context,
                                                      unsigned threads) const override {
    return std::make_unique<Images>(HostTarget::createImages(context, threads));
  }

private:
  struct Images final : codegen::ImageBuilder {
    explicit Images(std::unique_ptr<codegen::ImageBuilder> host) : host(std::move(host)) {}
    std::string add(mlir::ModuleOp module, llvm::StringRef name) override { return host->add(module, name); }
    llvm::Expected<codegen::GeneratedCode> finish() override {
      using codegen::CodeImage;
      llvm::Expected<codegen::GeneratedCode> code = host->finish();
      if (code && !code->images.empty()) {
        auto cubin = [](std::string architecture, size_t bytes) {
          return CodeImage{CodeImage::Format::Cubin, std::move(architecture),
                           "\177ELF" + std::string(bytes, 'c')};
        };
        code->images.insert(code->images.begin(), {cubin("sm_80", 13), cubin("sm_90", 7)});
        code->images.push_back({CodeImage::Format::Ptx, "sm_90", std::string(5, 'p') + '\0'});
      }
      return code;
    }
    std::unique_ptr<codegen::ImageBuilder> host;
  };
};

} // namespace colossal::test

#endif // COLOSSAL_TEST_PARTITION_HOSTTARGET_H

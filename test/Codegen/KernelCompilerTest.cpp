// Equal kernels become one; symbols and bytes do not depend on order or threads; errors name the kernel.
#include "LoadedKernels.h"
#include "colossal/Codegen/CPU/ContractionKernel.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace colossal::cpu;
using namespace colossal::cpu::test;

namespace {

GeneratedKernel product(MLIRContext &context, const Processor &processor, int64_t m, int64_t n) {
  Type f32 = Float32Type::get(&context);
  ContractionSpec spec;
  spec.aType = spec.bType = spec.cType = spec.accumulate = f32;
  spec.m = {{m, 8, 0, n}};
  spec.n = {{n, 0, 1, 1}};
  spec.k = {{8, 1, n, 0}};
  return llvm::cantFail(generateContraction(context, processor, spec));
}

TEST(KernelCompiler, EqualKernelsAreCompiledOnce) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  Processor processor = testTarget();
  KernelCompiler compiler(processor, 2);
  std::string first = compiler.add(*product(context, processor, 4, 16).module, "first");
  std::string second = compiler.add(*product(context, processor, 4, 16).module, "second");
  std::string other = compiler.add(*product(context, processor, 5, 16).module, "other name");
  EXPECT_EQ(first, second);
  EXPECT_NE(first, other);
  EXPECT_EQ(other.substr(0, 11), "other_name_");
  llvm::Expected<std::string> image = compiler.finish();
  ASSERT_TRUE(bool(image)) << llvm::toString(image.takeError());
  EXPECT_EQ(compiler.statistics().compiled, 2u);
  EXPECT_EQ(compiler.statistics().added, 3u);
  LoadedKernels kernels(*image);
  EXPECT_NE(kernels.get(first), kernels.get(other));
}

TEST(KernelCompiler, BytesDoNotDependOnOrderOrThreads) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  Processor processor = testTarget();
  std::string images[2];
  for (int order = 0; order < 2; ++order) {
    KernelCompiler compiler(processor, order * 2);
    for (int i = 0; i < 3; ++i)
      compiler.add(*product(context, processor, 1 + (order ? 2 - i : i), 16).module, "product");
    images[order] = llvm::cantFail(compiler.finish());
  }
  EXPECT_EQ(images[0], images[1]);
}

TEST(KernelCompiler, WhatCameAheadIsNoPartUntilItIsAdded) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  Processor processor = testTarget();
  KernelCompiler plain(processor, 2);
  ASSERT_TRUE(plain.compilesAhead());
  std::string expected = plain.add(*product(context, processor, 4, 16).module, "product");
  std::string image = llvm::cantFail(plain.finish());
  for (const char *name : {"product", "another"}) {
    KernelCompiler compiler(processor, 2);
    compiler.addAhead(*product(context, processor, 4, 16).module, name);
    compiler.addAhead(*product(context, processor, 5, 16).module, "product");
    EXPECT_EQ(compiler.add(*product(context, processor, 4, 16).module, "product"), expected);
    EXPECT_EQ(llvm::cantFail(compiler.finish()), image) << name;
    EXPECT_EQ(compiler.statistics().compiled, 1u);
    EXPECT_EQ(compiler.statistics().added, 1u);
  }
}

TEST(KernelCompiler, WhatCameAheadIsAddedByItsMark) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  Processor processor = testTarget();
  KernelCompiler plain(processor, 2);
  const std::string expected = plain.add(*product(context, processor, 4, 16).module, "product");
  const std::string image = llvm::cantFail(plain.finish());
  KernelCompiler compiler(processor, 2);
  const std::string mark = compiler.addAhead(*product(context, processor, 4, 16).module, "product");
  EXPECT_NE(compiler.addAhead(*product(context, processor, 5, 16).module, "product"), mark);
  // Under another name the symbol would be another, and nothing was compiled for that.
  EXPECT_FALSE(compiler.addAgain(mark, "another").has_value());
  EXPECT_EQ(compiler.addAgain(mark, "product"), expected);
  // Once it is added, an equal kernel of any name is that one, as with `add`.
  EXPECT_EQ(compiler.addAgain(mark, "another"), expected);
  EXPECT_EQ(llvm::cantFail(compiler.finish()), image);
  EXPECT_EQ(compiler.statistics().added, 2u);
  EXPECT_FALSE(plain.addAgain("not a mark", "product").has_value());
}

TEST(KernelCompiler, ErrorsAheadAreNoneUntilAdded) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  Processor processor = testTarget();
  KernelFunction kernel(context, {});
  func::ReturnOp::create(kernel.builder(), kernel.loc(), ValueRange{kernel.begin()});
  for (bool isAdded : {false, true}) {
    KernelCompiler compiler(processor, 2);
    compiler.addAhead(kernel.module(), "bad");
    if (isAdded)
      compiler.add(kernel.module(), "bad");
    llvm::Expected<std::string> image = compiler.finish();
    EXPECT_EQ(bool(image), !isAdded);
    if (!image)
      llvm::consumeError(image.takeError());
  }
}

TEST(KernelCompiler, UnknownFunctionsAreNamed) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  Processor processor = testTarget();
  KernelFunction kernel(context, {});
  OpBuilder b(&context);
  b.setInsertionPointToEnd(kernel.module().getBody());
  auto callee = func::FuncOp::create(b, kernel.loc(), "not_a_libm_function", b.getFunctionType({}, {}));
  callee.setPrivate();
  func::CallOp::create(kernel.builder(), kernel.loc(), callee);
  KernelCompiler compiler(processor, 0);
  compiler.add(kernel.module(), "bad");
  llvm::Expected<std::string> image = compiler.finish();
  ASSERT_FALSE(bool(image));
  EXPECT_NE(llvm::toString(image.takeError()).find("not_a_libm_function"), std::string::npos);
}

TEST(KernelCompiler, InvalidKernelsAreReported) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  Processor processor = testTarget();
  KernelFunction kernel(context, {});
  func::ReturnOp::create(kernel.builder(), kernel.loc(), ValueRange{kernel.begin()});
  KernelCompiler compiler(processor, 0);
  std::string symbol = compiler.add(kernel.module(), "bad");
  llvm::Expected<std::string> image = compiler.finish();
  ASSERT_FALSE(bool(image));
  EXPECT_NE(llvm::toString(image.takeError()).find(symbol), std::string::npos);
}

TEST(Processor, NamesAndFeatures) {
  Processor avx512 = llvm::cantFail(Processor::create("skylake-avx512"));
  EXPECT_EQ(avx512.vectorBytes(), 64);
  EXPECT_TRUE(avx512.has("avx512bw"));
  EXPECT_FALSE(avx512.has("avx512vnni"));
  Processor avx2 = llvm::cantFail(Processor::create("haswell"));
  EXPECT_EQ(avx2.vectorBytes(), 32);
  EXPECT_TRUE(llvm::is_contained(avx2.requiredFeatures(), "fma"));
  EXPECT_EQ(llvm::cantFail(Processor::create("x86-64")).vectorBytes(), 16);
  llvm::Expected<Processor> mistyped = Processor::create("hazwell");
  ASSERT_FALSE(bool(mistyped));
  EXPECT_NE(llvm::toString(mistyped.takeError()).find("haswell"), std::string::npos);
  llvm::Expected<Processor> unknown = Processor::create("i4004");
  ASSERT_FALSE(bool(unknown));
  EXPECT_NE(llvm::toString(unknown.takeError()).find("i4004"), std::string::npos);
}

} // namespace

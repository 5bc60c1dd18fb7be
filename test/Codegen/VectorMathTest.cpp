// Errors of the inline functions over their ranges, against libm in double.
#include "colossal/Codegen/Kernel/VectorMath.h"
#include "LoadedKernels.h"
#include "colossal/Codegen/Kernel/VectorMemory.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/MLIRContext.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace mlir;
using namespace colossal::cpu;
using namespace colossal::cpu::test;

namespace {

using Emit = std::function<Value(VectorMath &, Value)>;

/// y[i] = f(x[i]) with vectors of `width` lanes; elements are a multiple of it.
RunnableKernel elementwise(const Processor &processor, StringRef elementName, int64_t count, int64_t width,
                           const Emit &emit) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  Builder builder(&context);
  Type element = elementName == "f32"   ? Type(builder.getF32Type())
                 : elementName == "f64" ? Type(builder.getF64Type())
                 : elementName == "f16" ? Type(builder.getF16Type())
                                        : Type(builder.getBF16Type());
  KernelFunction kernel(context, {{element, {count}, {}}, {element, {count}, {}}});
  OpBuilder &outer = kernel.builder();
  VectorMemory memory(outer, kernel.loc(), processor);
  scf::ForOp::create(outer, kernel.loc(), memory.constant(0), memory.constant(count), memory.constant(width),
                     ValueRange(), [&](OpBuilder &b, Location loc, Value index, ValueRange) {
                       VectorMemory memory(b, loc, processor);
                       VectorMath math(b, loc, processor);
                       Value x =
                           memory.load(memory.address(kernel.pointer(0), element, index), element, width);
                       memory.store(emit(math, x), memory.address(kernel.pointer(1), element, index));
                       scf::YieldOp::create(b, loc);
                     });
  GeneratedKernel generated;
  generated.module = kernel.take();
  return RunnableKernel(std::move(generated), processor);
}

void check(const char *name, const Emit &emit, double (*reference)(double), float low, float high,
           double relative, double absolute = 1e-37) {
  Processor processor = testTarget();
  const int64_t count = 1 << 16;
  std::vector<float> x(count), y(count);
  for (int64_t i = 0; i < count; ++i)
    x[i] = float(low + (double(high) - low) * double(i) / double(count - 1));
  for (int64_t width : {int64_t(1), processor.lanes(32)}) {
    RunnableKernel kernel = elementwise(processor, "f32", count, width, emit);
    kernel.run({x.data(), y.data()});
    double worst = 0;
    for (int64_t i = 0; i < count; ++i) {
      double expected = reference(double(x[i]));
      if (std::isinf(float(expected))) {
        EXPECT_EQ(y[i], float(expected)) << name << "(" << x[i] << ")";
        continue;
      }
      double error = std::fabs(double(y[i]) - expected);
      if (error > absolute)
        worst = std::max(worst, error / std::max(1e-300, std::fabs(expected)));
    }
    EXPECT_LE(worst, relative) << name << " with " << width << " lanes";
  }
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
double silu(double x) {
  return x * sigmoid(x);
}
double softplus(double x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}
double geluErf(double x) {
  return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
}
double geluTanh(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST(VectorMath, Exponentials) {
  check("exp", [](VectorMath &m, Value x) { return m.exp(x); }, std::exp, -86, 88.5, 1.5e-7);
  check("exp, far", [](VectorMath &m, Value x) { return m.exp(x); }, std::exp, -200, 200, 1, 1e-37);
  check("exp2", [](VectorMath &m, Value x) { return m.exp2(x); }, std::exp2, -125, 127.9, 2.5e-7);
  check(
      "exp2NonPositive", [](VectorMath &m, Value x) { return m.exp2NonPositive(x); }, std::exp2, -126, 0,
      2.5e-7);
  check(
      "exp2NonPositive, far", [](VectorMath &m, Value x) { return m.exp2NonPositive(x); }, std::exp2, -2000,
      0, 1, 1e-37);
  check("expm1", [](VectorMath &m, Value x) { return m.expm1(x); }, std::expm1, -20, 80, 1e-6);
}

TEST(VectorMath, Logarithms) {
  check("log", [](VectorMath &m, Value x) { return m.log(x); }, std::log, 1e-6f, 100, 3e-7, 1e-7);
  check("log2", [](VectorMath &m, Value x) { return m.log2(x); }, std::log2, 1e-6f, 100, 3e-7, 1e-7);
  check("log10", [](VectorMath &m, Value x) { return m.log10(x); }, std::log10, 1e-6f, 100, 3e-7, 1e-7);
  check("log1p", [](VectorMath &m, Value x) { return m.log1p(x); }, std::log1p, -0.99f, 50, 5e-7);
}

TEST(VectorMath, Activations) {
  check("erf", [](VectorMath &m, Value x) { return m.erf(x); }, std::erf, -6, 6, 1e-6, 5e-7);
  check("tanh", [](VectorMath &m, Value x) { return m.tanh(x); }, std::tanh, -12, 12, 1e-6);
  check("sigmoid", [](VectorMath &m, Value x) { return m.sigmoid(x); }, sigmoid, -80, 80, 4e-7);
  check("silu", [](VectorMath &m, Value x) { return m.silu(x); }, silu, -80, 80, 4e-7);
  check("softplus", [](VectorMath &m, Value x) { return m.softplus(x); }, softplus, -80, 80, 1e-6);
  check("geluErf", [](VectorMath &m, Value x) { return m.geluErf(x); }, geluErf, -10, 10, 1e-6, 1e-6);
  check("geluTanh", [](VectorMath &m, Value x) { return m.geluTanh(x); }, geluTanh, -10, 10, 1e-6, 1e-6);
  check("sqrt", [](VectorMath &m, Value x) { return m.sqrt(x); }, std::sqrt, 0, 100, 1e-7);
}

TEST(VectorMath, Trigonometry) {
  check("sin", [](VectorMath &m, Value x) { return m.sin(x); }, std::sin, -1000, 1000, 1e-6);
  check("cos", [](VectorMath &m, Value x) { return m.cos(x); }, std::cos, -1000, 1000, 1e-6);
  check("tan", [](VectorMath &m, Value x) { return m.tan(x); }, std::tan, -100, 100, 1e-6);
  check("asin", [](VectorMath &m, Value x) { return m.asin(x); }, std::asin, -1, 1, 1e-6);
  check("acos", [](VectorMath &m, Value x) { return m.acos(x); }, std::acos, -1, 1, 1e-6, 5e-7);
  check("atan", [](VectorMath &m, Value x) { return m.atan(x); }, std::atan, -50, 50, 1e-6);
  check("sinh", [](VectorMath &m, Value x) { return m.sinh(x); }, std::sinh, -50, 50, 1e-6);
  check("cosh", [](VectorMath &m, Value x) { return m.cosh(x); }, std::cosh, -50, 50, 1e-6);
  check("asinh", [](VectorMath &m, Value x) { return m.asinh(x); }, std::asinh, -50, 50, 1e-6);
  check("acosh", [](VectorMath &m, Value x) { return m.acosh(x); }, std::acosh, 1, 50, 1e-6);
  check("atanh", [](VectorMath &m, Value x) { return m.atanh(x); }, std::atanh, -0.99f, 0.99f, 1e-6);
  check("erfc", [](VectorMath &m, Value x) { return m.erfc(x); }, std::erfc, -4, 8, 2e-6);
  check("cbrt", [](VectorMath &m, Value x) { return m.cbrt(x); }, std::cbrt, -50, 50, 1e-6);
  check(
      "pow", [](VectorMath &m, Value x) { return m.pow(x, x); }, [](double x) { return std::pow(x, x); },
      0.01f, 20, 1e-6);
  check("floor", [](VectorMath &m, Value x) { return m.floor(x); }, std::floor, -5, 5, 0);
  check("roundEven", [](VectorMath &m, Value x) { return m.roundEven(x); }, std::nearbyint, -5, 5, 0);
}

TEST(VectorMath, NaNStays) {
  Processor processor = testTarget();
  std::vector<float> x(16, NAN), y(16);
  const std::pair<const char *, Emit> functions[] = {
      {"exp", [](VectorMath &m, Value x) { return m.exp(x); }},
      {"exp2", [](VectorMath &m, Value x) { return m.exp2(x); }},
      {"exp2NonPositive", [](VectorMath &m, Value x) { return m.exp2NonPositive(x); }},
      {"erf", [](VectorMath &m, Value x) { return m.erf(x); }},
      {"tanh", [](VectorMath &m, Value x) { return m.tanh(x); }},
      {"sigmoid", [](VectorMath &m, Value x) { return m.sigmoid(x); }},
      {"softplus", [](VectorMath &m, Value x) { return m.softplus(x); }},
      {"geluTanh", [](VectorMath &m, Value x) { return m.geluTanh(x); }},
      {"maximum", [](VectorMath &m, Value x) { return m.maximum(m.clamp(x, 0, 1), x); }},
      {"log", [](VectorMath &m, Value x) { return m.log(x); }}};
  for (const auto &[name, emit] : functions) {
    elementwise(processor, "f32", 16, 16, emit).run({x.data(), y.data()});
    for (float value : y)
      EXPECT_TRUE(std::isnan(value)) << name;
  }
}

TEST(VectorMath, HalfPrecisionConversionsRoundToNearestEven) {
  // Every f16 and every bf16 through f32 and back, and the rounding of values between: with and without F16C.
  for (const char *cpu : {"host", "x86-64"}) {
    Processor processor = llvm::cantFail(Processor::create(cpu));
    std::vector<uint16_t> x(65536), y(65536);
    for (int i = 0; i < 65536; ++i)
      x[i] = uint16_t(i);
    for (const char *type : {"f16", "bf16"}) {
      elementwise(processor, type, 65536, processor.lanes(32), [](VectorMath &m, Value x) {
        return m.silu(x);
      }).run({x.data(), y.data()});
      for (int i = 0; i < 65536; ++i) {
        float in, out;
        if (type[0] == 'f') {
          _Float16 a, b;
          std::memcpy(&a, &x[i], 2), std::memcpy(&b, &y[i], 2);
          in = float(a), out = float(b);
          if (std::isnan(in) || in == -INFINITY) {
            EXPECT_TRUE(std::isnan(out));
            continue;
          }
          float expected = float(_Float16(silu(in)));
          if (std::isinf(expected)) {
            EXPECT_EQ(out, expected);
            continue;
          }
          EXPECT_LE(std::fabs(out - expected), std::max(std::fabs(expected) * 1e-3f, 6e-8f))
              << in << " on " << cpu;
        } else {
          uint32_t a = uint32_t(x[i]) << 16, b = uint32_t(y[i]) << 16;
          std::memcpy(&in, &a, 4), std::memcpy(&out, &b, 4);
          if (std::isnan(in) || in == -INFINITY) {
            EXPECT_TRUE(std::isnan(out));
            continue;
          }
          double expected = silu(in);
          if (std::isinf(in)) {
            EXPECT_EQ(out, in);
            continue;
          }
          EXPECT_LE(std::fabs(out - expected), std::max(std::fabs(expected) * 0.004, 3e-37))
              << in << " on " << cpu;
        }
      }
    }
  }
}

TEST(VectorMath, Double) {
  Processor processor = testTarget();
  std::vector<double> x(1024), y(1024);
  for (int i = 0; i < 1024; ++i)
    x[i] = -8 + i / 64.0;
  elementwise(processor, "f64", 1024, processor.lanes(64), [](VectorMath &m, Value x) {
    return m.geluErf(x);
  }).run({x.data(), y.data()});
  for (int i = 0; i < 1024; ++i)
    EXPECT_NEAR(y[i], geluErf(x[i]), 1e-15 * std::max(1.0, std::fabs(x[i])));
}

} // namespace

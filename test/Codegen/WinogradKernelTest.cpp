// Winograd's transforms around a plain sum over channels, against the definition of a convolution.
#include "colossal/Codegen/CPU/WinogradKernel.h"
#include "LoadedKernels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/MLIRContext.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace colossal::cpu;
using namespace colossal::cpu::test;

namespace {

struct Case {
  int64_t m, batch, in, out, height, width;
};

/// Input [batch][height + 2][width + 2][in], weights [out][in][3][3], residual and output
/// [batch][height][width][out].
struct Tensors {
  explicit Tensors(const Case &c) : c(c) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    input.resize(c.batch * (c.height + 2) * (c.width + 2) * c.in);
    weights.resize(c.out * c.in * 9);
    residual.resize(c.batch * c.height * c.width * c.out);
    for (std::vector<float> *tensor : {&input, &weights, &residual})
      for (float &value : *tensor)
        value = normal(random);
  }

  double expected(int64_t n, int64_t y, int64_t x, int64_t o) const {
    double sum = 0;
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t j = 0; j < 3; ++j)
        for (int64_t k = 0; k < c.in; ++k)
          sum += double(input[((n * (c.height + 2) + y + i) * (c.width + 2) + x + j) * c.in + k]) *
                 weights[(o * c.in + k) * 9 + i * 3 + j];
    return sum;
  }

  Case c;
  std::vector<float> input, weights, residual;
};

/// Products of the pieces with the transformed weights, summed over channels.
std::vector<float> multiply(const Tensors &t, const WinogradShape &shape, const std::vector<float> &pieces) {
  std::vector<float> matrix = winogradWeightMatrix(shape.m);
  std::vector<float> products(shape.places() * shape.pitch(t.c.out));
  for (int64_t place = 0; place < shape.places(); ++place)
    for (int64_t o = 0; o < t.c.out; ++o)
      for (int64_t k = 0; k < t.c.in; ++k) {
        double weight = 0;
        for (int64_t e = 0; e < 9; ++e)
          weight += double(matrix[place * 9 + e]) * t.weights[(o * t.c.in + k) * 9 + e];
        for (int64_t piece = 0; piece < shape.pieces(); ++piece)
          products[place * shape.pitch(t.c.out) + piece * t.c.out + o] +=
              float(weight) * pieces[place * shape.pitch(t.c.in) + piece * t.c.in + k];
      }
  return products;
}

class WinogradKernel : public testing::TestWithParam<Case> {};

TEST_P(WinogradKernel, GivesTheConvolutionWithItsEpilogue) {
  const Case c = GetParam();
  Tensors t(c);
  WinogradShape shape{c.m, c.batch, c.in, c.out, c.height, c.width};
  MLIRContext context;
  Processor processor = testTarget();
  const int64_t row = (c.width + 2) * c.in;
  std::vector<float> pieces(shape.places() * shape.pitch(c.in), NAN);
  {
    RunnableKernel input(generateWinogradInput(context, processor, shape, {(c.height + 2) * row, row, c.in}),
                         processor);
    input.run({t.input.data(), pieces.data()}, {}, 3);
  }
  std::vector<float> products = multiply(t, shape, pieces);

  // Twice the sum is added to a residual; what is negative becomes 0 in the second output.
  WinogradOutput output;
  output.type = Float32Type::get(&context);
  output.strides = {c.height * c.width * c.out, c.width * c.out, c.out, 1};
  output.extraInputs = {{output.type, {}, {}}};
  output.extraOutputs = {{output.type, {}, {}}};
  EpilogueStrides strides{{}, {output.strides[0], output.strides[1], output.strides[2]}, {1}};
  output.epilogue = [&](OpBuilder &b, Location loc, Value sums, const EpilogueIndex &at) -> Value {
    Value residual = loadAt(b, loc, processor, at.kernel.pointer(1), output.type, strides, at);
    Value doubled = arith::AddFOp::create(b, loc, sums, sums);
    Value result = arith::AddFOp::create(b, loc, doubled, residual);
    storeAt(b, loc, processor, doubled, at.kernel.pointer(3), strides, at);
    return result;
  };
  RunnableKernel back(generateWinogradOutput(context, processor, shape, output), processor);
  std::vector<float> result(t.residual.size() + 64, -77), doubled(result);
  back.run({products.data(), t.residual.data(), result.data(), doubled.data()}, {}, 3);

  double worst = 0, largest = 0;
  int64_t place = 0;
  for (int64_t n = 0; n < c.batch; ++n)
    for (int64_t y = 0; y < c.height; ++y)
      for (int64_t x = 0; x < c.width; ++x)
        for (int64_t o = 0; o < c.out; ++o, ++place) {
          double want = 2 * t.expected(n, y, x, o);
          largest = std::max(largest, std::abs(want));
          worst = std::max(
              {worst, std::abs(doubled[place] - want), std::abs(result[place] - want - t.residual[place])});
        }
  EXPECT_LE(worst, 2e-5 * largest);
  for (; place < int64_t(result.size()); ++place)
    EXPECT_TRUE(result[place] == -77 && doubled[place] == -77) << "written beyond the end";
}

// Weights lie in any order, and their windows in reverse; what stands beyond the last column is not defined.
TEST_P(WinogradKernel, PacksTransformedWeights) {
  const Case c = GetParam();
  Tensors t(c);
  WinogradShape shape{c.m, c.batch, c.in, c.out, c.height, c.width};
  MLIRContext context;
  Processor processor = testTarget();
  const Type f32 = Float32Type::get(&context);
  const int64_t pitch = winogradWeightPitch(context, processor, shape);
  std::vector<float> matrix = winogradWeightMatrix(shape.m);
  struct Order {
    WinogradWeights weights;
    bool isReversed;
  };
  for (const Order &order :
       {Order{{0, {9 * c.in, 9, 3, 1}}, false}, Order{{8, {9, 9 * c.out, -3, -1}}, true}}) {
    auto [y, x] = std::pair(order.weights.strides[2], order.weights.strides[3]);
    std::vector<float> packed(shape.places() * pitch, NAN);
    RunnableKernel kernel(generateWinogradWeights(context, processor, shape, order.weights), processor);
    kernel.run({t.weights.data(), packed.data()}, {}, 3);

    // The contraction that reads them, of the identity: row k is the weight of in channel k.
    ContractionSpec spec;
    spec.aType = spec.bType = spec.cType = spec.accumulate = f32;
    spec.batch = {{shape.places(), 0, pitch, c.in * c.out}};
    spec.m = {{c.in, c.in, 0, c.out}}, spec.n = {{c.out, 0, 0, 1}}, spec.k = {{c.in, 1, 0, 0}};
    spec.packed = true;
    std::vector<float> identity(c.in * c.in), found(shape.places() * c.in * c.out);
    for (int64_t k = 0; k < c.in; ++k)
      identity[k * c.in + k] = 1;
    RunnableKernel(llvm::cantFail(generateContraction(context, processor, spec)), processor)
        .run({identity.data(), packed.data(), found.data()});
    for (int64_t place = 0; place < shape.places(); ++place)
      for (int64_t k = 0; k < c.in; ++k)
        for (int64_t o = 0; o < c.out; ++o) {
          double want = 0;
          for (int64_t e = 0; e < 9; ++e)
            want += double(matrix[place * 9 + e]) *
                    t.weights[order.weights.first + o * order.weights.strides[0] +
                              k * order.weights.strides[1] + e / 3 * y + e % 3 * x];
          ASSERT_NEAR(found[(place * c.in + k) * c.out + o], want, 1e-5)
              << "place " << place << " in " << k << " out " << o << (order.isReversed ? " in reverse" : "");
        }
  }
}

// The gradient of the weights, where the residual stands for that of the outputs: in the order of the
// weights, and with in channels innermost.
TEST_P(WinogradKernel, GivesTheGradientOfWeights) {
  const Case c = GetParam();
  Tensors t(c);
  WinogradShape shape{c.m, c.batch, c.in, c.out, c.height, c.width};
  MLIRContext context;
  Processor processor = testTarget();
  const int64_t row = (c.width + 2) * c.in;
  std::vector<float> image(shape.places() * shape.pitch(c.in), NAN),
      gradient(shape.places() * shape.pitch(c.out), NAN);
  RunnableKernel(generateWinogradInput(context, processor, shape, {(c.height + 2) * row, row, c.in}),
                 processor)
      .run({t.input.data(), image.data()}, {}, 3);
  RunnableKernel(generateWinogradGradient(context, processor, shape,
                                          {c.height * c.width * c.out, c.width * c.out, c.out}),
                 processor)
      .run({t.residual.data(), gradient.data()}, {}, 3);
  std::vector<float> products(shape.places() * winogradFilterPitch(shape), NAN);
  for (int64_t place = 0; place < shape.places(); ++place)
    for (int64_t o = 0; o < c.out; ++o)
      for (int64_t k = 0; k < c.in; ++k) {
        double sum = 0;
        for (int64_t piece = 0; piece < shape.pieces(); ++piece)
          sum += double(gradient[place * shape.pitch(c.out) + piece * c.out + o]) *
                 image[place * shape.pitch(c.in) + piece * c.in + k];
        products[place * winogradFilterPitch(shape) + o * c.in + k] = float(sum);
      }
  for (const WinogradWeights &order :
       {WinogradWeights{0, {9 * c.in, 9, 3, 1}}, WinogradWeights{0, {9 * c.in, 1, 3 * c.in, c.in}}}) {
    std::vector<float> found(t.weights.size() + 64, -77);
    RunnableKernel(generateWinogradFilter(context, processor, shape, order), processor)
        .run({products.data(), found.data()}, {}, 3);
    double worst = 0, largest = 0;
    for (int64_t o = 0; o < c.out; ++o)
      for (int64_t k = 0; k < c.in; ++k)
        for (int64_t i = 0; i < 3; ++i)
          for (int64_t j = 0; j < 3; ++j) {
            double want = 0;
            for (int64_t n = 0; n < c.batch; ++n)
              for (int64_t y = 0; y < c.height; ++y)
                for (int64_t x = 0; x < c.width; ++x)
                  want += double(t.residual[((n * c.height + y) * c.width + x) * c.out + o]) *
                          t.input[((n * (c.height + 2) + y + i) * (c.width + 2) + x + j) * c.in + k];
            auto [ofOut, ofIn, ofY, ofX] = order.strides;
            largest = std::max(largest, std::abs(want));
            worst = std::max(worst, std::abs(found[o * ofOut + k * ofIn + i * ofY + j * ofX] - want));
          }
    EXPECT_LE(worst, 2e-5 * largest);
    for (size_t i = t.weights.size(); i < found.size(); ++i)
      EXPECT_EQ(found[i], -77) << "written beyond the end";
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, WinogradKernel,
                         testing::Values(Case{4, 1, 16, 16, 8, 8}, Case{4, 2, 19, 37, 5, 7},
                                         Case{2, 2, 19, 37, 5, 7}, Case{2, 1, 3, 1, 1, 1},
                                         Case{4, 1, 1, 5, 1, 9}, Case{2, 1, 33, 64, 6, 3}));

} // namespace

// Prints GFLOP/s of generated contractions beside oneDNN's matmul with packed weights, in the same run and
// with the same threads. Usage: kernel-benchmark [threads] [cpu] [M; 0: attention only] [queries], or
// kernel-benchmark [threads] [cpu] training [M] for the contractions of a training step, whose operands are
// read as they lie. The runs alternate, so that a busy machine hurts both.
#include "LoadedKernels.h"
#include "colossal/Codegen/CPU/AttentionKernel.h"
#include "colossal/Codegen/CPU/ContractionKernel.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/MLIRContext.h"
#include "oneapi/dnnl/dnnl.hpp"
#include "runtime/cpu/ThreadPool.h"
#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <string_view>
#include <sys/mman.h>

extern "C" void omp_set_num_threads(int);

using namespace mlir;
using namespace colossal::cpu;
using namespace colossal::cpu::test;
using colossal::runtime::ThreadPool;

namespace {

bool processorTime = false;

/// Seconds: of this thread's processor time for one thread, so that other jobs on the machine disturb less.
double now() {
  if (processorTime) {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Memory as the runtime takes it: on huge pages where the system gives them. With small ones a matrix whose
/// rows are read piece by piece is measured by its page walks.
template <typename T>
struct HugePages {
  using value_type = T;
  HugePages() = default;
  template <typename U>
  HugePages(const HugePages<U> &) {}
  T *allocate(size_t count) {
    constexpr size_t page = 2 << 20;
    size_t bytes = (count * sizeof(T) + page - 1) / page * page;
    void *place = std::aligned_alloc(page, bytes);
    if (!place)
      throw std::bad_alloc();
    (void)::madvise(place, bytes, MADV_HUGEPAGE);
    return static_cast<T *>(place);
  }
  void deallocate(T *place, size_t) { std::free(place); }
  template <typename U>
  bool operator==(const HugePages<U> &) const {
    return true;
  }
  template <typename U>
  bool operator!=(const HugePages<U> &) const {
    return false;
  }
};

using Floats = std::vector<float, HugePages<float>>;

/// A kernel with its buffers and a scratch for each thread.
class Launch {
public:
  Launch(GeneratedKernel generated, const Processor &processor, std::vector<void *> buffers, ThreadPool &pool)
      : kernel(std::move(generated), processor), pool(pool) {
    for (unsigned i = 0; i < pool.threads(); ++i) {
      arguments.push_back(buffers);
      arguments.back().push_back(HugePages<char>().allocate(kernel.scratchBytes + 4096));
    }
  }
  void operator()() {
    auto body = [](void *launch, unsigned thread, int64_t begin, int64_t end) {
      Launch &self = *static_cast<Launch *>(launch);
      self.kernel.entry(self.arguments[thread].data(), self.params.data(), begin, end);
    };
    pool.run(kernel.tiles, body, this);
  }
  std::vector<int64_t> params = {0, 0};

private:
  RunnableKernel kernel;
  ThreadPool &pool;
  std::vector<std::vector<void *>> arguments;
};

/// Best times of the candidates, measured in turns.
std::vector<double> bestOf(std::vector<std::function<void()>> candidates) {
  std::vector<double> best(candidates.size(), 1e9);
  std::vector<int> repeats;
  for (auto &run : candidates) {
    run();
    double start = now();
    run();
    repeats.push_back(std::max(1, int(0.002 / (now() - start))));
  }
  for (double end = now() + 0.5; now() < end;)
    for (size_t i = 0; i < candidates.size(); ++i) {
      double start = now();
      for (int r = 0; r < repeats[i]; ++r)
        candidates[i]();
      best[i] = std::min(best[i], (now() - start) / repeats[i]);
    }
  return best;
}

/// How long the first candidate takes of each one's time, measured in turns for two seconds: medians over
/// turns, so that a processor whose speed changes does not matter. `best` becomes the first one's best time.
std::vector<double> speedsBesideFirst(ArrayRef<std::function<void()>> candidates, double &best) {
  std::vector<std::vector<double>> ratios(candidates.size());
  for (auto &run : candidates)
    run();
  best = 1e9;
  for (double end = now() + 2; now() < end || ratios[0].size() < 3;) {
    double first = 0;
    for (size_t i = 0; i < candidates.size(); ++i) {
      double start = now();
      candidates[i]();
      double time = now() - start;
      if (i == 0)
        first = time, best = std::min(best, time);
      ratios[i].push_back(first / time);
    }
  }
  std::vector<double> medians;
  for (std::vector<double> &values : ratios) {
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    medians.push_back(values[values.size() / 2]);
  }
  return medians;
}

struct Matrices {
  Floats a, b, c, reference;
};

std::function<void()> oneDnnMatmul(dnnl::engine &engine, dnnl::stream &stream, int64_t m, int64_t n,
                                   int64_t k, Matrices &data) {
  using namespace dnnl;
  using tag = memory::format_tag;
  auto type = memory::data_type::f32;
  memory::desc a({m, k}, type, tag::ab), any({k, n}, type, tag::any), plain({k, n}, type, tag::ab);
  memory::desc c({m, n}, type, tag::ab);
  matmul::primitive_desc description(matmul::desc(a, any, c), engine);
  memory packed(description.weights_desc(), engine), source(plain, engine, data.b.data());
  reorder(source, packed).execute(stream, source, packed);
  memory left(a, engine, data.a.data()), result(c, engine, data.reference.data());
  matmul primitive(description);
  std::unordered_map<int, memory> arguments = {
      {DNNL_ARG_SRC, left}, {DNNL_ARG_WEIGHTS, packed}, {DNNL_ARG_DST, result}};
  return [=, &stream]() mutable {
    primitive.execute(stream, arguments);
    stream.wait();
  };
}

void benchmarkContraction(const Processor &processor, ThreadPool &pool, int64_t m, int64_t n, int64_t k) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  Type f32 = Float32Type::get(&context);
  Matrices data;
  data.a.resize(m * k), data.b.resize(k * n), data.c.resize(m * n), data.reference.resize(m * n);
  uint32_t state = 1;
  for (Floats *values : {&data.a, &data.b})
    for (float &value : *values)
      value = float(int32_t(state = state * 1664525u + 1013904223u)) / 2147483648.0f;

  ContractionSpec spec;
  spec.aType = spec.bType = spec.cType = spec.accumulate = f32;
  spec.m = {{m, k, 0, n}}, spec.n = {{n, 0, 1, 1}}, spec.k = {{k, 1, n, 0}};
  spec.packed = true;
  Floats packed(packedElements(processor, f32, f32, n, k) + 16);
  float *aligned = reinterpret_cast<float *>((reinterpret_cast<uintptr_t>(packed.data()) + 63) / 64 * 64);
  RunnableKernel(generatePackWeights(context, processor, f32, f32, {}, spec.n, spec.k), processor)
      .run({data.b.data(), aligned});
  double start = now();
  GeneratedKernel generated = llvm::cantFail(generateContraction(context, processor, spec));
  double generation = now() - start;
  Launch launch(std::move(generated), processor, {data.a.data(), aligned, data.c.data()}, pool);
  double compilation = now() - start - generation;

  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  auto library = oneDnnMatmul(engine, stream, m, n, k, data);
  std::vector<double> times = bestOf({[&] { launch(); }, library});
  double error = 0;
  for (int64_t i = 0; i < m * n; ++i)
    error = std::max(error, double(std::fabs(data.c[i] - data.reference[i])));
  double work = 2e-9 * double(m) * double(n) * double(k);
  std::printf("%5ld x %5ld x %5ld  ours %7.1f  oneDNN %7.1f GFLOP/s  ratio %.2f  weights %6.1f GB/s  "
              "difference %.1e  "
              "generate %.1f compile+link %.1f ms\n",
              m, k, n, work / times[0], work / times[1], times[1] / times[0], 4e-9 * double(n * k) / times[0],
              error, generation * 1e3, compilation * 1e3);
  std::fflush(stdout);
}

/// The three contractions of a layer's step with M rows, none of whose operands was packed before: y = x w,
/// dx = dy w^T, dw = x^T dy. Beside them the first one with a packed weight, as inference has it. `tied`: the
/// weight lies as [n][k].
void benchmarkTraining(const Processor &processor, ThreadPool &pool, int64_t m, int64_t n, int64_t k,
                       bool tied) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  Type f32 = Float32Type::get(&context);
  Floats x(m * k, 0.5f), w(k * n, 0.25f), y(m * n, 0.125f), packed(k * (n + 128) + 16);
  float *aligned = reinterpret_cast<float *>((reinterpret_cast<uintptr_t>(packed.data()) + 63) / 64 * 64);
  const int64_t wn = tied ? k : 1, wk = tied ? 1 : n; // strides of the weight
  auto spec = [&](ContractionDim rows, ContractionDim columns, ContractionDim depth) {
    ContractionSpec made;
    made.aType = made.bType = made.cType = made.accumulate = f32;
    made.m = {rows}, made.n = {columns}, made.k = {depth};
    return made;
  };
  ContractionSpec forward = spec({m, k, 0, n}, {n, 0, wn, 1}, {k, 1, wk, 0});
  ContractionSpec ofInput = spec({m, n, 0, k}, {k, 0, wk, 1}, {n, 1, wn, 0});
  ContractionSpec ofWeight =
      tied ? spec({n, 1, 0, k}, {k, 0, 1, 1}, {m, n, k, 0}) : spec({k, 1, 0, n}, {n, 0, 1, 1}, {m, k, n, 0});
  ContractionSpec ahead = forward;
  ahead.packed = true;
  float *left = tied ? y.data() : x.data(), *right = tied ? x.data() : y.data();
  std::vector<std::unique_ptr<Launch>> launches, copies;
  std::vector<Floats> copied;
  auto add = [&](ContractionSpec made, std::vector<void *> buffers) {
    copies.emplace_back();
    if (int64_t elements = copiedElements(processor, made)) {
      copied.emplace_back(elements);
      copies.back() = std::make_unique<Launch>(generateRowCopy(context, processor, made), processor,
                                               std::vector<void *>{buffers[0], copied.back().data()}, pool);
      buffers[0] = copied.back().data(), made.copied = true;
    }
    launches.push_back(std::make_unique<Launch>(llvm::cantFail(generateContraction(context, processor, made)),
                                                processor, std::move(buffers), pool));
  };
  add(ahead, {x.data(), aligned, y.data()});
  add(forward, {x.data(), w.data(), y.data()});
  add(ofInput, {y.data(), w.data(), x.data()});
  add(ofWeight, {left, right, w.data()});
  std::vector<std::function<void()>> candidates;
  for (auto [launch, copy] : llvm::zip_equal(launches, copies))
    candidates.emplace_back([&launch = launch, &copy = copy] {
      if (copy)
        (*copy)();
      (*launch)();
    });
  double best;
  std::vector<double> speeds = speedsBesideFirst(candidates, best);
  std::printf("%5ld x %5ld x %5ld%s  packed ahead %6.1f GFLOP/s, of its speed: y %.2f  dx %.2f  dw %.2f\n", m,
              k, n, tied ? " tied" : "     ", 2e-9 * double(m) * double(n) * double(k) / best, speeds[1],
              speeds[2], speeds[3]);
  std::fflush(stdout);
}

/// Attention over views of one fused projection [sequence, 3, heads, width], beside the arithmetic that it
/// must do.
void benchmarkAttention(const Processor &processor, ThreadPool &pool, int64_t heads, int64_t queries,
                        int64_t keys, int64_t width, bool causal) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  AttentionSpec spec;
  spec.type = Float32Type::get(&context);
  spec.queryHeads = spec.keyHeads = heads;
  spec.queries = queries, spec.keys = keys, spec.width = spec.valueWidth = width;
  int64_t row = 3 * heads * width;
  spec.qStrides = spec.kStrides = spec.vStrides = {keys * row, width, row, 1};
  spec.outStrides = {queries * heads * width, width, heads * width, 1};
  spec.scale = 1 / std::sqrt(double(width));
  spec.causal = causal, spec.causalOffset = keys - queries;
  Floats fused(keys * row), out(queries * heads * width);
  uint32_t state = 1;
  for (float &value : fused)
    value = float(int32_t(state = state * 1664525u + 1013904223u)) / 2147483648.0f;
  double start = now();
  GeneratedKernel generated = llvm::cantFail(generateAttention(context, processor, spec));
  double generation = now() - start;
  int64_t scratch = generated.scratchBytes;
  Launch launch(std::move(generated), processor,
                {fused.data() + (keys - queries) * row, fused.data() + heads * width,
                 fused.data() + 2 * heads * width, out.data()},
                pool);
  double compilation = now() - start - generation;
  double time = bestOf({[&] { launch(); }})[0];
  double pairs =
      causal ? double(queries) * double(2 * keys - queries + 1) / 2 : double(queries) * double(keys);
  double work = 4e-9 * double(heads) * pairs * double(width);
  std::printf("attention %ld heads %5ld x %5ld x %3ld%s  %8.1f us  %6.1f GFLOP/s  keys and values %6.1f GB/s "
              " scratch %ld "
              "KiB  generate %.1f compile+link %.1f ms\n",
              heads, queries, keys, width, causal ? " causal" : "       ", time * 1e6, work / time,
              8e-9 * double(heads * keys * width) / time, scratch / 1024, generation * 1e3,
              compilation * 1e3);
  std::fflush(stdout);
}

} // namespace

int main(int argc, char **argv) {
  int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  Processor processor = llvm::cantFail(Processor::create(argc > 2 ? argv[2] : "host"));
  omp_set_num_threads(threads);
  processorTime = threads == 1;
  ThreadPool pool(threads, 20000);
  std::printf("%d thread(s), %s, vectors of %ld bytes\n", threads, processor.cpu().c_str(),
              processor.vectorBytes());
  if (argc > 3 && std::string_view(argv[3]) == "training") {
    const int64_t rows = argc > 4 ? std::atoi(argv[4]) : 512;
    for (auto [n, k] : {std::pair<int64_t, int64_t>{768, 768}, {2304, 768}, {3072, 768}, {768, 3072}})
      benchmarkTraining(processor, pool, rows, n, k, false);
    benchmarkTraining(processor, pool, rows, 50257, 768, true);
    return 0;
  }
  for (int64_t queries : {1, 128, 512, 2048})
    for (bool causal : {true, false})
      if (argc <= 3 || (std::atoi(argv[3]) == 0 && (argc <= 4 || std::atoi(argv[4]) == queries)))
        benchmarkAttention(processor, pool, 12, queries, queries == 1 ? 512 : queries, 64, causal);
  for (int64_t m : {1, 16, 128, 512}) {
    if (argc > 3 && std::atoi(argv[3]) != m)
      continue;
    for (auto [n, k] :
         {std::pair<int64_t, int64_t>{768, 768}, {2304, 768}, {3072, 768}, {768, 3072}, {50257, 768}})
      benchmarkContraction(processor, pool, m, n, k);
  }
  return 0;
}

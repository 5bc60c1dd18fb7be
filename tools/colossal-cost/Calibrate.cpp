// colossal-cost calibrate: measures this machine through the kernels and collectives that plans run, and
// writes a machine file. Each constant comes from the probes named beside it; the model is then held against
// all probes.
#include "CollectiveTimes.h"
#include "HostFit.h"
#include "Probe.h"
#include "Subcommands.h"

#include "colossal/Cost/HostCost.h"
#include "colossal/Cost/MachineChoice.h"
#include "colossal/Output/OutputFile.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <sstream>

namespace colossal::tool {

using cost::OpKind;
using cost::OpWork;

namespace {

struct CalibrateOptions {
  std::string output, name = "this-machine";
  double seconds = 8;
  bool isDefault = false; ///< to the user's configuration
};

std::string readProcessorName() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("model name", 0) == 0)
      if (std::size_t at = line.find(": "); at != std::string::npos)
        return line.substr(at + 2);
  return "CPU";
}

double find(const ProbeTimes &times, const std::string &name) {
  auto found = times.seconds.find(name);
  return found == times.seconds.end() ? 0 : found->second;
}

OpWork attentionWork(long heads, long length, long width) {
  OpWork work;
  work.kind = OpKind::FusedAttention;
  work.type = cost::DataType::F32;
  work.batch = static_cast<double>(heads);
  work.m = work.n = static_cast<double>(length);
  work.k = static_cast<double>(width);
  return work;
}

OpWork convolutionWork(long pixels, long out, long in, long window) {
  OpWork work = cost::contraction(1, static_cast<double>(pixels), static_cast<double>(out),
                                  static_cast<double>(in * window), cost::DataType::F32);
  work.kind = OpKind::Convolution;
  return work;
}

class Calibration {
public:
  explicit Calibration(const CalibrateOptions &options)
      : options(options), limits(cost::measureHost()), cores(static_cast<unsigned>(limits.cores)) {}

  bool measure() {
    machine.name = options.name;
    machine.description = "Measured by colossal-cost calibrate on " + std::to_string(cores) + " cores of " +
                          readProcessorName() + "; ranks are threads of one process";
    machine.device.name = readProcessorName();
    machine.target = "cpu";
    machine.device.memoryBytes = limits.memoryBytes;
    machine.host.emplace().cores = static_cast<int>(cores);
    machine.host->cacheBytes = static_cast<double>(std::max(1L << 20, sysconf(_SC_LEVEL2_CACHE_SIZE)));
    bool done = measureKernels() && measureTypes() && measureLaunches() && measureCollectives() &&
                measureCopies() && measureDisk();
    warnOfLoad();
    return done;
  }
  const cost::Machine &result() const { return machine; }
  std::string error;

  /// The model against the probes it was made from; to standard error.
  void compare() const {
    double sum = 0;
    int count = 0;
    std::fprintf(stderr, "%-34s %12s %12s %7s\n", "kernel, threads", "measured us", "model us", "error");
    for (bool isTogether : {false, true})
      for (const Sample &sample : samples) {
        double measured = isTogether ? sample.together : sample.alone;
        if (measured <= 0)
          continue;
        double got = sample.predict(machine, isTogether);
        std::fprintf(stderr, "%-30s %3u %12.1f %12.1f %+6.1f%%\n", sample.name.c_str(),
                     isTogether ? cores : 1, measured * 1e6, got * 1e6, (got / measured - 1) * 100);
        sum += std::fabs(got / measured - 1);
        ++count;
      }
    if (count > 0)
      std::fprintf(stderr, "mean absolute error over %d kernels (measured, the probes themselves): %.1f %%\n",
                   count, 100 * sum / count);
  }

private:
  /// Writes down how far off kernels are that the constants were not fitted to: a quarter at a time is left
  /// out.
  void judge(const cost::Machine &before) {
    constexpr std::size_t kParts = 4;
    std::vector<double> off;
    for (std::size_t part = 0; part < kParts; ++part) {
      std::vector<Sample> kept, left;
      for (std::size_t s = 0; s < samples.size(); ++s)
        (s % kParts == part ? left : kept).push_back(samples[s]);
      cost::Machine without = before;
      fitHost(kept, without);
      for (bool isTogether : {false, true})
        for (const Sample &sample : left)
          if (double measured = isTogether ? sample.together : sample.alone; measured > 0)
            off.push_back(100 * std::fabs(sample.predict(without, isTogether) / measured - 1));
    }
    if (off.empty())
      return;
    std::sort(off.begin(), off.end());
    cost::Evidence evidence;
    evidence.table = "this machine's calibration, each left out of the fit";
    evidence.question = "kernel";
    evidence.rows = static_cast<int>(off.size());
    auto rounded = [](double percent) { return std::round(10 * percent) / 10; };
    evidence.meanPercent =
        rounded(std::accumulate(off.begin(), off.end(), 0.0) / static_cast<double>(off.size()));
    evidence.medianPercent = rounded(off[off.size() / 2]);
    machine.evidence = {evidence};
  }

  void say(const char *what) { std::fprintf(stderr, "colossal-cost: measuring %s\n", what); }

  bool runBoth(const ProbeGraph &graph, ProbeTimes &alone, ProbeTimes &together) {
    Probe probe;
    if (error = probe.prepare(graph, cores > 1 ? std::vector<unsigned>{1, cores} : std::vector<unsigned>{1});
        !error.empty())
      return false;
    if (error = probe.measure(options.seconds, 4 * options.seconds); !error.empty())
      return false;
    alone = probe.times(0);
    if (cores > 1)
      together = probe.times(1);
    return true;
  }

  /// A graph with one thread only, for a shorter time.
  bool runAlone(const ProbeGraph &graph, ProbeTimes &times) {
    Probe probe;
    if (error = probe.prepare(graph, {1}); !error.empty())
      return false;
    if (error = probe.measure(options.seconds / 8, options.seconds / 2); !error.empty())
      return false;
    times = probe.times(0);
    return true;
  }

  void addSample(const std::string &name, OpWork work, double operations = 0) {
    std::string base = name.substr(0, name.find('#'));
    if (std::none_of(samples.begin(), samples.end(), [&](const Sample &s) { return s.name == base; }))
      samples.push_back({base, work, operations});
  }

  void addContraction(ProbeGraph &graph, const std::string &name, long m, long n, long k) {
    std::string result = graph.contract(name, graph.input({m, k}), graph.parameter({k, n}), m, n, k);
    graph.output(result, {m, n});
    addSample(name, cost::contraction(1, static_cast<double>(m), static_cast<double>(n),
                                      static_cast<double>(k), cost::DataType::F32));
  }
  void addAttention(ProbeGraph &graph, const std::string &name, long heads, long length, long width) {
    std::string type = graph.type({1, heads, length, width}), q = graph.input({1, heads, length, width}),
                k = graph.input({1, heads, length, width}), v = graph.input({1, heads, length, width});
    graph.output(graph.op(name, "colossal.attention(" + q + ", " + k + ", " + v +
                                    ") {scale = 1.250000e-01 : f64} : (" + type + ", " + type + ", " + type +
                                    ") -> " + type),
                 {1, heads, length, width});
    addSample(name, attentionWork(heads, length, width));
  }
  void addNormalize(ProbeGraph &graph, const std::string &name, long rows, long width) {
    std::string type = graph.type({rows, width}), row = graph.type({width});
    graph.output(graph.op(name, "colossal.normalize layer(" + graph.input({rows, width}) + ", scale " +
                                    graph.parameter({width}) + ", bias " + graph.parameter({width}) +
                                    ") {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (" + type + ", " + row +
                                    ", " + row + ") -> " + type),
                 {rows, width});
    addSample(name, cost::streaming(2.0 * 4 * static_cast<double>(rows * width)),
              8.0 * static_cast<double>(rows * width));
  }
  void addConvolution(ProbeGraph &graph, const std::string &name, long size, long in, long out, long window) {
    long pad = window / 2;
    std::string two = std::to_string(pad), pads = two + ", " + two + ", " + two + ", " + two;
    std::string result =
        graph.op(name, "colossal.conv" + convolutionForm(graph, size, in, out, window, pads));
    // As inside a model, where the result stays as the library lays it out.
    graph.output(graph.op("sum_" + name, "colossal.reduce sum " + result +
                                             " over [2, 3] : " + graph.type({1, out, size, size}) + " -> " +
                                             graph.type({1, out})),
                 {1, out});
    addSample(name, convolutionWork(size * size, out, in, window * window));
  }
  static std::string convolutionForm(ProbeGraph &graph, long size, long in, long out, long window,
                                     const std::string &pads) {
    std::vector<long> input = {1, in, size, size}, weight = {out, in, window, window},
                      result = {1, out, size, size};
    return "(" + graph.input(input) + ", " + graph.parameter(weight) +
           ") {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: " + pads +
           ">, group = 1 : i64} : (" + graph.type(input) + ", " + graph.type(weight) + ") -> " +
           graph.type(result);
  }
  Sample &sample(const std::string &name) {
    return *std::find_if(samples.begin(), samples.end(), [&](const Sample &s) { return s.name == name; });
  }

  /// Contractions, attention, normalization: each several times over with weights of its own, so that a
  /// weight comes from where it does in a model, whose other layers have passed through the caches since.
  bool measureKernels() {
    say("contractions, attention and normalization");
    ProbeGraph graph;
    double outermost = static_cast<double>(std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE)));
    constexpr double kOnce = 100e6, kEach = 48e6;
    int copies = static_cast<int>(std::clamp(std::ceil((1.25 * outermost - kOnce) / kEach), 2.0, 8.0));
    addContraction(graph, "contract_1x8192x1024", 1, 8192, 1024);
    addContraction(graph, "contract_1x4096x4096", 1, 4096, 4096);
    for (int copy = 0; copy < copies; ++copy) {
      std::string at = "#" + std::to_string(copy);
      addContraction(graph, "contract_256x2304x768" + at, 256, 2304, 768);
      addContraction(graph, "contract_64x2304x768" + at, 64, 2304, 768);
      addContraction(graph, "contract_128x768x3072" + at, 128, 768, 3072);
      addContraction(graph, "contract_128x768x768" + at, 128, 768, 768);
      addContraction(graph, "contract_32x3072x768" + at, 32, 3072, 768);
      addContraction(graph, "contract_256x768x64" + at, 256, 768, 64);
      addAttention(graph, "attention_12x128x64" + at, 12, 128, 64);
      addAttention(graph, "attention_12x256x64" + at, 12, 256, 64);
      addNormalize(graph, "normalize_128x768" + at, 128, 768);
      addNormalize(graph, "normalize_16x256" + at, 16, 256);
      addFused(graph, "contract_gelu_128x3072x768" + at, 128, 3072, 768);
    }
    ProbeTimes alone, together;
    if (!runBoth(graph, alone, together))
      return false;

    say("convolutions");
    std::size_t first = samples.size();
    ProbeGraph convolutions;
    // In a model other layers' weights have passed through the caches since a layer's last run.
    convolutions.output(convolutions.contract("flush", convolutions.input({1, 4096}),
                                              convolutions.parameter({4096, 6144}), 1, 6144, 4096),
                        {1, 6144});
    addConvolution(convolutions, "conv3x3_64_56", 56, 64, 64, 3);
    addConvolution(convolutions, "conv1x1_512_128_28", 28, 512, 128, 1);
    addConvolution(convolutions, "conv1x1_64_256_56", 56, 64, 256, 1);
    addConvolution(convolutions, "conv3x3_128_28", 28, 128, 128, 3);
    addConvolution(convolutions, "conv3x3_256_14", 14, 256, 256, 3);
    addConvolution(convolutions, "conv1x1_1024_256_14", 14, 1024, 256, 1);
    addConvolution(convolutions, "conv3x3_512_7", 7, 512, 512, 3);
    ProbeTimes convAlone, convTogether;
    if (!runBoth(convolutions, convAlone, convTogether))
      return false;
    for (std::size_t s = 0; s < samples.size(); ++s) {
      samples[s].alone = find(s < first ? alone : convAlone, samples[s].name);
      samples[s].together = cores > 1 ? find(s < first ? together : convTogether, samples[s].name) : 0;
      if (samples[s].alone <= 0 || (cores > 1 && samples[s].together <= 0)) {
        error = "no time was recorded for probe '" + samples[s].name + "'";
        return false;
      }
    }
    fitKernels();
    return true;
  }

  /// A contraction with an epilogue of two elementwise ops.
  void addFused(ProbeGraph &graph, const std::string &name, long m, long n, long k) {
    std::string type = graph.type({m, n}),
                product = graph.contract(name, graph.input({m, k}), graph.parameter({k, n}), m, n, k);
    std::string biased = graph.op(name, "colossal.elementwise add(" + product + ", " + graph.parameter({n}) +
                                            ") : (" + type + ", " + graph.type({n}) + ") -> " + type);
    graph.output(graph.op(name, "colossal.elementwise gelu(" + biased + ") : (" + type + ") -> " + type),
                 {m, n});
    addSample(name,
              cost::contraction(1, static_cast<double>(m), static_cast<double>(n), static_cast<double>(k),
                                cost::DataType::F32),
              2.0 * static_cast<double>(m * n));
  }

  /// Bandwidths are what vectors times matrices reach; all else begins at plausible values and is fitted.
  void fitKernels() {
    cost::Device &device = machine.device;
    cost::Host &host = *machine.host;
    const Sample &one = sample("contract_1x8192x1024"), &square = sample("contract_1x4096x4096");
    double bytes = 4.0 * (8192.0 * 1024 + 4096.0 * 4096);
    device.memoryBandwidth = bytes / (one.alone + square.alone);
    host.memoryBandwidth = cores > 1
                               ? std::max(device.memoryBandwidth, bytes / (one.together + square.together))
                               : device.memoryBandwidth;
    const Sample &wide = sample("contract_256x2304x768"), &norm = sample("normalize_128x768");
    device.peakFlops[cost::DataType::F32] = wide.work.flops() / wide.alone;
    device.computeEfficiency = device.memoryEfficiency = 1;
    // Eight rows of a deeper contraction's operand outgrow the innermost cache.
    host.deepContraction = std::max(256.0, static_cast<double>(sysconf(_SC_LEVEL1_DCACHE_SIZE)) / (8 * 4));
    host.contractionFill = host.convolutionFill = 20;
    host.deepFactor = 1.1;
    host.exposedMemory = host.convolutionExposedMemory = 0.2;
    host.attentionEfficiency = 0.5;
    host.cacheBandwidth = 2 * norm.work.bytes / norm.alone;
    host.elementSeconds = norm.alone / norm.operations / 2;
    host.forkSeconds = 2e-6;
    host.parallelEfficiency = 0.9;
    cost::Machine before = machine;
    fitHost(samples, machine);
    judge(before);
    if (cores == 1)
      host.forkSeconds = 0;
  }

  bool measureTypes() {
    say("other types");
    const std::pair<cost::DataType, const char *> types[] = {
        {cost::DataType::F64, "f64"}, {cost::DataType::BF16, "bf16"}, {cost::DataType::F16, "f16"}};
    for (auto [type, text] : types) {
      ProbeGraph graph(text);
      graph.output(graph.contract("c", graph.input({256, 768}), graph.parameter({768, 768}), 256, 768, 768),
                   {256, 768});
      ProbeTimes times;
      if (!runAlone(graph, times))
        return false;
      double seconds = find(times, "c");
      if (seconds > 0)
        machine.device.peakFlops[type] = 2.0 * 256 * 768 * (768 + machine.host->contractionFill) / seconds;
    }
    return true;
  }

  bool measureLaunches() {
    say("launches");
    // A chain of kernels too small to count, each waiting for the one before.
    constexpr int kLength = 64;
    ProbeGraph graph;
    std::string value = graph.input({1, 16});
    for (int i = 0; i < kLength; ++i)
      value = graph.contract("c" + std::to_string(i), value, graph.parameter({16, 16}), 1, 16, 16);
    graph.output(value, {1, 16});
    ProbeTimes times;
    if (!runAlone(graph, times))
      return false;
    machine.device.launchSeconds = std::max(1e-8, times.run / kLength);
    return true;
  }

  bool measureCollectives() {
    say("collectives at 2 and 4 ranks");
    constexpr std::size_t kSmall = 64, kLarge = 512 << 10;
    auto time = [&](TimedCollective kind, std::size_t bytes, unsigned ranks) {
      return timeCollective(kind, bytes, ranks, cores, error);
    };
    double empty[2], moved[2], reduced = 0;
    for (int i = 0; i < 2; ++i) {
      unsigned ranks = i == 0 ? 2 : 4;
      empty[i] = (time(TimedCollective::AllGather, kSmall, ranks) +
                  time(TimedCollective::ReduceScatter, kSmall, ranks)) /
                 2;
      moved[i] = (time(TimedCollective::AllGather, kLarge, ranks) +
                  time(TimedCollective::ReduceScatter, kLarge, ranks)) /
                 2;
      moved[i] = std::max(1e-7, moved[i] - empty[i]);
      if (i == 0)
        reduced = time(TimedCollective::AllReduce, kLarge, ranks);
    }
    cost::Level &level = machine.levels.emplace_back();
    level.name = "shared-memory";
    level.units = 64;
    // s + a at two ranks, s + 2 a at four.
    level.latencySeconds = std::max(0.0, empty[1] - empty[0]);
    level.startSeconds = std::max(0.0, empty[0] - level.latencySeconds);
    if (level.latencySeconds == 0)
      level.startSeconds = empty[0];
    // Two ranks move at least what four do together; less was measured where another program held a core.
    level.bandwidth = std::max(0.5 * kLarge / moved[0], 0.75 * kLarge / moved[1]);
    level.sharedBandwidth = std::max(2 * level.bandwidth, 4 * 0.75 * kLarge / moved[1]);
    double pass =
        reduced - (level.startSeconds + 2 * (level.latencySeconds + 0.5 * kLarge / level.bandwidth));
    if (pass > 0.02 * reduced)
      level.localBandwidth = kLarge / pass;
    return error.empty();
  }

  bool measureCopies() {
    say("copies");
    constexpr std::size_t kBytes = std::size_t(64) << 20;
    std::vector<char> from(kBytes, 1), to(kBytes, 2);
    double best = 1e9;
    for (int round = 0; round < 8; ++round) {
      auto begin = std::chrono::steady_clock::now();
      std::memcpy(to.data(), from.data(), kBytes);
      // The result is looked at, or the copy may go.
      from[round] = to[kBytes - 1 - static_cast<std::size_t>(round)];
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    machine.hostLink = {1e-7, kBytes / best};
    return true;
  }

  /// A file in the folder for temporary files, written, dropped from the page cache where the system allows
  /// it, and read: whole, and pages far from each other.
  bool measureDisk() {
    say("disk");
    constexpr std::size_t kBytes = std::size_t(64) << 20, kPage = 4096, kPages = 32;
    std::string path = (std::filesystem::temp_directory_path() / "colossal-disk-XXXXXX").string();
    int file = ::mkstemp(path.data());
    std::vector<char> data(kBytes, 'x');
    bool written = file >= 0 && ::unlink(path.c_str()) == 0 &&
                   ::write(file, data.data(), kBytes) == static_cast<ssize_t>(kBytes) && ::fsync(file) == 0;
    auto timeRead = [&](std::size_t bytes, std::size_t offset) {
      auto begin = std::chrono::steady_clock::now();
      written = written &&
                ::pread(file, data.data(), bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    if (written && ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0) {
      // Pages first, backwards, where nothing is read ahead.
      std::vector<double> pages;
      for (std::size_t p = kPages; p-- > 1;)
        pages.push_back(timeRead(kPage, p * (kBytes / kPages)));
      std::sort(pages.begin(), pages.end());
      ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
      machine.disk = {std::max(1e-7, pages[pages.size() / 2]), kBytes / std::max(1e-6, timeRead(kBytes, 0))};
    }
    if (file >= 0)
      ::close(file);
    if (!written)
      std::fprintf(
          stderr,
          "colossal-cost: warning: no file of 64 MiB can be written and read in '%s', so that the disk is "
          "not described; set TMPDIR\n",
          std::filesystem::temp_directory_path().c_str());
    return true;
  }

  /// Says so where other programs have used the cores meanwhile.
  void warnOfLoad() {
    double others = readBusySeconds() - busyBefore - (readOwnSeconds() - ownBefore);
    double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    if (others > 0.1 * wall)
      std::fprintf(
          stderr,
          "colossal-cost: warning: other programs kept %.1f of the processors busy meanwhile: what was "
          "measured is a busy machine; calibrate again when it is quiet\n",
          others / wall);
  }

  /// Processor time of all programs since the machine started.
  static double readBusySeconds() {
    std::ifstream in("/proc/stat");
    std::string name;
    double user = 0, nice = 0, system = 0;
    in >> name >> user >> nice >> system;
    return (user + nice + system) / static_cast<double>(std::max(1L, sysconf(_SC_CLK_TCK)));
  }
  static double readOwnSeconds() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    auto seconds = [](const timeval &time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }

  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
  double busyBefore = readBusySeconds(), ownBefore = readOwnSeconds();
  const CalibrateOptions &options;
  cost::HostLimits limits;
  unsigned cores;
  cost::Machine machine;
  std::vector<Sample> samples;
};

int calibrate(const CalibrateOptions &options) {
  // Found out before minutes of measuring, not after.
  const std::string output = options.output.empty() ? "-" : options.output;
  auto refuse = [](const OutputError &error) {
    std::fprintf(stderr, "colossal-cost: %s\n", error.message.c_str());
    return error.exitCode();
  };
  if (OutputError error = checkOutput(output))
    return refuse(error);
  Calibration calibration(options);
  if (!calibration.measure()) {
    std::fprintf(stderr, "colossal-cost: %s\n", calibration.error.c_str());
    return NotSupported;
  }
  calibration.compare();
  std::string text = cost::printMachine(calibration.result());
  if (cost::MachineResult again = cost::parseMachine(text); !again.error.empty()) {
    std::fprintf(stderr, "colossal-cost: a measured value is out of range: %s\n", again.error.c_str());
    return Failed;
  }
  OutputError error = writeOutput(output, text);
  return error ? refuse(error) : Success;
}

} // namespace

void addCalibrate(CLI::App &app, Action &action) {
  CLI::App *command = app.add_subcommand(
      "calibrate",
      "Measure this machine and write its description: collectives, contractions, convolutions, attention, "
      "copies, memory-bound kernels and launches, through the code that plans run");
  auto options = std::make_shared<CalibrateOptions>();
  CLI::Option *output =
      command->add_option("-o,--output", options->output, "the machine file (default: standard output)");
  command->add_option("--name", options->name, "the machine's name in the file")->capture_default_str();
  command
      ->add_option("--seconds", options->seconds, "time for each group of measurements; longer is steadier")
      ->check(CLI::Range(0.05, 600.0))
      ->capture_default_str();
  command
      ->add_flag("--default", options->isDefault,
                 "write " +
                     (cost::userMachinePath().empty() ? "~/.config/colossal/machine.json"
                                                      : cost::userMachinePath()) +
                     ", which colossal-compile uses where no --machine is given")
      ->excludes(output);
  command->callback([options, &action] {
    action.run = [options]() -> int {
      if (options->isDefault) {
        std::error_code failed;
        options->output = cost::userMachinePath();
        if (options->output.empty()) {
          std::fprintf(stderr, "colossal-cost: --default: HOME is not set; use -o and COLOSSAL_MACHINE\n");
          return BadUsage;
        }
        std::filesystem::create_directories(std::filesystem::path(options->output).parent_path(), failed);
      }
      return calibrate(*options);
    };
  });
}

} // namespace colossal::tool

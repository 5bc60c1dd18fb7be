// colossal-run: runs a plan from the command line, through the C library.
#include "Benchmark.h"
#include "Launchers.h"
#include "Options.h"
#include "Report.h"

#include "colossal/Plan/Dump.h"
#include "colossal/Plan/OutputFile.h"
#include "runtime/execute/Memory.h"
#include "runtime/include/colossal-runtime.h"
#include "runtime/io/Npy.h"
#include "runtime/validate/Validate.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <unistd.h>

using namespace colossal;
using namespace colossal::runtime;

namespace {

/// What Ctrl-C ends.
std::atomic<colossal_session *> active{nullptr};

/// The signal that did; 0: none.
volatile std::sig_atomic_t endedBy = 0;

void onInterrupt(int signal) {
  // The second time, or before there is anything to end in order, the process just ends.
  colossal_session *session = active;
  if (endedBy != 0 || !session)
    ::_exit(EndedBySignal + signal);
  endedBy = signal;
  colossal_interrupt(session);
}

/// Says which rank and instruction died. Only calls that are safe in a signal handler.
void onCrash(int signal) {
  auto say = [](const char *text) { (void)!::write(STDERR_FILENO, text, std::strlen(text)); };
  uint32_t rank = 0;
  const char *source = nullptr;
  say("colossal-run: ");
  if (colossal_crash_site(&rank, &source)) {
    char digits[16];
    int at = sizeof digits;
    digits[--at] = 0;
    for (; at == sizeof digits - 1 || rank > 0; rank /= 10)
      digits[--at] = static_cast<char>('0' + rank % 10);
    say("rank ");
    say(digits + at);
    say(" ");
  } else {
    say("a thread ");
  }
  say("crashed");
  if (source) {
    say(" in an instruction from ");
    say(source);
  }
  // A mapped file's page that is no more.
  if (signal == SIGBUS)
    say(": a file that it reads, of data, weights or a checkpoint, has become shorter, or its disk fails; "
        "files must stay as they are until the run ends");
  say("\n");
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

int report(const Status &status) {
  // One write, so that the lines of several processes do not mix.
  std::cerr << "colossal-run: " + status.describe() + "\n" << std::flush;
  if (status.code() == Code::Interrupted && endedBy != 0)
    return EndedBySignal + endedBy;
  return colossal_exit_code(static_cast<colossal_status>(status.code()));
}

/// A call of the C library that failed ends what this program does next, and nothing else: its words are the
/// library's.
struct CallFailed {
  colossal_status status;
};
void call(colossal_status status) {
  if (status != COLOSSAL_OK)
    throw CallFailed{status};
}
/// The same for the files that this program reads and writes itself.
void check(const Status &status) {
  if (!status.ok())
    throw status;
}

std::vector<uint64_t> shapeOf(const colossal_tensor &tensor) {
  return {tensor.shape, tensor.shape + tensor.rank};
}

/// Sets all inputs, given and random, and returns the program that they fit. `files` gets those read.
size_t setInputs(const Options &options, colossal_session *session, std::vector<std::string> &files) {
  Tensors inputs;
  check(readInputs(options.inputs, inputs, files));
  if (options.randomInputs) {
    for (size_t program = 0; program < colossal_program_count(session); ++program) {
      if (!options.program.empty() && colossal_program_name(session, program) != options.program)
        continue;
      for (size_t i = 0; i < colossal_input_count(session, program); ++i) {
        colossal_tensor input;
        call(colossal_input(session, program, i, &input));
        if (!inputs.count(input.name))
          call(colossal_set_random_input(session, program, i, *options.randomInputs));
      }
      break;
    }
  }
  for (auto &[name, tensor] : inputs) {
    std::vector<colossal_string> strings;
    for (const std::string &text : tensor.texts)
      strings.push_back({text.data(), text.size()});
    const void *data =
        tensor.type == plan::STRING ? static_cast<const void *>(strings.data()) : tensor.bytes.data();
    call(colossal_set_input(session, name.c_str(), static_cast<colossal_type>(tensor.type),
                            tensor.shape.size(), tensor.shape.data(), data));
    std::vector<std::byte>().swap(tensor.bytes); // the session has its copy
  }
  size_t program = 0;
  call(colossal_select(session, &program));
  if (std::string name = colossal_program_name(session, program);
      !options.program.empty() && name != options.program)
    check({Code::InvalidArgument,
           "the inputs are those of program '" + name + "', not of '" + options.program + "'"});
  return program;
}

/// Reads what the outputs are to be, and sees that the program has such outputs: what is wrong with the file
/// is said before the run.
Tensors readExpected(const Options &options, colossal_session *session, size_t program) {
  Tensors expected;
  check(readNpz(options.expect, expected));
  for (const auto &[name, tensor] : expected) {
    std::string known;
    bool found = false;
    for (size_t i = 0; i < colossal_output_count(session, program) && !found; ++i) {
      colossal_tensor output;
      call(colossal_output(session, program, i, &output));
      known += (i ? ", '" : "'") + std::string(output.name) + "'";
      if (!(found = name == output.name))
        continue;
      if (shapeOf(output) != tensor.shape)
        check({Code::InvalidArgument,
               "--expect " + options.expect + ": '" + name + "' is " + describeType(tensor) +
                   ", and the output of program '" + colossal_program_name(session, program) + "' is " +
                   describeType(static_cast<plan::DataType>(output.type), shapeOf(output))});
    }
    if (!found)
      check({Code::InvalidArgument,
             "--expect " + options.expect + ": the plan has no output '" + name + "', it has " + known});
  }
  if (expected.empty())
    check({Code::InvalidArgument, "--expect " + options.expect + " holds no array"});
  return expected;
}

/// Sees, before the run, that what it gives can be written, and takes the place of nothing that was read.
void checkOutputs(const Options &options, colossal_session *session, std::vector<std::string> files) {
  if (!options.expect.empty())
    files.push_back(options.expect);
  for (const std::string &path : {options.output, options.trace})
    if (!path.empty()) {
      check(plan::checkOutput(path, files));
      call(colossal_check_output(session, path.c_str()));
    }
  if (!options.output.empty() &&
      (options.output == options.trace || plan::isSameFile(options.output, options.trace)))
    check({Code::InvalidArgument, "--output and --trace are both " + options.output});
}

Tensors takeOutputs(colossal_session *session, size_t program) {
  Tensors outputs;
  for (size_t i = 0; i < colossal_output_count(session, program); ++i) {
    colossal_tensor output;
    const void *data = nullptr;
    call(colossal_output(session, program, i, &output));
    call(colossal_get_output(session, output.name, &output, &data));
    if (!data && output.bytes != 0)
      continue;
    Tensor &taken = outputs[output.name];
    taken.type = static_cast<plan::DataType>(output.type);
    taken.shape = shapeOf(output);
    if (output.type == COLOSSAL_STRING) {
      const auto *strings = static_cast<const colossal_string *>(data);
      std::vector<std::string> texts;
      for (size_t e = 0; e < output.bytes / sizeof *strings; ++e)
        texts.emplace_back(strings[e].text, strings[e].size);
      setTexts(taken, std::move(texts));
    } else {
      const auto *bytes = static_cast<const std::byte *>(data);
      taken.bytes.assign(bytes, bytes + output.bytes);
    }
  }
  return outputs;
}

struct Results {
  std::string program;
  colossal_statistics statistics = {}; // of the last run
  Benchmark benchmark;
  std::vector<colossal_traffic_row> traffic; // of the last run
  std::vector<colossal_device_row> devices;
  std::vector<OutputError> errors;
  MemoryReport memory;
  bool differ = false;
};

/// Where nothing is recorded yet, records some more runs, so that those that were timed are not slowed down
/// by it.
void recordOperators(colossal_session *session, bool traced, Benchmark &benchmark) {
  constexpr size_t most = 10;
  if (traced) {
    benchmark.recorded = benchmark.warmUps + static_cast<unsigned>(benchmark.seconds.size());
  } else {
    benchmark.recorded = recordedRuns(static_cast<unsigned>(benchmark.seconds.size()));
    call(colossal_set_trace(session, 1));
    for (unsigned run = 0; run < benchmark.recorded; ++run)
      call(colossal_run(session, nullptr));
  }
  const colossal_profile_row *rows = nullptr;
  size_t count = 0;
  call(colossal_get_profile(session, &rows, &count));
  benchmark.operators.assign(rows, rows + std::min(count, most));
}

Results runAll(const Options &options, colossal_session *session, uint64_t startAnonymous,
               double loadSeconds) {
  Results results;
  results.benchmark.loadSeconds = loadSeconds;
  std::vector<std::string> files;
  const size_t program = setInputs(options, session, files);
  results.program = colossal_program_name(session, program);
  results.statistics.size = sizeof results.statistics;
  call(colossal_get_statistics(session, &results.statistics));
  Tensors expected;
  if (results.statistics.root) {
    checkOutputs(options, session, files);
    if (!options.expect.empty())
      expected = readExpected(options, session, program);
  }
  // The first run also faults in memory; outputs are those of the last.
  Benchmark &benchmark = results.benchmark;
  benchmark.warmUps = options.warmUps.value_or(options.benchmark ? defaultWarmUps(options.benchmark) : 0);
  benchmark.items = batchOf(session, program);
  for (unsigned run = 0; run < benchmark.warmUps; ++run)
    call(colossal_run(session, nullptr));
  benchmark.overlaps = options.benchmark && (options.objective.empty() ? results.statistics.runs_overlap
                                                                       : options.objective == "throughput");
  if (benchmark.overlaps) {
    // One more, in whose time the stages have got something to do.
    call(colossal_run_many(session, size_t(options.benchmark) + 1, nullptr));
    call(colossal_get_statistics(session, &results.statistics));
    benchmark.seconds.assign(options.benchmark, results.statistics.interval_seconds);
  }
  for (unsigned run = 0; !benchmark.overlaps && run < std::max(1u, options.benchmark); ++run) {
    call(colossal_run(session, nullptr));
    call(colossal_get_statistics(session, &results.statistics));
    benchmark.seconds.push_back(results.statistics.seconds);
  }
  std::sort(benchmark.seconds.begin(), benchmark.seconds.end());
  // Arenas stay and nothing else grows in a run, so the end of the runs is the peak; collecting outputs comes
  // after.
  const uint64_t now = processMemory().anonymous;
  results.memory.processPeakAnonymous = now - std::min(now, startAnonymous);
  const colossal_memory_row *rows = nullptr;
  size_t count = 0;
  call(colossal_get_memory(session, &rows, &count));
  results.memory.rows.assign(rows, rows + count);
  const colossal_traffic_row *sent = nullptr;
  call(colossal_get_traffic(session, &sent, &count));
  results.traffic.assign(sent, sent + count);
  const colossal_device_row *devices = nullptr;
  call(colossal_get_devices(session, &devices, &count));
  results.devices.assign(devices, devices + count);
  if (!options.trace.empty())
    call(colossal_write_trace(session, options.trace.c_str()));
  if (options.benchmark)
    recordOperators(session, !options.trace.empty(), benchmark);
  Tensors outputs;
  if (!options.output.empty() || !options.expect.empty())
    outputs = takeOutputs(session, program);
  if (!results.statistics.root)
    return results;
  if (!options.output.empty())
    check(writeNpz(options.output, outputs));
  results.errors = compareOutputs(outputs, expected, options.rtol, options.atol);
  for (const OutputError &error : results.errors)
    results.differ |= !error.pass;
  return results;
}

void print(const Options &options, const Results &results) {
  const colossal_statistics &statistics = results.statistics;
  if (options.json) {
    nlohmann::json object = {{"program", results.program},
                             {"ranks", statistics.ranks},
                             {"threads", statistics.threads},
                             {"devices", devicesJson(results.devices)},
                             {"runs", results.benchmark.seconds.size()},
                             {"min_s", results.benchmark.seconds.front()},
                             {"median_s", results.benchmark.percentile(0.5)},
                             {"predicted_s", statistics.predicted_seconds},
                             {"arena_bytes", statistics.arena_bytes},
                             {"collective_bytes", statistics.collective_bytes},
                             {"planned_collective_bytes", statistics.planned_collective_bytes},
                             {"traffic", trafficJson(results.traffic)},
                             {"memory", memoryJson(results.memory)}};
    addJson(results.benchmark, object);
    if (!options.expect.empty()) {
      nlohmann::json errors = nlohmann::json::object();
      for (const OutputError &error : results.errors)
        errors[error.name] = {{"absolute", error.absolute},
                              {"relative", error.relative},
                              {"pass", error.pass},
                              {"problem", error.problem}};
      object["errors"] = errors;
      object["pass"] = !results.differ;
    }
    std::cout << object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
    return;
  }
  for (const OutputError &error : results.errors) {
    if (!error.problem.empty())
      std::printf("%s: %s: FAIL\n", error.name.c_str(), error.problem.c_str());
    else
      std::printf("%s: worst error %.3g absolute, %.3g relative: %s\n", error.name.c_str(), error.absolute,
                  error.relative, error.pass ? "ok" : "FAIL");
  }
  if (options.benchmark)
    std::printf("program '%s': %zu runs on %u ranks of %u threads: %s", results.program.c_str(),
                results.benchmark.seconds.size(), statistics.ranks, statistics.threads,
                benchmarkText(results.benchmark).c_str());
  if (options.memory)
    std::fputs(memoryText(results.memory).c_str(), stdout);
}

/// Opens the plan, does all runs and reports. Returns the exit code; does not return after an error.
int run(const Options &options, uint64_t startAnonymous) {
  colossal_session *session = nullptr;
  auto fail = [&](int exitCode) {
    // Ranks that could not be stopped, or other processes that wait for this one, must not keep it alive.
    if (session)
      colossal_end_processes(session, exitCode);
    ::_exit(exitCode);
  };
  if (options.communicator.empty() || options.communicator == "local")
    warnOfCopies(options.communicator, options.plan);
  try {
    const auto begin = std::chrono::steady_clock::now();
    call(colossal_open(options.plan.c_str(), &options.session, &session));
    const std::chrono::duration<double> load = std::chrono::steady_clock::now() - begin;
    active = session;
    colossal_statistics statistics = {};
    statistics.size = sizeof statistics;
    call(colossal_get_statistics(session, &statistics));
    if (statistics.root && *colossal_warning(session))
      std::cerr << "colossal-run: warning: " << colossal_warning(session) << '\n' << std::flush;
    const Results results = runAll(options, session, startAnonymous, load.count());
    if (results.statistics.root) {
      print(options, results);
      check(plan::finishStandardOutput());
    }
    active = nullptr;
    colossal_close(session);
    return results.differ ? OutputsDiffer : Success;
  } catch (const CallFailed &failure) {
    fail(report({static_cast<Code>(failure.status), colossal_last_error()}));
  } catch (const Status &status) {
    fail(report(status));
  } catch (const std::exception &error) {
    fail(report({Code::Internal, error.what()}));
  }
  return RunFailed;
}

} // namespace

int main(int argc, char **argv) {
  const uint64_t startAnonymous = processMemory().anonymous;
  CommandLine commandLine;
  Options &options = commandLine.run;
  int exitCode = 0;
  if (!parseOptions(argc, argv, commandLine, exitCode))
    return exitCode;
  if (commandLine.command == CommandLine::Export) {
    Status status = exportCheckpoint(commandLine.exports);
    return status.ok() ? Success : report(status);
  }
  if (commandLine.command == CommandLine::Train) {
    for (int fatal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE})
      std::signal(fatal, onCrash);
    return train(commandLine.train);
  }
  if (options.devices) {
    std::cout << (options.json ? inventoryJson().dump() + "\n" : inventoryText());
    Status status = plan::finishStandardOutput();
    return status.ok() ? Success : report(status);
  }
  if (options.dumpPlan || options.printInputs) {
    plan::PlanFile file;
    if (Status status = plan::PlanFile::open(options.plan, false, file); !status.ok())
      return report(status);
    if (Status status = validatePlan(file.plan(), file.code(), file.data()); !status.ok())
      return report(status);
    std::string text;
    if (!options.json)
      text = options.dumpPlan ? plan::dumpPlan(file.plan()) : bindingsText(file.plan());
    else if (!options.dumpPlan)
      text = bindingsJson(file.plan()).dump() + "\n";
    else if (Status status = planJson(file.plan(), text); status.ok())
      text += '\n';
    else
      return report(status);
    std::cout << text;
    Status status = plan::finishStandardOutput();
    return status.ok() ? Success : report(status);
  }
  std::signal(SIGINT, onInterrupt);
  std::signal(SIGTERM, onInterrupt);
  for (int fatal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE})
    std::signal(fatal, onCrash);

  return run(options, startAnonymous);
}

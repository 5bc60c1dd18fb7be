// colossal-run: runs a plan from the command line.
#include "Options.h"
#include "Report.h"

#include "colossal/Plan/Dump.h"
#include "runtime/execute/RandomValues.h"
#include "runtime/io/Npy.h"
#include "runtime/validate/Validate.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <unistd.h>

using namespace colossal;
using namespace colossal::runtime;

namespace {

Session *active = nullptr;

void onInterrupt(int) {
  // The second time, or before there is anything to end in order, the process just ends.
  static volatile std::sig_atomic_t count = 0;
  if (count++ > 0 || !active)
    ::_exit(WasInterrupted);
  active->interrupt();
}

/// Says which rank and instruction died. Only calls that are safe in a signal handler.
void onCrash(int signal) {
  auto say = [](const char *text) { (void)!::write(STDERR_FILENO, text, std::strlen(text)); };
  const CrashContext &context = crashContext();
  say("colossal-run: ");
  if (context.rank >= 0) {
    char digits[16];
    int at = sizeof digits;
    digits[--at] = 0;
    for (int rank = context.rank; at == sizeof digits - 1 || rank > 0; rank /= 10)
      digits[--at] = static_cast<char>('0' + rank % 10);
    say("rank ");
    say(digits + at);
    say(" ");
  } else {
    say("a thread ");
  }
  say("crashed");
  const plan::Instruction *instruction = context.position ? context.position->load() : nullptr;
  if (instruction) {
    say(" in an instruction from ");
    say(instruction->source().c_str());
  }
  say("\n");
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

int report(const Status &status) {
  // One write, so that the lines of several processes do not mix.
  std::cerr << "colossal-run: " + status.describe() + "\n" << std::flush;
  return exitCodeOf(status);
}

/// The program to run and all its inputs.
Status chooseProgram(const Options &options, const Session &session, Tensors &inputs, int &program) {
  if (options.randomInputs) {
    for (int candidate = 0; candidate < session.plan().programs_size(); ++candidate) {
      const plan::Program &which = session.plan().programs(candidate);
      if (which.role() == plan::Program::LOAD || (!options.program.empty() && which.name() != options.program))
        continue;
      for (const plan::Binding &binding : which.inputs()) {
        if (inputs.count(binding.name()))
          continue;
        Tensor tensor;
        tensor.type = binding.type();
        tensor.shape.assign(binding.shape().begin(), binding.shape().end());
        uint64_t elements;
        if (!tensorElements(tensor.type, tensor.shape, elements))
          return {Code::InvalidPlan, "input '" + binding.name() + "' is too large"};
        tensor.bytes.resize(elements * plan::elementBytes(tensor.type));
        RandomValues::inputs(*options.randomInputs, binding.name(), tensor.type).fill(0, elements, tensor.bytes.data());
        inputs.emplace(binding.name(), std::move(tensor));
      }
      break;
    }
  }
  COLOSSAL_RETURN_IF_ERROR(session.select(inputs, program));
  if (!options.program.empty() && session.plan().programs(program).name() != options.program)
    return {Code::InvalidArgument, "the inputs are those of program '" + session.plan().programs(program).name() + "'"};
  return {};
}

Status writeTrace(Session &session, const std::string &path) {
  std::string text;
  COLOSSAL_RETURN_IF_ERROR(session.trace(text));
  if (!session.root())
    return {};
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush())
    return {Code::Io, "cannot write " + path};
  return {};
}

struct Results {
  std::vector<double> seconds;
  uint64_t collectiveBytes = 0; // of one run
  std::vector<OutputError> errors;
  MemoryReport memory;
  bool differ = false;
};

Status runAll(const Options &options, Session &session, uint64_t startAnonymous, int &program, Results &results) {
  Tensors inputs, outputs, expected;
  COLOSSAL_RETURN_IF_ERROR(readInputs(options.inputs, inputs));
  if (!options.expect.empty())
    COLOSSAL_RETURN_IF_ERROR(readNpz(options.expect, expected));
  COLOSSAL_RETURN_IF_ERROR(chooseProgram(options, session, inputs, program));
  // The first run also faults in memory; outputs are those of the last.
  const unsigned warmUps = options.benchmark ? std::min(5u, 1 + options.benchmark / 10) : 0;
  for (unsigned run = 0; run < warmUps; ++run)
    COLOSSAL_RETURN_IF_ERROR(session.run(program, inputs));
  for (unsigned run = 0; run < std::max(1u, options.benchmark); ++run) {
    const uint64_t before = session.collectiveBytes();
    double seconds = 0;
    COLOSSAL_RETURN_IF_ERROR(session.run(program, inputs, &seconds));
    results.seconds.push_back(seconds);
    results.collectiveBytes = session.collectiveBytes() - before;
  }
  std::sort(results.seconds.begin(), results.seconds.end());
  // Arenas stay and nothing else grows in a run, so the end of the runs is the peak; collecting outputs comes after.
  const uint64_t now = processMemory().anonymous;
  results.memory.processPeakAnonymous = now - std::min(now, startAnonymous);
  COLOSSAL_RETURN_IF_ERROR(session.memory(results.memory.ranks));
  if (!options.trace.empty())
    COLOSSAL_RETURN_IF_ERROR(writeTrace(session, options.trace));
  if (!options.output.empty() || !options.expect.empty())
    COLOSSAL_RETURN_IF_ERROR(session.outputs(program, outputs));
  if (!session.root())
    return {};
  if (!options.output.empty())
    COLOSSAL_RETURN_IF_ERROR(writeNpz(options.output, outputs));
  results.errors = compareOutputs(outputs, expected, options.rtol, options.atol);
  for (const OutputError &error : results.errors)
    results.differ |= !error.pass;
  return {};
}

void print(const Options &options, const Session &session, int program, const Results &results) {
  const plan::Program &which = session.plan().programs(program);
  const double least = results.seconds.front(), median = results.seconds[results.seconds.size() / 2];
  if (options.json) {
    nlohmann::json object = {{"program", which.name()},
                             {"ranks", session.ranks()},
                             {"threads", session.threads()},
                             {"runs", results.seconds.size()},
                             {"min_s", least},
                             {"median_s", median},
                             {"predicted_s", which.predicted_seconds()},
                             {"arena_bytes", session.arenaBytes()},
                             {"collective_bytes", results.collectiveBytes},
                             {"planned_collective_bytes", which.collective_bytes()},
                             {"memory", memoryJson(results.memory)}};
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
    std::cout << object.dump() << std::endl;
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
    std::printf("program '%s': %zu runs on %u ranks of %u threads: minimum %.3f ms, median %.3f ms\n",
                which.name().c_str(), results.seconds.size(), session.ranks(), session.threads(), least * 1e3,
                median * 1e3);
  if (options.memory)
    std::fputs(memoryText(results.memory).c_str(), stdout);
}

} // namespace

int main(int argc, char **argv) {
  const uint64_t startAnonymous = processMemory().anonymous;
  Options options;
  int exitCode = 0;
  if (!parseOptions(argc, argv, options, exitCode))
    return exitCode;
  if (options.dumpPlan || options.printInputs) {
    plan::PlanFile file;
    if (Status status = plan::PlanFile::open(options.plan, false, file); !status.ok())
      return report(status);
    if (Status status = validatePlan(file.plan(), file.code(), file.data()); !status.ok())
      return report(status);
    std::cout << (options.dumpPlan ? plan::dumpPlan(file.plan()) : bindingsText(file.plan()));
    return Success;
  }
  std::signal(SIGINT, onInterrupt);
  std::signal(SIGTERM, onInterrupt);
  for (int fatal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE})
    std::signal(fatal, onCrash);

  std::unique_ptr<Session> session;
  if (Status status = Session::open(options.plan, options.session, session); !status.ok()) {
    exitCode = report(status);
    // Ranks that could not be stopped, or other processes that wait for this one, must not keep it alive.
    if (session)
      session->terminateOthers(exitCode);
    ::_exit(exitCode);
  }
  active = session.get();
  if (session->root() && !session->warning().empty())
    std::cerr << "colossal-run: warning: " << session->warning() << std::endl;
  int program = 0;
  Results results;
  Status status = runAll(options, *session, startAnonymous, program, results);
  if (!status.ok()) {
    exitCode = report(status);
    session->terminateOthers(exitCode);
    ::_exit(exitCode);
  }
  if (session->root())
    print(options, *session, program, results);
  active = nullptr;
  return results.differ ? OutputsDiffer : Success;
}

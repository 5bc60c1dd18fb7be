// A worker takes every n-th test and writes a line for each result. The test that the parent has no line for
// when the pipe closes is the one that the worker died in.
#include "Workers.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace colossal::conformance {

namespace {

struct Worker {
  pid_t process = -1;
  int pipe = -1;
  size_t next = 0;     ///< index of the test in progress
  std::string pending; ///< bytes of an unfinished line
};

/// In the child: runs tests begin, begin + step, ... and never returns.
[[noreturn]] void work(const std::vector<std::string> &folders, RunOptions options, size_t begin, size_t step,
                       unsigned seconds, int pipe) {
  options.scratch += "/" + std::to_string(::getpid());
  std::filesystem::create_directories(options.scratch);
  int sink = ::open("/dev/null", O_WRONLY);
  ::dup2(sink, STDERR_FILENO);
  for (size_t i = begin; i < folders.size(); i += step) {
    ::alarm(seconds);
    Result result = runNodeTest(folders[i], options);
    std::string line = std::to_string(static_cast<int>(result.outcome)) +
                       std::to_string(static_cast<int>(result.binding)) + (result.valuesOpen ? "1" : "0");
    for (const std::string &bound : result.bound)
      line += bound + ",";
    line += "\t" + result.reason;
    for (char &c : line)
      if (c == '\n')
        c = ' ';
    line += '\n';
    if (::write(pipe, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
      break;
  }
  std::filesystem::remove_all(options.scratch);
  ::_exit(0);
}

Worker start(const std::vector<std::string> &folders, const RunOptions &options, size_t begin, size_t step,
             unsigned seconds) {
  int ends[2];
  if (::pipe(ends) != 0) {
    std::perror("pipe");
    std::exit(2);
  }
  Worker worker;
  worker.next = begin;
  std::fflush(nullptr);
  worker.process = ::fork();
  if (worker.process < 0) {
    std::perror("fork");
    std::exit(2);
  }
  if (worker.process == 0) {
    ::close(ends[0]);
    work(folders, options, begin, step, seconds, ends[1]);
  }
  ::close(ends[1]);
  worker.pipe = ends[0];
  return worker;
}

Result afterDeath(int status) {
  Result result;
  bool late = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
  result.outcome = late ? Outcome::TimedOut : Outcome::Crashed;
  if (!late)
    result.reason = WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                        : "exit " + std::to_string(WEXITSTATUS(status));
  return result;
}

} // namespace

std::map<std::string, Result> runAll(const std::vector<std::string> &folders, const RunOptions &options,
                                     unsigned workers, unsigned seconds) {
  std::map<std::string, Result> results;
  auto name = [&](size_t i) { return std::filesystem::path(folders[i]).filename().string(); };
  std::vector<Worker> running;
  for (size_t i = 0; i < workers && i < folders.size(); ++i)
    running.push_back(start(folders, options, i, workers, seconds));
  while (!running.empty()) {
    std::vector<pollfd> polled;
    for (const Worker &worker : running)
      polled.push_back({worker.pipe, POLLIN, 0});
    ::poll(polled.data(), polled.size(), -1);
    for (size_t w = running.size(); w-- > 0;) {
      if (!polled[w].revents)
        continue;
      Worker &worker = running[w];
      char bytes[4096];
      ssize_t count = ::read(worker.pipe, bytes, sizeof bytes);
      if (count > 0) {
        worker.pending.append(bytes, count);
        for (size_t end; (end = worker.pending.find('\n')) != std::string::npos;
             worker.pending.erase(0, end + 1)) {
          Result result;
          result.outcome = static_cast<Outcome>(worker.pending[0] - '0');
          result.binding = static_cast<Binding>(worker.pending[1] - '0');
          result.valuesOpen = worker.pending[2] == '1';
          size_t tab = worker.pending.find('\t');
          for (size_t at = 3, comma; (comma = worker.pending.find(',', at)) < tab; at = comma + 1)
            result.bound.push_back(worker.pending.substr(at, comma - at));
          result.reason = worker.pending.substr(tab + 1, end - tab - 1);
          results[name(worker.next)] = result;
          worker.next += workers;
        }
        continue;
      }
      int status = 0;
      ::close(worker.pipe);
      ::waitpid(worker.process, &status, 0);
      size_t next = worker.next;
      running.erase(running.begin() + w);
      if (next >= folders.size())
        continue;
      results[name(next)] = afterDeath(status);
      if (next + workers < folders.size())
        running.push_back(start(folders, options, next + workers, workers, seconds));
    }
  }
  return results;
}

} // namespace colossal::conformance

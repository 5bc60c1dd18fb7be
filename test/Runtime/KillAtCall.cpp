// Runs a command and kills it right before its N-th system call that changes files, or has the disk full from
// that call on:
//   kill-at-call N COMMAND ARGUMENT...
//   kill-at-call full:N COMMAND ARGUMENT...
// Calls of all its threads count, from 1: making, writing, syncing, renaming and removing files and folders,
// but no writing to standard output and error. With a full disk those that make, write and sync fail with
// ENOSPC. Exit code 99: it was killed. Otherwise its own; 98: system calls cannot be traced here.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <set>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr int killed = 99, untraceable = 98;

bool takesSpace(const user_regs_struct &registers) {
  switch (registers.orig_rax) {
  case SYS_rename:
  case SYS_renameat:
  case SYS_renameat2:
  case SYS_unlink:
  case SYS_unlinkat:
  case SYS_rmdir: return false;
  default: return true;
  }
}

bool changesFiles(const user_regs_struct &registers) {
  const bool writes = registers.orig_rax == SYS_write || registers.orig_rax == SYS_writev;
  if (writes && registers.rdi <= STDERR_FILENO)
    return false;
  switch (registers.orig_rax) {
  case SYS_open: return registers.rsi & O_CREAT;
  case SYS_openat: return registers.rdx & O_CREAT;
  case SYS_creat:
  case SYS_write:
  case SYS_writev:
  case SYS_pwrite64:
  case SYS_fsync:
  case SYS_fdatasync:
  case SYS_ftruncate:
  case SYS_rename:
  case SYS_renameat:
  case SYS_renameat2:
  case SYS_link:
  case SYS_unlink:
  case SYS_unlinkat:
  case SYS_mkdir:
  case SYS_mkdirat:
  case SYS_rmdir: return true;
  default: return false;
  }
}

int trace(pid_t child, long wanted, bool full) {
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
    return untraceable;
  if (::ptrace(PTRACE_SETOPTIONS, child, nullptr,
               PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                   PTRACE_O_EXITKILL) != 0)
    return untraceable;
  ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
  long count = 0;
  bool dying = false;
  std::set<pid_t> failing; // threads in a call that fails
  for (;;) {
    const pid_t thread = ::waitpid(-1, &status, __WALL);
    if (thread < 0)
      return dying ? killed : untraceable;
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      if (thread == child)
        return dying ? killed : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      continue;
    }
    int signal = WSTOPSIG(status);
    if (signal == (SIGTRAP | 0x80)) {
      signal = 0;
      // Before a call rax holds -ENOSYS, after it the result.
      user_regs_struct registers;
      if (dying || ::ptrace(PTRACE_GETREGS, thread, nullptr, &registers) != 0) {
      } else if (failing.erase(thread)) {
        registers.rax = static_cast<unsigned long long>(-ENOSPC);
        ::ptrace(PTRACE_SETREGS, thread, nullptr, &registers);
      } else if (static_cast<long>(registers.rax) == -ENOSYS && changesFiles(registers) &&
                 ++count >= wanted) {
        if (!full) {
          dying = true;
          ::kill(child, SIGKILL);
        } else if (takesSpace(registers)) {
          registers.orig_rax = ~0ull; // no call
          ::ptrace(PTRACE_SETREGS, thread, nullptr, &registers);
          failing.insert(thread);
        }
      }
    } else if (status >> 16 != 0 || signal == SIGSTOP || signal == SIGTRAP) {
      signal = 0; // a new thread, and its first stop
    }
    ::ptrace(PTRACE_SYSCALL, thread, nullptr, signal);
  }
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s [full:]N COMMAND ARGUMENT...\n", argv[0]);
    return 2;
  }
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0)
      ::_exit(untraceable);
    ::execvp(argv[2], argv + 2);
    ::_exit(127);
  }
  const bool full = std::strncmp(argv[1], "full:", 5) == 0;
  return child < 0 ? untraceable : trace(child, std::atol(argv[1] + (full ? 5 : 0)), full);
}

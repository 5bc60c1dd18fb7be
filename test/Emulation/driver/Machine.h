// The emulated GPUs of this process: streams as threads that begin their work late, events, captured graphs,
// and the one thread that runs host functions.
//
// One mutex guards everything but the work itself, which runs without it.
#ifndef COLOSSAL_EMULATION_DRIVER_MACHINE_H
#define COLOSSAL_EMULATION_DRIVER_MACHINE_H

#include "Memory.h"
#include "Order.h"
#include "Settings.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <set>
#include <thread>

namespace colossal::cuda {

class Gpu;

/// Work of a stream or of a graph. It returns which device memory it used, and may run several times.
using Work = std::function<Accesses()>;

struct Node {
  std::string what; ///< for a person
  Work run;
  std::vector<unsigned> after; ///< nodes that end before it, of smaller numbers
};

/// Streams whose calls are being recorded together.
struct Capture {
  Stream origin = nullptr;
  CaptureMode mode = CaptureModeGlobal;
  std::thread::id thread;
  bool invalid = false;
  std::vector<Node> nodes;
};

struct ContextHandle {
  Gpu *gpu = nullptr;
};

struct EventHandle {
  std::uint64_t serial = 0;                  ///< tells it from one that had its address before
  std::uint64_t recorded = 0, completed = 0; ///< how often
  bool timed = true;
  Clock clock;                              ///< of the last record
  std::chrono::steady_clock::time_point at; ///< when the last record completed
  std::shared_ptr<Capture> capture;         ///< not null: recorded in it, behind these nodes
  std::vector<unsigned> nodes;
};

struct GraphHandle {
  std::vector<Node> nodes;
};
struct GraphExecHandle {
  std::shared_ptr<const std::vector<Node>> nodes;
  std::uint64_t launches = 0;
};

struct ModuleHandle {
  Gpu *gpu = nullptr;
  std::shared_ptr<ptx::Module> module;
  std::map<std::string, std::unique_ptr<FunctionHandle>> functions;
};
struct FunctionHandle {
  std::shared_ptr<ptx::Module> module;
  const ptx::Kernel *kernel = nullptr;
};

/// A stream: a thread that takes its work in order. Members are guarded by the machine's mutex.
struct StreamHandle {
  StreamHandle(Gpu &gpu, unsigned actor, std::uint64_t seed);
  ~StreamHandle();

  /// Adds work, or a node to the capture that the stream is in.
  void enqueue(std::string what, Work work);
  /// What waits and signals only, and is no node.
  void enqueueControl(Work work);
  bool idle() const { return pending == 0; }

  Gpu &gpu;
  const unsigned actor;
  Clock clock; ///< of what was enqueued last
  Clock begun; ///< of what is being done
  std::shared_ptr<Capture> capture;
  std::vector<unsigned> last; ///< nodes behind which the next one of the capture comes
  bool stopping = false;

private:
  struct Item {
    std::string what;
    Work run;
    Clock clock;
  };
  void add(std::string what, Work work);
  void loop();

  std::deque<Item> items;
  std::size_t pending = 0;
  std::mt19937_64 random;
  std::thread thread; // last
};

class Gpu {
public:
  Gpu(int number, const Settings &settings) : number(number), memory(settings.memory) { context.gpu = this; }

  /// From now on every call that needs the GPU returns `code`; says why on standard error.
  void fail(Result code, const std::string &why);
  /// Notes what work used.
  void use(const Accesses &accesses, unsigned actor, const Clock &clock, const std::string &what);

  const int number;
  Memory memory;
  Order order;
  ContextHandle context;
  unsigned retained = 0;
  Result error = Success; ///< of earlier work
  std::set<Stream> streams;
};

class Machine {
public:
  static Machine &get();

  const Settings settings = Settings::read();
  std::mutex mutex;
  std::condition_variable changed;
  bool initialized = false;
  std::vector<std::unique_ptr<Gpu>> gpus;
  Clock host; ///< what threads of the host are known to have seen the end of
  std::set<Event> events;
  std::set<Module> modules;
  std::set<Graph> graphs;
  std::set<GraphExec> executables;
  std::set<std::shared_ptr<Capture>> captures; ///< that have not ended
  std::map<std::string, unsigned> calls;       ///< of entry points for which failures are asked for
  unsigned actors = 0;
  std::uint64_t eventsMade = 0;
  std::atomic<unsigned long long> instructions{0}; ///< of PTX, a lane each

  /// Runs a host function on the thread that runs all of them, one after another; returns when it has ended.
  void runHostFunction(HostFunction function, void *argument);
  /// Whether the calling thread runs one.
  static bool inHostFunction();

private:
  Machine();
  std::mutex hostMutex;
  std::condition_variable hostChanged;
  struct HostCall {
    HostFunction function;
    void *argument;
    bool done = false;
  };
  std::deque<HostCall *> hostCalls;
};

/// A call of an entry point: holds the machine, or says why it is refused.
class Call {
public:
  enum Need : unsigned {
    Nothing = 0,
    Initialized = 1,
    Context = 2,         ///< the thread's, whose GPU has no error
    OutsideCapture = 4,  ///< what waits, or changes more than a stream: it breaks a capture
    EvenAfterErrors = 8, ///< cleaning up
  };
  Call(const char *symbol, unsigned needs);

  explicit operator bool() const { return refused == Success; }
  Gpu &gpu() const { return *current; }
  Result refused = Success;
  std::unique_lock<std::mutex> lock;

private:
  Gpu *current = nullptr;
};

void setCurrentContext(cuda::Context context);

/// The accesses of a launch, which runs to its end; faults break the GPU.
Accesses runLaunch(Gpu &gpu, const std::shared_ptr<ptx::Module> &module, ptx::Launch launch);
/// All nodes, in an order that their edges allow.
Accesses runNodes(Gpu &gpu, const std::vector<Node> &nodes, std::uint64_t seed);

} // namespace colossal::cuda

#endif

// Entry points: captures and graphs.
#include "Entry.h"

namespace colossal::cuda {

Result cuStreamBeginCapture_v2(Stream stream, CaptureMode mode) {
  Call call("cuStreamBeginCapture_v2", Call::Context);
  if (!call)
    return call.refused;
  if (!call.gpu().streams.count(stream))
    return InvalidHandle;
  if (stream->capture)
    return IllegalState;
  auto capture = std::make_shared<Capture>();
  capture->origin = stream;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  stream->capture = capture;
  stream->last.clear();
  Machine::get().captures.insert(capture);
  return Success;
}

Result cuStreamEndCapture(Stream stream, Graph *graph) {
  Call call("cuStreamEndCapture", Call::Context);
  if (!call)
    return call.refused;
  *graph = nullptr;
  if (!call.gpu().streams.count(stream))
    return InvalidHandle;
  if (!stream->capture)
    return IllegalState;
  std::shared_ptr<Capture> capture = stream->capture;
  if (capture->origin != stream)
    return StreamCaptureUnmatched;
  if (capture->mode != CaptureModeRelaxed && capture->thread != std::this_thread::get_id())
    return StreamCaptureWrongThread;
  // All that was captured is behind the origin's last node, or the origin has not joined it.
  std::vector<bool> joined(capture->nodes.size());
  std::vector<unsigned> open = stream->last;
  while (!open.empty()) {
    const unsigned node = open.back();
    open.pop_back();
    if (joined[node])
      continue;
    joined[node] = true;
    open.insert(open.end(), capture->nodes[node].after.begin(), capture->nodes[node].after.end());
  }
  Result result =
      std::find(joined.begin(), joined.end(), false) == joined.end() ? Success : StreamCaptureUnjoined;
  if (capture->invalid)
    result = StreamCaptureInvalidated;
  Machine::get().captures.erase(capture);
  for (Stream other : call.gpu().streams)
    if (other->capture == capture) {
      other->capture = nullptr;
      other->last.clear();
    }
  if (result != Success)
    return result;
  *graph = new GraphHandle{std::move(capture->nodes)};
  Machine::get().graphs.insert(*graph);
  return Success;
}

Result cuGraphInstantiateWithFlags(GraphExec *executable, Graph graph, unsigned long long) {
  Call call("cuGraphInstantiateWithFlags", Call::Context);
  if (!call)
    return call.refused;
  if (!Machine::get().graphs.count(graph))
    return InvalidValue;
  *executable = new GraphExecHandle{std::make_shared<const std::vector<Node>>(graph->nodes), 0};
  Machine::get().executables.insert(*executable);
  return Success;
}

Result cuGraphLaunch(GraphExec executable, Stream stream) {
  Call call("cuGraphLaunch", Call::Context);
  if (!call)
    return call.refused;
  Machine &machine = Machine::get();
  if (!machine.executables.count(executable))
    return InvalidValue;
  if (!call.gpu().streams.count(stream))
    return InvalidHandle;
  if (stream->capture)
    return NotSupported; // a graph inside of a graph is not modelled
  const std::uint64_t seed = machine.settings.seed + ++executable->launches;
  stream->enqueue("a graph", [nodes = executable->nodes, gpu = &call.gpu(), seed] {
    return runNodes(*gpu, *nodes, seed);
  });
  return Success;
}

Result cuGraphExecDestroy(GraphExec executable) {
  Call call("cuGraphExecDestroy", Call::Context | Call::EvenAfterErrors);
  if (!call)
    return call.refused;
  if (!Machine::get().executables.erase(executable))
    return InvalidValue;
  delete executable;
  return Success;
}

Result cuGraphDestroy(Graph graph) {
  Call call("cuGraphDestroy", Call::Context | Call::EvenAfterErrors);
  if (!call)
    return call.refused;
  if (!Machine::get().graphs.erase(graph))
    return InvalidValue;
  delete graph;
  return Success;
}

} // namespace colossal::cuda

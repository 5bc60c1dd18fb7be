// Text for people. Neighbour: PlanReport.h.
#include "colossal/Planner/PlanReport.h"

#include "colossal/Cost/Evidence.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace colossal::planner {

namespace {

[[gnu::format(printf, 1, 2)]] std::string format(const char *text, ...) {
  va_list arguments, again;
  va_start(arguments, text);
  va_copy(again, arguments);
  std::string out(std::vsnprintf(nullptr, 0, text, arguments), '\0');
  std::vsnprintf(out.data(), out.size() + 1, text, again);
  va_end(arguments);
  va_end(again);
  return out;
}

double gib(double bytes) {
  return bytes / (1 << 30);
}

/// Width of the residual stream.
double hiddenSize(const TrainingGraph &graph) {
  for (const UnitKind &kind : graph.kinds)
    if (!kind.inputs.empty() && graph.sequence > 0)
      return kind.tensors[kind.inputs.front()].elements / graph.sequence;
  return 0;
}

std::string printMesh(const TrainingPlan &plan) {
  std::string tensor;
  for (int size : plan.tensor)
    tensor += (tensor.empty() ? "" : "x") + std::to_string(size);
  std::string text = format("pipeline %d, data %d, context %d, tensor %s; microbatch %.0f (%d a step), %s",
                            plan.pipeline, plan.data, plan.context, tensor.empty() ? "1" : tensor.c_str(),
                            plan.microbatch, plan.microbatches(), cost::toString(plan.schedule));
  if (plan.chunks > 1)
    text += format(" of %d chunks", plan.chunks);
  if (plan.idle > 0)
    text += format(", %d devices idle", plan.idle);
  if (plan.padding > 0)
    text += format(", %.0f sequences of padding", plan.padding);
  return text + format(", zero %d, recompute %s, attention %s, boundary %s", plan.zero,
                       toString(plan.recompute), plan.fusedAttention ? "fused" : "unfused",
                       toString(plan.boundary).c_str());
}

std::string printModel(const TrainingGraph &graph, const TrainingTask &task, const cost::Machine &machine) {
  std::string units;
  for (std::size_t u = 0; u < graph.units.size();) {
    std::size_t end = u;
    while (end < graph.units.size() && graph.units[end] == graph.units[u])
      ++end;
    units += (units.empty() ? "" : ", ") + (end - u > 1 ? std::to_string(end - u) + " x " : std::string()) +
             graph.kinds[graph.units[u]].name;
    u = end;
  }
  std::string text = format("model: %.4g billion parameters, %s", graph.parameters() / 1e9, units.c_str());
  if (graph.sequence > 0)
    text += format("; %.0f tokens a sequence", graph.sequence);
  text += "\n";
  if (!graph.batchDimension.empty())
    text += "batch: " + graph.batchDimension + "\n";
  text += format("task: %s in %s, global batch %.0f, on %d of %s (%s)\n", task.optimizer.c_str(),
                 task.precision.c_str(), task.globalBatch, task.devices, machine.device.name.c_str(),
                 machine.name.c_str());
  std::optional<TrainingTypes> types = trainingTypes(task.precision);
  if (types && !machine.device.peakFlops.count(types->compute))
    text += format("note: the device has no rate for %s: contractions are priced at that of f32%s\n",
                   task.precision.c_str(),
                   types->activation < 4 && machine.device.peakFlops.count(cost::DataType::F16)
                       ? "; --precision f16 computes at its own"
                       : "");
  return text;
}

std::string printTime(const TrainingPlan &plan, const PlanPrice &price, PlanPricer &pricer) {
  double rate = price.flops / price.seconds / plan.task.devices;
  double peak = pricer.machine().machine().device.flops(pricer.types().compute);
  double tokens = pricer.graph().sequence;
  std::string text =
      format("step: %.4g s, %.4g %s/s, %.4g TFLOP/s a device (%.1f %% of peak, recompute not counted)\n",
             price.seconds, plan.task.globalBatch * std::max(tokens, 1.0) / price.seconds,
             tokens > 0 ? "tokens" : "samples", rate / 1e12, 100 * rate / peak);
  text += format("  pipeline %.4g s (communication inside units %.4g s, waiting %.1f %%), gradient reduction "
                 "%.4g s, optimizer %.4g s\n",
                 price.pipeline, price.collective, 100 * price.bubble, price.reduction, price.optimizer);
  for (const auto &[name, bytes] : price.bytesByCollective)
    text += format("  %s: %.4g GB a rank and step\n", name.c_str(), bytes / 1e9);
  return text;
}

std::string printMemory(const TrainingPlan &plan, const PlanPrice &price) {
  std::string text = format("memory of a rank in GiB, limit %.1f:\n  stage  units  parameters  gradients  "
                            "optimizer  activations  transient  total\n",
                            gib(price.limitBytes));
  std::size_t stages = price.memory.size();
  std::vector<int> units(stages, 0);
  for (std::size_t c = 0; c < price.parts.size(); ++c)
    units[plan.stageOf(static_cast<int>(c))] += price.parts[c];
  for (std::size_t s = 0; s < stages; ++s) {
    const StageMemory &memory = price.memory[s];
    // Stages alike are told once.
    bool isLike = s > 1 && s + 1 < stages;
    if (isLike && s > 2)
      continue;
    if (isLike && s == 2) {
      text += format("  ... %zu stages between\n", stages - 3);
      continue;
    }
    text += format("  %5zu  %5d  %10.2f  %9.2f  %9.2f  %11.2f  %9.2f  %5.2f\n", s, units[s],
                   gib(memory.parameters), gib(memory.gradients), gib(memory.optimizer),
                   gib(memory.activations), gib(memory.transient), gib(memory.total()));
  }
  if (!price.curve.empty()) {
    constexpr int kColumns = 64;
    std::vector<double> most(kColumns, 0);
    double end = price.curve.back().seconds, held = price.curve.front().bytes;
    std::size_t next = 0;
    for (int c = 0; c < kColumns; ++c) {
      most[c] = held;
      for (; next < price.curve.size() && price.curve[next].seconds <= end * (c + 1) / kColumns; ++next)
        most[c] = std::max(most[c], held = price.curve[next].bytes);
    }
    std::string line;
    for (double bytes : most)
      line += static_cast<char>('0' + std::clamp(static_cast<int>(10 * bytes / price.limitBytes), 0, 9));
    text += format("  over the step, on stage %d, in tenths of the limit:\n  |%s|\n", price.curveStage,
                   line.c_str());
  }
  return text;
}

std::string printLayouts(const TrainingPlan &plan, PlanPricer &pricer) {
  std::string text;
  const Cell &cell = pricer.cell(plan);
  if (!cell.error.empty() || tensorAxes(plan).empty())
    return text;
  for (std::size_t k = 0; k < cell.layouts.size(); ++k) {
    UnitQuery query;
    query.kind = static_cast<int>(k);
    query.axes = tensorAxes(plan);
    std::string line;
    const UnitKind &kind = pricer.graph().kinds[k];
    for (const auto &[name, factors] : pricer.blocks().describe(query, cell.layouts[k]))
      for (const Operation &op : kind.operations)
        if (op.name == name && op.kind != Operation::Streaming)
          line += " " + name + "=" + factors;
    text += "  " + kind.name + ":" + (line.empty() ? " whole" : line) + "\n";
  }
  return "layouts of contractions and attention (factors on the context and tensor axes):\n" + text;
}

/// What colossal-compile can make code for today: forward passes on one mesh, without pipeline and training.
std::string printCode(const TrainingPlan &plan) {
  std::string text = "code that colossal-compile can emit today:\n";
  text += format("  yes: the forward pass with its layouts on data, context and tensor axes (--mesh, --pin), "
                 "on up to three axes\n");
  std::string missing = "backward pass and optimizer";
  if (plan.pipeline > 1)
    missing += std::string(", pipeline stages and the ") + cost::toString(plan.schedule) + " schedule";
  if (plan.zero > 0)
    missing += ", state over data ranks (zero " + std::to_string(plan.zero) + ")";
  if (plan.recompute != Recompute::None)
    missing += std::string(", ") + toString(plan.recompute) + " recompute";
  if (plan.microbatches() > 1)
    missing += ", accumulation over microbatches";
  return text + "  not yet: " + missing + "\n";
}

} // namespace

std::string printEvidence(const TrainingPlan &plan, PlanPricer &pricer) {
  cost::Configuration row;
  row.question = cost::Question::Step;
  row.devices = plan.task.devices;
  row.model.hidden = hiddenSize(pricer.graph());
  row.model.sequence = pricer.graph().sequence;
  row.model.fusedAttention = plan.fusedAttention;
  row.layout.tensor = plan.tensorSize();
  row.layout.context = plan.context;
  row.layout.data = plan.data;
  row.layout.pipeline = plan.pipeline;
  row.layout.zero = plan.zero;
  row.layout.schedule = plan.schedule;
  row.layout.recompute = plan.recompute == Recompute::Full        ? cost::Recompute::Full
                         : plan.recompute == Recompute::Selective ? cost::Recompute::Selective
                                                                  : cost::Recompute::None;
  const cost::Evidence *evidence = cost::evidenceFor(row, pricer.machine().machine());
  return "prediction: " + cost::describe(evidence, row, pricer.machine().machine()) + "\n";
}

std::string printPrice(const TrainingPlan &plan, const PlanPrice &price, PlanPricer &pricer) {
  std::string text = printModel(pricer.graph(), plan.task, pricer.machine().machine());
  text += "plan: " + printMesh(plan) + "\n" + printLayouts(plan, pricer) + printTime(plan, price, pricer) +
          printMemory(plan, price);
  if (!price.fits())
    text += format("does not fit: needs %.2f GiB more a rank\n", gib(price.peakBytes - price.limitBytes));
  return text + printCode(plan) + printEvidence(plan, pricer);
}

std::string printReport(const SearchResult &result, PlanPricer &pricer) {
  if (!result.best) {
    std::string text;
    if (result.smallest) {
      const TrainingPlan &plan = result.smallest->plan;
      const PlanPrice &price = result.smallest->price;
      text = printModel(pricer.graph(), plan.task, pricer.machine().machine());
      text += format("nothing fits: the least that a rank needs is %.2f GiB, %.2f GiB more than there is\n",
                     gib(price.peakBytes), gib(price.peakBytes - price.limitBytes));
      text += "  with " + printMesh(plan) + "\n" + printMemory(plan, price);
    }
    if (!result.remedies.empty())
      text += "what would help, each by itself:\n";
    for (const std::string &remedy : result.remedies)
      text += "  " + remedy + "\n";
    return text;
  }
  const TrainingPlan &plan = result.best->plan;
  std::string text = printModel(pricer.graph(), plan.task, pricer.machine().machine());
  text += "plan: " + printMesh(plan) + "\n" + printLayouts(plan, pricer) +
          printTime(plan, result.best->price, pricer);
  text += format("bound: no plan of the space takes less than %.4g s (gap %.1f %%), no layout on these "
                 "devices less than %.4g s\n",
                 result.bound, 100 * result.gap(), result.roofline);
  text +=
      format("  %lld plans, %lld simulated, the others excluded by their bounds%s\n", result.plans,
             result.simulated, result.complete ? ": none that fits is faster" : "; the search ended early");
  if (plan.idle > 0)
    text += format("  %d of %d devices are idle: no plan %s that uses more and fits is faster\n", plan.idle,
                   plan.task.devices, result.complete ? "of the space" : "simulated");
  if (plan.padding > 0)
    text += format("  each step computes %.0f sequences for a batch of %.0f\n",
                   plan.task.globalBatch + plan.padding, plan.task.globalBatch);
  text += printMemory(plan, result.best->price);
  if (!result.runnersUp.empty() || result.fasterButTooLarge)
    text += "runners-up, the best of each other kind (mesh, ZeRO stage, recompute, schedule):\n";
  if (result.fasterButTooLarge)
    text += format("  %.4g s: ", result.fasterButTooLarge->price.seconds) +
            printMesh(result.fasterButTooLarge->plan) + "\n    " + result.fasterButTooLarge->reason + "\n";
  for (const PricedPlan &other : result.runnersUp)
    text +=
        format("  %.4g s: ", other.price.seconds) + printMesh(other.plan) + "\n    " + other.reason + "\n";
  if (!result.runnersUp.empty() && result.runnersUp.back().price.seconds > result.unexplored)
    text += format("  the search ended early: other kinds that take %.4g s or more may be missing\n",
                   result.unexplored);
  return text + printCode(plan) + printEvidence(plan, pricer);
}

} // namespace colossal::planner

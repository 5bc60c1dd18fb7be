// Text for people.
#include "colossal/Planner/PlanReport.h"

#include "KeptValues.h"

#include "colossal/Cost/ByteSize.h"
#include "colossal/Cost/Evidence.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>

namespace colossal::planner {

namespace {

constexpr const char *kWords = "the words are explained in docs/Glossary.md\n";

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

/// Width of the residual stream.
double hiddenSize(const FactorGraph &graph) {
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

std::string printModel(const FactorGraph &graph, const TrainingTask &task, const cost::Machine &machine) {
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
  std::optional<TrainingTypes> types = trainingTypes(task.precision, task.optimizer);
  if (types && !machine.device.peakFlops.count(types->compute))
    text += format("note: the device has no rate for %s: contractions are priced at that of f32%s\n",
                   task.precision.c_str(),
                   types->activation < 4 && machine.device.peakFlops.count(cost::DataType::F16)
                       ? "; --precision f16 computes at its own"
                       : "");
  return text;
}

/// What is moved, how long it takes, and what of that no kernel hides.
std::string printCommunication(const TrainingPlan &plan, const PlanPrice &price) {
  if (price.communication.empty())
    return plan.ranks() > 1 ? "communication: none\n" : "";
  std::size_t width = 0;
  for (const Communication &one : price.communication)
    width = std::max(width, one.name.size());
  std::string text =
      format("communication of a rank%s in a step: what is sent, its time, and what of that is hidden beside "
             "kernels "
             "or exposed (makes the step longer)\n  %-*s        GB     time s   hidden s  exposed s\n",
             plan.pipeline > 1 ? (" of stage " + std::to_string(price.lastStage)).c_str() : "",
             static_cast<int>(width), "");
  Communication sum;
  auto line = [&](const std::string &name, const Communication &one) {
    text += format("  %-*s  %8.4g  %9.4g  %9.4g  %9.4g\n", static_cast<int>(width), name.c_str(),
                   one.bytes / 1e9, one.seconds, std::max(0.0, one.seconds - one.exposed), one.exposed);
  };
  for (const Communication &one : price.communication) {
    line(one.name, one);
    sum.bytes += one.bytes;
    sum.seconds += one.seconds;
    sum.exposed += one.exposed;
  }
  if (price.communication.size() > 1)
    line("sum", sum);
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
  text += format(
      "  pipeline %.4g s (of it communication inside units %.4g s, waiting %.1f %%), then reduction of "
      "gradients that nothing hides %.4g s, optimizer %.4g s\n",
      price.pipeline, price.collective, 100 * price.bubble, price.reduction, price.optimizer);
  if (price.straggler > 1.0005)
    text += format("  all of it times %.3f: nodes wait for the slowest\n", price.straggler);
  return text + printCommunication(plan, price);
}

/// The memory curve as a chart whose axis spans what changes.
std::string printCurve(const PlanPrice &price, const cost::ByteUnit &unit) {
  if (price.curve.empty())
    return "";
  constexpr int kColumns = 64, kRows = 8;
  double end = price.seconds / price.straggler, held = price.curve.front().bytes;
  std::vector<double> most(kColumns);
  double low = held, high = held;
  std::size_t next = 0;
  for (int c = 0; c < kColumns; ++c) {
    most[c] = held;
    for (; next < price.curve.size() &&
           (price.curve[next].seconds <= end * (c + 1) / kColumns || c + 1 == kColumns);
         ++next) {
      held = price.curve[next].bytes;
      most[c] = std::max(most[c], held);
      low = std::min(low, held);
    }
    high = std::max(high, most[c]);
  }
  // Digits enough to tell neighbouring rows apart.
  double step = unit.of(high - low) / kRows;
  int digits = step <= 0 ? 2 : std::clamp(static_cast<int>(std::ceil(-std::log10(step))) + 1, 1, 6);
  std::string text =
      format("  over the step, on stage %d, in %s (the axis spans what changes; limit %.*f):\n",
             price.curveStage, unit.name, digits, unit.of(price.limitBytes));
  for (int row = kRows; row >= 1; --row) {
    std::string line;
    for (double bytes : most) {
      double height = high > low ? (bytes - low) / (high - low) * kRows : 0;
      line += height >= row - 0.5 ? '#' : ' ';
    }
    text += format("  %10.*f |%s\n", digits, unit.of(low + (high - low) * row / kRows), line.c_str());
  }
  text += format("  %10.*f +%s\n", digits, unit.of(low), std::string(kColumns, '-').c_str());
  std::string last = format("%.4g s", end);
  return text + format("  %10s  0 s%*s\n", "", kColumns - 3, last.c_str());
}

std::string printMemory(const TrainingPlan &plan, const PlanPrice &price) {
  const cost::ByteUnit unit = cost::findByteUnit(price.peakBytes);
  std::string text = format("memory of a rank in %s, limit %.1f:\n  stage  units  parameters  gradients  "
                            "optimizer  activations  transient  in and out  total\n",
                            unit.name, unit.of(price.limitBytes));
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
    text += format("  %5zu  %5d  %10.2f  %9.2f  %9.2f  %11.2f  %9.2f  %10.2f  %5.2f\n", s, units[s],
                   unit.of(memory.parameters), unit.of(memory.gradients), unit.of(memory.optimizer),
                   unit.of(memory.activations), unit.of(memory.transient), unit.of(memory.io),
                   unit.of(memory.total()));
  }
  return text + printCurve(price, unit);
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

/// Of a plan that keeps single values.
std::string printKept(const TrainingPlan &plan, const FactorGraph &graph) {
  if (!plan.kept)
    return "";
  std::string text = "kept for the backward pass, of what could be made again:\n";
  for (const auto &[kind, operations] : nameKept(graph, *plan.kept)) {
    text += "  " + kind + ":";
    for (const std::string &operation : operations)
      text += " " + operation;
    text += "\n";
  }
  return text;
}

/// What a program is compiled of the plan by.
std::string printCode(const TrainingPlan &plan) {
  if (!plan.fusedAttention)
    return "no program: attention is unfused, and programs store no scores; --attention fused plans what is "
           "compiled\n";
  return "program: colossal-compile MODEL --training " + plan.task.optimizer +
         " --loss LOSS --plan THIS_PLAN compiles it, with its mesh, stages, schedule, microbatches, ZeRO "
         "stage, recompute and layouts\n";
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
  row.layout.recompute = plan.recompute == Recompute::Full   ? cost::Recompute::Full
                         : plan.recompute == Recompute::None ? cost::Recompute::None
                                                             : cost::Recompute::Selective;
  const cost::Evidence *evidence = cost::evidenceFor(row, pricer.machine().machine());
  return "prediction: " + cost::describe(evidence, row, pricer.machine().machine()) + "\n";
}

std::string printPrice(const TrainingPlan &plan, const PlanPrice &price, PlanPricer &pricer) {
  std::string text = printModel(pricer.graph(), plan.task, pricer.machine().machine());
  text += "plan: " + printMesh(plan) + "\n" + printLayouts(plan, pricer) + printKept(plan, pricer.graph()) +
          printTime(plan, price, pricer) + printMemory(plan, price);
  if (!price.fits())
    text += "does not fit: --memory " + cost::roundUpBytes(price.peakBytes).text + " would be enough, " +
            cost::roundUpBytes(price.peakBytes - price.limitBytes).text + " more a rank\n";
  return text + printCode(plan) + printEvidence(plan, pricer) + kWords;
}

namespace {

/// "1.200 s -> 1.500 s (+25.0 %)".
std::string printChange(const char *name, double before, double after, double unit, const char *unitName) {
  std::string text = format("  %s: %.4g -> %.4g%s", name, before / unit, after / unit, unitName);
  if (before > 0)
    text += format(" (%+.1f %%)", 100 * (after / before - 1));
  return text + "\n";
}

} // namespace

std::string printDifference(const PriceSummary &before, const PriceSummary &after) {
  constexpr double kGib = 1 << 30;
  struct Part {
    const char *name;
    double before, after, unit;
    const char *unitName;
  };
  const Part parts[] = {{"step", before.seconds, after.seconds, 1, " s"},
                        {"pipeline", before.pipeline, after.pipeline, 1, " s"},
                        {"communication inside units", before.collective, after.collective, 1, " s"},
                        {"waiting", before.bubble * before.pipeline, after.bubble * after.pipeline, 1, " s"},
                        {"reduction of gradients", before.reduction, after.reduction, 1, " s"},
                        {"optimizer", before.optimizer, after.optimizer, 1, " s"},
                        {"peak memory of a rank", before.peakBytes, after.peakBytes, kGib, " GiB"}};
  std::string text;
  for (const Part &part : parts)
    if (std::abs(part.after - part.before) > 1e-9 * std::max(part.before, part.after))
      text += printChange(part.name, part.before, part.after, part.unit, part.unitName);
  return text.empty() ? "  none\n" : text;
}

std::string printDifference(const TrainingPlan &before, const TrainingPlan &after) {
  auto describe = [](const TrainingPlan &plan) {
    std::string tensor;
    for (int size : plan.tensor)
      tensor += (tensor.empty() ? "" : "x") + std::to_string(size);
    return std::vector<std::pair<const char *, std::string>>{
        {"devices", std::to_string(plan.task.devices)},
        {"global batch", format("%.0f", plan.task.globalBatch)},
        {"pipeline", std::to_string(plan.pipeline)},
        {"data", std::to_string(plan.data)},
        {"context", std::to_string(plan.context)},
        {"tensor", tensor},
        {"microbatch", format("%.0f", plan.microbatch)},
        {"schedule", cost::toString(plan.schedule)},
        {"chunks", std::to_string(plan.chunks)},
        {"zero", std::to_string(plan.zero)},
        {"recompute", toString(plan.recompute)},
        {"attention", plan.fusedAttention ? "fused" : "unfused"},
        {"boundary", toString(plan.boundary)}};
  };
  std::string text;
  auto old = describe(before), now = describe(after);
  for (std::size_t i = 0; i < old.size(); ++i)
    if (old[i].second != now[i].second)
      text += std::string("  ") + old[i].first + ": " + old[i].second + " -> " + now[i].second + "\n";
  if (before.layouts != after.layouts)
    text += "  layouts of operations differ\n";
  return text;
}

std::string printReport(const SearchResult &result, PlanPricer &pricer) {
  if (!result.best) {
    std::string text;
    if (result.smallest) {
      const TrainingPlan &plan = result.smallest->plan;
      const PlanPrice &price = result.smallest->price;
      text = printModel(pricer.graph(), plan.task, pricer.machine().machine());
      const cost::ByteUnit unit = cost::findByteUnit(price.peakBytes);
      auto up = [&](double bytes) { return std::ceil(unit.of(bytes) * 100) / 100; };
      std::string with = result.fixed.empty() ? "" : " with " + result.fixed;
      text += format("nothing fits%s: the least that a rank needs is %.2f %s, %.2f %s more than there is\n",
                     with.c_str(), up(price.peakBytes), unit.name, up(price.peakBytes - price.limitBytes),
                     unit.name);
      text += "  with " + printMesh(plan) + "\n" + printMemory(plan, price);
    }
    if (!result.remedies.empty())
      text += "what would help, each by itself:\n";
    for (const std::string &remedy : result.remedies)
      text += "  " + remedy + "\n";
    if (!result.useless.empty())
      text += "what would not:\n";
    for (const std::string &one : result.useless)
      text += "  " + one + "\n";
    return text;
  }
  const TrainingPlan &plan = result.best->plan;
  std::string text = printModel(pricer.graph(), plan.task, pricer.machine().machine());
  if (!result.fixed.empty())
    text += "fixed: " + result.fixed + "\n";
  text += "plan: " + printMesh(plan) + "\n" + printLayouts(plan, pricer) +
          printTime(plan, result.best->price, pricer);
  text +=
      format("bound: no plan of the space takes less than %.4g s (gap %.1f %%); with unlimited memory and "
             "without waiting none less than %.4g s; no layout on these devices less than %.4g s\n",
             result.bound, 100 * result.gap(), result.relaxed, result.roofline);
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
  return text + printCode(plan) + printEvidence(plan, pricer) + kWords;
}

} // namespace colossal::planner

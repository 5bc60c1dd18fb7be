// Times of all ranks side by side, from records that each makes for itself. Nothing is measured between
// ranks: who waited for whom follows from when each began.
#include "runtime/execute/Trace.h"

#include "colossal/Plan/DataType.h"
#include "colossal/Plan/Names.h"
#include "colossal/Plan/Traffic.h"
#include "runtime/validate/Validate.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <unordered_map>

namespace colossal::runtime {

namespace {

using nlohmann::json;
using plan::Status;

/// A span on its way to the root.
struct Packed {
  uint32_t site, run;
  int32_t peer;
  uint32_t queue;
  int64_t begin, end;
};

/// Puts all places where instructions run in an order that every process gives them.
class SiteCollector {
public:
  explicit SiteCollector(const plan::Plan &plan) : plan(plan) {}

  std::vector<Site> run() {
    for (const plan::Program &program : plan.programs())
      collect(program.body(), nullptr);
    for (const plan::StageText &text : plan.stage_texts())
      for (const plan::StageProgram &program : text.programs())
        collect(program.body(), nullptr);
    return std::move(sites);
  }

private:
  void collect(const plan::InstructionList &body, const plan::Call *call) {
    for (const plan::Instruction &instruction : body) {
      sites.push_back({&instruction, call});
      collect(instruction.repeat().body(), call);
      collect(instruction.predicate().body(), call);
      // A function that is called in several places makes its own calls once.
      if (instruction.has_call() && calls.insert(&instruction.call()).second)
        collect(plan.functions(static_cast<int>(instruction.call().function())).body(), &instruction.call());
    }
  }

  const plan::Plan &plan;
  std::vector<Site> sites;
  std::set<const plan::Call *> calls;
};

struct SiteHash {
  size_t operator()(const std::pair<const plan::Instruction *, const plan::Call *> &site) const {
    return std::hash<const void *>()(site.first) * 31 + std::hash<const void *>()(site.second);
  }
};

/// Which machine's clock a process reads.
std::string clockName() {
  std::string name;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> name;
  return name.substr(0, 63);
}

struct Header {
  char clock[64] = {};
  int64_t start = 0;
};

std::string kernelOf(const plan::Plan &plan, const plan::Instruction &instruction) {
  if (instruction.has_launch())
    return plan.kernels(static_cast<int>(instruction.launch().kernel())).symbol();
  return instruction.has_library() ? instruction.library().routine() : std::string();
}

/// A text of the instruction's names in one of its places.
std::string fill(const std::string &text, const Site &site) {
  return site.call ? plan::fillNames(text, site.call->names()) : text;
}

std::vector<std::string> operatorsOf(const Site &site) {
  std::vector<std::string> names;
  for (const std::string &name : site.instruction->operators())
    if (std::string filled = fill(name, site); !filled.empty())
      names.push_back(std::move(filled));
  return names;
}

/// Bytes that an instruction reads and writes in its rank's memory.
uint64_t bytesTouched(const plan::Instruction &instruction) {
  uint64_t bytes = 0;
  for (const plan::BufferRef &buffer : instruction.launch().buffers())
    bytes += buffer.bytes();
  for (const plan::BufferRef &buffer : instruction.library().buffers())
    bytes += buffer.bytes();
  bytes += instruction.copy().dst().bytes() * (instruction.copy().has_buffer() ? 2 : 1);
  bytes += instruction.collective().src().bytes() + instruction.collective().dst().bytes();
  return bytes + instruction.send().src().bytes() + instruction.recv().dst().bytes();
}

std::string jsonText(const json &value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string microseconds(int64_t nanoseconds) {
  char text[40];
  std::snprintf(text, sizeof text, "%lld.%03d", static_cast<long long>(nanoseconds / 1000),
                static_cast<int>(nanoseconds % 1000));
  return text;
}

} // namespace

std::string nameOf(const plan::Plan &plan, const Site &site) {
  const plan::Instruction &instruction = *site.instruction;
  std::string name;
  if (const std::vector<std::string> operators = operatorsOf(site); !operators.empty()) {
    name = operators.front();
    if (operators.size() > 1)
      name += " + " + std::to_string(operators.size() - 1) + " more";
  } else if (!instruction.source().empty()) { // plans of before have that only
    name = fill(instruction.source().substr(0, instruction.source().find(',')), site);
  }
  if (instruction.has_collective()) {
    const std::string kind = plan::collectiveName(instruction.collective().kind());
    return name.empty() ? kind : name + " (" + kind + ")";
  }
  if (!name.empty())
    return instruction.has_send() ? name + " (send)" : instruction.has_recv() ? name + " (receive)" : name;
  const std::string kernel = kernelOf(plan, instruction);
  return kernel.empty() ? instructionKind(instruction) : kernel;
}

void Trace::beginRun(uint32_t run) {
  current = run;
  if (spans.size() <= limit)
    return;
  const uint32_t oldest = spans[spans.size() / 2].run;
  spans.erase(spans.begin(),
              std::find_if(spans.begin(), spans.end(), [&](const Span &span) { return span.run > oldest; }));
}

std::string Timeline::pack(const plan::Plan &plan, const Trace *const *queues, size_t count, int64_t start) {
  std::unordered_map<std::pair<const plan::Instruction *, const plan::Call *>, uint32_t, SiteHash> index;
  for (const Site &site : SiteCollector(plan).run())
    index.emplace(std::pair(site.instruction, site.call), static_cast<uint32_t>(index.size()));
  Header header;
  const std::string clock = clockName();
  std::memcpy(header.clock, clock.data(), clock.size());
  header.start = start;
  std::string bytes(reinterpret_cast<const char *>(&header), sizeof header);
  for (uint32_t queue = 0; queue < count; ++queue)
    for (const Trace::Span &span : queues[queue]->recorded()) {
      const Packed packed = {
          index.at({span.instruction, span.call}), span.run, span.peer, queue, span.begin, span.end};
      bytes.append(reinterpret_cast<const char *>(&packed), sizeof packed);
    }
  return bytes;
}

Status Timeline::unpack(const plan::Plan &plan, const std::vector<std::string> &ranks, Timeline &timeline) {
  timeline.plan = &plan;
  timeline.sites = SiteCollector(plan).run();
  timeline.spans.assign(ranks.size(), {});
  std::vector<Header> headers(ranks.size());
  bool oneClock = true;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].size() < sizeof(Header))
      return {plan::Code::Internal, "rank " + std::to_string(rank) + " has sent no trace"};
    std::memcpy(&headers[rank], ranks[rank].data(), sizeof(Header));
    oneClock &= std::memcmp(headers[rank].clock, headers[0].clock, sizeof headers[0].clock) == 0;
  }
  int64_t first = INT64_MAX;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    // Clocks of several machines are brought together where all ranks left a barrier.
    const int64_t zero = oneClock ? 0 : headers[rank].start;
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> times;
    for (size_t at = sizeof(Header); at + sizeof(Packed) <= ranks[rank].size(); at += sizeof(Packed)) {
      Packed packed;
      std::memcpy(&packed, ranks[rank].data() + at, sizeof packed);
      if (packed.site >= timeline.sites.size())
        return {plan::Code::Internal, "a trace of another plan"};
      timeline.spans[rank].push_back({packed.site, packed.run, times[{packed.run, packed.site}]++,
                                      packed.peer, packed.queue, packed.begin - zero, packed.end - zero,
                                      packed.begin - zero, static_cast<uint32_t>(rank)});
      first = std::min(first, packed.begin - zero);
    }
  }
  for (std::vector<Span> &own : timeline.spans)
    for (Span &span : own)
      span.begin -= first, span.end -= first, span.arrived -= first;
  timeline.arrive();
  return {};
}

/// Finds who took part in each collective and message, and when the last of them came.
void Timeline::arrive() {
  const std::vector<plan::StageView> stages = plan::stagesOf(*plan);
  // Run, site, occurrence, and the group's first member, or the message's two ends.
  using Key = std::array<uint32_t, 5>;
  std::map<Key, std::pair<int64_t, uint32_t>> latest;       // when, and who
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> groups; // site and rank to the first member
  auto keyOf = [&](const Span &span, uint32_t rank) {
    auto [group, isNew] = groups.try_emplace({span.site, rank}, rank);
    if (isNew) {
      const plan::Collective &collective = sites[span.site].instruction->collective();
      group->second =
          plan::stageOf(stages, rank).members({collective.axes().begin(), collective.axes().end()}, rank)[0];
    }
    return Key{span.run, span.site, span.occurrence, group->second, 0};
  };
  // The n-th receive of a tag from a sender takes its n-th message.
  std::map<Key, uint32_t> sentSoFar, receivedSoFar;
  std::map<Key, std::pair<int64_t, uint32_t>> sent;
  for (uint32_t rank = 0; rank < spans.size(); ++rank)
    for (const Span &span : spans[rank]) {
      const plan::Instruction &instruction = *sites[span.site].instruction;
      if (instruction.has_collective()) {
        auto [entry, isNew] = latest.try_emplace(keyOf(span, rank), span.begin, rank);
        if (!isNew)
          entry->second = std::max(entry->second, std::pair(span.begin, rank));
      } else if (instruction.has_send() && span.peer >= 0) {
        Key channel = {span.run, rank, static_cast<uint32_t>(span.peer), instruction.send().tag(), 0};
        const uint32_t number = sentSoFar[channel]++;
        channel[4] = number;
        sent[channel] = {span.end, rank};
      }
    }
  for (uint32_t rank = 0; rank < spans.size(); ++rank)
    for (Span &span : spans[rank]) {
      const plan::Instruction &instruction = *sites[span.site].instruction;
      std::pair<int64_t, uint32_t> last = {span.begin, rank};
      if (instruction.has_collective()) {
        last = latest.at(keyOf(span, rank));
      } else if (instruction.has_recv() && span.peer >= 0) {
        Key channel = {span.run, static_cast<uint32_t>(span.peer), rank, instruction.recv().tag(), 0};
        const uint32_t number = receivedSoFar[channel]++;
        channel[4] = number;
        if (auto found = sent.find(channel); found != sent.end())
          last = {std::max(span.begin, found->second.first), found->second.second};
      }
      // Not every member of a collective needs all others: one that ended before the last came did not wait.
      span.arrived = std::min(last.first, span.end);
      span.last = last.first <= span.end ? last.second : rank;
    }
}

namespace {
constexpr uint32_t runTrack = plan::queueCount;

/// Trace events as text. Processes are ranks, their tracks queues.
class EventWriter {
public:
  void nameTracks(uint32_t rank, const std::string &stage) {
    add("\"ph\":\"M\",\"name\":\"process_name\"," + process(rank) +
        ",\"args\":{\"name\":" + jsonText("rank " + std::to_string(rank) + stage) + "}");
    const char *names[] = {"compute", "communicate", "messages", "runs"};
    for (uint32_t queue = 0; queue <= runTrack; ++queue)
      add("\"ph\":\"M\",\"name\":\"thread_name\"," + track(rank, queue) + ",\"args\":{\"name\":\"" +
          names[queue] + "\"}");
  }
  /// `head`: its name and category; `arguments`: an object.
  void slice(uint32_t rank, uint32_t queue, const std::string &head, int64_t begin, int64_t end,
             const std::string &arguments) {
    add("\"ph\":\"X\"," + head + "," + track(rank, queue) + ",\"ts\":" + microseconds(begin) +
        ",\"dur\":" + microseconds(end - begin) + ",\"args\":" + arguments);
  }
  void arrow(uint32_t from, uint32_t to, uint32_t queue, int64_t time) {
    const std::string id = "\"name\":\"data\",\"cat\":\"flow\",\"id\":" + std::to_string(++arrows);
    add("\"ph\":\"s\"," + id + "," + track(from, queue) + ",\"ts\":" + microseconds(time));
    add("\"ph\":\"f\",\"bp\":\"e\"," + id + "," + track(to, queue) + ",\"ts\":" + microseconds(time));
  }
  std::string finish() { return std::move(text) + "\n]}\n"; }

private:
  static std::string process(uint32_t rank) { return "\"pid\":" + std::to_string(rank); }
  static std::string track(uint32_t rank, uint32_t queue) {
    return process(rank) + ",\"tid\":" + std::to_string(queue);
  }
  void add(const std::string &body) {
    text += (first ? "{" : ",\n{") + body + "}";
    first = false;
  }

  std::string text = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  bool first = true;
  uint64_t arrows = 0;
};

/// What all slices of an instruction say: name and category, and the beginning of their arguments' object.
struct Described {
  std::string head, arguments;
};

Described describe(const plan::Plan &plan, const Site &site) {
  const plan::Instruction &instruction = *site.instruction;
  json arguments = {{"from", fill(instruction.source(), site)}, {"bytes", bytesTouched(instruction)}};
  arguments["operators"] = json(operatorsOf(site));
  if (std::string kernel = kernelOf(plan, instruction); !kernel.empty())
    arguments["kernel"] = kernel;
  if (instruction.predicted_seconds() > 0)
    arguments["predicted_us"] = instruction.predicted_seconds() * 1e6;
  Described described = {"\"name\":" + jsonText(nameOf(plan, site)) +
                             ",\"cat\":" + jsonText(instructionKind(instruction)),
                         jsonText(arguments)};
  described.arguments.pop_back(); // more follows
  return described;
}

std::string describeTraffic(const plan::StageView &stage, const plan::Collective &collective, uint32_t rank) {
  constexpr int64_t zeros[plan::maxValues] = {};
  uint64_t bytes = 0;
  (void)plan::sentBytes(stage, collective, rank, zeros, bytes);
  return ",\"axes\":" +
         jsonText(plan::axisNames(*stage.mesh, {collective.axes().begin(), collective.axes().end()})) +
         ",\"sent_bytes\":" + std::to_string(bytes);
}

/// The slice of a span, and inside it how it waited and moved. `traffic`: what a collective says besides.
void writeSpan(EventWriter &writer, uint32_t rank, const Timeline::Span &span, const Described &described,
               const std::string &traffic, bool waits) {
  std::string arguments = described.arguments + ",\"run\":" + std::to_string(span.run) + traffic;
  if (waits)
    arguments += ",\"waited_us\":" + microseconds(span.arrived - span.begin) +
                 ",\"moved_us\":" + microseconds(span.end - span.arrived);
  if (span.peer >= 0)
    arguments += ",\"peer\":" + std::to_string(span.peer);
  writer.slice(rank, span.queue, described.head, span.begin, span.end, arguments + "}");
  if (!waits)
    return;
  if (span.arrived > span.begin)
    writer.slice(rank, span.queue,
                 "\"name\":\"wait for rank " + std::to_string(span.last) + "\",\"cat\":\"wait\"", span.begin,
                 span.arrived, "{}");
  writer.slice(rank, span.queue, "\"name\":\"move\",\"cat\":\"move\"", span.arrived, span.end, "{}");
  if (span.last != rank)
    writer.arrow(span.last, rank, span.queue, span.arrived);
}
} // namespace

std::string Timeline::events() const {
  EventWriter writer;
  std::unordered_map<uint32_t, Described> described; // by instruction
  const std::vector<plan::StageView> stages = plan::stagesOf(*plan);
  for (uint32_t rank = 0; rank < spans.size(); ++rank) {
    const plan::StageView &stage = plan::stageOf(stages, rank);
    writer.nameTracks(rank, stage.suffix());
    std::map<uint32_t, std::pair<int64_t, int64_t>> runs;
    std::unordered_map<uint32_t, std::string> traffic; // by site
    for (const Span &span : spans[rank]) {
      const plan::Instruction &instruction = *sites[span.site].instruction;
      auto [text, isNew] = described.try_emplace(span.site);
      if (isNew)
        text->second = describe(*plan, sites[span.site]);
      auto [sent, isFirst] = traffic.try_emplace(span.site);
      if (isFirst && instruction.has_collective())
        sent->second = describeTraffic(stage, instruction.collective(), rank);
      writeSpan(writer, rank, span, text->second, sent->second,
                instruction.has_collective() || instruction.has_recv());
      auto [run, isRunsFirst] = runs.try_emplace(span.run, span.begin, span.end);
      run->second = {std::min(run->second.first, span.begin), std::max(run->second.second, span.end)};
    }
    for (const auto &[run, time] : runs)
      writer.slice(rank, runTrack, "\"name\":\"run " + std::to_string(run) + "\",\"cat\":\"run\"", time.first,
                   time.second, "{\"run\":" + std::to_string(run) + "}");
  }
  return writer.finish();
}

std::vector<Timeline::Row> Timeline::profile() const {
  std::vector<Row> rows(sites.size());
  std::vector<uint32_t> runs;
  for (const std::vector<Span> &own : spans)
    for (const Span &span : own) {
      Row &row = rows[span.site];
      row.executions += 1;
      row.waiting += static_cast<double>(span.arrived - span.begin) * 1e-9;
      row.seconds += static_cast<double>(span.end - span.arrived) * 1e-9;
      if (runs.empty() || runs.back() != span.run)
        runs.push_back(span.run);
    }
  std::sort(runs.begin(), runs.end());
  const auto count = static_cast<double>(std::unique(runs.begin(), runs.end()) - runs.begin());
  const double samples = count * static_cast<double>(spans.size());
  std::vector<Row> ran;
  for (size_t i = 0; i < rows.size(); ++i) {
    Row &row = rows[i];
    if (row.executions == 0)
      continue;
    row.kind = instructionKind(*sites[i].instruction);
    row.name = nameOf(*plan, sites[i]);
    row.kernel = kernelOf(*plan, *sites[i].instruction);
    row.executions /= samples, row.seconds /= samples, row.waiting /= samples;
    row.predicted = sites[i].instruction->predicted_seconds() * row.executions;
    ran.push_back(std::move(row));
  }
  std::stable_sort(ran.begin(), ran.end(), [](const Row &a, const Row &b) { return a.seconds > b.seconds; });
  return ran;
}

} // namespace colossal::runtime

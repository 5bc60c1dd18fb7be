// The list of synonyms.
#include "Synonyms.h"

#include <algorithm>
#include <cctype>

namespace colossal::cost {

namespace {

bool names(const std::string &text, const char *part) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower.find(part) != std::string::npos;
}

} // namespace

const std::vector<Synonym> &synonyms() {
  // Fully sharded data parallelism: shards in f32, gathered in 16 bits; a step's sequences are cut into as
  // many microbatches as there are stages.
  static const Cells fullySharded = {{"zero", "3"},
                                     {"precision", "bf16"},
                                     {"recompute", "none"},
                                     {"bucketed", "1"},
                                     {"sequence_parallel", "1"},
                                     {"state", "f32"},
                                     {"interleave", "2"},
                                     {"micro_batch", "local_batch / pp"}};
  // Pipelines without recompute whose embedding and head count as a layer each (Qi et al., 2023).
  static const Cells pipelineOnly = {
      {"recompute", "none"}, {"balance", "ends"}, {"interleave", "layers of a stage"}};
  static const std::vector<Synonym> table = {
      {"size_B", {{"question", "all_reduce"}}},
      {"act_ckpt",
       {},
       [](const std::string &value, std::string &) -> Cells { return {{"recompute", value}}; }},
      {"pp_gpus", pipelineOnly,
       [](const std::string &value, std::string &) -> Cells { return {{"pp", value}}; }},
      {"bubble_rate", pipelineOnly},
      {"fsdp", fullySharded,
       [](const std::string &value, std::string &) -> Cells { return {{"dp", value}}; }},
      {"technique", fullySharded,
       [](const std::string &value, std::string &) {
         Cells cells;
         if (names(value, "compile"))
           cells.push_back({"framework", "compiled"});
         if (names(value, "fp8"))
           cells.push_back({"precision", "fp8"});
         if (names(value, "asynctp"))
           cells.push_back({"async_tensor", "1"});
         return cells;
       }},
      {"scheme",
       {},
       [](const std::string &value, std::string &error) -> Cells {
         if (names(value, "zero"))
           return {{"zero", "3"}, {"tp", "1"}, {"pp", "1"}};
         if (!names(value, "ptd"))
           error = "must name ZeRO-3 or PTD";
         return {};
       }},
      {"setting",
       {{"question", "layer"}, {"model", "gpt 22b"}, {"tp", "8"}, {"micro_batch", "4"}},
       [](const std::string &value, std::string &error) {
         Cells cells;
         if (names(value, "sequence"))
           cells.push_back({"sequence_parallel", "1"});
         const bool none = names(value, "no recompute");
         cells.push_back({"recompute", !none && names(value, "full")        ? "full"
                                       : !none && names(value, "selective") ? "selective"
                                                                            : "none"});
         if (!names(value, "baseline") && !names(value, "recompute") && !names(value, "sequence"))
           error = "must name baseline, sequence parallel, selective or full recompute";
         return cells;
       }},
      {"kind",
       {{"question", "stage_memory"}, {"seq", "2048"}},
       [](const std::string &value, std::string &) -> Cells {
         return {{"unit", names(value, "pct") ? "percent" : "GiB"}};
       }},
      {"method", {{"question", "best_step"}}},
      {"plan", {{"question", "best_step"}}},
  };
  return table;
}

} // namespace colossal::cost

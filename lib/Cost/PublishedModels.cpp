// The list.
#include "colossal/Cost/PublishedModels.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <vector>

namespace colossal::cost {

namespace {

struct Entry {
  Suite suite;
  std::string family, name;
  double parametersB;
  ModelDimensions model;
};

ModelDimensions gpt(double layers, double hidden, double heads, double sequence, double vocabulary = 51200) {
  ModelDimensions model;
  model.layers = layers;
  model.hidden = hidden;
  model.heads = heads;
  model.sequence = sequence;
  model.vocabulary = vocabulary;
  return model;
}

ModelDimensions llama(double layers, double hidden, double heads, double feedForward) {
  ModelDimensions model = gpt(layers, hidden, heads, 8192, 128256);
  model.keyValueHeads = 8;
  model.feedForward = feedForward;
  model.gated = model.fusedAttention = true;
  model.tiedEmbedding = false;
  return model;
}

ModelDimensions experts(double layers, double hidden, double count) {
  ModelDimensions model = gpt(layers, hidden, 16, 1024, 32000);
  model.experts = count;
  model.feedForward = 8 * hidden;
  return model;
}

const std::vector<Entry> &entries() {
  // Narayanan et al., 2021, table 1; Korthikanti et al., 2022, table 3; Qi et al., 2023, table 2; Zheng et
  // al., 2022, tables 5 to 7; Llama team, 2024, table 3.
  static const std::vector<Entry> table = {
      {Suite::Megatron, "gpt", "1.7b", 1.7, gpt(24, 2304, 24, 2048)},
      {Suite::Megatron, "gpt", "3.6b", 3.6, gpt(30, 3072, 32, 2048)},
      {Suite::Megatron, "gpt", "7.5b", 7.5, gpt(36, 4096, 32, 2048)},
      {Suite::Megatron, "gpt", "18.4b", 18.4, gpt(40, 6144, 48, 2048)},
      {Suite::Megatron, "gpt", "22b", 22, gpt(48, 6144, 64, 2048)},
      {Suite::Megatron, "gpt", "39.1b", 39.1, gpt(48, 8192, 64, 2048)},
      {Suite::Megatron, "gpt", "76.1b", 76.1, gpt(60, 10240, 80, 2048)},
      {Suite::Megatron, "gpt", "145.6b", 145.6, gpt(80, 12288, 96, 2048)},
      {Suite::Megatron, "gpt", "175b", 174.6, gpt(96, 12288, 96, 2048)},
      {Suite::Megatron, "gpt", "310.1b", 310.1, gpt(96, 16384, 128, 2048)},
      {Suite::Megatron, "gpt", "530b", 529.6, gpt(105, 20480, 128, 2048)},
      {Suite::Megatron, "gpt", "1t", 1008, gpt(128, 25600, 160, 2048)},
      {Suite::ZeroBubble, "gpt", "1.5b", 1.5, gpt(22, 2304, 24, 1024)},
      {Suite::ZeroBubble, "gpt", "6.2b", 6.2, gpt(30, 4096, 32, 1024)},
      {Suite::ZeroBubble, "gpt", "14.6b", 14.6, gpt(46, 5120, 40, 1024)},
      {Suite::ZeroBubble, "gpt", "28.3b", 28.3, gpt(62, 6144, 48, 1024)},
      {Suite::Llama, "llama", "llama3.1-8b", 8.03, llama(32, 4096, 32, 14336)},
      {Suite::Llama, "llama", "llama3.1-70b", 70.6, llama(80, 8192, 64, 28672)},
      {Suite::Llama, "llama", "llama3.1-405b", 405.9, llama(126, 16384, 128, 53248)},
      {Suite::Alpa, "gpt", "350m", 0.355, gpt(24, 1024, 16, 1024)},
      {Suite::Alpa, "gpt", "760m", 0.76, gpt(24, 1536, 16, 1024)},
      {Suite::Alpa, "gpt", "1.3b", 1.313, gpt(24, 2048, 32, 1024)},
      {Suite::Alpa, "gpt", "2.6b", 2.649, gpt(32, 2560, 32, 1024)},
      {Suite::Alpa, "gpt", "6.7b", 6.654, gpt(32, 4096, 32, 1024)},
      {Suite::Alpa, "gpt", "15b", 15.3, gpt(48, 5120, 40, 1024)},
      {Suite::Alpa, "gpt", "39b", 39.08, gpt(48, 8192, 64, 1024)},
      {Suite::Alpa, "moe", "380m", 0.3835, experts(8, 768, 8)},
      {Suite::Alpa, "moe", "690m", 0.6857, experts(8, 768, 16)},
      {Suite::Alpa, "moe", "1.3b", 1.3468, experts(16, 768, 16)},
      {Suite::Alpa, "moe", "2.4b", 2.383, experts(16, 1024, 16)},
      {Suite::Alpa, "moe", "10b", 10.17, experts(16, 1536, 32)},
      {Suite::Alpa, "moe", "27b", 26.65, experts(16, 2048, 48)},
      {Suite::Alpa, "moe", "70b", 70.42, experts(32, 2048, 64)},
  };
  return table;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

bool of(const Entry &entry, Suite suite) {
  return suite == Suite::Any || entry.suite == suite;
}

} // namespace

const ModelDimensions *publishedModel(Suite suite, std::string_view name) {
  std::string wanted = lower(name);
  for (const Entry &entry : entries())
    if (of(entry, suite) && (entry.name == wanted || entry.family + " " + entry.name == wanted))
      return &entry.model;
  return nullptr;
}

const ModelDimensions *publishedModel(Suite suite, std::string_view family, double parametersB) {
  const Entry *best = nullptr;
  auto distance = [&](const Entry &entry) { return std::abs(std::log(entry.parametersB / parametersB)); };
  for (const Entry &entry : entries())
    if (of(entry, suite) && entry.family == family && parametersB > 0 && distance(entry) < 0.05 &&
        (!best || distance(entry) < distance(*best)))
      best = &entry;
  return best ? &best->model : nullptr;
}

std::string publishedModelNames() {
  std::string all;
  for (const Entry &entry : entries())
    all += (all.empty() ? "" : ", ") +
           (entry.suite == Suite::Llama ? entry.name : entry.family + " " + entry.name);
  return all;
}

} // namespace colossal::cost

#include "runtime/io/OnnxReaders.h"

#include "runtime/io/WireFields.h"

#include <algorithm>
#include <charconv>

namespace colossal::runtime {

using namespace wire;

namespace {

/// The inputs of a BatchNormalization from which on they are statistics.
constexpr size_t firstStatistic = 3;

/// Whether a node only moves what its first input holds.
bool isMovement(const std::string &kind) {
  static const std::set<std::string> kinds = {"Cast",  "Expand",  "Flatten",   "Identity", "Reshape",
                                              "Slice", "Squeeze", "Transpose", "Unsqueeze"};
  return kinds.count(kind) > 0;
}

/// Appends a NodeProto to `to`, with its `inputs` of these numbers renamed, and `suffix` behind the names of
/// itself and of its outputs.
void rename(std::string_view text, const std::map<size_t, std::string> &inputs, const std::string &suffix,
            std::string &to) {
  size_t input = 0;
  for (Field field; !text.empty() && readField(text, field);) {
    const bool isNamed = field.number == 2 || field.number == 3; // an output, or the node
    if (field.number == 1) {
      const auto found = inputs.find(input++);
      putField(1, found == inputs.end() ? field.payload : std::string_view(found->second), to);
    } else if (isNamed && !suffix.empty()) {
      putField(field.number, std::string(field.payload) + suffix, to);
    } else {
      to += field.raw;
    }
  }
}

/// NAME@NODE:PLACE of a concatenation's other places.
std::pair<std::string, size_t> splitPlace(const std::string &node) {
  const auto colon = node.rfind(':');
  size_t place = 0;
  if (colon == std::string::npos ||
      std::from_chars(node.data() + colon + 1, node.data() + node.size(), place).ptr !=
          node.data() + node.size())
    return {node, 0};
  return {node.substr(0, colon), place};
}

/// Appends a message to `to`, with `name` as its field `number`.
std::string copyNamed(std::string_view text, uint32_t number, const std::string &name) {
  std::string to;
  for (Field field; !text.empty() && readField(text, field);)
    if (field.number != number)
      to += field.raw;
  putField(number, name, to);
  return to;
}

} // namespace

Status damagedModel() {
  return {Code::InvalidArgument, "it is no ONNX model, or damaged"};
}

Status OnnxReaders::find(std::string_view graph) {
  COLOSSAL_RETURN_IF_ERROR(survey(graph));
  std::set<std::pair<std::string, bool>> families;
  for (const auto &[name, value] : values)
    if (!value.beside.empty() && families.emplace(value.beside, value.isStatistic).second)
      COLOSSAL_RETURN_IF_ERROR(findReaders(value.beside, value.isStatistic));
  for (const auto &[name, value] : values)
    if (value.beside.empty() && !value.isStatistic)
      COLOSSAL_RETURN_IF_ERROR(keepStatistics(name));
  return {};
}

Status OnnxReaders::keepStatistics(const std::string &of) {
  const auto isState = [&](size_t node, size_t input) {
    const auto known = redirected.find(node);
    return known != redirected.end() && known->second.count(input) > 0;
  };
  for (size_t n = 0; n < nodes.size(); ++n)
    for (size_t i = firstStatistic; nodes[n].kind == "BatchNormalization" && i < nodes[n].inputs.size(); ++i)
      if (std::vector<size_t> path; !isState(n, i) && trace(nodes[n].inputs[i], of, path)) {
        if (initializers.count(of) == 0)
          return {Code::Unsupported, "'" + of +
                                         "' is trained, and a statistic of a batch normalization, and no "
                                         "initializer: write --safetensors"};
        const std::string name = of + "@statistic";
        statistics[name] = of;
        redirected[n][i] = name;
      }
  return {};
}

const std::string &OnnxReaders::besideOf(const std::string &name) const {
  const auto kept = statistics.find(name);
  return kept == statistics.end() ? values.at(name).beside : kept->second;
}

Status OnnxReaders::survey(std::string_view graph) {
  const auto nameIn = [](std::string_view message, uint32_t number) -> std::string {
    for (Field field; !message.empty() && readField(message, field);)
      if (field.number == number && field.isLengthDelimited())
        return std::string(field.payload);
    return "";
  };
  for (Field field; !graph.empty();) {
    if (!readField(graph, field))
      return damagedModel();
    if (!field.isLengthDelimited())
      continue;
    if (field.number == 5)
      initializers[nameIn(field.payload, 8)] = field.payload;
    if (field.number == 11)
      inputs[nameIn(field.payload, 1)] = field.payload;
    if (field.number != 1)
      continue;
    Node read;
    read.text = field.payload;
    std::string_view rest = field.payload;
    for (Field part; !rest.empty();) {
      if (!readField(rest, part))
        return damagedModel();
      if (part.number == 1)
        read.inputs.emplace_back(part.payload);
      if (part.number == 2)
        read.outputs.emplace_back(part.payload);
      if (part.number == 3)
        read.name = part.payload;
      if (part.number == 4)
        read.kind = part.payload;
    }
    for (const std::string &output : read.outputs)
      producers[output] = nodes.size();
    nodes.push_back(std::move(read));
  }
  return {};
}

bool OnnxReaders::trace(const std::string &input, const std::string &of, std::vector<size_t> &path) const {
  std::string at = input;
  while (at != of) {
    const auto producer = producers.find(at);
    if (producer == producers.end() || !isMovement(nodes[producer->second].kind) ||
        nodes[producer->second].inputs.empty() || path.size() > nodes.size())
      return false;
    path.insert(path.begin(), producer->second);
    at = nodes[producer->second].inputs[0];
  }
  return true;
}

int OnnxReaders::distance(size_t from, size_t to, int most) const {
  std::set<size_t> reached = {to};
  for (int steps = 0; steps <= most; ++steps) {
    if (reached.count(from) > 0)
      return steps;
    std::set<size_t> next;
    for (size_t n : reached)
      for (const std::string &input : nodes[n].inputs)
        if (const auto producer = producers.find(input); producer != producers.end())
          next.insert(producer->second);
    reached = std::move(next);
  }
  return -1;
}

int OnnxReaders::findReader(const std::string &called, const std::vector<Reader> &readers,
                            size_t place) const {
  // Of what is computed as one operation the first node has given the name: what it reads is read by that
  // node, or near behind it, or near before it.
  constexpr int longestPattern = 12;
  const auto named = std::find_if(nodes.begin(), nodes.end(), [&](const Node &node) {
    return node.name == called ||
           (node.name.empty() && !node.outputs.empty() && node.kind + ":" + node.outputs[0] == called);
  });
  if (named == nodes.end())
    return -1;
  const auto at = static_cast<size_t>(named - nodes.begin());
  for (size_t r = 0; r < readers.size(); ++r)
    if (readers[r].node == at && readers[r].place == place)
      return static_cast<int>(r);
  for (bool isBehind : {true, false}) {
    int nearest = -1, least = longestPattern + 1;
    bool isOnly = true;
    for (size_t r = 0; r < readers.size(); ++r) {
      const int steps =
          readers[r].state.empty() && readers[r].place == place
              ? distance(isBehind ? at : readers[r].node, isBehind ? readers[r].node : at, longestPattern)
              : -1;
      if (steps < 0 || steps > least)
        continue;
      isOnly = steps < least;
      least = steps;
      nearest = static_cast<int>(r);
    }
    if (nearest >= 0)
      return isOnly ? nearest : -1;
  }
  return -1;
}

Status OnnxReaders::findReaders(const std::string &of, bool isStatistic) {
  std::vector<Reader> readers;
  for (size_t n = 0; n < nodes.size(); ++n) {
    Reader reader{n, 0, {}, ""};
    for (size_t i = 0; !isMovement(nodes[n].kind) && i < nodes[n].inputs.size(); ++i)
      if (std::vector<size_t> path;
          !nodes[n].inputs[i].empty() && trace(nodes[n].inputs[i], of, path) &&
          (nodes[n].kind == "BatchNormalization" && i >= firstStatistic) == isStatistic)
        reader.inputs.push_back(i);
    if (nodes[n].kind == "Concat") {
      for (size_t place = 0; place < reader.inputs.size(); ++place)
        readers.push_back({n, place, {reader.inputs[place]}, ""});
    } else if (!reader.inputs.empty()) {
      readers.push_back(std::move(reader));
    }
  }
  // Those that are called after the very node first, as the others take what is left.
  size_t states = 0, found = 0;
  for (bool isExact : {true, false})
    for (const auto &[name, value] : values) {
      if (value.isStatistic != isStatistic || (name != of && value.beside != of))
        continue;
      states += isExact;
      if (value.beside.empty() || names.count(name) > 0)
        continue;
      int reader = findReader(value.node, readers);
      if (const size_t dot = value.node.rfind('.'); reader < 0 && isStatistic && dot != std::string::npos)
        reader = findReader(value.node.substr(0, dot), readers); // NAME@NODE.mean
      if (const auto [node, place] = splitPlace(value.node); reader < 0 && place > 0)
        reader = findReader(node, readers, place);
      if (reader < 0 || !readers[static_cast<size_t>(reader)].state.empty())
        continue;
      Reader &taken = readers[static_cast<size_t>(reader)];
      const Node &node = nodes[taken.node];
      const std::string &after = value.node;
      const bool isVery = node.name.empty() ? node.kind + ":" + node.outputs.at(0) == after
                                            : after.compare(0, node.name.size(), node.name) == 0;
      if (isExact && !isVery)
        continue;
      taken.state = name;
      for (size_t i : taken.inputs)
        redirected[taken.node][i] = name;
      names.insert(name);
      ++found;
    }
  // The value that kept the name is read by the one that is left.
  const bool keepsOne = values.count(of) > 0 && values.at(of).isStatistic == isStatistic;
  if (found + keepsOne == states && readers.size() == states)
    return {};
  return {Code::Unsupported,
          "it has '" + of +
              "' once for several nodes, each has trained its own, and not all of them are found in its main "
              "graph: write --safetensors, or compile with --tie '" +
              of + "' to train it as one"};
}

std::string OnnxReaders::redirect(size_t node, std::string &before) {
  const Node &reader = nodes[node];
  std::map<size_t, std::string> renamed;
  for (const auto &[i, name] : redirected[node]) {
    std::vector<size_t> path;
    trace(reader.inputs[i], besideOf(name), path);
    std::string at = name;
    for (size_t n : path) {
      const std::string suffix = "@" + name, output = nodes[n].outputs[0] + suffix;
      if (moved.insert(output).second) {
        std::string copy;
        rename(nodes[n].text, {{0, at}}, suffix, copy);
        putField(1, copy, before);
      }
      at = output;
    }
    renamed[i] = at;
  }
  std::string changed;
  rename(reader.text, renamed, "", changed);
  return changed;
}

std::string OnnxReaders::initializerBeside(const std::string &name) const {
  const auto found = initializers.find(besideOf(name));
  return found == initializers.end() ? "" : copyNamed(found->second, 8, name);
}

std::string OnnxReaders::inputBeside(const std::string &name) const {
  const auto found = inputs.find(besideOf(name));
  return found == inputs.end() ? "" : copyNamed(found->second, 1, name);
}

} // namespace colossal::runtime

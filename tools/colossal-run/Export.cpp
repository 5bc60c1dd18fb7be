// colossal-run export: what a checkpoint's parameters have become, as a model.
#include "Commands.h"

#include "colossal/Plan/OutputFile.h"
#include "runtime/io/ExternalData.h"
#include "runtime/io/OnnxRewrite.h"
#include "runtime/training/Checkpoint.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <unistd.h>

namespace colossal::runtime {

namespace {

constexpr const char *closing =
    "Examples:\n"
    "  colossal-run export ckpt --onnx trained.onnx\n"
    "  colossal-run export ckpt/step-00000100 --safetensors trained.safetensors\n\n"
    "A plan that was compiled from the same model for inference runs with --weights "
    "trained.safetensors.";

/// A matrix with its dimensions exchanged.
NewTensor transpose(const NewTensor &matrix) {
  NewTensor result = matrix;
  std::swap(result.shape[0], result.shape[1]);
  result.read = [matrix](uint64_t first, uint64_t count, std::byte *elements) -> Status {
    const uint64_t rows = matrix.shape[0], columns = matrix.shape[1], width = plan::elementBytes(matrix.type);
    std::vector<std::byte> row(columns * width);
    for (uint64_t r = 0; r < rows; ++r) {
      // Element (r, c) is number c * rows + r of the result.
      auto firstColumn = [&](uint64_t number) { return number > r ? (number - r + rows - 1) / rows : 0; };
      const uint64_t begin = firstColumn(first), end = std::min(columns, firstColumn(first + count));
      if (begin >= end)
        continue;
      COLOSSAL_RETURN_IF_ERROR(matrix.read(r * columns + begin, end - begin, row.data()));
      for (uint64_t c = begin; c < end; ++c)
        std::memcpy(elements + (c * rows + r - first) * width, row.data() + (c - begin) * width, width);
    }
    return {};
  };
  return result;
}

/// What becomes a tensor of the model's file: the states but the slots, under each name that they have there;
/// those that are apart from the one of that name (NAME@NODE) under their own.
std::map<std::string, NewTensor> exported(const Checkpoint &checkpoint) {
  std::map<std::string, NewTensor> values;
  for (size_t s = 0; s < checkpoint.states().size(); ++s) {
    const Checkpoint::Saved &state = checkpoint.states()[s];
    if (state.description.kind() == plan::State::SLOT)
      continue;
    NewTensor value;
    // The model's file has one tensor for several nodes, each of which has trained its own.
    if (state.description.name() != state.description.parameter()) {
      value.beside = state.description.parameter();
      value.node = state.description.name().substr(
          std::min(state.description.name().size(), value.beside.size() + 1)); // NAME@NODE
    }
    value.isStatistic = state.description.kind() == plan::State::STATISTIC;
    value.type = state.type;
    value.shape = state.shape;
    value.read = [&checkpoint, s](uint64_t first, uint64_t count, std::byte *elements) {
      return checkpoint.readSaved(s, first, count, elements);
    };
    const auto &transposed = state.description.transposed();
    for (const std::string &tied : state.description.tied()) {
      const bool isTransposed = std::find(transposed.begin(), transposed.end(), tied) != transposed.end();
      values[tied] = isTransposed && value.shape.size() == 2 ? transpose(value) : value;
    }
    values[state.description.name()] = std::move(value);
  }
  return values;
}

Status writeSafetensors(const std::string &path, const std::map<std::string, NewTensor> &values) {
  std::vector<SafetensorsTensor> tensors;
  for (const auto &[name, value] : values)
    tensors.push_back({name, value.type, value.shape});
  const std::string header = safetensorsHeader(tensors, {{"format", "pt"}});
  return plan::replaceFile(path, [&](int descriptor) -> Status {
    COLOSSAL_RETURN_IF_ERROR(plan::writeAll(descriptor, header.data(), header.size(), path));
    std::vector<std::byte> piece;
    for (const auto &[name, value] : values) {
      uint64_t elements = 1;
      for (uint64_t extent : value.shape)
        elements *= extent;
      constexpr uint64_t most = 1 << 20;
      for (uint64_t first = 0; first < elements; first += most) {
        const uint64_t count = std::min(most, elements - first);
        piece.resize(count * plan::elementBytes(value.type));
        COLOSSAL_RETURN_IF_ERROR(value.read(first, count, piece.data()));
        COLOSSAL_RETURN_IF_ERROR(plan::writeAll(descriptor, piece.data(), piece.size(), path));
      }
    }
    return {};
  });
}

bool isThere(const std::string &path) {
  return !path.empty() && ::access(path.c_str(), R_OK) == 0;
}

/// Whether two outputs would lie at one place, where nothing need be yet.
bool areOne(const std::string &a, const std::string &b) {
  std::error_code ignored;
  return plan::isSameFile(a, b) ||
         std::filesystem::weakly_canonical(std::filesystem::absolute(a), ignored) ==
             std::filesystem::weakly_canonical(std::filesystem::absolute(b), ignored);
}

/// Sees, before anything is written, that no output takes the place of what is read, or of another. `model`
/// is the one that --onnx rewrites; the one that was compiled is still wanted where that is another.
Status checkOutputs(const ExportOptions &options, const std::string &model, const Checkpoint &checkpoint) {
  std::vector<std::string> read = checkpoint.paths(), outputs;
  bool hasData = false;
  for (const std::string &source : {model, checkpoint.model()}) {
    if (!isThere(source))
      continue;
    read.push_back(source);
    std::vector<std::string> external;
    if (!listExternalData(source, external).ok())
      continue; // is no model, which only --onnx minds
    hasData |= source == model && !external.empty();
    read.insert(read.end(), external.begin(), external.end());
  }
  for (const std::string &path :
       {options.safetensors, options.onnx, hasData && !options.onnx.empty() ? options.onnx + ".data" : ""})
    if (!path.empty())
      outputs.push_back(path);
  for (auto output = outputs.begin(); output != outputs.end(); ++output) {
    COLOSSAL_RETURN_IF_ERROR(plan::checkOutput(*output, read));
    for (auto other = outputs.begin(); other != output; ++other)
      if (areOne(*output, *other))
        return {Code::InvalidArgument,
                "cannot write both " + *other + " and " + *output +
                    ", which are one file; give another name" +
                    (hasData ? " (external data of --onnx FILE goes to FILE.data)" : "")};
  }
  return {};
}

} // namespace

void addExportOptions(CLI::App &app, ExportOptions &options) {
  app.add_option("CHECKPOINT", options.checkpoint,
                 "A folder of checkpoints, of which the newest is taken, or one folder step-N")
      ->required();
  app.add_option("--onnx", options.onnx,
                 "Write the model with the trained parameters to this file; data that lies outside the "
                 "model's file lies "
                 "beside this one, in FILE.data");
  app.add_option(
      "--safetensors", options.safetensors,
      "Write the trained parameters to this file, under the names that they have in the model's file");
  app.add_option("--model", options.model,
                 "The ONNX file that the plan was compiled from (default: where it was then)");
  app.footer(closing);
}

Status exportCheckpoint(const ExportOptions &options) {
  if (options.onnx.empty() && options.safetensors.empty())
    return {Code::InvalidArgument, "export needs --onnx FILE or --safetensors FILE, or both"};
  std::unique_ptr<Checkpoint> checkpoint;
  COLOSSAL_RETURN_IF_ERROR(Checkpoint::open(options.checkpoint, checkpoint));
  const std::string model = options.model.empty() ? checkpoint->model() : options.model;
  if (!options.onnx.empty() && !isThere(model))
    return {Code::NotFound, "the model " + (model.empty() ? "" : model + " ") +
                                "that the plan was compiled from is not there; --model says where it is"};
  COLOSSAL_RETURN_IF_ERROR(checkOutputs(options, model, *checkpoint));
  const std::map<std::string, NewTensor> values = exported(*checkpoint);
  if (!options.safetensors.empty())
    COLOSSAL_RETURN_IF_ERROR(writeSafetensors(options.safetensors, values));
  if (!options.onnx.empty())
    COLOSSAL_RETURN_IF_ERROR(rewriteOnnx(model, options.onnx, values));
  std::cout << std::to_string(values.size()) + " tensors of step " + std::to_string(checkpoint->step()) +
                   "\n";
  return plan::finishStandardOutput();
}

} // namespace colossal::runtime

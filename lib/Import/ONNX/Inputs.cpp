//===- Inputs.cpp - binding of the model's inputs ---------------------------===//
//
// Every input becomes an argument of static shape, or, where its contents are given, a constant. Everything
// that is missing or contradictory is reported, not the first alone.
//
//===----------------------------------------------------------------------===//
#include "Importer.h"

#include "llvm/Support/Regex.h"

#include <set>

using namespace mlir;

namespace colossal::onnx_import {

static std::vector<const onnx::ValueInfoProto *> getInputs(const onnx::GraphProto &graph) {
  std::set<std::string> initializers;
  for (const auto &initializer : graph.initializer())
    initializers.insert(initializer.name());
  std::vector<const onnx::ValueInfoProto *> inputs;
  for (const auto &input : graph.input())
    if (!initializers.count(input.name()))
      inputs.push_back(&input);
  return inputs;
}

static ModelInput describe(MLIRContext *context, const onnx::ValueInfoProto &input) {
  const auto &type = input.type().tensor_type();
  ModelInput listed;
  listed.name = input.name();
  llvm::raw_string_ostream stream(listed.type);
  if (!input.type().has_tensor_type())
    stream << "(not a tensor)";
  else if (Type element = getElementType(context, type.elem_type()))
    stream << element;
  else
    stream << onnx::TensorProto::DataType_Name(onnx::TensorProto::DataType(type.elem_type()));
  listed.hasShape = type.has_shape();
  for (const auto &dim : type.shape().dim())
    listed.shape.push_back({dim.has_dim_value() ? dim.dim_value() : -1, dim.dim_param()});
  return listed;
}

LogicalResult Importer::bindInputs() {
  auto inputs = getInputs(file.proto().graph());
  bool ok = true;
  auto report = [&]() {
    ok = false;
    return emitError(modelLocation());
  };
  // What the options name must be there.
  std::set<std::string> inputNames, dimNames;
  for (const auto *input : inputs) {
    inputNames.insert(input->name());
    for (const auto &dim : input->type().tensor_type().shape().dim())
      if (dim.has_dim_param() && !dim.dim_param().empty())
        dimNames.insert(dim.dim_param());
  }
  dims = options.dims;
  std::vector<ModelInput> described;
  for (const auto *input : inputs)
    described.push_back(describe(ctx, *input));
  if (std::string told = bindByPosition(described, dims); !told.empty())
    emitWarning(modelLocation()) << told;
  for (const auto &[name, value] : dims) {
    if (!dimNames.count(name)) {
      auto diagnostic = report() << "the model's inputs have no dimension named '" << name << "'; they have:";
      for (const std::string &known : dimNames)
        diagnostic << " '" << known << "'";
      diagnostic << " (--print-inputs shows where; --shape INPUT=... binds an input without names)";
    }
    if (value < 0)
      report() << "dimension '" << name << "' cannot be " << value;
  }
  for (const auto &[name, shape] : options.shapes)
    if (!inputNames.count(name))
      report() << "the model has no input named '" << name << "' (shape given)";
  for (const auto &[name, contents] : options.values)
    if (!inputNames.count(name))
      report() << "the model has no input named '" << name << "' (value given)";
  if (!ok)
    return failure();

  // Shapes and contents bind dimensions by name.
  std::map<std::string, DenseElementsAttr> contents;
  for (const auto *input : inputs) {
    auto given = options.values.find(input->name());
    Type element = getElementType(ctx, input->type().tensor_type().elem_type());
    if (!input->type().has_tensor_type() || !element) {
      report() << "input '" << input->name() << "' has a type that is not supported ("
               << (input->type().has_tensor_type()
                       ? onnx::TensorProto::DataType_Name(
                             onnx::TensorProto::DataType(input->type().tensor_type().elem_type()))
                       : std::string("not a tensor"))
               << ")";
      continue;
    }
    if (given == options.values.end())
      continue;
    auto read = readContents(given->second, element);
    if (!read) {
      report() << "value of input '" << input->name() << "': " << toString(read.takeError());
      continue;
    }
    contents[input->name()] = *read;
  }
  auto bind = [&](const onnx::ValueInfoProto &input, ArrayRef<int64_t> shape) {
    const auto &type = input.type().tensor_type();
    if (type.has_shape() && type.shape().dim_size() != int(shape.size())) {
      report() << "input '" << input.name() << "' has " << type.shape().dim_size() << " dimensions, "
               << shape.size() << " are given";
      return;
    }
    for (int d = 0; type.has_shape() && d < type.shape().dim_size(); ++d) {
      const auto &dim = type.shape().dim(d);
      if (dim.has_dim_value() && dim.dim_value() != shape[d])
        report() << "dimension " << d << " of input '" << input.name() << "' is " << dim.dim_value() << ", "
                 << shape[d] << " is given";
      if (!dim.has_dim_param() || dim.dim_param().empty())
        continue;
      auto [at, isNew] = dims.insert({dim.dim_param(), shape[d]});
      if (!isNew && at->second != shape[d])
        report() << "dimension '" << dim.dim_param() << "' is bound to " << at->second << " and, by input '"
                 << input.name() << "', to " << shape[d];
    }
    for (int64_t size : shape)
      if (size < 0)
        report() << "the shape given for input '" << input.name() << "' has a negative size";
  };
  for (const auto *input : inputs) {
    auto shape = options.shapes.find(input->name());
    if (shape != options.shapes.end())
      bind(*input, shape->second);
    auto value = contents.find(input->name());
    if (value != contents.end())
      bind(*input, cast<RankedTensorType>(value->second.getType()).getShape());
  }
  if (!ok)
    return failure();

  // Arguments and constants.
  SmallVector<NamedAttribute> bound, boundDims;
  SmallVector<StringAttr> names;
  Block &body = function.getBody().front();
  for (const auto *input : inputs) {
    Location loc = locationOf(input->name());
    auto value = contents.find(input->name());
    if (value != contents.end()) {
      current->values[input->name()] = GraphBuilder(builder, loc).constant(value->second);
      lastSource = current->values[input->name()].getDefiningOp();
      bound.push_back(builder.getNamedAttr(input->name(), value->second));
      continue;
    }
    const auto &type = input->type().tensor_type();
    SmallVector<int64_t> shape;
    auto given = options.shapes.find(input->name());
    if (given != options.shapes.end()) {
      shape.assign(given->second.begin(), given->second.end());
    } else if (!type.has_shape()) {
      report() << "input '" << input->name() << "' has no shape in the model: bind it with --shape "
               << input->name() << "=...";
    } else {
      for (auto [d, dim] : llvm::enumerate(type.shape().dim())) {
        auto known = dims.find(dim.dim_param());
        if (dim.has_dim_value()) {
          shape.push_back(dim.dim_value());
        } else if (!dim.dim_param().empty() && known != dims.end()) {
          shape.push_back(known->second);
        } else if (options.assumedSize) {
          shape.push_back(*options.assumedSize);
          auto diagnostic = emitWarning(loc) << "dimension ";
          if (dim.dim_param().empty()) {
            diagnostic << d << " of input '" << input->name() << "'";
          } else {
            diagnostic << "'" << dim.dim_param() << "'";
            dims[dim.dim_param()] = shape.back();
          }
          diagnostic << " is not bound: " << shape.back() << " assumed";
        } else {
          shape.push_back(1);
          auto diagnostic = report() << "dimension " << d << " of input '" << input->name()
                                     << "' is not bound: give ";
          if (!dim.dim_param().empty())
            diagnostic << "--dim " << dim.dim_param() << "=VALUE or ";
          diagnostic << "--shape " << input->name() << "=...";
        }
      }
    }
    int64_t count = 1;
    for (int64_t size : shape) {
      if (size < 0 || (size && count > (int64_t(1) << 40) / size)) {
        report() << "input '" << input->name() << "' is too large";
        break;
      }
      count *= size ? size : 1;
    }
    if (!ok)
      continue;
    auto tensorType = RankedTensorType::get(shape, getElementType(ctx, type.elem_type()));
    current->values[input->name()] = body.addArgument(tensorType, loc);
    names.push_back(builder.getStringAttr(input->name()));
  }
  function.setFunctionType(builder.getFunctionType(body.getArgumentTypes(), {}));
  for (auto [i, name] : llvm::enumerate(names))
    function.setArgAttr(i, kOnnxNameAttr, name);
  for (const auto &[name, value] : dims)
    boundDims.push_back(builder.getNamedAttr(name, builder.getI64IntegerAttr(value)));
  if (!bound.empty())
    function->setAttr(kBoundInputsAttr, builder.getDictionaryAttr(bound));
  if (!boundDims.empty())
    function->setAttr(kBoundDimsAttr, builder.getDictionaryAttr(boundDims));
  return success(ok);
}

} // namespace colossal::onnx_import

mlir::FailureOr<std::vector<colossal::ModelInput>> colossal::listInputs(mlir::MLIRContext *context,
                                                                        const std::string &modelPath) {
  using namespace onnx_import;
  auto file = ModelFile::open(modelPath);
  if (!file)
    return emitError(FileLineColLoc::get(context, modelPath, 0, 0)) << toString(file.takeError());
  std::vector<ModelInput> result;
  for (const auto *input : getInputs((*file)->proto().graph()))
    result.push_back(describe(context, *input));
  return result;
}

std::string colossal::bindByPosition(const std::vector<ModelInput> &inputs,
                                     std::map<std::string, int64_t> &dims) {
  // Where each name stands; a name of the model's own ends it.
  static const llvm::Regex numbered("^(s|unk__|dim_|.*_dynamic_axes_)[0-9]+$");
  std::map<std::string, std::set<size_t>> positions;
  for (const ModelInput &input : inputs)
    for (auto [d, dim] : llvm::enumerate(input.shape)) {
      if (dim.size >= 0 || dim.name.empty())
        continue;
      if (!numbered.match(dim.name))
        return {};
      positions[dim.name].insert(d);
    }
  std::string told;
  for (auto [position, name] : {std::pair<size_t, const char *>{0, "batch"}, {1, "seq"}}) {
    auto given = dims.find(name);
    if (given == dims.end())
      continue;
    std::string names;
    for (const auto &[known, places] : positions)
      if (places == std::set<size_t>{position} && dims.insert({known, given->second}).second)
        names += (names.empty() ? "'" : ", '") + known + "'";
    if (names.empty())
      continue;
    told += (told.empty() ? "the model's dimensions have no names of their own: '" : "; '") +
            std::string(name) + "' is taken for " + names + ", " + (position ? "second" : "first") +
            " of the inputs' dimensions";
    dims.erase(name);
  }
  return told;
}

//===- Inputs.cpp - binding of the model's inputs ---------------------------===//
//
// Every input becomes an argument of static shape, or, where its contents are given, a constant. Everything
// that is missing or contradictory is reported, not the first alone.
//
//===----------------------------------------------------------------------===//
#include "Importer.h"

#include "llvm/Support/Regex.h"

#include <cctype>
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

/// Whether the model gives a dimension's name: exporters write '?', '-1' or Python's None where they know
/// none.
static bool isDimensionName(StringRef name) {
  return name != "None" && llvm::any_of(name, [](unsigned char c) { return std::isalpha(c) || c >= 0x80; });
}

static ModelInput describe(MLIRContext *context, const onnx::ValueInfoProto &input,
                           const std::set<std::string> &named) {
  const auto &type = input.type().tensor_type();
  ModelInput listed;
  listed.name = input.name();
  llvm::raw_string_ostream stream(listed.type);
  if (!input.type().has_tensor_type())
    stream << "(not a tensor)";
  else if (type.elem_type() == onnx::TensorProto::STRING)
    stream << "string";
  else if (Type element = getElementType(context, type.elem_type()))
    stream << element;
  else
    stream << onnx::TensorProto::DataType_Name(onnx::TensorProto::DataType(type.elem_type()));
  listed.hasShape = type.has_shape();
  for (auto [d, dim] : llvm::enumerate(type.shape().dim())) {
    InputDim &described = listed.shape.emplace_back();
    if (dim.has_dim_value() && dim.dim_value() >= 0) {
      described.size = dim.dim_value();
      continue;
    }
    described.isNamed = isDimensionName(dim.dim_param());
    described.name = described.isNamed ? dim.dim_param() : input.name() + "." + std::to_string(d);
    while (!described.isNamed && named.count(described.name)) // another dimension's
      described.name += '_';
  }
  return listed;
}

static std::vector<ModelInput> describe(MLIRContext *context, ArrayRef<const onnx::ValueInfoProto *> inputs) {
  std::set<std::string> named;
  for (const auto *input : inputs)
    for (const auto &dim : input->type().tensor_type().shape().dim())
      if (isDimensionName(dim.dim_param()))
        named.insert(dim.dim_param());
  std::vector<ModelInput> described;
  for (const auto *input : inputs)
    described.push_back(describe(context, *input, named));
  return described;
}

namespace {

/// Sizes of dimensions, from what the user gives of them, of shapes and of contents.
class SizeBinder {
public:
  SizeBinder(Location model, const ImportOptions &options, ArrayRef<ModelInput> inputs,
             std::map<std::string, int64_t> &dims)
      : model(model), options(options), inputs(inputs), dims(dims) {}

  InFlightDiagnostic report() {
    ok = false;
    return emitError(model);
  }
  bool isOk() const { return ok; }

  /// Dimensions by name; what the options name must be there.
  void bindNames();
  /// Those that `input`, of that shape, names.
  void bindShape(const ModelInput &input, ArrayRef<int64_t> shape);
  SmallVector<int64_t> getShape(const ModelInput &input, Location location);

private:
  Location model;
  const ImportOptions &options;
  ArrayRef<ModelInput> inputs;
  std::map<std::string, int64_t> &dims;
  bool ok = true;
};

void SizeBinder::bindNames() {
  std::set<std::string> inputNames, dimNames;
  for (const ModelInput &input : inputs) {
    inputNames.insert(input.name);
    for (const InputDim &dim : input.shape)
      if (dim.size < 0)
        dimNames.insert(dim.name);
  }
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
}

void SizeBinder::bindShape(const ModelInput &input, ArrayRef<int64_t> shape) {
  if (input.hasShape && input.shape.size() != shape.size()) {
    report() << "input '" << input.name << "' has " << input.shape.size() << " dimensions, " << shape.size()
             << " are given";
    return;
  }
  for (auto [d, dim] : llvm::enumerate(input.shape)) {
    if (dim.size >= 0) {
      if (dim.size != shape[d])
        report() << "dimension " << d << " of input '" << input.name << "' is " << dim.size << ", "
                 << shape[d] << " is given";
      continue;
    }
    auto [at, isNew] = dims.insert({dim.name, shape[d]});
    if (!isNew && at->second != shape[d])
      report() << "dimension '" << dim.name << "' is bound to " << at->second << " and, by input '"
               << input.name << "', to " << shape[d];
  }
  for (int64_t size : shape)
    if (size < 0)
      report() << "the shape given for input '" << input.name << "' has a negative size";
}

SmallVector<int64_t> SizeBinder::getShape(const ModelInput &input, Location location) {
  SmallVector<int64_t> shape;
  bool isGiven = options.shapes.count(input.name);
  if (isGiven) {
    const std::vector<int64_t> &given = options.shapes.at(input.name);
    shape.assign(given.begin(), given.end());
  } else if (!input.hasShape) {
    report() << "input '" << input.name << "' has no shape in the model: bind it with --shape " << input.name
             << "=...";
  }
  for (size_t d = 0; !isGiven && d < input.shape.size(); ++d) {
    const InputDim &dim = input.shape[d];
    auto known = dims.find(dim.name);
    if (dim.size >= 0) {
      shape.push_back(dim.size);
    } else if (known != dims.end()) {
      shape.push_back(known->second);
    } else if (options.assumedSize) {
      shape.push_back(*options.assumedSize);
      dims[dim.name] = shape.back();
      auto diagnostic = emitWarning(location) << "dimension ";
      if (dim.isNamed)
        diagnostic << "'" << dim.name << "'";
      else
        diagnostic << d << " of input '" << input.name << "'";
      diagnostic << " is not bound: " << shape.back() << " assumed";
    } else {
      shape.push_back(1);
      report() << "dimension " << d << " of input '" << input.name << "' is not bound: give --dim "
               << dim.name << "=VALUE or --shape " << input.name << "=...";
    }
  }
  int64_t count = 1;
  for (int64_t size : shape) {
    if (size < 0 || (size && count > kMostStored / size)) {
      report() << "input '" << input.name << "' is too large";
      break;
    }
    count *= size ? size : 1;
  }
  return shape;
}

} // namespace

LogicalResult Importer::bindInputs() {
  auto inputs = getInputs(file.proto().graph());
  std::vector<ModelInput> described = describe(ctx, inputs);
  dims = options.dims;
  if (std::string told = bindByPosition(described, dims); !told.empty())
    emitWarning(modelLocation()) << told;
  SizeBinder sizes(modelLocation(), options, described, dims);
  sizes.bindNames();
  if (!sizes.isOk())
    return failure();

  std::map<std::string, DenseElementsAttr> contents;
  std::map<std::string, Type> elements;
  for (const auto *input : inputs) {
    auto given = options.values.find(input->name());
    Type element = getElementType(ctx, input->type().tensor_type().elem_type());
    if (!input->type().has_tensor_type() || !element) {
      sizes.report() << "input '" << input->name() << "' has a type that is not supported ("
                     << (input->type().has_tensor_type()
                             ? onnx::TensorProto::DataType_Name(
                                   onnx::TensorProto::DataType(input->type().tensor_type().elem_type()))
                             : std::string("not a tensor"))
                     << ")";
      continue;
    }
    elements[input->name()] = element;
    if (given == options.values.end())
      continue;
    auto read = readContents(given->second, element, texts);
    if (!read) {
      sizes.report() << "value of input '" << input->name() << "': " << toString(read.takeError());
      continue;
    }
    contents[input->name()] = *read;
  }
  for (const ModelInput &input : described) {
    if (auto shape = options.shapes.find(input.name); shape != options.shapes.end())
      sizes.bindShape(input, shape->second);
    if (auto value = contents.find(input.name); value != contents.end())
      sizes.bindShape(input, cast<RankedTensorType>(value->second.getType()).getShape());
  }
  if (!sizes.isOk())
    return failure();

  // Arguments and constants.
  SmallVector<NamedAttribute> bound, boundDims;
  SmallVector<StringAttr> names;
  Block &body = function.getBody().front();
  for (const ModelInput &input : described) {
    Location loc = locationOf(input.name);
    const llvm::CachedHashStringRef key(builder.getStringAttr(input.name).getValue());
    auto value = contents.find(input.name);
    if (value != contents.end()) {
      Value constant = GraphBuilder(builder, loc).constant(value->second);
      current->values[key] = constant;
      lastSource = constant.getDefiningOp();
      bound.push_back(builder.getNamedAttr(input.name, value->second));
      continue;
    }
    SmallVector<int64_t> shape = sizes.getShape(input, loc);
    if (!sizes.isOk())
      continue;
    current->values[key] = body.addArgument(RankedTensorType::get(shape, elements[input.name]), loc);
    names.push_back(builder.getStringAttr(input.name));
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
  return success(sizes.isOk());
}

} // namespace colossal::onnx_import

mlir::FailureOr<std::vector<colossal::ModelInput>> colossal::listInputs(mlir::MLIRContext *context,
                                                                        const std::string &modelPath) {
  using namespace onnx_import;
  auto file = ModelFile::open(modelPath, ModelFile::Part::Boundary);
  if (!file)
    return emitError(FileLineColLoc::get(context, modelPath, 0, 0)) << toString(file.takeError());
  return describe(context, getInputs((*file)->proto().graph()));
}

std::string colossal::bindByPosition(const std::vector<ModelInput> &inputs,
                                     std::map<std::string, int64_t> &dims) {
  // Where each name stands; a name of the model's own ends it.
  static const llvm::Regex numbered("^(s|unk__|dim_|.*_dynamic_axes_)[0-9]+$");
  std::map<std::string, std::set<size_t>> positions;
  for (const ModelInput &input : inputs)
    for (auto [d, dim] : llvm::enumerate(input.shape)) {
      if (dim.size >= 0)
        continue;
      if (dim.isNamed && !numbered.match(dim.name))
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

//===- Parameters.cpp - weights, each once ----------------------------------===//
//
// A parameter names the bytes of its initializer in their file; nothing is copied. Initializers with equal or
// transposed-equal contents (tied embeddings) are one parameter, so that training changes both and
// checkpoints keep both names. Tensors whose elements are all equal (biases of 0, scales of 1), or whose rows
// are (rates that a state space begins with), are never tied: their equality says nothing.
//
//===----------------------------------------------------------------------===//
#include "Importer.h"
#include "colossal/Import/ParameterRoles.h"

#include "llvm/ADT/Hashing.h"
#include <cstring>

using namespace mlir;

namespace colossal::onnx_import {

namespace {

/// Bytes of a tensor seen as a matrix (rows = 1 unless it has two dimensions), possibly transposed.
struct MatrixView {
  ArrayRef<uint8_t> bytes;
  int64_t rows, columns, width;
  bool transposed;

  MatrixView(RankedTensorType type, ArrayRef<uint8_t> bytes, bool transposed)
      : bytes(bytes), transposed(transposed) {
    rows = type.getRank() == 2 ? type.getDimSize(0) : 1;
    columns = type.getRank() == 2 ? type.getDimSize(1) : type.getNumElements();
    width = bytes.size() / type.getNumElements();
    // Packed elements are compared as the bytes that they lie in.
    if (int64_t(bytes.size()) < type.getNumElements()) {
      rows = width = 1;
      columns = bytes.size();
    }
    if (transposed)
      std::swap(rows, columns);
  }
  const uint8_t *at(int64_t row, int64_t column) const {
    return bytes.data() + width * (transposed ? column * rows + row : row * columns + column);
  }
};

/// A hash of the shape and of the first and last element. Other elements lie in pages that are not mapped
/// yet, which costs more than all else here; tensors that agree in these are compared, which ends at the
/// first difference.
uint64_t sample(const MatrixView &view, RankedTensorType type, ArrayRef<int64_t> shape) {
  auto hashElement = [&](int64_t row, int64_t column) {
    const uint8_t *element = view.at(row, column);
    return llvm::hash_combine_range(element, element + view.width);
  };
  return llvm::hash_combine(type.getElementType(), llvm::hash_combine_range(shape), hashElement(0, 0),
                            hashElement(view.rows - 1, view.columns - 1));
}

/// Whether all parts of `width` bytes are equal.
bool isUniform(ArrayRef<uint8_t> bytes, int64_t width) {
  return std::memcmp(bytes.data(), bytes.data() + width, bytes.size() - width) == 0;
}

/// Whether all rows of a matrix of two rows or more are equal.
bool hasEqualRows(RankedTensorType type, ArrayRef<uint8_t> bytes) {
  const int64_t rows = type.getRank() < 2 ? 1 : type.getDimSize(0), size = bytes.size();
  return rows > 1 && size % rows == 0 && isUniform(bytes, size / rows);
}

bool areEqual(const MatrixView &a, const MatrixView &b) {
  if (!a.transposed && !b.transposed)
    return std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0;
  constexpr int64_t kTile = 32;
  for (int64_t r = 0; r < a.rows; r += kTile)
    for (int64_t c = 0; c < a.columns; c += kTile)
      for (int64_t i = r; i < std::min(r + kTile, a.rows); ++i)
        for (int64_t j = c; j < std::min(c + kTile, a.columns); ++j)
          if (std::memcmp(a.at(i, j), b.at(i, j), a.width) != 0)
            return false;
  return true;
}

} // namespace

/// `names`, which may be null, and `name`.
static ArrayAttr append(ArrayAttr names, StringRef name, MLIRContext *context) {
  SmallVector<Attribute> all;
  if (names)
    llvm::append_range(all, names);
  all.push_back(StringAttr::get(context, name));
  return ArrayAttr::get(context, all);
}

static void addAlias(ParameterOp op, StringRef name, bool isTransposed = false) {
  op.setAliasesAttr(append(op.getAliasesAttr(), name, op.getContext()));
  if (isTransposed)
    op->setAttr(kTransposedAttr,
                append(op->getAttrOfType<ArrayAttr>(kTransposedAttr), name, op.getContext()));
}

/// Where the contents are not there to compare, tensors at one place of one file are equal.
Value Importer::findSamePlace(StringRef name, RankedTensorType type, const TensorBytes &bytes) {
  auto found = parametersByPlace.find({bytes.file, bytes.offset});
  if (found == parametersByPlace.end() || found->second.getType() != type)
    return {};
  addAlias(found->second, name);
  return found->second.getResult();
}

std::pair<Importer::KnownParameter *, bool> Importer::findKnown(StringRef name, RankedTensorType type,
                                                                ArrayRef<uint8_t> bytes) {
  auto isApart = [&](StringRef one) { return options.isApart && options.isApart(one); };
  if (isApart(name))
    return {};
  bool isPacked = int64_t(bytes.size()) < type.getNumElements();
  if (type.getNumElements() < 2 || isUniform(bytes, isPacked ? 1 : bytes.size() / type.getNumElements()) ||
      hasEqualRows(type, bytes))
    return {};
  for (bool transposed : {false, true}) {
    if (transposed && (isPacked || type.getRank() != 2 || type.getDimSize(0) == 1 || type.getDimSize(1) == 1))
      continue;
    MatrixView view(type, bytes, transposed);
    SmallVector<int64_t> shape(type.getShape());
    if (transposed)
      std::swap(shape[0], shape[1]);
    auto found = parametersByHash.find(sample(view, type, shape));
    if (found == parametersByHash.end())
      continue;
    for (KnownParameter &known : found->second)
      if (!isApart(known.name) && known.type.getElementType() == type.getElementType() &&
          known.type.getShape() == ArrayRef<int64_t>(shape) &&
          areEqual(view, MatrixView(known.type, known.bytes, false)))
        return {&known, transposed};
  }
  return {};
}

Value Importer::findEqual(StringRef name, RankedTensorType type, ArrayRef<uint8_t> bytes) {
  auto [known, isTransposed] = findKnown(name, type, bytes);
  if (!known)
    return {};
  addAlias(known->op, name, isTransposed);
  if (!isTransposed)
    return known->op.getResult();
  GraphBuilder graph(builder, locationOf(name));
  return graph.transpose(known->op.getResult(), {1, 0});
}

std::optional<TensorBytes> Importer::addParameter(const onnx::TensorProto &tensor, RankedTensorType type) {
  auto bytes = file.findBytes(tensor);
  if (!bytes) {
    consumeError(bytes.takeError());
    return std::nullopt;
  }
  if (!*bytes)
    return std::nullopt;
  if ((*bytes)->missing) {
    if (!parametersByPlace.try_emplace({(*bytes)->file, (*bytes)->offset}).second)
      return std::nullopt;
    return *bytes;
  }
  if (findKnown(tensor.name(), type, (*bytes)->bytes).first)
    return std::nullopt;
  if (type.getNumElements() >= 2)
    parametersByHash[sample(MatrixView(type, (*bytes)->bytes, false), type, type.getShape())].push_back(
        {ParameterOp(), tensor.name(), type, (*bytes)->bytes});
  return *bytes;
}

void Importer::noteModuleRole(ParameterOp parameter, StringRef name) {
  const StringRef role = file.getModuleRole(name);
  // What is a parameter under one of its names is trained.
  if (!role.empty() && (role == kIsModuleParameter || parameter.getName() == name))
    parameter->setAttr(kModuleRoleAttr, builder.getStringAttr(role));
}

Value Importer::importParameter(const onnx::TensorProto &tensor, StringRef name, RankedTensorType type,
                                const std::optional<TensorBytes> &bytes, ElementsAttr data) {
  if (bytes)
    if (Value known =
            bytes->missing ? findSamePlace(name, type, *bytes) : findEqual(name, type, bytes->bytes))
      return known;
  int64_t size = getDataBytes(tensor.data_type(), type.getNumElements());
  auto parameter = ParameterOp::create(builder, locationOf(name), type, builder.getStringAttr(name),
                                       builder.getStringAttr(bytes ? bytes->file : ""),
                                       builder.getI64IntegerAttr(bytes ? bytes->offset : 0),
                                       builder.getI64IntegerAttr(size), data, ArrayAttr());
  tensorOf[parameter] = &tensor;
  if (bytes && bytes->missing)
    parametersByPlace.insert({{bytes->file, bytes->offset}, parameter});
  else if (bytes && type.getNumElements() >= 2)
    parametersByHash[sample(MatrixView(type, bytes->bytes, false), type, type.getShape())].push_back(
        {parameter, parameter.getName(), type, bytes->bytes});
  return parameter.getResult();
}

Value Importer::constantStrings(const std::vector<std::string> &strings, ArrayRef<int64_t> shape) {
  SmallVector<APInt> digests;
  for (const std::string &text : strings) {
    digests.push_back(APInt(64, uint64_t(digestText(text))));
    texts.insert(text);
  }
  Type element = getElementType(ctx, onnx::TensorProto::STRING);
  return GraphBuilder(builder, builder.getUnknownLoc())
      .constant(DenseElementsAttr::get(RankedTensorType::get(shape, element), digests));
}

bool becomesParameter(RankedTensorType type, StringRef name, bool isInitializer, ModelFile &file) {
  const bool isWeight =
      isa<FloatType>(type.getElementType()) && isInitializer &&
      (type.getRank() > 0 || isLearnedNumber(name) || file.getModuleRole(name) == kIsModuleParameter);
  return type.getNumElements() > kFoldLimit || (isWeight && type.getNumElements() > 0);
}

FailureOr<Value> Importer::importTensor(const onnx::TensorProto &tensor, StringRef name, bool isInitializer) {
  auto report = [&](llvm::Error error) -> InFlightDiagnostic {
    return emitError(locationOf(name)) << toString(std::move(error)); // it names the tensor
  };
  Type element = getElementType(ctx, tensor.data_type());
  if (!element)
    return emitError(locationOf(name))
           << "tensor '" << name << "' has element type "
           << onnx::TensorProto::DataType_Name(onnx::TensorProto::DataType(tensor.data_type()))
           << ", which is not supported";
  auto bytes = file.findBytes(tensor);
  if (!bytes)
    return report(bytes.takeError());
  auto type = RankedTensorType::get(ArrayRef<int64_t>(tensor.dims().data(), tensor.dims_size()), element);
  OpBuilder::InsertionGuard guard(builder);
  Block &body = function.getBody().front();
  if (lastSource)
    builder.setInsertionPointAfter(lastSource);
  else
    builder.setInsertionPointToStart(&body);
  texts.insert(tensor.string_data().begin(), tensor.string_data().end());
  Value value;
  if (becomesParameter(type, name, isInitializer, file)) {
    DenseElementsAttr data;
    if (!*bytes) {
      auto read = readTensor(ctx, tensor, *bytes);
      if (!read)
        return report(read.takeError());
      data = *read;
    }
    value = importParameter(tensor, name, type, *bytes, data);
    if (auto parameter = value.getDefiningOp<ParameterOp>(); parameter && !isInitializer)
      parameter->setAttr(kConstantNodeAttr, builder.getUnitAttr());
    else if (parameter)
      noteModuleRole(parameter, name);
  } else {
    auto read = readTensor(ctx, tensor, *bytes);
    if (!read)
      return report(read.takeError());
    // Of equal constants one is left once the model is normalized, and it has no name.
    if (ConstantOp known = constantOf.lookup(*read)) {
      known->setLoc(builder.getUnknownLoc());
      return known.getResult();
    }
    value = GraphBuilder(builder, locationOf(name)).constant(*read);
    constantOf[*read] = value.getDefiningOp<ConstantOp>();
  }
  Operation *op = value.getDefiningOp();
  // A new op follows the last one; asking for the order of two ops would number the whole block again each
  // time.
  if (!lastSource || op->getPrevNode() == lastSource)
    lastSource = op;
  return value;
}

} // namespace colossal::onnx_import

// Batches out of arrays: which sample is the n-th, and its elements in the type that the program takes.
#include "runtime/training/Data.h"

#include "colossal/Plan/Training.h"
#include "runtime/comm/Reduce.h"

#include <cstring>
#include <limits>

namespace colossal::runtime {

namespace {

template <class From, class To>
void widen(const std::byte *from, uint64_t count, std::byte *to) {
  for (uint64_t e = 0; e < count; ++e) {
    From value;
    std::memcpy(&value, from + e * sizeof(From), sizeof(From));
    const To wide = static_cast<To>(value);
    std::memcpy(to + e * sizeof(To), &wide, sizeof(To));
  }
}

template <class To>
void widenHalves(const std::byte *from, uint64_t count, std::byte *to) {
  for (uint64_t e = 0; e < count; ++e) {
    uint16_t half;
    std::memcpy(&half, from + e * sizeof half, sizeof half);
    const To wide = halfToFloat(half);
    std::memcpy(to + e * sizeof wide, &wide, sizeof wide);
  }
}

using Converter = void (*)(const std::byte *, uint64_t, std::byte *);

template <class To>
Converter converterTo(plan::DataType from) {
  constexpr bool isFloat = std::numeric_limits<To>::is_iec559;
  constexpr int digits = std::numeric_limits<To>::digits; // of numbers without a sign
  constexpr bool isSigned = std::numeric_limits<To>::is_signed;
  // Whether every value of the type is one of To, too.
  const auto fits = [&](int bits, bool sign) { return bits <= digits && (!sign || isSigned); };
  switch (from) {
  case plan::BOOL:
  case plan::U8: return fits(8, false) ? widen<uint8_t, To> : nullptr;
  case plan::U16: return fits(16, false) ? widen<uint16_t, To> : nullptr;
  case plan::U32: return fits(32, false) ? widen<uint32_t, To> : nullptr;
  case plan::I8: return fits(7, true) ? widen<int8_t, To> : nullptr;
  case plan::I16: return fits(15, true) ? widen<int16_t, To> : nullptr;
  case plan::I32: return fits(31, true) ? widen<int32_t, To> : nullptr;
  case plan::F16:
    if constexpr (isFloat)
      return widenHalves<To>;
    return nullptr;
  case plan::F32: return isFloat ? widen<float, To> : nullptr;
  default: return nullptr;
  }
}

/// What brings elements to another type without changing a value; null where that cannot be.
Converter converter(plan::DataType from, plan::DataType to) {
  switch (to) {
  case plan::F32: return from == plan::F32 ? nullptr : converterTo<float>(from);
  case plan::F64: return converterTo<double>(from);
  case plan::I16: return converterTo<int16_t>(from);
  case plan::I32: return converterTo<int32_t>(from);
  case plan::I64: return converterTo<int64_t>(from);
  case plan::U16: return converterTo<uint16_t>(from);
  case plan::U32: return converterTo<uint32_t>(from);
  case plan::U64: return converterTo<uint64_t>(from);
  default: return nullptr;
  }
}

std::string shapeText(const std::vector<uint64_t> &shape, bool samples) {
  std::string text = "[";
  for (size_t d = 0; d < shape.size(); ++d)
    text += (d ? "," : "") + (d == 0 && samples ? std::string("samples") : std::to_string(shape[d]));
  return text + "]";
}

uint64_t product(const std::vector<uint64_t> &shape, size_t from) {
  uint64_t elements = 1;
  for (size_t d = from; d < shape.size(); ++d)
    elements *= shape[d];
  return elements;
}

} // namespace

/// One input of the batches.
class DataSet::Source : public InputSource {
public:
  Source(std::shared_ptr<DataArray> array, plan::DataType type, const DataSet &set, uint64_t sampleElements,
         bool batched)
      : array(std::move(array)), convert(converter(this->array->type, type)), set(set),
        inSize(plan::elementBytes(this->array->type)), outSize(plan::elementBytes(type)),
        sampleElements(sampleElements), batched(batched) {}

  Status read(uint64_t first, uint64_t count, std::byte *elements) const override {
    while (count > 0) {
      uint64_t from = first, length = count;
      if (batched && !array->isConstant()) {
        const uint64_t within = first % sampleElements;
        length = std::min(count, sampleElements - within);
        from = sampleOf(first) * sampleElements + within;
      }
      give(from, length, elements);
      first += length, count -= length;
      elements += length * outSize;
    }
    return {};
  }
  std::string origin(uint64_t element) const override {
    if (!batched || array->isConstant())
      return array->origin;
    return "sample " + std::to_string(sampleOf(element)) + " of " + array->origin;
  }

private:
  uint64_t sampleOf(uint64_t element) const {
    return set.order.sample(set.first() + element / sampleElements);
  }
  void give(uint64_t from, uint64_t count, std::byte *elements) const {
    if (!convert)
      return array->read(from, count, elements);
    std::byte piece[4096];
    for (uint64_t done = 0; done < count;) {
      const uint64_t length = std::min<uint64_t>(count - done, sizeof piece / inSize);
      array->read(from + done, length, piece);
      convert(piece, length, elements + done * outSize);
      done += length;
    }
  }

  std::shared_ptr<DataArray> array;
  Converter convert;
  const DataSet &set;
  uint64_t inSize, outSize, sampleElements;
  bool batched;
};

std::set<std::string> getMadeInputs(const plan::Training &training) {
  std::set<std::string> made{plan::stepValuesInput};
  for (const plan::Training::Sample &sample : training.samples())
    if (!sample.data_of().empty())
      made.insert(sample.input());
  return made;
}

Status DataSet::configure(const plan::Program &program, const plan::Training &training,
                          std::map<std::string, std::shared_ptr<DataArray>> arrays,
                          std::optional<uint64_t> shuffle) {
  order = {0, shuffle};
  sourced.clear();
  std::string problems;
  const auto problem = [&](const std::string &text) { problems += (problems.empty() ? "" : "; ") + text; };
  std::string counted; // whose samples were counted
  const std::set<std::string> made = getMadeInputs(training);
  for (const plan::Binding &input : program.inputs()) {
    if (made.count(input.name()) > 0)
      continue;
    bool batched = true;
    for (const plan::Training::Sample &sample : training.samples())
      if (sample.input() == input.name())
        batched = sample.batched();
    const std::vector<uint64_t> shape(input.shape().begin(), input.shape().end());
    const auto found = arrays.find(input.name());
    if (found == arrays.end()) {
      problem("input '" + input.name() + "' (" + plan::dataTypeName(input.type()) +
              shapeText(shape, batched) + ") has no data");
      continue;
    }
    std::shared_ptr<DataArray> array = found->second;
    arrays.erase(found);
    const bool constant = array->isConstant();
    std::vector<uint64_t> given = array->shape;
    const bool sameShape = constant || (given.size() == shape.size() &&
                                        std::equal(given.begin() + (batched ? 1 : 0), given.end(),
                                                   shape.begin() + (batched ? 1 : 0)));
    if (!sameShape) {
      problem("input '" + input.name() + "' must have shape " + shapeText(shape, batched) + ", and " +
              array->origin + " has " + shapeText(given, false));
      continue;
    }
    if (array->type != input.type() && !converter(array->type, input.type())) {
      problem("input '" + input.name() + "' must have type " + plan::dataTypeName(input.type()) + ", and " +
              array->origin + " has " + plan::dataTypeName(array->type) +
              ", which has other values, too: save it with that type");
      continue;
    }
    if (batched && !constant) {
      if (counted.empty()) {
        counted = array->origin;
        order.count = given[0];
        if (given[0] < training.global_batch())
          problem(array->origin + " has " + std::to_string(given[0]) +
                  (given[0] == 1 ? " sample" : " samples") + ", fewer than the " +
                  std::to_string(training.global_batch()) + " of a step");
      } else if (given[0] != order.count) {
        problem(counted + " has " + std::to_string(order.count) + " samples, and " + array->origin + " has " +
                std::to_string(given[0]));
      }
    }
    const bool integers = input.type() == plan::I64 || input.type() == plan::I32;
    if (tokens == 1 && batched && integers && shape.size() > 1)
      tokens = product(shape, 1);
    sourced[input.name()] = {input.type(), shape,
                             std::make_shared<Source>(array, input.type(), *this,
                                                      std::max<uint64_t>(1, product(shape, batched ? 1 : 0)),
                                                      batched)};
  }
  for (const plan::Training::Sample &sample : training.samples())
    if (const auto first = sourced.find(sample.data_of()); first != sourced.end())
      sourced[sample.input()] = SourcedInput(first->second);
  for (const auto &[name, array] : arrays)
    problem("there is no input '" + name + "'");
  if (problems.empty())
    return {};
  return {Code::InvalidArgument,
          problems + ". Program '" + program.name() + "' takes\n" + describeInputs(program, made)};
}

} // namespace colossal::runtime

//===- LibraryCalls.cpp - what a device's library is called for ---------------===//
#include "LibraryCalls.h"

#include "Elements.h"
#include "dialects/Plan/PlanDialect.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::plan;

template <typename Field>
static void fill(Field *field, ArrayRef<int64_t> values) {
  field->Add(values.begin(), values.end());
}

static void describe(ConvolutionOp op, LibraryCall &out) {
  out.set_routine(op.getPack()      ? "convolution.pack"
                  : op.getCompute() ? "convolution.unpacked"
                                    : "convolution");
  Convolution &conv = *out.mutable_convolution();
  conv.set_type(*getDataType(op.getElementType()));
  fill(conv.mutable_input(), op.getInput());
  fill(conv.mutable_weight(), op.getWeight());
  fill(conv.mutable_output(), op.getOutput());
  fill(conv.mutable_input_strides(), op.getInputStrides());
  fill(conv.mutable_output_strides(), op.getOutputStrides());
  fill(conv.mutable_strides(), op.getStrides());
  fill(conv.mutable_dilations(), op.getDilations());
  fill(conv.mutable_pads_begin(), op.getPadsBegin());
  fill(conv.mutable_pads_end(), op.getPadsEnd());
  conv.set_group(op.getGroup());
  conv.set_bias(op.getBias());
  conv.set_residual(op.getResidual());
  conv.set_activation(op.getActivation().str());
  if (auto args = op.getActivationArgs())
    conv.mutable_activation_args()->Add(args->begin(), args->end());
  conv.set_transposed(op.getTransposed());
  conv.set_algorithm(op.getAlgorithm().str());
  conv.set_compute(op.getCompute().value_or("").str());
  out.set_writes(op.getPack() ? 1 : 2); // the packed weight; scratchpad or workspace, and the output
}

static void describe(ContractionOp op, LibraryCall &out) {
  out.set_routine("contraction");
  Contraction &contraction = *out.mutable_contraction();
  contraction.set_type(*getDataType(op.getElementType()));
  contraction.set_result_type(*getDataType(op.getResultType()));
  contraction.set_compute(op.getCompute().str());
  ArrayRef<int64_t> sizes = op.getSizes();
  contraction.set_batch(sizes[0]);
  contraction.set_m(sizes[1]);
  contraction.set_n(sizes[2]);
  contraction.set_k(sizes[3]);
  fill(contraction.mutable_a_strides(), op.getAStrides());
  fill(contraction.mutable_b_strides(), op.getBStrides());
  fill(contraction.mutable_c_strides(), op.getCStrides());
  contraction.set_bias(op.getBias());
  contraction.set_activation(op.getActivation().str());
  out.set_writes(2); // the workspace and C
}

static void describe(FusedAttentionOp op, LibraryCall &out) {
  out.set_routine("attention");
  Attention &attention = *out.mutable_attention();
  attention.set_type(*getDataType(op.getElementType()));
  ArrayRef<int64_t> sizes = op.getSizes();
  attention.set_batch(sizes[0]);
  attention.set_query_heads(sizes[1]);
  attention.set_key_heads(sizes[2]);
  attention.set_queries(sizes[3]);
  attention.set_keys(sizes[4]);
  attention.set_width(sizes[5]);
  attention.set_value_width(sizes[6]);
  fill(attention.mutable_query_strides(), op.getQueryStrides());
  fill(attention.mutable_key_strides(), op.getKeyStrides());
  fill(attention.mutable_value_strides(), op.getValueStrides());
  fill(attention.mutable_output_strides(), op.getOutputStrides());
  attention.set_scale(op.getScale().convertToDouble());
  attention.set_causal(op.getCausal());
  attention.set_causal_offset(op.getCausalOffset());
  if (op.getMaskType()) {
    attention.set_mask(true);
    attention.set_mask_type(*getDataType(*op.getMaskType()));
    fill(attention.mutable_mask_strides(), *op.getMaskStrides());
  }
  out.set_writes(2); // the workspace and the output
}

std::optional<LibraryRoutine> plan::describeLibraryCall(Operation *op, LibraryCall &out) {
  if (auto conv = dyn_cast<ConvolutionOp>(op)) {
    describe(conv, out);
    return LibraryRoutine{conv.getBuffers(), conv.getCompute() ? 4u : 1u}; // whose weights need no packing
  }
  if (auto contraction = dyn_cast<ContractionOp>(op)) {
    describe(contraction, out);
    return LibraryRoutine{contraction.getBuffers(), 2};
  }
  if (auto attention = dyn_cast<FusedAttentionOp>(op)) {
    describe(attention, out);
    return LibraryRoutine{attention.getBuffers(), 4};
  }
  return std::nullopt;
}

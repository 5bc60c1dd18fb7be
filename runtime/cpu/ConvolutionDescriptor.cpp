// The plan's convolution as plain data.
#include "runtime/cpu/Convolution.h"

#include "colossal/Plan/Plan.pb.h"

namespace colossal::runtime {

ConvolutionDescriptor describeConvolution(const plan::Convolution &c) {
  ConvolutionDescriptor d;
  d.type = c.type();
  d.input.assign(c.input().begin(), c.input().end());
  d.weight.assign(c.weight().begin(), c.weight().end());
  d.output.assign(c.output().begin(), c.output().end());
  d.inputStrides.assign(c.input_strides().begin(), c.input_strides().end());
  d.outputStrides.assign(c.output_strides().begin(), c.output_strides().end());
  d.strides.assign(c.strides().begin(), c.strides().end());
  d.dilations.assign(c.dilations().begin(), c.dilations().end());
  d.padsBegin.assign(c.pads_begin().begin(), c.pads_begin().end());
  d.padsEnd.assign(c.pads_end().begin(), c.pads_end().end());
  d.group = static_cast<int64_t>(c.group());
  d.bias = c.bias();
  d.residual = c.residual();
  d.transposed = c.transposed();
  d.activation = c.activation();
  d.algorithm = c.algorithm();
  d.activationArgs.assign(c.activation_args().begin(), c.activation_args().end());
  return d;
}

} // namespace colossal::runtime

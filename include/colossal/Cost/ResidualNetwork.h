// Convolutional residual networks (He et al., 2015, table 1; widened by Zagoruyko and Komodakis, 2016): their
// blocks by shape, and a training step of one in a layout.
#ifndef COLOSSAL_COST_RESIDUALNETWORK_H
#define COLOSSAL_COST_RESIDUALNETWORK_H

#include "colossal/Cost/Training.h"

#include <string>
#include <string_view>
#include <vector>

namespace colossal::cost {

struct ResidualNetwork {
  /// 18 and 34 have blocks of two 3x3 convolutions, 50, 101 and 152 bottlenecks.
  int depth = 50;
  /// Channels of the first resolution's blocks; each further resolution has twice as many.
  double baseChannels = 64;
  /// Of channels behind the 3x3 convolution of a bottleneck, or between a basic block's two.
  double widthFactor = 1;
  double image = 224; ///< pixels of a side
  double classes = 1000;

  double parameters() const;
  /// FLOPs of a step over `images`: three times the forward pass, without recompute.
  double flopsPerStep(double images) const;
};

struct Convolution {
  double in = 0, out = 0, window = 1; ///< channels, side
  double inPixels = 0, outPixels = 0; ///< of an image
  double parameters() const { return in * out * window * window; }
};

/// What stays on one stage: the stem, a residual block, or the head.
struct NetworkBlock {
  std::vector<Convolution> convolutions;
  double parameters = 0;
  double inputElements = 0, outputElements = 0; ///< of an image
  /// Outputs of all convolutions: each is normalized.
  double normalizedElements = 0;
  /// Elements that tensor ranks gather inside the block where they split channels.
  double gatheredElements = 0;
  int resolution = 0; ///< 0 to 3
};

/// "" or why there is no such network.
std::string checkNetwork(const ResidualNetwork &network);
std::vector<NetworkBlock> networkBlocks(const ResidualNetwork &network);

/// By name: resnet-18 to resnet-152, and Zheng et al.'s (2022, table 7) by size ("250m" to "13b"); false if
/// unknown.
bool publishedNetwork(std::string_view name, ResidualNetwork &network);
/// Zheng et al.'s whose number of parameters, in 10^9, is nearest; false if none lies within 6 %.
bool publishedNetwork(double parametersB, ResidualNetwork &network);

/// Time and memory of a step; sequences of the layout are images. Over the tensor axis, blocks of the first
/// resolutions split the images of a microbatch and those of the others channels, with the change where the
/// step is shortest and fits. Every block keeps its input with full recompute, otherwise all that it
/// computes. Momentum is the optimizer's only state.
StepPrediction predictStep(const CostModel &machine, const ResidualNetwork &network,
                           const TrainingLayout &layout);

} // namespace colossal::cost

#endif // COLOSSAL_COST_RESIDUALNETWORK_H

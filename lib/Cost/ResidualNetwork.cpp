// The blocks of residual networks.
#include "colossal/Cost/ResidualNetwork.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

namespace colossal::cost {

namespace {

struct Shape {
  int depth;
  std::array<int, 4> blocks;
  bool bottleneck;
};
constexpr Shape kShapes[] = {{18, {2, 2, 2, 2}, false},
                             {34, {3, 4, 6, 3}, false},
                             {50, {3, 4, 6, 3}, true},
                             {101, {3, 4, 23, 3}, true},
                             {152, {3, 8, 36, 3}, true}};

const Shape *shapeOf(int depth) {
  for (const Shape &shape : kShapes)
    if (shape.depth == depth)
      return &shape;
  return nullptr;
}

void add(NetworkBlock &block, const Convolution &convolution) {
  block.convolutions.push_back(convolution);
  block.normalizedElements += convolution.out * convolution.outPixels;
  block.parameters += convolution.parameters() + 2 * convolution.out; // scale and shift
}

double pixels(double side) {
  return side * side;
}

} // namespace

std::string checkNetwork(const ResidualNetwork &network) {
  if (!shapeOf(network.depth))
    return "a residual network has 18, 34, 50, 101 or 152 layers, not " + std::to_string(network.depth);
  bool inRange = network.baseChannels >= 1 && network.baseChannels <= 1e6 && network.widthFactor > 0 &&
                 network.widthFactor <= 1e4 && network.image >= 32 && network.image <= 1e5 &&
                 network.classes >= 1 && network.classes <= 1e9;
  return inRange ? "" : "channels, width factor, image (32 pixels at least) or classes are out of range";
}

std::vector<NetworkBlock> networkBlocks(const ResidualNetwork &network) {
  const Shape *shape = shapeOf(network.depth);
  if (!shape)
    return {};
  std::vector<NetworkBlock> blocks;
  double base = network.baseChannels, side = std::ceil(network.image / 2);
  NetworkBlock stem;
  stem.inputElements = 3 * pixels(network.image);
  add(stem, {3, base, 7, pixels(network.image), pixels(side)});
  side = std::ceil(side / 2);
  stem.outputElements = base * pixels(side);
  blocks.push_back(stem);
  double channels = base;
  for (int resolution = 0; resolution < 4; ++resolution)
    for (int i = 0; i < shape->blocks[static_cast<std::size_t>(resolution)]; ++i) {
      double narrow = base * std::pow(2, resolution), wide = narrow * network.widthFactor;
      double out = shape->bottleneck ? 4 * narrow : narrow;
      double before = pixels(side);
      if (resolution > 0 && i == 0)
        side = std::ceil(side / 2);
      double after = pixels(side);
      NetworkBlock block;
      block.resolution = resolution;
      block.inputElements = channels * before;
      block.outputElements = out * after;
      if (shape->bottleneck) {
        add(block, {channels, narrow, 1, before, before});
        add(block, {narrow, wide, 3, before, after});
        add(block, {wide, out, 1, after, after});
        block.gatheredElements = narrow * before;
      } else {
        add(block, {channels, wide, 3, before, after});
        add(block, {wide, out, 3, after, after});
      }
      if (channels != out || before != after)
        add(block, {channels, out, 1, before, after});
      channels = out;
      blocks.push_back(block);
    }
  NetworkBlock head;
  head.resolution = 3;
  head.inputElements = channels * pixels(side);
  head.outputElements = network.classes;
  head.convolutions.push_back({channels, network.classes, 1, 1, 1});
  head.parameters = channels * network.classes + network.classes;
  blocks.push_back(head);
  return blocks;
}

double ResidualNetwork::parameters() const {
  double count = 0;
  for (const NetworkBlock &block : networkBlocks(*this))
    count += block.parameters;
  return count;
}

double ResidualNetwork::flopsPerStep(double images) const {
  double products = 0;
  for (const NetworkBlock &block : networkBlocks(*this))
    for (const Convolution &convolution : block.convolutions)
      products += convolution.parameters() * convolution.outPixels;
  return 6 * images * products;
}

namespace {

struct Entry {
  const char *name;
  ResidualNetwork network;
};
// Zheng et al., 2022, table 7, and He et al., 2015.
const Entry kNetworks[] = {{"250m", {50, 160, 2, 224, 1024}},       {"500m", {50, 224, 2, 224, 1024}},
                           {"1b", {50, 320, 2, 224, 1024}},         {"2b", {50, 448, 2, 224, 1024}},
                           {"4b", {50, 640, 2, 224, 1024}},         {"6.8b", {50, 320, 16, 224, 1024}},
                           {"13b", {101, 320, 16, 224, 1024}},      {"resnet-18", {18, 64, 1, 224, 1000}},
                           {"resnet-34", {34, 64, 1, 224, 1000}},   {"resnet-50", {50, 64, 1, 224, 1000}},
                           {"resnet-101", {101, 64, 1, 224, 1000}}, {"resnet-152", {152, 64, 1, 224, 1000}}};

} // namespace

bool publishedNetwork(std::string_view name, ResidualNetwork &network) {
  std::string wanted(name);
  std::transform(wanted.begin(), wanted.end(), wanted.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const Entry &entry : kNetworks)
    if (wanted == entry.name) {
      network = entry.network;
      return true;
    }
  return false;
}

bool publishedNetwork(double parametersB, ResidualNetwork &network) {
  double best = 0.06;
  bool found = false;
  for (const Entry &entry : kNetworks) {
    if (entry.name[0] == 'r')
      continue;
    double distance = std::abs(std::log(entry.network.parameters() / 1e9 / parametersB));
    if (distance < best) {
      best = distance;
      network = entry.network;
      found = true;
    }
  }
  return found;
}

} // namespace colossal::cost

// Modules in their order, then kernels in theirs.
#include "runtime/execute/Modules.h"

namespace colossal::runtime {

Status Modules::load(Device &device, const plan::Plan &plan, plan::ByteView code) {
  for (const plan::Module &module : plan.modules()) {
    const Images all = imagesOf(module, plan.target());
    int chosen = 0;
    COLOSSAL_RETURN_IF_ERROR(device.chooseImage(all, chosen));
    images.emplace_back();
    COLOSSAL_RETURN_IF_ERROR(
        device.loadImage({code.data + all[chosen].offset(), all[chosen].bytes()}, images.back()));
  }
  for (const plan::Kernel &kernel : plan.kernels()) {
    kernels.push_back(nullptr);
    COLOSSAL_RETURN_IF_ERROR(images[kernel.module()]->find(kernel.symbol(), kernels.back()));
  }
  return {};
}

} // namespace colossal::runtime

// Both forms in which a module has its images, as one.
#include "runtime/device/Images.h"

namespace colossal::runtime {

Images imagesOf(const plan::Module &module, const plan::Target &target) {
  if (module.images_size() > 0)
    return module.images();
  Images images;
  plan::Image &only = *images.Add();
  only.set_format(plan::Image::ELF);
  only.set_architecture(target.triple().substr(0, target.triple().find('-')));
  only.set_offset(module.offset());
  only.set_bytes(module.bytes());
  return images;
}

std::string describeImages(const Images &images) {
  std::string text;
  for (const plan::Image &image : images) {
    const char *format = image.format() == plan::Image::ELF     ? "ELF"
                         : image.format() == plan::Image::CUBIN ? "cubin"
                         : image.format() == plan::Image::PTX   ? "PTX"
                                                                : "code of an unknown format";
    text += (text.empty() ? "" : ", ") + std::string(format) + " for " + image.architecture();
  }
  return text;
}

plan::Status noImageFits(const Images &images, const std::string &takes) {
  return {plan::Code::Unsupported, "the plan's code is " + describeImages(images) + "; " + takes +
                                       ": compile the plan for it (colossal-compile --target)"};
}

} // namespace colossal::runtime

// The images of a plan's modules, and which of them a device takes.
#ifndef COLOSSAL_RUNTIME_DEVICE_IMAGES_H
#define COLOSSAL_RUNTIME_DEVICE_IMAGES_H

#include "colossal/Plan/Plan.pb.h"
#include "colossal/Plan/Status.h"

#include <string>

namespace colossal::runtime {

using Images = google::protobuf::RepeatedPtrField<plan::Image>;

/// A module's images; one where the plan says it in the form of its first version.
Images imagesOf(const plan::Module &module, const plan::Target &target);

/// "ELF for x86_64, cubin for sm_90".
std::string describeImages(const Images &images);

/// For a device that can load none of `images`; `takes` says what it is and could load.
plan::Status noImageFits(const Images &images, const std::string &takes);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_DEVICE_IMAGES_H

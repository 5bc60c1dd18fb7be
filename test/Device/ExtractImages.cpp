// Writes the images of a plan's kernels to files:  extract-images PLAN FOLDER
//
// FOLDER/sm_90.cubin, FOLDER/sm_90.ptx and so on; prints their names, one a line. What a GPU's assembler, or
// a disassembler, is to look at.
#include "colossal/Plan/Container.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

using namespace colossal;

int main(int argc, char **argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s PLAN FOLDER\n", argv[0]);
    return 2;
  }
  plan::PlanFile file;
  if (plan::Status status = plan::PlanFile::open(argv[1], /*checkOwner=*/false, file); !status.ok()) {
    std::fprintf(stderr, "%s: %s\n", argv[0], status.describe().c_str());
    return 1;
  }
  std::filesystem::create_directories(argv[2]);
  for (const plan::Module &module : file.plan().modules())
    for (const plan::Image &image : module.images()) {
      const bool isText = image.format() == plan::Image::PTX;
      const char *ending = isText ? ".ptx" : image.format() == plan::Image::CUBIN ? ".cubin" : ".so";
      const std::filesystem::path path = std::filesystem::path(argv[2]) / (image.architecture() + ending);
      if (image.offset() > file.code().size || image.bytes() > file.code().size - image.offset()) {
        std::fprintf(stderr, "%s: an image lies outside of the code\n", argv[0]);
        return 1;
      }
      // A text ends with a zero byte in the plan.
      const auto bytes = static_cast<std::streamsize>(image.bytes() - (isText && image.bytes() ? 1 : 0));
      std::ofstream out(path, std::ios::binary);
      out.write(reinterpret_cast<const char *>(file.code().data + image.offset()), bytes);
      if (!out.flush()) {
        std::fprintf(stderr, "%s: %s cannot be written\n", argv[0], path.c_str());
        return 1;
      }
      std::printf("%s\n", path.c_str());
    }
  return 0;
}

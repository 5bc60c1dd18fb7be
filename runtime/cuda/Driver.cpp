// Which GPU a rank gets, and what a host lacks.
#include "runtime/cuda/Driver.h"

#include "runtime/cuda/Device.h"
#include "runtime/cuda/Gpu.h"
#include "runtime/cuda/cublaslt/Library.h"
#include "runtime/cuda/cudnn/Library.h"

#include <cstdlib>

namespace colossal::runtime {

namespace {

constexpr const char *withoutGpu =
    "install NVIDIA's driver; without a GPU, tools/on-emulated-gpus N COMMAND executes plans for tests";

/// The place among the processes of this host, as launchers tell it: torchrun, Open MPI, MPICH and Intel MPI,
/// MVAPICH, Slurm. The last is often the one who started another.
int localRank() {
  for (const char *name : {"COLOSSAL_LOCAL_RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                           "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"})
    if (const char *value = std::getenv(name))
      return static_cast<int>(std::strtol(value, nullptr, 10));
  return 0;
}

class CudaDriver : public Driver {
public:
  Status checkTarget(const plan::Target &target) override {
    const CudaLibrary *library = nullptr;
    if (Status status = CudaLibrary::open(library); !status.ok())
      return {Code::Unsupported,
              "the plan is for NVIDIA GPUs (" + target.cpu() + "): " + status.message() + "; " + withoutGpu};
    if (library->deviceCount() == 0)
      return {Code::Unsupported,
              "the plan is for NVIDIA GPUs (" + target.cpu() +
                  "), and the driver finds none; CUDA_VISIBLE_DEVICES may hide them, else " + withoutGpu};
    return {};
  }

  Status createDevice(const DeviceOptions &options, Abort &abort, std::unique_ptr<Device> &device) override {
    const CudaLibrary *library = nullptr;
    COLOSSAL_RETURN_IF_ERROR(CudaLibrary::open(library));
    if (library->deviceCount() == 0)
      return {Code::Unsupported, "the NVIDIA driver finds no GPU"};
    Gpu gpu;
    COLOSSAL_RETURN_IF_ERROR(describeGpu(*library, (localRank() + made++) % library->deviceCount(), gpu));
    return CudaDevice::create(*library, gpu, options, abort, images, device);
  }

  Inventory inventory() override {
    Inventory inventory;
    const CudaLibrary *library = nullptr;
    if (Status status = CudaLibrary::open(library); !status.ok()) {
      inventory.missing.push_back(status.message());
      return inventory;
    }
    inventory.emulated = library->emulated();
    inventory.versions.push_back({"driver", "CUDA " + library->version()});
    for (int number = 0; number < library->deviceCount(); ++number) {
      Gpu gpu;
      if (Status status = describeGpu(*library, number, gpu); !status.ok())
        inventory.missing.push_back("GPU " + std::to_string(number) + ": " + status.message());
      else
        inventory.found.push_back(gpu.describe() + ", " + std::to_string(gpu.memory >> 20) + " MiB, " +
                                  std::to_string(gpu.multiprocessors) + " multiprocessors");
    }
    const CublasLtLibrary *contractions = nullptr;
    if (Status status = CublasLtLibrary::open(*library, contractions); status.ok())
      inventory.versions.push_back({"cuBLASLt", contractions->version()});
    else
      inventory.missing.push_back(status.message());
    // Only plans that were compiled for it need it: where it is missing, nothing is amiss.
    const CudnnLibrary *graphs = nullptr;
    if (CudnnLibrary::open(graphs).ok())
      inventory.versions.push_back({"cuDNN", graphs->version()});
    if (library->deviceCount() == 0)
      inventory.missing.push_back("the driver finds no GPU");
    return inventory;
  }

private:
  int made = 0;
  std::shared_ptr<CudaImageCache> images = std::make_shared<CudaImageCache>();
};

} // namespace

std::unique_ptr<Driver> createCudaDriver() {
  return std::make_unique<CudaDriver>();
}

} // namespace colossal::runtime

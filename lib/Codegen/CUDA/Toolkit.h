// What kernels need of NVIDIA's toolkit, where it is: of an installed one, or of Python packages.
//
// Looked for where CUDA_HOME and CUDA_PATH say, in the path (ptxas), in /usr/local/cuda, and among the Python
// packages that tools/setup installs (nvidia-cuda-nvcc, nvidia-nvvm).
#ifndef COLOSSAL_LIB_CODEGEN_CUDA_TOOLKIT_H
#define COLOSSAL_LIB_CODEGEN_CUDA_TOOLKIT_H

#include <string>

namespace colossal::nvidia {

/// The assembler; empty where none is found.
std::string findAssembler();
/// The bitcode of functions that GPUs have no instruction for; empty where none is found.
std::string findLibdevice();
/// What to do where one of them is missing.
constexpr const char *installToolkit =
    "install the CUDA toolkit, or say by CUDA_HOME where it is (pip install nvidia-cuda-nvcc nvidia-nvvm has "
    "these parts of it, in nvidia/cu13)";

} // namespace colossal::nvidia

#endif // COLOSSAL_LIB_CODEGEN_CUDA_TOOLKIT_H

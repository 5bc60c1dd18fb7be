// Our declarations of NVTX's tables and values against the vendor's headers.
#include "runtime/cuda/nvtx/Abi.h"
#include "test/Emulation/AbiComparison.h"

#include <nvtx3/nvToolsExt.h>

namespace colossal::nvtx {

#define COLOSSAL_NVTX_VALUE(ours, theirs)                                                                    \
  static_assert(static_cast<int>(ours) == static_cast<int>(theirs), #ours);
COLOSSAL_NVTX_VALUE(Version, NVTX_VERSION)
COLOSSAL_NVTX_VALUE(ModuleCore, NVTX_CB_MODULE_CORE)
COLOSSAL_NVTX_VALUE(ModuleCuda, NVTX_CB_MODULE_CUDA)
COLOSSAL_NVTX_VALUE(ModuleOpenCL, NVTX_CB_MODULE_OPENCL)
COLOSSAL_NVTX_VALUE(ModuleCudaRuntime, NVTX_CB_MODULE_CUDART)
COLOSSAL_NVTX_VALUE(ModuleCore2, NVTX_CB_MODULE_CORE2)
COLOSSAL_NVTX_VALUE(ModuleSync, NVTX_CB_MODULE_SYNC)
COLOSSAL_NVTX_VALUE(moduleCount, NVTX_CB_MODULE_SIZE)
COLOSSAL_NVTX_VALUE(callbackCounts[ModuleCore], NVTX_CBID_CORE_SIZE)
COLOSSAL_NVTX_VALUE(callbackCounts[ModuleCuda], NVTX_CBID_CUDA_SIZE)
COLOSSAL_NVTX_VALUE(callbackCounts[ModuleOpenCL], NVTX_CBID_OPENCL_SIZE)
COLOSSAL_NVTX_VALUE(callbackCounts[ModuleCudaRuntime], NVTX_CBID_CUDART_SIZE)
COLOSSAL_NVTX_VALUE(callbackCounts[ModuleCore2], NVTX_CBID_CORE2_SIZE)
COLOSSAL_NVTX_VALUE(callbackCounts[ModuleSync], NVTX_CBID_SYNC_SIZE)
COLOSSAL_NVTX_VALUE(DomainRangePushEx, NVTX_CBID_CORE2_DomainRangePushEx)
COLOSSAL_NVTX_VALUE(DomainRangePop, NVTX_CBID_CORE2_DomainRangePop)
COLOSSAL_NVTX_VALUE(DomainCreateA, NVTX_CBID_CORE2_DomainCreateA)
COLOSSAL_NVTX_VALUE(MessageAscii, NVTX_MESSAGE_TYPE_ASCII)
COLOSSAL_NVTX_VALUE(TableCallbacks, NVTX_ETID_CALLBACKS)
COLOSSAL_NVTX_VALUE(TableVersionInfo, NVTX_ETID_VERSIONINFO)

static_assert(sizeof(EventAttributes) == sizeof(nvtxEventAttributes_t));
static_assert(offsetof(EventAttributes, category) == offsetof(nvtxEventAttributes_t, category));
static_assert(offsetof(EventAttributes, colorType) == offsetof(nvtxEventAttributes_t, colorType));
static_assert(offsetof(EventAttributes, payloadType) == offsetof(nvtxEventAttributes_t, payloadType));
static_assert(offsetof(EventAttributes, payload) == offsetof(nvtxEventAttributes_t, payload));
static_assert(offsetof(EventAttributes, messageType) == offsetof(nvtxEventAttributes_t, messageType));
static_assert(offsetof(EventAttributes, message) == offsetof(nvtxEventAttributes_t, message));

template <class Ours, class Theirs>
constexpr bool same = emulation::sameFunction<std::remove_pointer_t<Ours>, std::remove_pointer_t<Theirs>>;
static_assert(same<DomainRangePushExFunction, nvtxDomainRangePushEx_impl_fntype>);
static_assert(same<DomainRangePopFunction, nvtxDomainRangePop_impl_fntype>);
static_assert(same<DomainCreateAFunction, nvtxDomainCreateA_impl_fntype>);

static_assert(sizeof(CallbacksTable) == sizeof(NvtxExportTableCallbacks));
static_assert(offsetof(CallbacksTable, getModuleFunctionTable) ==
              offsetof(NvtxExportTableCallbacks, GetModuleFunctionTable));
static_assert(same<decltype(CallbacksTable::getModuleFunctionTable),
                   decltype(NvtxExportTableCallbacks::GetModuleFunctionTable)>);
static_assert(sizeof(VersionInfoTable) == sizeof(NvtxExportTableVersionInfo));
static_assert(offsetof(VersionInfoTable, version) == offsetof(NvtxExportTableVersionInfo, version));
static_assert(offsetof(VersionInfoTable, setInjectionVersion) ==
              offsetof(NvtxExportTableVersionInfo, SetInjectionNvtxVersion));
static_assert(std::is_same_v<GetExportTable, NvtxGetExportTableFunc_t>);
static_assert(std::is_same_v<InitializeInjection, NvtxInitializeInjectionNvtxFunc_t>);

} // namespace colossal::nvtx

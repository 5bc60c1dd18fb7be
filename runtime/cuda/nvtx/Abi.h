// The part of NVTX 3's ABI by which a tool (Nsight Systems, Nsight Compute) attaches to a process, declared
// here so that it builds where no toolkit is. NVTX has no library: what is called is the tool's, which a
// process opens where NVTX_INJECTION64_PATH says, and which puts its functions into the process's tables.
// test/Emulation/nvtx/AbiTest.cpp compares this with the vendor's headers where those are installed.
//
// Names are the vendor's without their prefix; of values those stand here that somebody uses.
#ifndef COLOSSAL_RUNTIME_CUDA_NVTX_ABI_H
#define COLOSSAL_RUNTIME_CUDA_NVTX_ABI_H

#include <cstddef>
#include <cstdint>

namespace colossal::nvtx {

constexpr unsigned Version = 3;
constexpr const char *injectionVariable = "NVTX_INJECTION64_PATH";
constexpr const char *initializerName = "InitializeInjectionNvtx2";

using Domain = struct DomainHandle *;
using FunctionPointer = void (*)();
/// Places of function pointers, by callback number, which begins with 1.
using FunctionTable = FunctionPointer **;

enum Module : unsigned {
  ModuleCore = 1,
  ModuleCuda = 2,
  ModuleOpenCL = 3,
  ModuleCudaRuntime = 4,
  ModuleCore2 = 5,
  ModuleSync = 6
};
constexpr unsigned moduleCount = 7; // module 0 is none
/// Callbacks of each module, number 0 included.
constexpr unsigned callbackCounts[moduleCount] = {0, 16, 9, 15, 7, 16, 7};

enum CallbackCore2 : unsigned {
  DomainRangePushEx = 4,
  DomainRangePop = 5,
  DomainCreateA = 12,
};

enum MessageType : int32_t { MessageAscii = 1 };

struct EventAttributes {
  uint16_t version;
  uint16_t size;
  uint32_t category;
  int32_t colorType; ///< 0: none
  uint32_t color;
  int32_t payloadType; ///< 0: none
  int32_t reserved;
  uint64_t payload;
  int32_t messageType;
  const char *message; ///< of a MessageAscii; UTF-8
};

using DomainRangePushExFunction = int (*)(Domain, const EventAttributes *);
using DomainRangePopFunction = int (*)(Domain);
using DomainCreateAFunction = Domain (*)(const char *);

enum ExportTable : uint32_t { TableCallbacks = 1, TableVersionInfo = 3 };

struct CallbacksTable {
  size_t size; ///< of the struct
  /// Returns 1, or 0 where there is no such module. `count`: as callbackCounts.
  int (*getModuleFunctionTable)(Module module, FunctionTable *table, unsigned *count);
};

struct VersionInfoTable {
  size_t size; ///< of the struct
  uint32_t version;
  uint32_t reserved;
  void (*setInjectionVersion)(uint32_t version);
};

using GetExportTable = const void *(*)(uint32_t table);
/// The tool's symbol `initializerName`; not 0 where it has attached.
using InitializeInjection = int (*)(GetExportTable);

} // namespace colossal::nvtx

#endif // COLOSSAL_RUNTIME_CUDA_NVTX_ABI_H

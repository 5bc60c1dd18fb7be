// What colossal-run tells after a run: errors against expected outputs, times, memory; as text or as JSON.
#ifndef COLOSSAL_TOOLS_COLOSSAL_RUN_REPORT_H
#define COLOSSAL_TOOLS_COLOSSAL_RUN_REPORT_H

#include "colossal/Plan/Plan.pb.h"
#include "runtime/include/colossal-runtime.h"
#include "runtime/io/Tensor.h"

#include <nlohmann/json.hpp>

namespace colossal::runtime {

/// The error of one output. `relative` is the greatest |got - want| over the greatest |want|; equal
/// infinities and NaN at the same place are no error.
struct OutputError {
  std::string name;
  double absolute = 0, relative = 0;
  bool pass = false;
  std::string problem; ///< missing, or another shape
};
std::vector<OutputError> compareOutputs(const Tensors &got, const Tensors &want, double rtol, double atol);

/// Process memory above what it was at the start, beside the ranks' account.
struct MemoryReport {
  std::vector<colossal_memory_row> rows; ///< a rank's stand together; kinds belong to the session
  uint64_t processPeakAnonymous = 0;
};
std::string memoryText(const MemoryReport &report);
nlohmann::json memoryJson(const MemoryReport &report);

/// [{"rank", "device", "emulated", "ptx_instructions"}]; the last only where it is emulated.
nlohmann::json devicesJson(const std::vector<colossal_device_row> &rows);
/// What this host has of each kind of device: versions, what was found, what is missing.
std::string inventoryText();
nlohmann::json inventoryJson();

/// The programs' inputs and outputs.
std::string bindingsText(const plan::Plan &plan);
/// {"programs": [{"name", "inputs": [{"name", "type", "shape"}], "fixed_inputs": [...], "outputs": [...]}]}.
nlohmann::json bindingsJson(const plan::Plan &plan);
/// All of the plan but its data and code: the schema's fields by their names, as Protobuf writes JSON (64-bit
/// integers are strings there).
Status planJson(const plan::Plan &plan, std::string &text);

} // namespace colossal::runtime

#endif // COLOSSAL_TOOLS_COLOSSAL_RUN_REPORT_H

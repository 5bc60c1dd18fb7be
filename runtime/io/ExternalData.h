// Which files beside an ONNX file its tensors lie in (external data), whatever version of the format it is.
#ifndef COLOSSAL_RUNTIME_IO_EXTERNALDATA_H
#define COLOSSAL_RUNTIME_IO_EXTERNALDATA_H

#include "colossal/Plan/Status.h"

#include <string>
#include <vector>

namespace colossal::runtime {

using plan::Code;
using plan::Status;

/// The path of the file that tensors of `model`, an ONNX file's path, call `location`.
std::string externalPath(const std::string &model, const std::string &location);

/// Adds the paths of all such files, each once, of initializers, of nodes' attributes and in subgraphs; they
/// need not be there. InvalidArgument where the fields of `model` cannot be read.
Status listExternalData(const std::string &model, std::vector<std::string> &files);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_IO_EXTERNALDATA_H

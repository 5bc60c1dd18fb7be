// Dimensions of models that tables name only.
#ifndef COLOSSAL_COST_PUBLISHEDMODELS_H
#define COLOSSAL_COST_PUBLISHEDMODELS_H

#include "colossal/Cost/Transformer.h"

#include <string>
#include <string_view>

namespace colossal::cost {

/// Who published the model, since names such as "1.5B" mean different things to different papers.
enum class Suite { Any, Megatron, ZeroBubble, Llama, Alpa };

/// By name ("Llama3.1-8B", "22B", "gpt 2.6B"), in any case; null if it is not known.
const ModelDimensions *publishedModel(Suite suite, std::string_view name);
/// The one whose number of parameters, in 10^9, is nearest; null if none lies within 5 %.
const ModelDimensions *publishedModel(Suite suite, std::string_view family, double parametersB);
/// All names, for messages.
std::string publishedModelNames();

} // namespace colossal::cost

#endif // COLOSSAL_COST_PUBLISHEDMODELS_H

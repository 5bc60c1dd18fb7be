//===- LossText.cpp - losses as they are asked for ---------------------------===//
#include "colossal/Training/Training.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <limits>

using namespace colossal;
using namespace colossal::training;

static constexpr const char *kForms =
    "losses are cross-entropy,logits=OUTPUT[,labels=NAME][,shift=1][,tokens=NAME][,ignore-index=-100]"
    "[,label-smoothing=S]; mse, l1 and bce-with-logits, each with output=NAME; and output=NAME alone, where "
    "the "
    "model holds its own loss";

/// Takes one KEY=VALUE; what is wrong with it, or "".
static std::string takeKey(llvm::StringRef key, llvm::StringRef value, Loss &loss) {
  const bool isCrossEntropy = loss.kind == Loss::CrossEntropy;
  if (value.empty())
    return "'" + key.str() + "' has no value";
  if (key == (isCrossEntropy ? "logits" : "output") || (isCrossEntropy && key == "output")) {
    loss.output = value.str();
    return "";
  }
  if (!isCrossEntropy)
    return "'" + key.str() + "' says nothing of this loss";
  if (key == "labels") {
    loss.labels = value.str();
  } else if (key == "tokens") {
    loss.tokens = value.str();
  } else if (key == "shift") {
    if (value != "0" && value != "1")
      return "shift=" + value.str() + " is neither 0 nor 1";
    loss.shift = value == "1";
  } else if (key == "ignore-index") {
    if (value.getAsInteger(10, loss.ignored) || loss.ignored < std::numeric_limits<int32_t>::min() ||
        loss.ignored > std::numeric_limits<int32_t>::max())
      return "ignore-index=" + value.str() + " is no integer of 32 bits";
  } else if (key == "label-smoothing") {
    if (value.getAsDouble(loss.smoothing) || !(loss.smoothing >= 0 && loss.smoothing <= 1))
      return "label-smoothing=" + value.str() + " is no number from 0 to 1";
  } else {
    return "'" + key.str() + "' is not known";
  }
  return "";
}

std::optional<Loss> training::parseLoss(const std::string &text, std::string &error) {
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::StringRef(text).split(parts, ',');
  Loss loss;
  loss.text = text;
  auto fail = [&](const std::string &why) {
    error = "'" + text + "': " + why + "; " + kForms;
    return std::nullopt;
  };
  llvm::ArrayRef<llvm::StringRef> keys(parts);
  if (parts.front().contains('=')) {
    loss.kind = Loss::Own;
  } else {
    auto kind = llvm::StringSwitch<std::optional<Loss::Kind>>(parts.front().trim())
                    .Case("cross-entropy", Loss::CrossEntropy)
                    .Case("mse", Loss::MeanSquare)
                    .Case("l1", Loss::MeanAbsolute)
                    .Case("bce-with-logits", Loss::BinaryCrossEntropy)
                    .Default(std::nullopt);
    if (!kind)
      return fail("'" + parts.front().str() + "' is no loss");
    loss.kind = *kind;
    keys = keys.drop_front();
  }
  for (llvm::StringRef part : keys) {
    auto [key, value] = part.split('=');
    if (std::string wrong = takeKey(key.trim(), value.trim(), loss); !wrong.empty())
      return fail(wrong);
  }
  if (!loss.tokens.empty() && !loss.shift)
    return fail("tokens= says what shift=1 takes the classes of");
  if (loss.shift && !loss.labels.empty() && !loss.tokens.empty())
    return fail("with shift=1 classes come from labels= or from tokens=, not from both");
  return loss;
}

// Which inputs of ONNX operators only shape the computation: what a user gives by --value.
//
// Declared per operator, so that a node test can never pass by having its data folded away unseen.
#ifndef COLOSSAL_TEST_CONFORMANCE_SHAPINGINPUTS_H
#define COLOSSAL_TEST_CONFORMANCE_SHAPINGINPUTS_H

#include <string>
#include <utility>
#include <vector>

namespace onnx {
class GraphProto;
}

namespace colossal::conformance {

enum class Binding {
  Nothing, ///< every input is a run-time input
  Shapes,  ///< inputs that only shape the computation are bound
  Data     ///< the shape of the result depends on data, which is bound, too: the test folds
};

struct BoundInput {
  std::string input;  ///< of the graph
  std::string reason; ///< operator and its input: "Reshape shape"
};

/// The inputs of `graph` to bind at compile time: those that are, directly, shaping inputs of a node of it or
/// of its subgraphs. `original` is the graph of the same test before its function was expanded (or `graph`
/// itself), whose inputs have the same names.
std::pair<Binding, std::vector<BoundInput>> findShapingInputs(const onnx::GraphProto &graph,
                                                              const onnx::GraphProto &original);

} // namespace colossal::conformance

#endif // COLOSSAL_TEST_CONFORMANCE_SHAPINGINPUTS_H

// Which nodes of an ONNX file read which value, where several values have taken the place of one
// initializer: exporters write equal tensors once, and each has trained its own since.
#ifndef COLOSSAL_RUNTIME_IO_ONNXREADERS_H
#define COLOSSAL_RUNTIME_IO_ONNXREADERS_H

#include "runtime/io/OnnxRewrite.h"

#include <set>
#include <string_view>
#include <vector>

namespace colossal::runtime {

/// InvalidArgument: what is said of a file whose fields cannot be read.
Status damagedModel();

/// The readers of the values that have `NewTensor::beside`, and what is to be written for them.
class OnnxReaders {
public:
  /// `values` by name; it outlives this.
  explicit OnnxReaders(const std::map<std::string, NewTensor> &values) : values(values) {}

  /// Finds the readers in a main graph, a GraphProto's bytes, which outlive this. Unsupported where it is not
  /// plain which node reads which value; InvalidArgument where the graph is damaged.
  Status find(std::string_view graph);

  /// The values that have readers, by name.
  const std::set<std::string> &found() const { return names; }
  /// Statistics of batch normalizations that stay as they are, where what was trained has the name of their
  /// initializer: the names of copies of it.
  const std::map<std::string, std::string> &kept() const { return statistics; }

  /// Whether the node of this number, counted as they stand in the graph, reads such values.
  bool isRedirected(size_t node) const { return redirected.count(node) > 0; }
  /// The NodeProto of such a node with the values' names as inputs. `before` gets fields of the graph that go
  /// before it: copies of the nodes that move an initializer about, which move a value of its own.
  std::string redirect(size_t node, std::string &before);

  /// The TensorProto that `name` takes the place of, or is a copy of, by that name; empty: it is no
  /// initializer.
  std::string initializerBeside(const std::string &name) const;
  /// The ValueInfoProto of that initializer, by `name`; empty: it is no input of the graph.
  std::string inputBeside(const std::string &name) const;

private:
  struct Node {
    std::string_view text;
    std::string name, kind;
    std::vector<std::string> inputs, outputs;
  };
  /// A node that reads an initializer, by which inputs, and the value of its own that it gets; empty: not
  /// known yet.
  struct Reader {
    size_t node = 0;
    size_t place =
        0; ///< of the node's places that read it; 0 but for a concatenation, each place of which is one
    std::vector<size_t> inputs;
    std::string state;
  };
  /// Reads nodes, initializers and inputs.
  Status survey(std::string_view graph);
  /// Finds which inputs of which nodes read which of the values that have taken the place of one.
  Status findReaders(const std::string &of, bool isStatistic);
  /// Has what reads the old contents of a trained initializer as statistics read a copy of it.
  Status keepStatistics(const std::string &of);
  /// The initializer that `name` is beside.
  const std::string &besideOf(const std::string &name) const;
  /// The reader that is meant where the compiler has called one after this place of the node `called`; -1:
  /// not plain.
  int findReader(const std::string &called, const std::vector<Reader> &readers, size_t place = 0) const;
  /// Steps from a node to one that its values go into, at most `most`; -1: none.
  int distance(size_t from, size_t to, int most) const;
  /// The producers, first to last, by which `input` is the tensor `of` moved about; false: it is something
  /// else.
  bool trace(const std::string &input, const std::string &of, std::vector<size_t> &path) const;

  const std::map<std::string, NewTensor> &values;
  std::vector<Node> nodes;
  std::map<std::string, size_t> producers; ///< by output
  std::map<std::string, std::string_view> initializers, inputs;
  std::map<size_t, std::map<size_t, std::string>> redirected; ///< by node and input: what it reads
  std::set<std::string> names;
  std::map<std::string, std::string> statistics; ///< initializers by the names of their copies
  std::set<std::string> moved;                   ///< outputs of nodes that were added
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_IO_ONNXREADERS_H

// Runs parts of a model's graph by themselves on one device: for tools that compare backends node
// by node.
//
// The graph is that of one step of a single sequence: `tokens` at the end of `past` positions,
// whose K and V are made up (the same on every device, where it can import pages). The caller gives
// what a part reads and gets back what it leaves; weights and KV of one placement unit are held at
// a time, so a large model needs little memory. Memory is allocated per run. Used by one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "minfer/graph.h"
#include "minfer/model.h"
#include "minfer/plugin_host.h"
#include "minfer/tokenizer.h"

namespace minfer {

/// Bytes of tensors by their index in the graph, each from its first to its last element. Views
/// stand under the tensor that owns their memory.
using TensorValues = std::map<uint32_t, std::vector<uint8_t>>;

/// The step that the graph is built for.
struct NodeRunnerStep {
  std::vector<TokenId> tokens;  ///< at least one; logits of the last one
  uint32_t past = 0;            ///< positions held before; 0 where the device imports no pages
  uint32_t kv_type = MINFER_TYPE_F16;
};

/// What a run left behind.
struct PartResult {
  TensorValues outputs;             ///< what nodes outside the part (or the host) read
  std::vector<NodeReport> reports;  ///< of each node, in order
};

class NodeRunner {
 public:
  /// kUsage without tokens or with one that the model does not have, else what the device says.
  static Result<std::unique_ptr<NodeRunner>> create(std::shared_ptr<const Model> model,
                                                    std::shared_ptr<Device> device,
                                                    const NodeRunnerStep& step);
  virtual ~NodeRunner() = default;

  virtual const Graph& graph() const = 0;
  /// Positions before the step: what was asked for, or 0.
  virtual uint32_t past() const = 0;
  /// Lets go of the unit before and imports the weights of this one (index into Graph::units).
  virtual Result<void> enter_unit(uint32_t unit) = 0;
  /// Runs nodes of the entered unit (ascending) as one plan. `inputs` holds the activations that
  /// they read from outside; kInternal names one that is missing or has the wrong size.
  virtual Result<PartResult> run(std::span<const uint32_t> nodes, const TensorValues& inputs) = 0;
};

}  // namespace minfer

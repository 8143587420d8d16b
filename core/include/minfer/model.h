// Models: hyper-parameters checked against a GGUF file, and the graph of an architecture.
//
// An architecture is one folder under models/ and one line in models/registry.cpp; see
// docs/adding-a-model.md. A Model is immutable after creation and safe to use from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "minfer/gguf.h"
#include "minfer/graph.h"
#include "minfer/result.h"

namespace minfer {

/// Hyper-parameters that every decoder architecture here has.
struct HyperParams {
  std::string architecture;  ///< general.architecture
  std::string name;          ///< general.name
  uint32_t n_layer = 0;
  uint32_t n_embd = 0;
  uint32_t n_head = 0;
  uint32_t n_head_kv = 0;
  uint32_t head_dim = 0;  ///< of K and V
  uint32_t n_ff = 0;
  uint32_t n_vocab = 0;
  uint32_t context_length = 0;  ///< trained context
  float rms_eps = 1e-6f;
  minfer_rope_params rope{};
  bool tied_head = false;  ///< the output matrix is the embedding
};

class Model {
 public:
  /// Opens the architecture that `general.architecture` names; kUnsupported lists the known ones.
  static Result<std::shared_ptr<const Model>> create(std::shared_ptr<const GgufFile> file);
  virtual ~Model() = default;

  const GgufFile& file() const { return *file_; }
  const HyperParams& hparams() const { return hparams_; }
  std::span<const ModelWeight> weights() const { return weights_; }
  std::span<const KvLayer> kv_layers() const { return kv_layers_; }
  std::span<const KvGroup> kv_groups() const { return kv_groups_; }

  /// The graph for a bucket. Pure: equal params give equal graphs.
  Result<Graph> build(const GraphParams& params) const;

 protected:
  explicit Model(std::shared_ptr<const GgufFile> file);
  /// Adds the architecture's nodes, units in order: embedding, per layer attention and ffn, head.
  virtual void build_graph(GraphBuilder& builder) const = 0;

  std::shared_ptr<const GgufFile> file_;
  HyperParams hparams_;
  std::vector<ModelWeight> weights_;
  std::vector<KvLayer> kv_layers_;
  std::vector<KvGroup> kv_groups_;
};

/// Names of the architectures that this build knows.
std::vector<std::string_view> known_architectures();

}  // namespace minfer

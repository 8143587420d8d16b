// One side of a verification: a plugin host with its gates, a model, and what they open.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "host.h"
#include "minfer/engine.h"

namespace minfer::verify {

class Side {
 public:
  static Result<Side> open(const RunConfig& config, const std::vector<app::GateFlag>& gates,
                           bool quiet);

  const std::shared_ptr<const Model>& model() const { return model_; }
  /// The first device named, or the best one.
  Result<std::shared_ptr<Device>> device();
  /// A loaded engine for `sequences` sequences of `context` positions; `step_outputs` rows of
  /// logits in a step, 0: one for each sequence.
  Result<std::unique_ptr<Engine>> engine(uint32_t sequences, uint32_t context,
                                         uint32_t step_outputs = 0);
  /// The KV type that the engine would take.
  uint32_t kv_type() const;
  /// "cuda:0 (MINFER_MMQ=off)": the device and the gates that are not at their defaults.
  std::string name() const;

 private:
  Result<const DeviceInfo*> device_info() const;

  std::unique_ptr<PluginHost> host_;
  std::shared_ptr<const Model> model_;
  EngineOptions options_;
};

/// `text` as tokens, or, without a vocabulary, tokens drawn with a fixed seed; at least `least`.
std::vector<TokenId> prompt_tokens(const Model& model, const std::string& text, size_t least);

}  // namespace minfer::verify

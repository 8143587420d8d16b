// A tiny llama in float64: what the logits of a sequence must be, written down as plainly as the
// architecture allows, for comparison with an engine on any backend.
//
// Weights are those of tiny_models.h. Immutable after construction.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace conformance {

class ReferenceLlama {
 public:
  static constexpr int64_t kVocab = 256;

  /// Logits after each token of one sequence: tokens.size() rows of kVocab.
  std::vector<std::vector<double>> logits(const std::vector<int32_t>& tokens) const;

 private:
  using Row = std::vector<double>;
  const std::vector<float>& weight(const std::string& name, const std::vector<int64_t>& ne) const;
  Row multiply(const std::string& name, const Row& x, int64_t rows) const;
  Row norm(const std::string& name, const Row& x) const;
  std::vector<Row> attend(int layer, const std::vector<Row>& x) const;
  Row feed_forward(int layer, const Row& x) const;

  mutable std::map<std::string, std::vector<float>> weights_;
};

}  // namespace conformance

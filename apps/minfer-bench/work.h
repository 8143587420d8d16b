// How much a workload asks of the hardware: the least bytes it must read and the arithmetic of its
// matrix products and attention, from the model's own graph.
//
// A lower bound, the same for every backend: what a backend moves or computes beyond it is its own
// affair and lowers its share of the ceiling. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "minfer/model.h"
#include "workload.h"

namespace minfer::bench {

struct Work {
  double bytes = 0;  ///< every matrix once a step, and the keys and values that are looked at
  double flops = 0;  ///< 2 for each multiply-add
};

/// What steps of a model cost.
class ModelCost {
 public:
  /// `kv_type`: MINFER_TYPE_* of stored keys and values.
  static Result<ModelCost> create(const Model& model, uint32_t kv_type);

  /// One run of a workload, its prompts cut into steps of at most `step_tokens`.
  Work of(const app::Workload& workload, uint32_t step_tokens) const;

  /// Type of the matrices that hold the most bytes.
  uint32_t main_type() const { return main_type_; }

 private:
  struct Matrix {
    double bytes = 0;
    double flops = 0;         ///< of one row
    bool per_output = false;  ///< rows are the wanted ones, not all tokens
    double part = 1;          ///< of its bytes that one row reads (experts)
  };
  struct Attention {
    uint32_t window = 0;
    double flops = 0;  ///< of one token and one position
    double bytes = 0;  ///< of one position
  };
  struct Span {
    uint32_t start = 0;  ///< positions held before
    uint32_t tokens = 0;
  };
  void add_step(std::vector<Span> spans, uint32_t outputs, Work& sum) const;

  std::vector<Matrix> matrices_;
  std::vector<Attention> attentions_;
  uint32_t main_type_ = MINFER_TYPE_F32;
};

}  // namespace minfer::bench

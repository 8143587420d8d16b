// Turns a graph and its fusions into steps (see plan.h). One method per operator family; each adds
// the steps, notes which memory they touch, and labels the node.
#pragma once

#include <map>

#include "../kernels/activation.h"
#include "fusion.h"
#include "plan.h"

namespace minfer_cuda {

struct AttentionCall;

/// The activation of a gated unit, of its SILU or GELU node.
GateFn gate_fn(const Node& node);

class PlanBuilder {
 public:
  /// One matrix of a launch, in tensor numbers; `out` is kNone where no f32 is written.
  struct MatrixPart {
    uint32_t weight = kNone, bias = kNone, residual = kNone, out = kNone;
    uint32_t type = 0;
    int32_t od = 0;
  };

  PlanBuilder(const Caps& caps, const Gates& gates, Program& program);
  void build();

 private:
  using Launch = std::function<cudaError_t(const Bound&, cudaStream_t)>;

  void emit_node(uint32_t n);
  void emit_gather(uint32_t n);
  void emit_elementwise(uint32_t n);
  void emit_norm(uint32_t n);
  void emit_gated(uint32_t n);
  void emit_matmul(uint32_t n);
  void emit_hopper_decode(uint32_t n);
  void emit_hopper_gemm(uint32_t n);
  void emit_norm_to_fragments(uint32_t n);
  void emit_experts(uint32_t n);
  void emit_rope(uint32_t n);
  void emit_store(uint32_t n);
  struct StorePlan;
  StorePlan plan_store(uint32_t n);
  /// The attention that reads what this KV_STORE node stores does its work.
  bool stores_in_attention(uint32_t store) const;
  bool runs_decode_mma(const AttentionCall& shape) const;
  void emit_attention(uint32_t n);
  void emit_selection(uint32_t n);
  void emit_concat(uint32_t n);

  /// Adds a step that reads and writes these tensors and work items.
  void add_step(uint32_t n, std::initializer_list<uint32_t> tensors,
                std::initializer_list<uint32_t> items, uint32_t launches, Launch launch);
  void touch_tensor(uint32_t tensor, uint32_t step);
  void touch_item(uint32_t item, uint32_t step);
  uint32_t new_item(uint64_t bytes);
  /// The int8 or f16 rows of an activation, converted here unless a producer already did.
  uint32_t int8_item(uint32_t n, uint32_t tensor);
  uint32_t half_item(uint32_t n, uint32_t tensor);
  /// f16 rows in fragment order (hopper/prefill.h), with a scale of each row behind them, or one
  /// factor, or that and sums of squares that a folded norm's scale comes from.
  struct Fragments {
    uint32_t item = kNone;
    float factor = 0.f;        ///< of all rows; 0: each has a scale
    uint32_t squares = kNone;  ///< item
    float eps = 0.f;
  };
  Fragments fragment_item(uint32_t n, uint32_t tensor);
  /// A work item that the producer of `tensor` fills with f16 rows in fragment order.
  uint32_t produced_fragments(uint32_t tensor, float factor);
  /// The matmuls of n's launch, gate before up where it computes a gated unit.
  std::vector<uint32_t> hopper_members(uint32_t n) const;
  MatrixPart matrix_part(uint32_t m, bool gated) const;
  void label_hopper(uint32_t n, const std::vector<uint32_t>& members, bool residual, bool folds);
  /// Offset in the constants of the flags that the wgmma launches share.
  uint64_t hopper_flags_at();
  /// A work item that the producer of `tensor` fills with int8 rows, or kNone when nobody wants
  /// them.
  uint32_t produced_int8(uint32_t tensor);
  /// Offset of the turns of a rotation in the constants.
  uint64_t turns_at(const minfer_rope_params& params);
  void label(uint32_t n, std::string kernel, std::string why = {});
  void fused(uint32_t n, uint32_t anchor, std::string kernel);

  const Tensor& tensor(uint32_t t) const { return program_.graph.tensors[t]; }
  const Node& node(uint32_t n) const { return program_.graph.nodes[n]; }

  const Caps& caps_;
  const Gates& gates_;
  Program& program_;
  Fusion fusion_;
  std::map<uint32_t, uint32_t> stores_;      // ATTENTION node -> KV_STORE node that it does
  std::map<uint32_t, uint32_t> int8_items_;  // tensor -> item
  std::map<uint32_t, uint32_t> half_items_;
  std::map<uint32_t, Fragments> fragment_items_;
  /// Sums of squares of a folded norm's input, by the norm's result.
  struct Squares {
    uint32_t item = kNone;
    float eps = 0.f;
  };
  std::map<uint32_t, Squares> squares_items_;
  static constexpr uint64_t kNoFlags = ~uint64_t{0};
  uint64_t hopper_flags_ = kNoFlags;
};

}  // namespace minfer_cuda

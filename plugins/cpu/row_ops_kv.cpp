// ROPE and KV_STORE: what happens to q, k and v between projection and attention.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "row_ops.h"

namespace minfer_cpu {
namespace {

// Angles in double precision: position times frequency exceeds what f32 can reduce modulo 2 pi.
class RopeTableOp final : public RowOp {
 public:
  RopeTableOp(const OpContext& ctx, const Node& node, const RopeTable* table)
      : pos_stride_(ctx.tensor(node.src[1]).nb[0]),
        pos_(node.src[1]),
        factors_(node.source(2)),
        params_(node.params.rope),
        table_(table) {
    const double base = params_.freq_base;
    const double n_rot = params_.n_rot;
    for (uint32_t p = 0; p < params_.n_rot / 2; ++p) {
      frequency_.push_back(std::pow(base, -2.0 * p / n_rot));
      blend_.push_back(blend(p));
    }
    magnitude_ = params_.attn_factor;
    if (params_.ext_factor != 0.0f) magnitude_ *= 1.0 - 0.1 * std::log(params_.freq_scale);
  }

  void rows(const Run& run, int64_t r0, int64_t r1, unsigned) const override {
    const float* factors = factors_ == MINFER_NONE ? nullptr : run.floats(factors_);
    const int64_t half = table_->half;
    for (int64_t r = r0; r < r1; ++r) {
      const double pos = *reinterpret_cast<const int32_t*>(run.data[pos_] + r * pos_stride_);
      float* cos = reinterpret_cast<float*>(run.workspace + table_->offset) + r * 2 * half;
      for (int64_t p = 0; p < half; ++p) {
        const size_t i = static_cast<size_t>(p);
        double angle = pos * frequency_[i] * blend_[i];
        if (factors != nullptr) angle /= static_cast<double>(factors[p]);
        cos[p] = static_cast<float>(std::cos(angle) * magnitude_);
        cos[half + p] = static_cast<float>(std::sin(angle) * magnitude_);
      }
    }
  }

 private:
  // What theta is multiplied by: freq_scale, blended towards 1 by YaRN's ramp.
  double blend(uint32_t pair) const {
    const double scale = params_.freq_scale;
    if (params_.ext_factor == 0.0f) return scale;
    const double last = params_.n_rot - 1.0;
    const double low = std::clamp(std::floor(dimension(params_.beta_fast)), 0.0, last);
    const double high = std::clamp(std::ceil(dimension(params_.beta_slow)), 0.0, last);
    const double ramp = std::clamp((pair - low) / std::max(0.001, high - low), 0.0, 1.0);
    const double mix = (1.0 - ramp) * params_.ext_factor;
    return scale * (1.0 - mix) + mix;
  }

  // The dimension that turns `beta` times over the original context.
  double dimension(double beta) const {
    return params_.n_rot * std::log(params_.n_ctx_orig / (2.0 * std::numbers::pi * beta)) /
           (2.0 * std::log(static_cast<double>(params_.freq_base)));
  }

  int64_t pos_stride_;
  uint32_t pos_, factors_;
  minfer_rope_params params_;
  const RopeTable* table_;
  std::vector<double> frequency_, blend_;
  double magnitude_ = 1.0;
};

class Rope final : public RowOp {
 public:
  Rope(const OpContext& ctx, const Node& node, const RopeTable* table)
      : ctx_(ctx), x_(node.src[0]), out_(node.dst), params_(node.params.rope), table_(table) {}

  void rows(const Run& run, int64_t r0, int64_t r1, unsigned) const override {
    const Tensor& x = ctx_.tensor(x_);
    const Tensor& out = ctx_.tensor(out_);
    const int64_t half = table_->half;
    const auto rotate =
        params_.mode == MINFER_ROPE_NEOX ? ctx_.vec->rope_neox : ctx_.vec->rope_interleaved;
    for (int64_t r = r0; r < r1; ++r) {
      const float* cos =
          reinterpret_cast<const float*>(run.workspace + table_->offset) + r * 2 * half;
      for (int64_t head = 0; head < x.ne[1]; ++head) {
        const float* from =
            reinterpret_cast<const float*>(run.data[x_] + r * x.nb[2] + head * x.nb[1]);
        float* to = reinterpret_cast<float*>(run.data[out_] + r * out.nb[2] + head * out.nb[1]);
        rotate(from, cos, cos + half, half, to);
        std::copy(from + 2 * half, from + x.ne[0], to + 2 * half);
      }
    }
  }

 private:
  OpContext ctx_;
  uint32_t x_, out_;
  minfer_rope_params params_;
  const RopeTable* table_;
};

class KvStore final : public RowOp {
 public:
  KvStore(const OpContext& ctx, const Node& node, const KvLayout& layout)
      : ctx_(ctx),
        ops_(&ctx.vec->kv[layout.type]),
        layout_(layout),
        k_(node.src[0]),
        v_(node.src[1]),
        slot_(node.src[2]),
        kv_(node.params.kv.kv) {}

  void rows(const Run& run, int64_t r0, int64_t r1, unsigned) const override {
    const Tensor& k = ctx_.tensor(k_);
    const Tensor& v = ctx_.tensor(v_);
    const int64_t slot_stride = ctx_.tensor(slot_).nb[0];
    for (int64_t r = r0; r < r1; ++r) {
      const int64_t slot = *reinterpret_cast<const int64_t*>(run.data[slot_] + r * slot_stride);
      if (slot < 0) continue;
      const int64_t page = slot / layout_.page_tokens, place = slot % layout_.page_tokens;
      for (int64_t head = 0; head < layout_.heads; ++head) {
        ops_->store_k(reinterpret_cast<const float*>(run.data[k_] + r * k.nb[2] + head * k.nb[1]),
                      layout_.dim_k, run.kv[kv_] + layout_.k_offset(page, head, place),
                      place % kKvLanes);
        ops_->store_v(reinterpret_cast<const float*>(run.data[v_] + r * v.nb[2] + head * v.nb[1]),
                      layout_.dim_v, run.kv[kv_] + layout_.v_offset(page, head, place));
      }
    }
  }

 private:
  OpContext ctx_;
  const KvOps* ops_;
  KvLayout layout_;
  uint32_t k_, v_, slot_, kv_;
};

}  // namespace

std::unique_ptr<RowOp> make_rope_table(const OpContext& ctx, const Node& node,
                                       const RopeTable* table) {
  return std::make_unique<RopeTableOp>(ctx, node, table);
}

std::unique_ptr<RowOp> make_rope(const OpContext& ctx, const Node& node, const RopeTable* table) {
  return std::make_unique<Rope>(ctx, node, table);
}

std::unique_ptr<RowOp> make_kv_store(const OpContext& ctx, const Node& node,
                                     const KvLayout& layout) {
  return std::make_unique<KvStore>(ctx, node, layout);
}

}  // namespace minfer_cpu

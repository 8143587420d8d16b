// ADD, MUL, SCALE, SILU, GELU, SOFT_CAP and the gated pairs, over strided views.
#include <algorithm>

#include "row_ops.h"

namespace minfer_cpu {
namespace {

// Where element (i0, i1, i2, i3) of a tensor lies; repeated dimensions (ne = 1) stay at 0.
struct Operand {
  uint32_t index = 0;
  int64_t stride[4] = {};  // bytes; 0 along repeated dimensions

  Operand() = default;
  Operand(const OpContext& ctx, uint32_t tensor) : index(tensor) {
    const Tensor& t = ctx.tensor(tensor);
    int64_t packed = sizeof(float);  // a plain weight is f32 without gaps, whatever the file had
    for (int i = 0; i < 4; ++i) {
      stride[i] = t.ne[i] == 1 ? 0 : t.is_weight() ? packed : t.nb[i];
      packed *= t.ne[i];
    }
  }
  float* at(const Run& run, const int64_t* i) const {
    const int64_t offset =
        i[0] * stride[0] + i[1] * stride[1] + i[2] * stride[2] + i[3] * stride[3];
    return reinterpret_cast<float*>(run.data[index] + offset);
  }
};

// Calls body(i, n) for every run of n elements along axis 0 within rows [r0, r1).
template <class Body>
void for_each_vector(const Tensor& t, int64_t r0, int64_t r1, Body body) {
  int64_t begin[4] = {}, end[4] = {t.ne[0], t.ne[1], t.ne[2], t.ne[3]};
  const uint32_t axis = t.row_axis();
  begin[axis] = r0;
  end[axis] = r1;
  const int64_t n = end[0] - begin[0];
  if (n <= 0) return;
  int64_t i[4] = {begin[0], 0, 0, 0};
  for (i[3] = begin[3]; i[3] < end[3]; ++i[3]) {
    for (i[2] = begin[2]; i[2] < end[2]; ++i[2]) {
      for (i[1] = begin[1]; i[1] < end[1]; ++i[1]) body(i, n);
    }
  }
}

class Binary final : public RowOp {
 public:
  Binary(const OpContext& ctx, uint32_t op, uint32_t a, uint32_t b, uint32_t dst)
      : vec_(ctx.vec),
        shape_(&ctx.tensor(dst)),
        a_(ctx, a),
        b_(ctx, b),
        dst_(ctx, dst),
        add_(op == MINFER_OP_ADD),
        scalar_(ctx.tensor(b).ne[0] == 1 && shape_->ne[0] != 1) {}

  void rows(const Run& run, int64_t r0, int64_t r1, unsigned) const override {
    for_each_vector(*shape_, r0, r1, [&](const int64_t* i, int64_t n) {
      const float* a = a_.at(run, i);
      const float* b = b_.at(run, i);
      float* out = dst_.at(run, i);
      if (scalar_) {
        vec_->scale(a, n, add_ ? 1.0f : *b, add_ ? *b : 0.0f, out);
      } else {
        (add_ ? vec_->add : vec_->mul)(a, b, n, out);
      }
    });
  }

 private:
  const VecOps* vec_;
  const Tensor* shape_;
  Operand a_, b_, dst_;
  bool add_;
  bool scalar_;  // b repeats along axis 0
};

class Unary final : public RowOp {
 public:
  Unary(const OpContext& ctx, const Node& node)
      : vec_(ctx.vec),
        shape_(&ctx.tensor(node.dst)),
        x_(ctx, node.src[0]),
        dst_(ctx, node.dst),
        op_(node.op),
        params_(node.params) {}

  void rows(const Run& run, int64_t r0, int64_t r1, unsigned) const override {
    for_each_vector(*shape_, r0, r1,
                    [&](const int64_t* i, int64_t n) { apply(x_.at(run, i), n, dst_.at(run, i)); });
  }

 private:
  void apply(const float* x, int64_t n, float* out) const {
    switch (op_) {
      case MINFER_OP_SCALE:
        return vec_->scale(x, n, params_.scale.factor, params_.scale.offset, out);
      case MINFER_OP_SILU:
        return vec_->silu(x, n, out);
      case MINFER_OP_GELU:
        return vec_->gelu(x, n, params_.gelu.kind, out);
      default:
        return vec_->soft_cap(x, n, params_.soft_cap.cap, out);
    }
  }

  const VecOps* vec_;
  const Tensor* shape_;
  Operand x_, dst_;
  uint32_t op_;
  NodeParams params_;
};

class Gated final : public RowOp {
 public:
  Gated(const OpContext& ctx, const Node& act, uint32_t gate, uint32_t up, uint32_t dst)
      : vec_(ctx.vec),
        shape_(&ctx.tensor(dst)),
        gate_(ctx, gate),
        up_(ctx, up),
        dst_(ctx, dst),
        silu_(act.op == MINFER_OP_SILU),
        kind_(silu_ ? 0 : act.params.gelu.kind) {}

  void rows(const Run& run, int64_t r0, int64_t r1, unsigned) const override {
    for_each_vector(*shape_, r0, r1, [&](const int64_t* i, int64_t n) {
      const float* gate = gate_.at(run, i);
      const float* up = up_.at(run, i);
      float* out = dst_.at(run, i);
      if (silu_) {
        vec_->silu_mul(gate, up, n, out);
      } else {
        vec_->gelu_mul(gate, up, n, kind_, out);
      }
    });
  }

 private:
  const VecOps* vec_;
  const Tensor* shape_;
  Operand gate_, up_, dst_;
  bool silu_;
  uint32_t kind_;
};

}  // namespace

std::unique_ptr<RowOp> make_binary(const OpContext& ctx, uint32_t op, uint32_t a, uint32_t b,
                                   uint32_t dst) {
  return std::make_unique<Binary>(ctx, op, a, b, dst);
}

std::unique_ptr<RowOp> make_unary(const OpContext& ctx, const Node& node) {
  return std::make_unique<Unary>(ctx, node);
}

std::unique_ptr<RowOp> make_gated(const OpContext& ctx, const Node& act, uint32_t gate, uint32_t up,
                                  uint32_t dst) {
  return std::make_unique<Gated>(ctx, act, gate, up, dst);
}

}  // namespace minfer_cpu

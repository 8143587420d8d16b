// Operators that see whole rows: RMS_NORM, SOFTMAX, TOP_K, ARG_MAX, CONCAT, GET_ROWS.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "row_ops.h"

namespace minfer_cpu {
namespace {

// Calls body(offset of x, offset of out) for every row of axis 0 within rows [r0, r1) of `axis`.
template <class Body>
void for_each_row(const Tensor& x, const Tensor& out, uint32_t axis, int64_t r0, int64_t r1,
                  Body body) {
  int64_t begin[4] = {}, end[4] = {1, x.ne[1], x.ne[2], x.ne[3]};
  begin[axis] = r0;
  end[axis] = r1;
  for (int64_t i3 = begin[3]; i3 < end[3]; ++i3) {
    for (int64_t i2 = begin[2]; i2 < end[2]; ++i2) {
      for (int64_t i1 = begin[1]; i1 < end[1]; ++i1) {
        body(i1 * x.nb[1] + i2 * x.nb[2] + i3 * x.nb[3],
             i1 * out.nb[1] + i2 * out.nb[2] + i3 * out.nb[3]);
      }
    }
  }
}

class RmsNorm final : public RowOp {
 public:
  RmsNorm(const OpContext& ctx, const Node& node)
      : vec_(ctx.vec),
        x_(&ctx.tensor(node.src[0])),
        out_(&ctx.tensor(node.dst)),
        x_index_(node.src[0]),
        weight_(node.source(1)),
        out_index_(node.dst),
        params_(node.params.norm) {}

  void rows(const Run& run, int64_t r0, int64_t r1, unsigned) const override {
    const float* weight = weight_ == MINFER_NONE ? nullptr : run.floats(weight_);
    for_each_row(*x_, *out_, out_->row_axis(), r0, r1, [&](int64_t x, int64_t out) {
      vec_->rms_norm(reinterpret_cast<const float*>(run.data[x_index_] + x), weight, x_->ne[0],
                     params_.eps, params_.weight_offset,
                     reinterpret_cast<float*>(run.data[out_index_] + out));
    });
  }

 private:
  const VecOps* vec_;
  const Tensor* x_;
  const Tensor* out_;
  uint32_t x_index_, weight_, out_index_;
  minfer_norm_params params_;
};

class AddRmsNorm final : public RowOp {
 public:
  AddRmsNorm(const OpContext& ctx, const Node& add, const Node& norm)
      : ctx_(ctx),
        a_(add.src[0]),
        b_(add.src[1]),
        sum_(add.dst),
        weight_(norm.source(1)),
        out_(norm.dst),
        params_(norm.params.norm) {}

  void rows(const Run& run, int64_t r0, int64_t r1, unsigned) const override {
    const int64_t n = ctx_.tensor(sum_).ne[0];
    const float* weight = weight_ == MINFER_NONE ? nullptr : run.floats(weight_);
    for (int64_t r = r0; r < r1; ++r) {
      ctx_.vec->add_rms_norm(row(run, a_, r), row(run, b_, r), weight, n, params_.eps,
                             params_.weight_offset, row(run, sum_, r), row(run, out_, r));
    }
  }

 private:
  float* row(const Run& run, uint32_t tensor, int64_t r) const {
    return reinterpret_cast<float*>(run.data[tensor] + r * ctx_.tensor(tensor).nb[1]);
  }

  OpContext ctx_;
  uint32_t a_, b_, sum_, weight_, out_;
  minfer_norm_params params_;
};

class Softmax final : public RowOp {
 public:
  Softmax(const OpContext& ctx, const Node& node)
      : ctx_(ctx), x_(node.src[0]), out_(node.dst), scale_(node.params.softmax.scale) {}

  void rows(const Run& run, int64_t r0, int64_t r1, unsigned) const override {
    const Tensor& shape = ctx_.tensor(out_);
    const int64_t n = shape.ne[0];
    for_each_row(ctx_.tensor(x_), shape, shape.row_axis(), r0, r1, [&](int64_t x, int64_t to) {
      float* out = reinterpret_cast<float*>(run.data[out_] + to);
      ctx_.vec->scale(reinterpret_cast<const float*>(run.data[x_] + x), n, scale_, 0.0f, out);
      const float sum = ctx_.vec->exp_sum(out, n, ctx_.vec->max(out, n), out);
      ctx_.vec->scale(out, n, 1.0f / sum, 0.0f, out);
    });
  }

 private:
  OpContext ctx_;
  uint32_t x_, out_;
  float scale_;
};

class TopK final : public RowOp {
 public:
  TopK(const OpContext& ctx, const Node& node)
      : x_shape_(&ctx.tensor(node.src[0])),
        out_shape_(&ctx.tensor(node.dst)),
        x_(node.src[0]),
        out_(node.dst),
        k_(node.params.top_k.k) {}

  void rows(const Run& run, int64_t r0, int64_t r1, unsigned) const override {
    for (int64_t r = r0; r < r1; ++r) {
      select(reinterpret_cast<const float*>(run.data[x_] + r * x_shape_->nb[1]),
             reinterpret_cast<int32_t*>(run.data[out_] + r * out_shape_->nb[1]));
    }
  }

 private:
  // NaN ranks below everything.
  static bool larger(float a, float b) { return std::isnan(b) ? !std::isnan(a) : a > b; }

  // Keeps the best seen so far sorted; later equals go behind earlier ones.
  void select(const float* x, int32_t* best) const {
    int64_t held = 0;
    for (int64_t i = 0; i < x_shape_->ne[0]; ++i) {
      if (held == k_ && !larger(x[i], x[best[held - 1]])) continue;
      int64_t place = held < k_ ? held++ : held - 1;
      for (; place > 0 && larger(x[i], x[best[place - 1]]); --place) best[place] = best[place - 1];
      best[place] = static_cast<int32_t>(i);
    }
  }

  const Tensor* x_shape_;
  const Tensor* out_shape_;
  uint32_t x_, out_;
  int64_t k_;
};

class ArgMax final : public RowOp {
 public:
  ArgMax(const OpContext& ctx, const Node& node) : ctx_(ctx), x_(node.src[0]), out_(node.dst) {}

  void rows(const Run& run, int64_t r0, int64_t r1, unsigned) const override {
    const Tensor& x = ctx_.tensor(x_);
    for (int64_t r = r0; r < r1; ++r) {
      const float* row = reinterpret_cast<const float*>(run.data[x_] + r * x.nb[1]);
      reinterpret_cast<int32_t*>(run.data[out_])[r] =
          static_cast<int32_t>(ctx_.vec->arg_max(row, x.ne[0]));
    }
  }

 private:
  OpContext ctx_;
  uint32_t x_, out_;
};

// Copies rows [r0, r1) of the destination's row axis; where that is the axis joined along (only
// possible when it is fixed), each operand gives its own part of the range.
class Concat final : public RowOp {
 public:
  Concat(const OpContext& ctx, const Node& node)
      : ctx_(ctx),
        a_(node.src[0]),
        b_(node.src[1]),
        out_(node.dst),
        axis_(node.params.concat.axis) {}

  void rows(const Run& run, int64_t r0, int64_t r1, unsigned) const override {
    const int64_t split = ctx_.tensor(a_).ne[axis_];
    const uint32_t row_axis = ctx_.tensor(out_).row_axis();
    if (row_axis != axis_) {
      copy(run, a_, 0, row_axis, r0, r1);
      copy(run, b_, split, row_axis, r0, r1);
      return;
    }
    copy(run, a_, 0, row_axis, std::min(r0, split), std::min(r1, split));
    copy(run, b_, split, row_axis, std::max(r0 - split, int64_t{0}),
         std::max(r1 - split, int64_t{0}));
  }

 private:
  void copy(const Run& run, uint32_t from, int64_t shift, uint32_t row_axis, int64_t r0,
            int64_t r1) const {
    const Tensor& x = ctx_.tensor(from);
    const Tensor& out = ctx_.tensor(out_);
    int64_t begin[4] = {}, end[4] = {x.ne[0], x.ne[1], x.ne[2], x.ne[3]};
    begin[row_axis] = r0;
    end[row_axis] = r1;
    const int64_t n = end[0] - begin[0];
    if (n <= 0) return;
    uint8_t* to = run.data[out_] + shift * out.nb[axis_] + begin[0] * out.nb[0];
    const uint8_t* source = run.data[from] + begin[0] * x.nb[0];
    for (int64_t i3 = begin[3]; i3 < end[3]; ++i3) {
      for (int64_t i2 = begin[2]; i2 < end[2]; ++i2) {
        for (int64_t i1 = begin[1]; i1 < end[1]; ++i1) {
          std::memcpy(to + i1 * out.nb[1] + i2 * out.nb[2] + i3 * out.nb[3],
                      source + i1 * x.nb[1] + i2 * x.nb[2] + i3 * x.nb[3],
                      static_cast<size_t>(n) * sizeof(float));
        }
      }
    }
  }

  OpContext ctx_;
  uint32_t a_, b_, out_;
  uint32_t axis_;
};

class GetRows final : public RowOp {
 public:
  GetRows(const OpContext& ctx, const Node& node)
      : ctx_(ctx), table_(node.src[0]), list_(node.src[1]), out_(node.dst) {}

  void rows(const Run& run, int64_t r0, int64_t r1, unsigned) const override {
    const Tensor& table = ctx_.tensor(table_);
    const Tensor& list = ctx_.tensor(list_);
    const int64_t out_stride = ctx_.tensor(out_).nb[1];
    for (int64_t r = r0; r < r1; ++r) {
      const int64_t row = *reinterpret_cast<const int32_t*>(run.data[list_] + r * list.nb[0]);
      float* out = reinterpret_cast<float*>(run.data[out_] + r * out_stride);
      if (table.is_weight()) {
        const WeightForm& form = *run.packed[table_];
        form.kernel->unpack_row(form.data, table.ne[0], table.ne[1], row, out);
      } else {
        std::memcpy(out, run.data[table_] + row * table.nb[1],
                    static_cast<size_t>(table.ne[0]) * sizeof(float));
      }
    }
  }

 private:
  OpContext ctx_;
  uint32_t table_, list_, out_;
};

}  // namespace

std::unique_ptr<RowOp> make_rms_norm(const OpContext& ctx, const Node& node) {
  return std::make_unique<RmsNorm>(ctx, node);
}

std::unique_ptr<RowOp> make_add_rms_norm(const OpContext& ctx, const Node& add, const Node& norm) {
  return std::make_unique<AddRmsNorm>(ctx, add, norm);
}

std::unique_ptr<RowOp> make_softmax(const OpContext& ctx, const Node& node) {
  return std::make_unique<Softmax>(ctx, node);
}

std::unique_ptr<RowOp> make_top_k(const OpContext& ctx, const Node& node) {
  return std::make_unique<TopK>(ctx, node);
}

std::unique_ptr<RowOp> make_arg_max(const OpContext& ctx, const Node& node) {
  return std::make_unique<ArgMax>(ctx, node);
}

std::unique_ptr<RowOp> make_concat(const OpContext& ctx, const Node& node) {
  return std::make_unique<Concat>(ctx, node);
}

std::unique_ptr<RowOp> make_get_rows(const OpContext& ctx, const Node& node) {
  return std::make_unique<GetRows>(ctx, node);
}

}  // namespace minfer_cpu

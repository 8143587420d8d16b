// Checks of operators (see ops.h). One function per operator; each names what it found and
// expected.
#include "ops.h"

#include "../kernels/layout.h"

namespace minfer_cuda {
namespace {

constexpr minfer_op_support kOps[] = {
    {MINFER_OP_GET_ROWS, 1},     {MINFER_OP_ADD, 1},      {MINFER_OP_MUL, 1},
    {MINFER_OP_SCALE, 1},        {MINFER_OP_RMS_NORM, 1}, {MINFER_OP_MATMUL, 1},
    {MINFER_OP_ROPE, 1},         {MINFER_OP_KV_STORE, 1}, {MINFER_OP_ATTENTION, 1},
    {MINFER_OP_SILU, 1},         {MINFER_OP_GELU, 1},     {MINFER_OP_SOFTMAX, 1},
    {MINFER_OP_SOFT_CAP, 1},     {MINFER_OP_CONCAT, 1},   {MINFER_OP_TOP_K, 1},
    {MINFER_OP_MATMUL_BY_ID, 1}, {MINFER_OP_ARG_MAX, 1},
};

constexpr int kMaxHeadDim = 512;

/// The checks of one node, with its operands at hand.
class Checker {
 public:
  Checker(const Graph& graph, uint32_t index)
      : graph_(graph), index_(index), node_(graph.nodes[index]) {}

  void run() {
    if (node_.revision > 1) {
      refuse(kNone, text("revision ", node_.revision, ", this plugin knows 1"));
    }
    switch (node_.op) {
      case MINFER_OP_GET_ROWS:
        return get_rows();
      case MINFER_OP_ADD:
      case MINFER_OP_MUL:
        return binary();
      case MINFER_OP_RMS_NORM:
        return norm();
      case MINFER_OP_SCALE:
      case MINFER_OP_SILU:
      case MINFER_OP_GELU:
      case MINFER_OP_SOFTMAX:
      case MINFER_OP_SOFT_CAP:
        return same_shape();
      case MINFER_OP_MATMUL:
        return matmul();
      case MINFER_OP_ROPE:
        return rope();
      case MINFER_OP_KV_STORE:
        return kv_store();
      case MINFER_OP_ATTENTION:
        return attention();
      case MINFER_OP_CONCAT:
        return concat();
      case MINFER_OP_TOP_K:
      case MINFER_OP_ARG_MAX:
        return selection();
      case MINFER_OP_MATMUL_BY_ID:
        return experts();
      default:
        refuse(kNone, text("operator ", node_.op, " is unknown to this plugin"));
    }
  }

 private:
  [[noreturn]] void refuse(uint32_t tensor, const std::string& why) const {
    const std::string of = tensor == kNone ? "" : text(graph_.tensors[tensor].name, ": ");
    throw Refusal(index_, tensor, text(node_.name, ": ", of, why));
  }
  const Tensor& operand(size_t i, const char* what) const {
    const uint32_t t = node_.source(i);
    if (t == kNone) refuse(kNone, text("no ", what));
    return graph_.tensors[t];
  }
  const Tensor& result() const {
    if (node_.dst == kNone) refuse(kNone, "no destination");
    return graph_.tensors[node_.dst];
  }
  /// A strided f32 activation, or a plain f32 weight.
  void float_operand(size_t i, const char* what) const {
    const Tensor& t = operand(i, what);
    if (t.type != MINFER_TYPE_F32) {
      refuse(node_.source(i), text(what, " of type ", t.type, ", expected f32"));
    }
    if (t.elements() > 1 && t.ne[0] > 1 && t.nb[0] != 4) {
      refuse(node_.source(i), text(what, " with a stride of ", t.nb[0], " bytes, expected 4"));
    }
  }
  void float_result() const {
    const Tensor& t = result();
    if (t.type != MINFER_TYPE_F32 || t.is_weight() || (t.ne[0] > 1 && t.nb[0] != 4)) {
      refuse(node_.dst, "the result must be f32 rows");
    }
  }
  void index_operand(size_t i, const char* what, uint32_t type) const {
    const Tensor& t = operand(i, what);
    if (t.type != type) refuse(node_.source(i), text(what, " of type ", t.type));
  }
  void shape(uint32_t tensor, int64_t n0, int64_t n1, int64_t n2, int64_t n3) const {
    const Tensor& t = graph_.tensors[tensor];
    if (t.ne[0] == n0 && t.ne[1] == n1 && t.ne[2] == n2 && t.ne[3] == n3) return;
    refuse(tensor, text("shape [", t.ne[0], ", ", t.ne[1], ", ", t.ne[2], ", ", t.ne[3],
                        "], expected [", n0, ", ", n1, ", ", n2, ", ", n3, "]"));
  }
  void same(uint32_t tensor, const Tensor& as) const {
    shape(tensor, as.ne[0], as.ne[1], as.ne[2], as.ne[3]);
  }
  void matrix(size_t i) const {
    const Tensor& w = operand(i, "weight");
    const uint32_t t = node_.source(i);
    if (!w.is_weight() || w.view_of != kNone) refuse(t, "must be a whole weight");
    const TypeLayout* layout = find_layout(w.type);
    if (!layout) refuse(t, text("no kernel for matrices of type ", w.type));
    if (!fits_rows(*layout, w.ne[0])) {
      refuse(t, text("rows of ", w.ne[0], " ", layout->name, " elements are no multiple of ",
                     layout->block_k));
    }
  }

  void get_rows() const {
    const Tensor& table = operand(0, "table");
    index_operand(1, "row numbers", MINFER_TYPE_I32);
    float_result();
    if (table.is_weight()) {
      matrix(0);
    } else {
      float_operand(0, "table");
    }
    shape(node_.dst, table.ne[0], operand(1, "row numbers").ne[0], 1, 1);
  }

  void binary() const {
    float_operand(0, "first operand");
    float_operand(1, "second operand");
    float_result();
    same(node_.dst, operand(0, ""));
    const Tensor& b = operand(1, "");
    for (int d = 0; d < 4; ++d) {
      if (b.ne[d] != 1 && b.ne[d] != result().ne[d]) {
        refuse(node_.source(1),
               text("cannot repeat dimension ", d, " of ", b.ne[d], " to ", result().ne[d]));
      }
    }
  }

  void same_shape() const {
    float_operand(0, "input");
    float_result();
    same(node_.dst, operand(0, ""));
  }

  void norm() const {
    same_shape();
    if (node_.source(1) == kNone) return;
    float_operand(1, "weight");
    if (operand(1, "").elements() != result().ne[0]) refuse(node_.source(1), "length differs");
  }

  void matmul() const {
    matrix(0);
    float_operand(1, "input");
    float_result();
    const Tensor &w = operand(0, ""), &x = operand(1, ""), &out = result();
    if (w.ne[2] * w.ne[3] != 1) refuse(node_.source(0), "a matrix of more than two dimensions");
    if (x.ne[0] != w.ne[0]) refuse(node_.source(1), text(x.ne[0], " inputs, expected ", w.ne[0]));
    shape(node_.source(1), x.ne[0], x.ne[1], 1, 1);
    shape(node_.dst, w.ne[1], x.ne[1], 1, 1);
    if (out.dyn_axis != kNone && out.dyn_axis != 1) refuse(node_.dst, "dynamic axis must be 1");
    if (node_.source(2) == kNone) return;
    float_operand(2, "bias");
    if (operand(2, "").elements() != w.ne[1]) refuse(node_.source(2), "length differs");
  }

  void rope() const {
    same_shape();
    index_operand(1, "positions", MINFER_TYPE_I32);
    const minfer_rope_params& p = node_.params.rope;
    const Tensor& out = result();
    if (p.n_rot % 2 != 0 || p.n_rot > out.ne[0]) {
      refuse(kNone, text("rotation of ", p.n_rot, " of ", out.ne[0], " dimensions"));
    }
    if (p.mode > MINFER_ROPE_INTERLEAVED) refuse(kNone, text("rotation mode ", p.mode));
    if (out.ne[0] > kMaxHeadDim) refuse(node_.dst, text("head dim ", out.ne[0]));
    if (out.ne[3] != 1) refuse(node_.dst, "more than three dimensions");
    if (node_.source(2) == kNone) return;
    float_operand(2, "frequency factors");
    if (operand(2, "").elements() != p.n_rot / 2) refuse(node_.source(2), "length differs");
  }

  const KvPages& region(uint32_t kv) const {
    if (kv >= graph_.kv.size()) {
      throw PluginError(MINFER_INVALID,
                        text(node_.name, ": KV region ", kv, " of ", graph_.kv.size()));
    }
    return graph_.kv[kv];
  }
  void heads(uint32_t tensor, int64_t dim, int64_t n) const {
    HeadShape s;
    if (!head_shape(graph_.tensors[tensor], dim, n, s)) {
      refuse(tensor, text("expected ", n, " heads of ", dim));
    }
  }

  void kv_store() const {
    const KvPages& kv = region(node_.params.kv.kv);
    float_operand(0, "keys");
    float_operand(1, "values");
    index_operand(2, "slots", MINFER_TYPE_I64);
    heads(node_.source(0), kv.dim_k, kv.n_head);
    heads(node_.source(1), kv.dim_v, kv.n_head);
  }

  void attention() const {
    const minfer_attention_params& p = node_.params.attention;
    const KvPages& kv = region(p.kv);
    float_operand(0, "queries");
    float_result();
    for (size_t i = 1; i < 5; ++i) index_operand(i, "attention input", MINFER_TYPE_I32);
    if (p.n_head == 0 || p.n_head % static_cast<uint32_t>(kv.n_head) != 0) {
      refuse(kNone, text(p.n_head, " query heads over ", kv.n_head, " KV heads"));
    }
    heads(node_.source(0), kv.dim_k, p.n_head);
    heads(node_.dst, kv.dim_v, p.n_head);
    if (node_.source(5) != kNone) {
      float_operand(5, "sinks");
      if (operand(5, "").elements() != p.n_head) refuse(node_.source(5), "length differs");
    }
    if (node_.source(6) != kNone) refuse(node_.source(6), "a mask is reserved and must be absent");
  }

  void concat() const {
    float_operand(0, "first operand");
    float_operand(1, "second operand");
    float_result();
    const uint32_t axis = node_.params.concat.axis;
    if (axis > 3) refuse(kNone, text("axis ", axis));
    const Tensor &a = operand(0, ""), &b = operand(1, "");
    for (uint32_t d = 0; d < 4; ++d) {
      const int64_t want = d == axis ? a.ne[d] + b.ne[d] : a.ne[d];
      if (result().ne[d] != want || (d != axis && a.ne[d] != b.ne[d])) {
        refuse(node_.dst, text("dimension ", d, " is ", result().ne[d], ", expected ", want));
      }
    }
  }

  void selection() const {
    float_operand(0, "input");
    if (result().type != MINFER_TYPE_I32) refuse(node_.dst, "the result must be i32");
    const Tensor& x = operand(0, "");
    if (x.ne[2] * x.ne[3] != 1) refuse(node_.source(0), "more than two dimensions");
    if (node_.op == MINFER_OP_ARG_MAX) {
      shape(node_.dst, x.ne[1], 1, 1, 1);
      return;
    }
    const int64_t k = node_.params.top_k.k;
    if (k > x.ne[0]) refuse(kNone, text("the ", k, " largest of ", x.ne[0]));
    shape(node_.dst, k, x.ne[1], 1, 1);
  }

  void experts() const {
    matrix(0);
    float_operand(1, "input");
    index_operand(2, "expert numbers", MINFER_TYPE_I32);
    float_result();
    const Tensor &w = operand(0, ""), &x = operand(1, ""), &ids = operand(2, "");
    if (x.ne[0] != w.ne[0] || (x.ne[1] != 1 && x.ne[1] != ids.ne[0]) || x.ne[2] != ids.ne[1]) {
      refuse(node_.source(1), "shape does not fit the weight and the expert numbers");
    }
    shape(node_.dst, w.ne[1], ids.ne[0], ids.ne[1], 1);
  }

  const Graph& graph_;
  uint32_t index_;
  const Node& node_;
};

}  // namespace

const minfer_op_support* op_table(uint32_t& n) {
  n = sizeof(kOps) / sizeof(kOps[0]);
  return kOps;
}

void require_kv(const KvPages& p) {
  const auto refuse = [](const std::string& why) { throw Refusal(kNone, kNone, why); };
  if (p.type != MINFER_TYPE_F32 && p.type != MINFER_TYPE_F16 && p.type != MINFER_TYPE_Q8_0) {
    refuse(text("KV of type ", p.type, ", expected f32, f16 or q8_0"));
  }
  for (int32_t dim : {p.dim_k, p.dim_v}) {
    if (dim <= 0 || dim > kMaxHeadDim) {
      refuse(text("KV head dim ", dim, ", expected 1 to ", kMaxHeadDim));
    }
    if (p.type == MINFER_TYPE_Q8_0 && dim % 32 != 0) {
      refuse(text("q8_0 KV with head dim ", dim, ", expected a multiple of 32"));
    }
  }
  if (p.n_head <= 0) refuse("KV without heads");
  const auto tokens = static_cast<uint32_t>(p.page_tokens);
  if (tokens < kMinPageTokens || tokens > kMaxPageTokens || (tokens & (tokens - 1)) != 0) {
    refuse(text("pages of ", tokens, " tokens, expected a power of two from ", kMinPageTokens,
                " to ", kMaxPageTokens));
  }
}

void require_node(const Graph& graph, uint32_t i) {
  Checker(graph, i).run();
}

bool head_shape(const Tensor& t, int64_t dim, int64_t heads, HeadShape& out) {
  if (t.ne[3] == 1 && t.ne[0] == dim && t.ne[1] == heads) {
    out = {dim, heads, t.ne[2], t.nb[1], t.nb[2]};
    return true;
  }
  if (t.ne[2] == 1 && t.ne[3] == 1 && t.ne[0] == dim * heads) {
    out = {dim, heads, t.ne[1], dim * 4, t.nb[1]};
    return true;
  }
  return false;
}

}  // namespace minfer_cuda

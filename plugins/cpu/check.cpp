// One function per operator; each throws the first Refusal it finds.
#include "check.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "failure.h"
#include "kv_pages.h"
#include "minfer/quant_blocks.h"

namespace minfer_cpu {
namespace {

class Checker {
 public:
  Checker(const Graph& graph, Isa isa) : graph_(graph), isa_(isa) {}

  void check(uint32_t index);

 private:
  // ---- what operators have in common

  [[gnu::format(printf, 3, 4)]] [[noreturn]] void refuse(uint32_t tensor, const char* format, ...) {
    Refusal refusal;
    refusal.node = index_;
    refusal.tensor = tensor;
    int used = std::snprintf(refusal.text, sizeof refusal.text, "%s %s: ", op_name(node_->op),
                             node_->name.c_str());
    used = std::min<int>(used, sizeof refusal.text - 1);
    va_list args;
    va_start(args, format);
    std::vsnprintf(refusal.text + used, sizeof refusal.text - static_cast<size_t>(used), format,
                   args);
    va_end(args);
    throw refusal;
  }

  const Tensor& tensor(uint32_t index) const { return graph_.tensors[index]; }
  const Tensor& dst() const { return graph_.tensors[node_->dst]; }

  const Tensor& need(size_t source, const char* what) {
    if (node_->source(source) == MINFER_NONE) refuse(MINFER_NONE, "%s is missing", what);
    return tensor(node_->source(source));
  }

  void need_dst(uint32_t type = MINFER_TYPE_F32) {
    if (node_->dst == MINFER_NONE) refuse(MINFER_NONE, "it has no destination");
    need_type(node_->dst, type);
  }

  void need_type(uint32_t index, uint32_t type) {
    const Tensor& t = tensor(index);
    if (!t.is_weight() && t.type != type) {
      refuse(index, "%s is %s, expected %s", t.name.c_str(), minfer_type_name(t.type),
             minfer_type_name(type));
    }
  }

  void need_shape(uint32_t index, int64_t n0, int64_t n1, int64_t n2 = 1, int64_t n3 = 1) {
    const Tensor& t = tensor(index);
    if (t.ne[0] != n0 || t.ne[1] != n1 || t.ne[2] != n2 || t.ne[3] != n3) {
      refuse(index, "%s is %s, expected [%lld, %lld, %lld, %lld]", t.name.c_str(),
             shape_text(t).c_str(), static_cast<long long>(n0), static_cast<long long>(n1),
             static_cast<long long>(n2), static_cast<long long>(n3));
    }
  }

  void need_same_shape(uint32_t index, const Tensor& as) {
    need_shape(index, as.ne[0], as.ne[1], as.ne[2], as.ne[3]);
  }

  // Operators that read whole rows cannot have them cut by a valid count.
  void need_whole_rows(uint32_t index) {
    const Tensor& t = tensor(index);
    if (t.dyn_axis == 0) {
      refuse(index, "axis 0 of %s changes with each run, this operator reads whole rows",
             t.name.c_str());
    }
  }

  void need_row_axis(uint32_t index, uint32_t axis) {
    const Tensor& t = tensor(index);
    if (t.dyn_axis != MINFER_NONE && t.dyn_axis != axis) {
      refuse(index, "axis %u of %s follows the run's counts, axis %u was expected", t.dyn_axis,
             t.name.c_str(), axis);
    }
  }

  // A vector of n f32: a plain weight, or an activation without gaps.
  void need_vector(uint32_t index, int64_t n) {
    need_type(index, MINFER_TYPE_F32);
    need_shape(index, n, 1);
    check_weight(index);
    need_whole_rows(index);
  }

  void check_weight(uint32_t index) {
    const Tensor& t = tensor(index);
    if (!t.is_weight()) return;
    const uint32_t values = minfer_type_values(t.type);
    if (values == 0 || t.type == MINFER_TYPE_I32 || t.type == MINFER_TYPE_I64) {
      refuse(index, "weight %s has type %s (%u), which this plugin does not know", t.name.c_str(),
             minfer_type_name(t.type), t.type);
    }
    if (t.ne[0] % values != 0 || t.elements() == 0) {
      refuse(index, "weight %s is %s, rows of a multiple of %u are expected for %s", t.name.c_str(),
             shape_text(t).c_str(), values, minfer_type_name(t.type));
    }
  }

  const Tensor& need_matrix(uint32_t index) {
    const Tensor& t = tensor(index);
    if (!t.is_weight()) refuse(index, "%s is no weight", t.name.c_str());
    check_weight(index);
    if (find_matmul(t.type, t.ne[0], t.ne[1], isa_) == nullptr) {
      refuse(index, "no kernel for %s of %s", shape_text(t).c_str(), minfer_type_name(t.type));
    }
    return t;
  }

  KvLayout need_kv(uint32_t kv) {
    if (kv >= graph_.kv.size()) {
      refuse(MINFER_NONE, "KV region %u, the split has %zu", kv, graph_.kv.size());
    }
    try {
      return KvLayout(graph_.kv[kv]);
    } catch (const Failure& failure) {
      refuse(MINFER_NONE, "%s", failure.what());
    }
  }

  // ---- operators

  void get_rows() {
    const Tensor& table = need(0, "the table");
    const Tensor& rows = need(1, "the list of rows");
    need_dst();
    need_type(node_->src[0], MINFER_TYPE_F32);
    need_type(node_->src[1], MINFER_TYPE_I32);
    if (table.is_weight()) need_matrix(node_->src[0]);
    need_shape(node_->src[0], table.ne[0], table.ne[1]);
    need_shape(node_->src[1], rows.ne[0], 1);
    need_shape(node_->dst, table.ne[0], rows.ne[0]);
    need_whole_rows(node_->src[0]);
    need_row_axis(node_->dst, 1);
  }

  void binary() {
    const Tensor& a = need(0, "the first operand");
    const Tensor& b = need(1, "the second operand");
    need_dst();
    if (a.is_weight()) refuse(node_->src[0], "the first operand %s is a weight", a.name.c_str());
    need_type(node_->src[0], MINFER_TYPE_F32);
    need_type(node_->src[1], MINFER_TYPE_F32);
    check_weight(node_->src[1]);
    need_same_shape(node_->dst, a);
    for (int i = 0; i < 4; ++i) {
      if (b.ne[i] != a.ne[i] && b.ne[i] != 1) {
        refuse(node_->src[1], "%s of %s does not repeat over %s", b.name.c_str(),
               shape_text(b).c_str(), shape_text(a).c_str());
      }
    }
  }

  void unary(bool whole_rows) {
    const Tensor& x = need(0, "the operand");
    need_dst();
    if (x.is_weight()) refuse(node_->src[0], "the operand %s is a weight", x.name.c_str());
    need_type(node_->src[0], MINFER_TYPE_F32);
    need_same_shape(node_->dst, x);
    if (whole_rows) need_whole_rows(node_->dst);
  }

  void rms_norm() {
    unary(true);
    if (node_->source(1) != MINFER_NONE) need_vector(node_->src[1], dst().ne[0]);
  }

  void gelu() {
    unary(false);
    if (node_->params.gelu.kind > MINFER_GELU_QUICK) {
      refuse(MINFER_NONE, "kind %u of GELU is unknown", node_->params.gelu.kind);
    }
  }

  void matmul() {
    need(0, "the weight");
    const Tensor& x = need(1, "the activation");
    need_dst();
    const Tensor& w = need_matrix(node_->src[0]);
    if (x.is_weight()) refuse(node_->src[1], "the activation %s is a weight", x.name.c_str());
    need_type(node_->src[1], MINFER_TYPE_F32);
    need_shape(node_->src[0], w.ne[0], w.ne[1]);
    need_shape(node_->src[1], w.ne[0], x.ne[1]);
    need_shape(node_->dst, w.ne[1], x.ne[1]);
    need_row_axis(node_->src[1], 1);
    need_row_axis(node_->dst, 1);
    if (node_->source(2) != MINFER_NONE) need_vector(node_->src[2], w.ne[1]);
  }

  void matmul_by_id() {
    need(0, "the weight");
    const Tensor& x = need(1, "the activation");
    const Tensor& ids = need(2, "the list of experts");
    need_dst();
    const Tensor& w = need_matrix(node_->src[0]);
    if (x.is_weight()) refuse(node_->src[1], "the activation %s is a weight", x.name.c_str());
    need_type(node_->src[1], MINFER_TYPE_F32);
    need_type(node_->src[2], MINFER_TYPE_I32);
    need_shape(node_->src[0], w.ne[0], w.ne[1], w.ne[2]);
    need_shape(node_->src[2], ids.ne[0], ids.ne[1]);
    need_shape(node_->src[1], w.ne[0], x.ne[1] == 1 ? 1 : ids.ne[0], ids.ne[1]);
    need_shape(node_->dst, w.ne[1], ids.ne[0], ids.ne[1]);
    need_row_axis(node_->src[1], 2);
    need_row_axis(node_->dst, 2);
  }

  void rope() {
    const Tensor& x = need(0, "the operand");
    need(1, "the positions");
    unary(true);
    const minfer_rope_params& p = node_->params.rope;
    need_type(node_->src[1], MINFER_TYPE_I32);
    need_shape(node_->dst, x.ne[0], x.ne[1], x.ne[2]);
    need_shape(node_->src[1], x.ne[2], 1);
    need_row_axis(node_->dst, 2);
    if (p.n_rot == 0 || p.n_rot % 2 != 0 || p.n_rot > x.ne[0]) {
      refuse(node_->src[0], "%u rotated dimensions of a head of %lld; an even number within it",
             p.n_rot, static_cast<long long>(x.ne[0]));
    }
    if (p.mode > MINFER_ROPE_INTERLEAVED) refuse(MINFER_NONE, "mode %u is unknown", p.mode);
    if (!(p.freq_base > 0.0f) || !(p.freq_scale > 0.0f)) {
      refuse(MINFER_NONE, "freq_base %g and freq_scale %g must be positive",
             static_cast<double>(p.freq_base), static_cast<double>(p.freq_scale));
    }
    if (node_->source(2) != MINFER_NONE) need_vector(node_->src[2], p.n_rot / 2);
  }

  void kv_store() {
    const Tensor& k = need(0, "K");
    need(1, "V");
    need(2, "the slots");
    const KvLayout kv = need_kv(node_->params.kv.kv);
    need_type(node_->src[0], MINFER_TYPE_F32);
    need_type(node_->src[1], MINFER_TYPE_F32);
    need_type(node_->src[2], MINFER_TYPE_I64);
    need_shape(node_->src[0], kv.dim_k, kv.heads, k.ne[2]);
    need_shape(node_->src[1], kv.dim_v, kv.heads, k.ne[2]);
    need_shape(node_->src[2], k.ne[2], 1);
    need_row_axis(node_->src[0], 2);
    need_row_axis(node_->src[1], 2);
  }

  void attention() {
    const Tensor& q = need(0, "q");
    need(1, "the positions");
    const Tensor& q_start = need(2, "q_start");
    need(3, "kv_len");
    const Tensor& table = need(4, "the block table");
    need_dst();
    const minfer_attention_params& p = node_->params.attention;
    const KvLayout kv = need_kv(p.kv);
    need_type(node_->src[0], MINFER_TYPE_F32);
    for (size_t i = 1; i <= 4; ++i) need_type(node_->src[i], MINFER_TYPE_I32);
    if (p.n_head == 0 || p.n_head % kv.heads != 0) {
      refuse(MINFER_NONE, "%u heads over %lld KV heads; a multiple is expected", p.n_head,
             static_cast<long long>(kv.heads));
    }
    need_shape(node_->src[0], kv.dim_k, p.n_head, q.ne[2]);
    need_shape(node_->src[1], q.ne[2], 1);
    need_shape(node_->src[2], q_start.ne[0], 1);
    need_shape(node_->src[3], q_start.ne[0] - 1, 1);
    need_shape(node_->src[4], table.ne[0], q_start.ne[0] - 1);
    // The heads of a token lie side by side, so both forms name the same bytes.
    if (dst().ne[2] == 1 && dst().ne[0] == kv.dim_v * p.n_head) {
      need_shape(node_->dst, kv.dim_v * p.n_head, q.ne[2]);
      need_row_axis(node_->dst, 1);
    } else {
      need_shape(node_->dst, kv.dim_v, p.n_head, q.ne[2]);
      need_row_axis(node_->dst, 2);
    }
    need_row_axis(node_->src[0], 2);
    if (node_->source(5) != MINFER_NONE) need_vector(node_->src[5], p.n_head);
    if (node_->source(6) != MINFER_NONE) refuse(node_->src[6], "masks are reserved");
  }

  void concat() {
    const Tensor& a = need(0, "the first operand");
    const Tensor& b = need(1, "the second operand");
    need_dst();
    const uint32_t axis = node_->params.concat.axis;
    need_type(node_->src[0], MINFER_TYPE_F32);
    need_type(node_->src[1], MINFER_TYPE_F32);
    if (axis > 3) refuse(MINFER_NONE, "axis %u, expected 0 to 3", axis);
    if (a.is_weight() || b.is_weight()) refuse(MINFER_NONE, "weights cannot be concatenated");
    int64_t ne[4];
    for (uint32_t i = 0; i < 4; ++i) ne[i] = i == axis ? a.ne[i] + b.ne[i] : a.ne[i];
    need_shape(node_->dst, ne[0], ne[1], ne[2], ne[3]);
    for (uint32_t i = 0; i < 4; ++i) ne[i] = i == axis ? b.ne[i] : a.ne[i];
    need_shape(node_->src[1], ne[0], ne[1], ne[2], ne[3]);
    if (dst().dyn_axis == axis) refuse(node_->dst, "axis %u follows the run's counts", axis);
  }

  void top_k() {
    const Tensor& x = need(0, "the operand");
    const uint32_t k = node_->params.top_k.k;
    need_dst(MINFER_TYPE_I32);
    need_type(node_->src[0], MINFER_TYPE_F32);
    if (x.is_weight()) refuse(node_->src[0], "the operand %s is a weight", x.name.c_str());
    if (k == 0 || k > x.ne[0]) {
      refuse(node_->src[0], "the largest %u of rows of %lld", k, static_cast<long long>(x.ne[0]));
    }
    need_shape(node_->src[0], x.ne[0], x.ne[1]);
    need_shape(node_->dst, k, x.ne[1]);
    need_row_axis(node_->src[0], 1);
    need_row_axis(node_->dst, 1);
  }

  void arg_max() {
    const Tensor& x = need(0, "the operand");
    need_dst(MINFER_TYPE_I32);
    need_type(node_->src[0], MINFER_TYPE_F32);
    if (x.is_weight()) refuse(node_->src[0], "the operand %s is a weight", x.name.c_str());
    if (x.ne[0] == 0) refuse(node_->src[0], "rows of 0");
    need_shape(node_->src[0], x.ne[0], x.ne[1]);
    need_shape(node_->dst, x.ne[1], 1);
    need_row_axis(node_->src[0], 1);
    need_row_axis(node_->dst, 0);
  }

  const Graph& graph_;
  const Isa isa_;
  const Node* node_ = nullptr;
  uint32_t index_ = 0;
};

void Checker::check(uint32_t index) {
  index_ = index;
  node_ = &graph_.nodes[index];
  if (node_->revision > 1) {
    refuse(MINFER_NONE, "revision %u, this plugin knows 1", node_->revision);
  }
  switch (node_->op) {
    case MINFER_OP_GET_ROWS:
      return get_rows();
    case MINFER_OP_ADD:
    case MINFER_OP_MUL:
      return binary();
    case MINFER_OP_SCALE:
    case MINFER_OP_SILU:
      return unary(false);
    case MINFER_OP_SOFT_CAP:
      return unary(false);
    case MINFER_OP_SOFTMAX:
      return unary(true);
    case MINFER_OP_RMS_NORM:
      return rms_norm();
    case MINFER_OP_MATMUL:
      return matmul();
    case MINFER_OP_ROPE:
      return rope();
    case MINFER_OP_KV_STORE:
      return kv_store();
    case MINFER_OP_ATTENTION:
      return attention();
    case MINFER_OP_GELU:
      return gelu();
    case MINFER_OP_CONCAT:
      return concat();
    case MINFER_OP_TOP_K:
      return top_k();
    case MINFER_OP_MATMUL_BY_ID:
      return matmul_by_id();
    case MINFER_OP_ARG_MAX:
      return arg_max();
    default:
      refuse(MINFER_NONE, "operator number %u is unknown", node_->op);
  }
}

}  // namespace

std::optional<Refusal> check_graph(const Graph& graph, Isa isa) {
  Checker checker(graph, isa);
  try {
    for (uint32_t i = 0; i < graph.nodes.size(); ++i) checker.check(i);
  } catch (const Refusal& refusal) {
    return refusal;
  }
  return std::nullopt;
}

}  // namespace minfer_cpu

// Items from nodes, dependencies from the memory they touch, then one pass that forms the sections.
#include "schedule.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "failure.h"
#include "memory.h"

namespace minfer_cpu {
namespace {

// How far ahead of its place a node may be drawn.
constexpr size_t kLookAhead = 64;

class Scheduler {
 public:
  Scheduler(const Graph& graph, Isa isa, bool fuse) : graph_(graph), isa_(isa), fuse_(fuse) {
    out_.fused_into.assign(graph.nodes.size(), MINFER_NONE);
  }

  Schedule make() {
    count_uses();
    if (fuse_) find_fusions();
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i) add_node(i);
    find_dependencies();
    form_sections();
    return std::move(out_);
  }

 private:
  const Tensor& tensor(uint32_t index) const { return graph_.tensors[index]; }

  // ---- fusion

  void count_uses() {
    readers_.assign(graph_.tensors.size(), 0);
    producer_.assign(graph_.tensors.size(), MINFER_NONE);
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      for (uint32_t source : graph_.nodes[i].src) {
        if (source != MINFER_NONE) ++readers_[tensor(source).owner];
      }
      if (graph_.nodes[i].dst != MINFER_NONE) producer_[graph_.nodes[i].dst] = i;
    }
  }

  bool same_shape(uint32_t a, uint32_t b) const {
    return std::equal(tensor(a).ne, tensor(a).ne + 4, tensor(b).ne);
  }

  // True when nobody but one node reads the tensor, so that it need not exist.
  bool is_private(uint32_t index) const {
    const Tensor& t = tensor(index);
    return t.owner == index && readers_[index] == 1 &&
           (t.flags & (MINFER_FLAG_ESCAPES | MINFER_FLAG_KEEP)) == 0;
  }

  void find_fusions() {
    partner_.assign(graph_.nodes.size(), MINFER_NONE);
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (node.op == MINFER_OP_MUL) fuse_gated(i);
      if (node.op == MINFER_OP_RMS_NORM) fuse_add_norm(i);
    }
  }

  void fuse_gated(uint32_t mul) {
    const Node& node = graph_.nodes[mul];
    for (int side = 0; side < 2; ++side) {
      const uint32_t gate = node.src[static_cast<size_t>(side)];
      const uint32_t up = node.src[static_cast<size_t>(1 - side)];
      const uint32_t act = producer_[gate];
      if (act == MINFER_NONE || act >= mul || !is_private(gate) || tensor(up).is_weight() ||
          !same_shape(gate, up) || !same_shape(gate, node.dst)) {
        continue;
      }
      const uint32_t op = graph_.nodes[act].op;
      if (op != MINFER_OP_SILU && op != MINFER_OP_GELU) continue;
      if (!fuse_gated_matmuls(act, up, mul)) {
        partner_[mul] = act;
        out_.fused_into[act] = mul;
      }
      return;
    }
  }

  // Goes further where gate and up are matrices of one activation and nobody else reads what they
  // give: a task then multiplies its rows of both and combines them while they are in the nearest
  // cache.
  bool fuse_gated_matmuls(uint32_t act, uint32_t up_tensor, uint32_t mul) {
    const uint32_t gate_tensor = graph_.nodes[act].src[0];
    const uint32_t gate = producer_[gate_tensor], up = producer_[up_tensor];
    if (gate == MINFER_NONE || up == MINFER_NONE || gate >= act || up >= mul || gate == up ||
        !is_private(gate_tensor) || !is_private(up_tensor)) {
      return false;
    }
    const Node& g = graph_.nodes[gate];
    const Node& u = graph_.nodes[up];
    const auto constant_bias = [&](const Node& node) {
      return node.source(2) == MINFER_NONE || tensor(node.src[2]).is_weight();
    };
    if (g.op != MINFER_OP_MATMUL || u.op != MINFER_OP_MATMUL || g.src[1] != u.src[1] ||
        !constant_bias(g) || !constant_bias(u) || graph_.nodes[mul].dst == g.src[1]) {
      return false;
    }
    const MatmulKernel* a = kernel_of(gate);
    const MatmulKernel* b = kernel_of(up);
    const int64_t larger = std::max(a->row_group, b->row_group);
    if (a->activation != b->activation || larger % a->row_group != 0 ||
        larger % b->row_group != 0) {
      return false;
    }
    pairs_[gate] = {up, act, mul};
    for (uint32_t node : {up, act, mul}) out_.fused_into[node] = gate;
    return true;
  }

  const MatmulKernel* kernel_of(uint32_t node) const {
    const Tensor& w = tensor(graph_.nodes[node].src[0]);
    return find_matmul(w.type, w.ne[0], w.ne[1], isa_);
  }

  void fuse_add_norm(uint32_t norm) {
    const Node& node = graph_.nodes[norm];
    const uint32_t sum = node.src[0];
    const uint32_t add = producer_[sum];
    if (add == MINFER_NONE || add >= norm || graph_.nodes[add].op != MINFER_OP_ADD ||
        partner_[add] != MINFER_NONE) {
      return;
    }
    const Node& source = graph_.nodes[add];
    const Tensor& shape = tensor(sum);
    const bool rows = shape.ne[2] == 1 && shape.ne[3] == 1 && shape.row_axis() == 1 &&
                      tensor(node.dst).row_axis() == 1;
    const bool constant_weight = node.source(1) == MINFER_NONE || tensor(node.src[1]).is_weight();
    if (!rows || !constant_weight || tensor(source.src[1]).is_weight() ||
        !same_shape(source.src[1], sum)) {
      return;
    }
    partner_[add] = norm;
    out_.fused_into[norm] = add;
  }

  // ---- items

  Access whole(uint32_t index) const { return {tensor(index).owner, true, 0, 0}; }

  // Row by row along `axis`; as a whole where the tensor repeats along it.
  Access by_row(uint32_t index, uint32_t axis, int64_t rows) const {
    const Tensor& t = tensor(index);
    if (t.ne[axis] != rows) return whole(index);
    const int64_t inner = t.span_bytes - (t.ne[axis] > 0 ? t.ne[axis] - 1 : 0) * t.nb[axis];
    return {t.owner, false, t.nb[axis], t.view_offset + inner};
  }

  Access scratch_access(uint32_t scratch, bool is_whole) const {
    return {static_cast<uint32_t>(graph_.tensors.size()) + scratch, is_whole, 1, 1};
  }

  static void push(std::vector<Access>& list, const Graph& graph, Access access) {
    if (access.object < graph.tensors.size() && graph.tensors[access.object].is_weight()) return;
    list.push_back(access);
  }
  void reads(Item& item, Access access) const { push(item.reads, graph_, access); }

  static Dyn dyn_of(const Tensor& dst, const Tensor& src) {
    return dst.dyn != Dyn::kNone ? dst.dyn : src.dyn;
  }

  void add_node(uint32_t index) {
    if (out_.fused_into[index] != MINFER_NONE) return;
    const Node& node = graph_.nodes[index];
    switch (node.op) {
      case MINFER_OP_MATMUL:
        return add_matmul(index);
      case MINFER_OP_MATMUL_BY_ID:
        return add_whole(index, Work::kMatmulById);
      case MINFER_OP_ATTENTION:
        return add_whole(index, Work::kAttention);
      case MINFER_OP_ROPE:
        return add_rope(index);
      case MINFER_OP_KV_STORE:
        return add_kv_store(index);
      case MINFER_OP_GET_ROWS:
        return add_rowwise(index, {{node.src[1], 0}}, {node.src[0]}, node.dst, 1);
      case MINFER_OP_ARG_MAX:
        return add_rowwise(index, {{node.src[0], 1}}, {}, node.dst, 0);
      case MINFER_OP_TOP_K:
        return add_rowwise(index, {{node.src[0], 1}}, {}, node.dst, 1);
      default:
        return add_elementwise(index);
    }
  }

  struct RowSource {
    uint32_t tensor, axis;
  };

  void add_rowwise(uint32_t index, const std::vector<RowSource>& sources,
                   const std::vector<uint32_t>& wholes, uint32_t dst, uint32_t dst_axis) {
    Item item;
    item.node = index;
    const Tensor& out = tensor(dst);
    item.rows = {dyn_of(out, tensor(sources[0].tensor)), out.ne[dst_axis]};
    for (const RowSource& s : sources) reads(item, by_row(s.tensor, s.axis, item.rows.fixed));
    for (uint32_t t : wholes) reads(item, whole(t));
    item.writes.push_back(by_row(dst, dst_axis, item.rows.fixed));
    items_.push_back(std::move(item));
  }

  void add_elementwise(uint32_t index) {
    const Node& node = graph_.nodes[index];
    Item item;
    item.node = index;
    const uint32_t axis = tensor(node.dst).row_axis();
    item.rows = {dyn_of(tensor(node.dst), tensor(node.src[0])), tensor(node.dst).ne[axis]};
    std::vector<uint32_t> sources = node.src;
    if (fuse_ && partner_[index] != MINFER_NONE) {
      const Node& partner = graph_.nodes[partner_[index]];
      item.partner = partner_[index];
      if (node.op == MINFER_OP_MUL) {
        item.work = Work::kGated;
        std::replace(sources.begin(), sources.end(), partner.dst, partner.src[0]);
      } else {
        item.work = Work::kAddNorm;
        item.writes.push_back(by_row(partner.dst, axis, item.rows.fixed));
      }
    }
    for (uint32_t source : sources) {
      if (source != MINFER_NONE) reads(item, by_row(source, axis, item.rows.fixed));
    }
    item.writes.push_back(by_row(node.dst, axis, item.rows.fixed));
    // A join along the rows themselves copies ranges that do not line up.
    if (node.op == MINFER_OP_CONCAT && node.params.concat.axis == axis) {
      for (Access& access : item.reads) access.whole = true;
    }
    items_.push_back(std::move(item));
  }

  void add_rope(uint32_t index) {
    const Node& node = graph_.nodes[index];
    const Rows rows = {dyn_of(tensor(node.dst), tensor(node.src[0])), tensor(node.dst).ne[2]};
    const uint32_t table = rope_table(index, rows);
    Item item;
    item.node = index;
    item.scratch = table;
    item.rows = rows;
    reads(item, by_row(node.src[0], 2, rows.fixed));
    reads(item, scratch_access(table, false));
    item.writes.push_back(by_row(node.dst, 2, rows.fixed));
    items_.push_back(std::move(item));
  }

  // One table for all ROPE nodes that turn by the same angles.
  uint32_t rope_table(uint32_t index, const Rows& rows) {
    const Node& node = graph_.nodes[index];
    minfer_rope_params params = node.params.rope;
    params.mode = 0;  // pairing does not change angles
    for (const auto& [known, scratch] : tables_) {
      const Node& other = graph_.nodes[known];
      minfer_rope_params other_params = other.params.rope;
      other_params.mode = 0;
      if (std::memcmp(&params, &other_params, sizeof params) == 0 && other.src[1] == node.src[1] &&
          other.source(2) == node.source(2)) {
        return scratch;
      }
    }
    const auto scratch = static_cast<uint32_t>(out_.scratch.size());
    out_.scratch.push_back(
        {static_cast<uint64_t>(rows.fixed) * params.n_rot * sizeof(float), MINFER_NONE, nullptr});
    tables_.push_back({index, scratch});
    Item item;
    item.work = Work::kRopeTable;
    item.node = index;
    item.scratch = scratch;
    item.rows = rows;
    reads(item, by_row(node.src[1], 0, rows.fixed));
    if (node.source(2) != MINFER_NONE) reads(item, whole(node.src[2]));
    item.writes.push_back(scratch_access(scratch, false));
    items_.push_back(std::move(item));
    return scratch;
  }

  void add_kv_store(uint32_t index) {
    const Node& node = graph_.nodes[index];
    Item item;
    item.node = index;
    item.rows = {tensor(node.src[0]).dyn, tensor(node.src[0]).ne[2]};
    reads(item, by_row(node.src[0], 2, item.rows.fixed));
    reads(item, by_row(node.src[1], 2, item.rows.fixed));
    reads(item, by_row(node.src[2], 0, item.rows.fixed));
    item.writes.push_back(region_access(node.params.kv.kv));
    items_.push_back(std::move(item));
  }

  // KV regions are objects after all possible scratch, touched as a whole.
  Access region_access(uint32_t kv) const { return {MINFER_NONE - 1 - kv, true, 0, 0}; }

  void add_whole(uint32_t index, Work work) {
    const Node& node = graph_.nodes[index];
    Item item;
    item.work = work;
    item.node = index;
    item.rows = {tensor(node.dst).dyn, 1};
    for (uint32_t source : node.src) {
      if (source != MINFER_NONE) reads(item, whole(source));
    }
    if (work == Work::kAttention) item.reads.push_back(region_access(node.params.attention.kv));
    if (work == Work::kMatmulById) item.kernel = kernel_of(index);
    item.writes.push_back(whole(node.dst));
    items_.push_back(std::move(item));
  }

  void add_matmul(uint32_t index) {
    const Node& node = graph_.nodes[index];
    Item item;
    item.work = Work::kMatmul;
    item.node = index;
    item.kernel = kernel_of(index);
    item.rows = {dyn_of(tensor(node.dst), tensor(node.src[1])), tensor(node.dst).ne[1]};
    item.scratch = conversion(index, item.kernel, item.rows);
    if (tensor_is_read(item)) {
      reads(item, whole(node.src[1]));
    } else {
      reads(item, scratch_access(item.scratch, true));
    }
    if (node.source(2) != MINFER_NONE) reads(item, whole(node.src[2]));
    if (const auto pair = pairs_.find(index); pair != pairs_.end()) item.gated = pair->second;
    item.writes.push_back(
        whole(item.gated.is_pair() ? graph_.nodes[item.gated.mul].dst : node.dst));
    items_.push_back(std::move(item));
  }

  bool tensor_is_read(const Item& item) const { return out_.scratch[item.scratch].bytes == 0; }

  // The converted activation that a MATMUL reads: made once per tensor and format. Kernels that
  // read plain f32 take the tensor itself where its rows have no gaps: a scratch of no bytes.
  uint32_t conversion(uint32_t index, const MatmulKernel* kernel, const Rows& rows) {
    const uint32_t x = graph_.nodes[index].src[1];
    const auto key = std::make_pair(x, kernel->activation);
    if (const auto known = conversions_.find(key); known != conversions_.end()) {
      return known->second;
    }
    const Tensor& t = tensor(x);
    const bool in_place = kernel->activation == ActFormat::kF32 && t.contiguous() &&
                          static_cast<uint64_t>(t.view_offset) % kAlignment == 0;
    const auto scratch = static_cast<uint32_t>(out_.scratch.size());
    out_.scratch.push_back(
        {in_place ? 0 : kernel->activation_bytes(t.ne[0], rows.fixed), x, kernel});
    conversions_[key] = scratch;
    if (in_place) return scratch;
    Item item;
    item.work = Work::kConvert;
    item.node = index;
    item.scratch = scratch;
    item.kernel = kernel;
    item.rows = rows;
    reads(item, by_row(x, 1, rows.fixed));
    item.writes.push_back(scratch_access(scratch, false));
    items_.push_back(std::move(item));
    return scratch;
  }

  // ---- order

  struct Dependency {
    uint32_t item;
    bool aligned;  // both sides touch the shared object row by row, and the rows line up
  };

  static bool aligned(const Access& a, const Access& b) {
    return !a.whole && !b.whole && a.stride == b.stride && a.end <= a.stride && b.end <= b.stride;
  }

  void find_dependencies() {
    struct Touch {
      uint32_t item;
      Access access;
    };
    struct Touches {
      std::vector<Touch> writes, reads;
    };
    std::map<uint32_t, Touches> objects;
    dependencies_.resize(items_.size());
    for (uint32_t i = 0; i < items_.size(); ++i) {
      const auto depend = [&](const std::vector<Touch>& earlier, const Access& access) {
        for (const Touch& touch : earlier) {
          if (touch.item == i) continue;
          dependencies_[i].push_back({touch.item, aligned(touch.access, access)});
        }
      };
      for (const Access& access : items_[i].reads) {
        Touches& touches = objects[access.object];
        if (touches.writes.empty() && access.object < graph_.tensors.size() &&
            tensor(access.object).kind == MINFER_TENSOR_ACTIVATION) {
          throw Failure(MINFER_INVALID, "node %s: it reads %s, which no earlier node writes",
                        graph_.nodes[items_[i].node].name.c_str(),
                        tensor(access.object).name.c_str());
        }
        depend(touches.writes, access);
        touches.reads.push_back({i, access});
      }
      for (const Access& access : items_[i].writes) {
        Touches& touches = objects[access.object];
        depend(touches.writes, access);
        depend(touches.reads, access);
        touches.writes.push_back({i, access});
      }
    }
  }

  void form_sections() {
    std::vector<bool> done(items_.size(), false), here(items_.size(), false);
    for (size_t first = 0; first < items_.size(); ++first) {
      if (done[first]) continue;
      std::vector<uint32_t> members = {static_cast<uint32_t>(first)};
      done[first] = here[first] = true;
      const size_t end = fuse_ ? std::min(items_.size(), first + kLookAhead) : first;
      for (size_t next = first + 1; next < end; ++next) {
        if (done[next] || !fits(items_[first], items_[next])) continue;
        const auto& needs = dependencies_[next];
        if (!std::all_of(needs.begin(), needs.end(), [&](const Dependency& d) {
              return done[d.item] && (!here[d.item] || (d.aligned && items_[next].by_rows()));
            })) {
          continue;
        }
        members.push_back(static_cast<uint32_t>(next));
        done[next] = here[next] = true;
      }
      std::vector<Item> section;
      for (uint32_t member : members) {
        here[member] = false;
        section.push_back(std::move(items_[member]));
      }
      out_.sections.push_back(std::move(section));
    }
  }

  // May `item` join a section that `first` opened?
  static bool fits(const Item& first, const Item& item) {
    if (first.by_rows()) return item.by_rows() && item.rows == first.rows;
    return first.work == Work::kMatmul && item.work == Work::kMatmul &&
           first.scratch == item.scratch;
  }

  const Graph& graph_;
  const Isa isa_;
  const bool fuse_;
  Schedule out_;
  std::vector<uint32_t> readers_, producer_, partner_;
  std::vector<Item> items_;
  std::vector<std::vector<Dependency>> dependencies_;
  std::vector<std::pair<uint32_t, uint32_t>> tables_;  // ROPE node, scratch
  std::map<std::pair<uint32_t, ActFormat>, uint32_t> conversions_;
  std::map<uint32_t, GatedPair> pairs_;  // by the gate's MATMUL
};

}  // namespace

Schedule make_schedule(const Graph& graph, Isa isa, bool fuse) {
  return Scheduler(graph, isa, fuse).make();
}

}  // namespace minfer_cpu

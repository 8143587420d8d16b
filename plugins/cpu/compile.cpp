// Plans from schedules: makes the steps, places what lives in the workspace, writes the reports.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

#include "attention.h"
#include "cpu_info.h"
#include "failure.h"
#include "matmul_by_id.h"
#include "matmul_step.h"
#include "minfer/quant_blocks.h"
#include "row_ops.h"
#include "schedule.h"

namespace minfer_cpu {
namespace {

class Compiler {
 public:
  Compiler(minfer_device& device, Graph graph, const Gates& gates)
      : plan_(std::make_unique<minfer_plan>()), fuse_(gates.fuse) {
    plan_->device = &device;
    plan_->graph = std::move(graph);
    plan_->isa = gates.isa;
    ctx_ = {&plan_->graph, vec_ops(gates.isa)};
  }

  std::unique_ptr<minfer_plan> compile() {
    schedule_ = make_schedule(plan_->graph, plan_->isa, fuse_);
    start_tables();
    for (std::vector<Item>& section : schedule_.sections) lower(section);
    place();
    list_bindings();
    list_checks();
    finish_reports();
    return std::move(plan_);
  }

 private:
  const Graph& graph() const { return plan_->graph; }
  const Tensor& tensor(uint32_t index) const { return plan_->graph.tensors[index]; }
  const Node& node(uint32_t index) const { return plan_->graph.nodes[index]; }

  void start_tables() {
    const size_t n = graph().tensors.size();
    plan_->kernels.assign(n, nullptr);
    plan_->life.assign(n, {});
    plan_->reports.assign(graph().nodes.size(), minfer_node_report{});
    plan_->times.assign(graph().nodes.size(), minfer_node_time{});
    scratch_life_.assign(schedule_.scratch.size(), {});
    for (const Scratch& scratch : schedule_.scratch) {
      auto activation = std::make_unique<Activation>();
      activation->tensor = scratch.tensor;
      activation->kernel = scratch.kernel;
      activation->converted = scratch.bytes > 0;
      plan_->activations.push_back(std::move(activation));
      plan_->tables.push_back(std::make_unique<RopeTable>());
    }
    for (uint32_t i = 0; i < graph().nodes.size(); ++i) find_weights(node(i));
  }

  // Which form of each weight the node reads.
  void find_weights(const Node& n) {
    for (size_t i = 0; i < n.src.size(); ++i) {
      const uint32_t index = n.src[i];
      if (index == MINFER_NONE || !tensor(index).is_weight()) continue;
      const bool matrix = i == 0 && (n.op == MINFER_OP_MATMUL || n.op == MINFER_OP_MATMUL_BY_ID ||
                                     n.op == MINFER_OP_GET_ROWS);
      std::vector<uint32_t>& list = matrix ? plan_->packed : plan_->plain;
      if (std::find(list.begin(), list.end(), index) == list.end()) list.push_back(index);
      if (matrix) {
        const Tensor& w = tensor(index);
        plan_->kernels[index] = find_matmul(w.type, w.ne[0], w.ne[1], plan_->isa);
      }
    }
  }

  // ---- steps

  void lower(const std::vector<Item>& section) {
    const auto first = static_cast<uint32_t>(plan_->steps.size());
    switch (section.front().work) {
      case Work::kMatmul:
        lower_matmul(section);
        break;
      case Work::kMatmulById:
        lower_by_id(section.front());
        break;
      case Work::kAttention:
        lower_attention(section.front());
        break;
      default:
        lower_chain(section);
    }
    const auto last = static_cast<uint32_t>(plan_->steps.size() - 1);
    for (const Item& item : section) {
      for (const Access& access : item.reads) touch(access.object, first, last, false);
      for (const Access& access : item.writes) touch(access.object, first, last, true);
    }
  }

  void touch(uint32_t object, uint32_t first, uint32_t last, bool written) {
    const size_t n = graph().tensors.size();
    if (object >= n + schedule_.scratch.size()) return;  // a KV region
    Lifetime& life = object < n ? plan_->life[object] : scratch_life_[object - n];
    life.first = std::min(life.first, first);
    life.last = std::max(life.last, last);
    life.used = true;
    life.written |= written;
  }

  void lower_matmul(const std::vector<Item>& section) {
    const Item& first = section.front();
    auto step =
        std::make_unique<MatmulStep>(ctx_, plan_->activations[first.scratch].get(), first.rows);
    for (const Item& item : section) {
      if (item.gated.is_pair()) {
        const Node& up = node(item.gated.up);
        const Node& act = node(item.gated.act);
        step->append_gated(node(item.node), item.node, item.kernel, up, plan_->kernels[up.src[0]],
                           act, node(item.gated.mul));
        label(item.node, act.op == MINFER_OP_SILU ? "silu_matmuls " : "gelu_matmuls ",
              item.kernel->label);
      } else {
        step->append(node(item.node), item.node, item.kernel);
        label(item.node, "matmul ", item.kernel->label);
      }
      explain_kernel(item.node, item.kernel);
    }
    plan_->steps.push_back(std::move(step));
  }

  void lower_by_id(const Item& item) {
    auto work = std::make_shared<ExpertWork>(ctx_, node(item.node), item.kernel);
    label(item.node, "matmul_by_id ", item.kernel->label);
    explain_kernel(item.node, item.kernel);
    const auto first = static_cast<uint32_t>(plan_->steps.size());
    reserve(work->gathered_bytes(), first, first, &work->gathered_offset);
    reserve(work->converted_bytes(), first, first + 1, &work->converted_offset);
    reserve(work->result_bytes(), first + 1, first + 2, &work->result_offset);
    for (auto& step : make_matmul_by_id(std::move(work), item.node)) {
      plan_->steps.push_back(std::move(step));
    }
  }

  void lower_attention(const Item& item) {
    const Node& n = node(item.node);
    const KvLayout layout(graph().kv[n.params.attention.kv]);
    auto step =
        std::make_unique<AttentionStep>(ctx_, n, item.node, layout, plan_->device->pool.size());
    const auto at = static_cast<uint32_t>(plan_->steps.size());
    reserve(step->parts_bytes(), at, at, step->parts_offset());
    static constexpr const char* kNames[] = {"attention_f32/", "attention_f16/", "attention_q8_0/"};
    label(item.node, kNames[layout.type], ctx_.vec->label);
    plan_->steps.push_back(std::move(step));
  }

  void lower_chain(const std::vector<Item>& section) {
    auto chain = std::make_unique<RowChain>(section.front().rows);
    for (const Item& item : section) append(*chain, item);
    plan_->steps.push_back(std::move(chain));
  }

  void append(RowChain& chain, const Item& item) {
    const Node& n = node(item.node);
    std::unique_ptr<RowOp> op;
    switch (item.work) {
      case Work::kGated:
        op = make_gated_of(n, node(item.partner));
        label(item.node, node(item.partner).op == MINFER_OP_SILU ? "silu_mul/" : "gelu_mul/",
              ctx_.vec->label);
        break;
      case Work::kAddNorm:
        op = make_add_rms_norm(ctx_, n, node(item.partner));
        label(item.node, "add_rms_norm/", ctx_.vec->label);
        break;
      case Work::kConvert:
        op = make_convert(ctx_, plan_->activations[item.scratch].get(), item.rows);
        break;
      case Work::kRopeTable:
        plan_->tables[item.scratch]->half = n.params.rope.n_rot / 2;
        op = make_rope_table(ctx_, n, plan_->tables[item.scratch].get());
        break;
      default:
        op = make_single(n, item);
        label_single(item.node);
    }
    const uint32_t shape = n.op == MINFER_OP_KV_STORE                             ? n.src[0]
                           : item.work == Work::kConvert                          ? n.src[1]
                           : n.op == MINFER_OP_ARG_MAX || n.op == MINFER_OP_TOP_K ? n.src[0]
                                                                                  : n.dst;
    const int64_t rows = std::max<int64_t>(1, item.rows.fixed);
    chain.append(std::move(op), item.node, tensor(shape).elements() / rows);
  }

  std::unique_ptr<RowOp> make_gated_of(const Node& mul, const Node& act) {
    const uint32_t up = mul.src[0] == act.dst ? mul.src[1] : mul.src[0];
    return make_gated(ctx_, act, act.src[0], up, mul.dst);
  }

  std::unique_ptr<RowOp> make_single(const Node& n, const Item& item) {
    switch (n.op) {
      case MINFER_OP_GET_ROWS:
        return make_get_rows(ctx_, n);
      case MINFER_OP_ADD:
      case MINFER_OP_MUL:
        return make_binary(ctx_, n.op, n.src[0], n.src[1], n.dst);
      case MINFER_OP_RMS_NORM:
        return make_rms_norm(ctx_, n);
      case MINFER_OP_ROPE:
        return make_rope(ctx_, n, plan_->tables[item.scratch].get());
      case MINFER_OP_KV_STORE:
        return make_kv_store(ctx_, n, KvLayout(graph().kv[n.params.kv.kv]));
      case MINFER_OP_SOFTMAX:
        return make_softmax(ctx_, n);
      case MINFER_OP_CONCAT:
        return make_concat(ctx_, n);
      case MINFER_OP_TOP_K:
        return make_top_k(ctx_, n);
      case MINFER_OP_ARG_MAX:
        return make_arg_max(ctx_, n);
      default:
        return make_unary(ctx_, n);
    }
  }

  // ---- reports

  void label(uint32_t index, const char* first, const char* second) {
    minfer_node_report& report = plan_->reports[index];
    std::snprintf(report.kernel, sizeof report.kernel, "%s%s", first, second);
  }

  void label_single(uint32_t index) {
    char name[32];
    size_t i = 0;
    for (const char* c = op_name(node(index).op); *c != '\0' && i + 1 < sizeof name; ++c) {
      name[i++] = *c >= 'A' && *c <= 'Z' ? static_cast<char>(*c - 'A' + 'a') : *c;
    }
    name[i] = '\0';
    if (node(index).op == MINFER_OP_GET_ROWS && tensor(node(index).src[0]).is_weight()) {
      label(index, "get_rows ", plan_->kernels[node(index).src[0]]->label);
    } else {
      minfer_node_report& report = plan_->reports[index];
      std::snprintf(report.kernel, sizeof report.kernel, "%s/%s", name, ctx_.vec->label);
    }
  }

  // Says why the best kernel of this processor was not taken.
  void explain_kernel(uint32_t index, const MatmulKernel* kernel) {
    const Tensor& w = tensor(node(index).src[0]);
    const Isa best = detect_isa();
    minfer_node_report& report = plan_->reports[index];
    const MatmulKernel* faster = find_matmul(w.type, w.ne[0], w.ne[1], best);
    if (faster != kernel) {
      std::snprintf(report.why, sizeof report.why, "gate MINFER_CPU_ISA is %s; %s would run",
                    isa_name(plan_->isa), faster->label);
    } else if (kernel == find_matmul(w.type, w.ne[0], w.ne[1], Isa::kScalar) &&
               best != Isa::kScalar) {
      std::snprintf(report.why, sizeof report.why, "no %s kernel for %s of [%lld, %lld]",
                    isa_name(best), minfer_type_name(w.type), static_cast<long long>(w.ne[0]),
                    static_cast<long long>(w.ne[1]));
    }
  }

  void finish_reports() {
    for (uint32_t i = 0; i < plan_->reports.size(); ++i) {
      minfer_node_report& report = plan_->reports[i];
      report.struct_size = sizeof report;
      report.fused_into = schedule_.fused_into[i];
      if (report.fused_into != MINFER_NONE) {
        std::memcpy(report.kernel, plan_->reports[report.fused_into].kernel, sizeof report.kernel);
      }
    }
  }

  // ---- memory

  void reserve(uint64_t bytes, uint32_t first, uint32_t last, uint64_t* offset) {
    if (bytes > 0) wanted_.push_back({workspace_.reserve(bytes, first, last), offset});
  }

  bool escapes(uint32_t owner) const { return escaping_[owner]; }

  void place() {
    const size_t n = graph().tensors.size();
    const auto last_step = static_cast<uint32_t>(plan_->steps.size());
    escaping_.assign(n, false);
    std::vector<bool> kept(n, false);
    for (const Tensor& t : graph().tensors) {
      if (t.flags & MINFER_FLAG_ESCAPES) escaping_[t.owner] = true;
      if (t.flags & MINFER_FLAG_KEEP) kept[t.owner] = true;
    }
    plan_->offsets.assign(n, 0);
    for (uint32_t i = 0; i < n; ++i) {
      const Tensor& t = tensor(i);
      const Lifetime& life = plan_->life[i];
      if (t.owner != i || t.kind != MINFER_TENSOR_ACTIVATION || escapes(i) || !life.used) continue;
      plan_->in_workspace.push_back(i);
      reserve(static_cast<uint64_t>(t.span_bytes), life.first, kept[i] ? last_step : life.last,
              &plan_->offsets[i]);
    }
    for (size_t i = 0; i < schedule_.scratch.size(); ++i) {
      const Lifetime& life = scratch_life_[i];
      uint64_t* offset = schedule_.scratch[i].kernel != nullptr ? &plan_->activations[i]->offset
                                                                : &plan_->tables[i]->offset;
      if (life.used) reserve(schedule_.scratch[i].bytes, life.first, life.last, offset);
    }
    uint64_t scratch = 0;
    for (const auto& step : plan_->steps) scratch = std::max(scratch, step->scratch_bytes());
    plan_->thread_scratch_bytes = align_up(scratch);
    reserve(plan_->thread_scratch_bytes * plan_->device->pool.size(), 0, last_step,
            &plan_->thread_scratch);
    plan_->workspace_bytes = workspace_.place();
    for (const auto& [block, offset] : wanted_) *offset = workspace_.offset(block);
  }

  void list_bindings() {
    for (uint32_t i = 0; i < graph().tensors.size(); ++i) {
      const Tensor& t = tensor(i);
      if (t.owner != i || t.is_weight()) continue;
      const bool output = t.kind == MINFER_TENSOR_ACTIVATION;
      if (output ? escapes(i) && plan_->life[i].written : plan_->life[i].used) {
        plan_->bound.push_back(i);
        if (output && t.dyn_axis != MINFER_NONE) plan_->zero_tails.push_back(i);
      }
    }
  }

  // Values that decide about addresses and come from inputs are held against their bounds each run.
  void list_checks() {
    for (uint32_t i = 0; i < graph().nodes.size(); ++i) {
      const Node& n = node(i);
      const auto check = [&](uint32_t list, int64_t limit, uint32_t kv, Dyn dyn) {
        if (tensor(tensor(list).owner).kind == MINFER_TENSOR_INPUT) {
          plan_->index_checks.push_back({i, list, limit, kv, dyn});
        }
      };
      if (n.op == MINFER_OP_GET_ROWS) {
        check(n.src[1], tensor(n.src[0]).ne[1], MINFER_NONE, tensor(n.dst).dyn);
      } else if (n.op == MINFER_OP_KV_STORE) {
        const uint32_t kv = n.params.kv.kv;
        check(n.src[2], graph().kv[kv].page_tokens, kv, tensor(n.src[0]).dyn);
      } else if (n.op == MINFER_OP_ATTENTION) {
        plan_->table_checks.push_back(i);
      }
    }
    drop_repeats();
  }

  uint32_t pages_of(uint32_t kv) const { return kv == MINFER_NONE ? 0 : graph().kv[kv].n_pages; }

  // Layers of one KV group share their inputs: one check each is enough.
  void drop_repeats() {
    auto& lists = plan_->index_checks;
    for (size_t i = 0; i < lists.size(); ++i) {
      for (size_t j = lists.size() - 1; j > i; --j) {
        const bool same = lists[i].list == lists[j].list && lists[i].limit == lists[j].limit &&
                          pages_of(lists[i].kv) == pages_of(lists[j].kv);
        if (!same) continue;
        lists.erase(lists.begin() + static_cast<int64_t>(j));
      }
    }
    std::map<std::pair<uint32_t, int64_t>, uint32_t> tables;
    for (uint32_t index : plan_->table_checks) {
      const minfer_kv_desc& kv = graph().kv[node(index).params.attention.kv];
      const int64_t shape = (int64_t{kv.n_pages} << 32) | kv.page_tokens;
      tables.emplace(std::make_pair(node(index).src[4], shape), index);
    }
    plan_->table_checks.clear();
    for (const auto& entry : tables) plan_->table_checks.push_back(entry.second);
  }

  std::unique_ptr<minfer_plan> plan_;
  bool fuse_;
  OpContext ctx_{};
  Schedule schedule_;
  std::vector<Lifetime> scratch_life_;
  std::vector<bool> escaping_;
  Workspace workspace_;
  struct Wanted {
    uint32_t block;
    uint64_t* offset;
  };
  std::vector<Wanted> wanted_;
};

}  // namespace

std::unique_ptr<minfer_plan> compile_plan(minfer_device& device, Graph graph, const Gates& gates) {
  return Compiler(device, std::move(graph), gates).compile();
}

}  // namespace minfer_cpu

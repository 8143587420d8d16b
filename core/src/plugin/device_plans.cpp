// Verdicts and plans of a device: what a plugin says about nodes and kernels, checked before it is
// used.
#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "plugin/abi_text.h"
#include "plugin/device.h"

namespace minfer {
namespace {

constexpr uint64_t kMaxWorkspace = uint64_t{1} << 48;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 24;
constexpr uint32_t kUnwritten = 0xdeadbeefu;

}  // namespace

Result<Verdict> PluginDevice::supports(const minfer_split& split) {
  minfer_verdict raw{};
  raw.struct_size = sizeof(raw);
  raw.supported = kUnwritten;
  raw.node = raw.tensor = MINFER_NONE;
  MINFER_TRY(call("supports", [&](minfer_error* e) {
    return table_.supports(raw_, &split, &gates_, &raw, e);
  }));
  if (raw.supported == kUnwritten) return broken("supports", "it succeeded and gave no verdict");
  if (raw.supported > 1)
    return broken("supports", fmt::format("supported = {}; 0 or 1 is expected", raw.supported));
  if (raw.node != MINFER_NONE && raw.node >= split.n_nodes)
    return broken("supports",
                  fmt::format("node = {} of a split of {} nodes", raw.node, split.n_nodes));
  if (raw.tensor != MINFER_NONE && raw.tensor >= split.n_tensors)
    return broken("supports",
                  fmt::format("tensor = {} of a split of {} tensors", raw.tensor, split.n_tensors));
  const auto reason = checked_text(raw.reason, sizeof(raw.reason));
  if (!reason)
    return broken("supports", fmt::format("a reason that is no text of at most {} bytes: '{}'",
                                          sizeof(raw.reason) - 1, clean_text(raw.reason, 40)));
  Verdict verdict{raw.supported == 1, raw.node, raw.tensor, *reason};
  if (!verdict.supported && verdict.reason.empty()) verdict.reason = "the plugin gave no reason";
  return verdict;
}

Result<PlanHandle> PluginDevice::plan_compile(const minfer_split& split, minfer_plan_info* info) {
  minfer_plan_info raw{};
  raw.struct_size = sizeof(raw);
  raw.workspace_bytes = UINT64_MAX;
  MINFER_ASSIGN(PlanHandle plan, create<minfer_plan>("plan_compile", table_.plan_destroy,
                                                     [&](minfer_plan** out, minfer_error* e) {
                                                       return table_.plan_compile(
                                                           raw_, &split, &gates_, out, &raw, e);
                                                     }));
  if (raw.workspace_bytes > kMaxWorkspace)
    return broken("plan_compile", raw.workspace_bytes == UINT64_MAX
                                      ? "it succeeded and left workspace_bytes unset"
                                      : fmt::format("workspace_bytes = {}", raw.workspace_bytes));
  if (raw.workspace_bytes == 0 && raw.workspace_align == 0) raw.workspace_align = 1;
  if (!std::has_single_bit(raw.workspace_align) || raw.workspace_align > kMaxAlignment)
    return broken("plan_compile",
                  fmt::format("workspace_align = {}; a power of two up to {} is expected",
                              raw.workspace_align, kMaxAlignment));
  {
    std::lock_guard lock(mutex_);
    plan_nodes_[plan.get()] = split.n_nodes;
  }
  if (info) *info = raw;
  return plan;
}

Result<void> PluginDevice::plan_bind(minfer_plan* plan, const minfer_bindings& bindings) {
  return call("plan_bind", [&](minfer_error* e) { return table_.plan_bind(plan, &bindings, e); });
}

Result<void> PluginDevice::plan_run(minfer_plan* plan, minfer_queue* queue,
                                    const minfer_run_args& args) {
  return call("plan_run", [&](minfer_error* e) { return table_.plan_run(plan, queue, &args, e); });
}

Result<NodeReport> PluginDevice::plan_describe(minfer_plan* plan, uint32_t node) {
  minfer_node_report raw{};
  raw.struct_size = sizeof(raw);
  raw.fused_into = MINFER_NONE;
  MINFER_TRY(call("plan_describe",
                  [&](minfer_error* e) { return table_.plan_describe(plan, node, &raw, e); }));
  const auto kernel = checked_text(raw.kernel, sizeof(raw.kernel));
  if (!kernel)
    return broken("plan_describe", fmt::format("node {}: a kernel label that is no text: '{}'",
                                               node, clean_text(raw.kernel, 40)));
  const auto why = checked_text(raw.why, sizeof(raw.why));
  if (!why)
    return broken("plan_describe", fmt::format("node {}: a 'why' that is no text: '{}'", node,
                                               clean_text(raw.why, 40)));
  uint32_t n_nodes = MINFER_NONE;
  {
    std::lock_guard lock(mutex_);
    if (const auto it = plan_nodes_.find(plan); it != plan_nodes_.end()) n_nodes = it->second;
  }
  if (raw.fused_into != MINFER_NONE && (raw.fused_into >= n_nodes || raw.fused_into == node))
    return broken("plan_describe",
                  fmt::format("node {} is fused into node {} of a plan of {} nodes", node,
                              raw.fused_into, n_nodes));
  if (kernel->empty() && raw.fused_into == MINFER_NONE)
    return broken("plan_describe", fmt::format("node {} has neither a kernel label nor a node that "
                                               "does its work",
                                               node));
  return NodeReport{raw.fused_into, *kernel, *why};
}

Result<std::vector<minfer_node_time>> PluginDevice::plan_profile(minfer_plan* plan,
                                                                 uint32_t n_nodes) {
  if (!table_.plan_profile) return std::vector<minfer_node_time>{};
  std::vector<minfer_node_time> times(n_nodes);
  uint32_t n = 0;
  MINFER_TRY(call("plan_profile", [&](minfer_error* e) {
    return table_.plan_profile(plan, times.data(), n_nodes, &n, e);
  }));
  if (n > n_nodes)
    return broken("plan_profile", fmt::format("n = {} times for {} nodes", n, n_nodes));
  times.resize(n);
  for (const minfer_node_time& time : times) {
    if (time.node >= n_nodes)
      return broken("plan_profile", fmt::format("node = {} of {} nodes", time.node, n_nodes));
    if (!std::isfinite(time.seconds) || time.seconds < 0)
      return broken("plan_profile",
                    fmt::format("node {} took {} seconds", time.node, time.seconds));
  }
  return times;
}

}  // namespace minfer

// The plan slots of the plugin's table: supports, compile, bind, run, describe, profile.
#include <algorithm>
#include <cstdio>
#include <numeric>

#include "plan.h"

namespace minfer_cuda {
namespace {

minfer_status supports(minfer_device* device, const minfer_split* split,
                       const minfer_gate_values* values, minfer_verdict* out, minfer_error* error) {
  return guard(error, [&] {
    out->supported = 1;
    out->node = out->tensor = MINFER_NONE;
    out->reason[0] = '\0';
    try {
      compile(device->caps(), Gates(values), *split);
    } catch (const Refusal& refusal) {
      out->supported = 0;
      out->node = refusal.node;
      out->tensor = refusal.tensor;
      std::snprintf(out->reason, sizeof out->reason, "%s", refusal.what());
    }
  });
}

minfer_status plan_compile(minfer_device* device, const minfer_split* split,
                           const minfer_gate_values* values, minfer_plan** out,
                           minfer_plan_info* info, minfer_error* error) {
  return guard(error, [&] {
    const Gates gates(values);
    auto plan =
        std::make_unique<minfer_plan>(*device, gates, compile(device->caps(), gates, *split));
    const Program& program = plan->program();
    info->n_launches =
        std::accumulate(program.steps.begin(), program.steps.end(), 0u,
                        [](uint32_t sum, const Step& step) { return sum + step.launches; });
    info->workspace_bytes = program.workspace_bytes;
    info->workspace_align = kWorkspaceAlign;
    *out = plan.release();
  });
}

minfer_status plan_bind(minfer_plan* plan, const minfer_bindings* bindings, minfer_error* error) {
  return guard(error, [&] { plan->bind(*bindings); });
}

minfer_status plan_run(minfer_plan* plan, minfer_queue* queue, const minfer_run_args* args,
                       minfer_error* error) {
  return guard(error, [&] { plan->run(*queue, *args); });
}

minfer_status plan_describe(minfer_plan* plan, uint32_t node, minfer_node_report* out,
                            minfer_error* error) {
  return guard(error, [&] {
    const Program& program = plan->program();
    if (node >= program.reports.size()) {
      throw PluginError(MINFER_INVALID, text("node ", node, " of ", program.reports.size()));
    }
    const NodeReport& report = program.reports[node];
    out->fused_into = report.fused_into;
    std::snprintf(out->kernel, sizeof out->kernel, "%s", report.kernel.c_str());
    std::snprintf(out->why, sizeof out->why, "%s", report.why.c_str());
  });
}

minfer_status plan_profile(minfer_plan* plan, minfer_node_time* out, uint32_t capacity, uint32_t* n,
                           minfer_error* error) {
  return guard(error, [&] {
    std::vector<minfer_node_time> times;
    plan->profile(times);
    *n = static_cast<uint32_t>(times.size());
    std::copy_n(times.begin(), std::min<size_t>(times.size(), capacity), out);
  });
}

void plan_destroy(minfer_plan* plan) {
  delete plan;
}

}  // namespace

void fill_plan_table(minfer_plugin& table) {
  table.supports = supports;
  table.plan_compile = plan_compile;
  table.plan_bind = plan_bind;
  table.plan_run = plan_run;
  table.plan_describe = plan_describe;
  table.plan_profile = plan_profile;
  table.plan_destroy = plan_destroy;
}

}  // namespace minfer_cuda

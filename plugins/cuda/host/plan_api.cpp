// The plan slots of the plugin's table: supports, compile, bind, run, describe, profile.
#include <algorithm>
#include <cstdio>
#include <numeric>

#include "abi_read.h"
#include "plan.h"

namespace minfer_cuda {
namespace {

minfer_status supports(minfer_device* device, const minfer_split* split,
                       const minfer_gate_values* values, minfer_verdict* out, minfer_error* error) {
  return guard(error, [&] {
    minfer_verdict verdict{};
    verdict.supported = 1;
    verdict.node = verdict.tensor = MINFER_NONE;
    try {
      compile(device->caps(), Gates(values), *split);
    } catch (const Refusal& refusal) {
      verdict.supported = 0;
      verdict.node = refusal.node;
      verdict.tensor = refusal.tensor;
      std::snprintf(verdict.reason, sizeof verdict.reason, "%s", refusal.what());
    }
    write_struct(out, verdict);
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
    minfer_plan_info told{};
    told.n_launches =
        std::accumulate(program.steps.begin(), program.steps.end(), 0u,
                        [](uint32_t sum, const Step& step) { return sum + step.launches; });
    told.workspace_bytes = program.workspace_bytes;
    told.workspace_align = kWorkspaceAlign;
    write_struct(info, told);
    *out = plan.release();
  });
}

minfer_status plan_bind(minfer_plan* plan, const minfer_bindings* bindings, minfer_error* error) {
  return guard(error, [&] { plan->bind(read_struct(bindings)); });
}

minfer_status plan_run(minfer_plan* plan, minfer_queue* queue, const minfer_run_args* args,
                       minfer_error* error) {
  return guard(error, [&] { plan->run(*queue, read_struct(args)); });
}

minfer_status plan_describe(minfer_plan* plan, uint32_t node, minfer_node_report* out,
                            minfer_error* error) {
  return guard(error, [&] {
    const Program& program = plan->program();
    if (node >= program.reports.size()) {
      throw PluginError(MINFER_INVALID, text("node ", node, " of ", program.reports.size()));
    }
    const NodeReport& report = program.reports[node];
    minfer_node_report told{};
    told.fused_into = report.fused_into;
    std::snprintf(told.kernel, sizeof told.kernel, "%s", report.kernel.c_str());
    std::snprintf(told.why, sizeof told.why, "%s", report.why.c_str());
    write_struct(out, told);
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

// A compiled split: steps to launch, memory they need, and what is bound to it.
//
// Compiling decides everything (fusions, kernels, workspace) and stores steps as functions of a
// Bound, the addresses of one binding. Running launches the steps in order, or replays a CUDA graph
// of them. A plan and its queue belong to one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../kernels/view.h"
#include "device.h"
#include "graph.h"
#include "queue.h"
#include "weights.h"

namespace minfer_cuda {

/// A piece of the workspace with a life of steps [first, last].
struct WorkItem {
  uint64_t bytes = 0;
  uint32_t first = kNone;
  uint32_t last = 0;
  uint64_t offset = 0;
};

/// Addresses of one binding.
struct Bound {
  const Graph* graph = nullptr;
  std::vector<char*> tensor;  ///< of each tensor, views included; null where it has no memory
  std::vector<char*> item;    ///< of each WorkItem
  std::vector<KvPages> kv;
  const char* constants = nullptr;
  char* counters = nullptr;  ///< Program::counter_bytes
  StepCounts* counts = nullptr;
  bool overlap = false;  ///< launches may overlap, see overlap.cuh

  View view(uint32_t t) const;
  /// Count and axis of a tensor's valid entries.
  Limit limit(uint32_t t) const;
  /// The count alone, whatever the axis; null when all entries are valid.
  const int32_t* valid(uint32_t t) const;
  template <class T = float>
  T* at(uint32_t t) const {
    return t == kNone ? nullptr : reinterpret_cast<T*>(tensor[t]);
  }
};

struct Step {
  uint32_t node = 0;  ///< that the step is accounted to
  uint32_t launches = 1;
  std::function<cudaError_t(const Bound&, cudaStream_t)> launch;
};

struct NodeReport {
  uint32_t fused_into = kNone;
  std::string kernel;
  std::string why;
};

/// What compiling produces.
struct Program {
  Graph graph;
  std::vector<Step> steps;
  std::vector<NodeReport> reports;
  std::vector<WorkItem> items;
  std::vector<uint32_t> item_of_tensor;  ///< per tensor that owns memory here, or kNone
  std::vector<uint8_t> constants;
  uint64_t counter_bytes = 0;  ///< memory that is zero between runs
  uint64_t workspace_bytes = 0;
};

inline constexpr uint64_t kWorkspaceAlign = 256;

/// Compiles a split for a device. Throws Refusal, or PluginError for a broken split.
std::unique_ptr<Program> compile(const Caps& caps, const Gates& gates, const minfer_split& split);

/// Gives items with overlapping lives different places; returns the bytes needed.
uint64_t place_items(std::vector<WorkItem>& items);

/// Fills the plan slots of the plugin's table.
void fill_plan_table(minfer_plugin& table);

}  // namespace minfer_cuda

struct minfer_plan {
  minfer_plan(minfer_device& device, const minfer_cuda::Gates& gates,
              std::unique_ptr<minfer_cuda::Program> program);
  ~minfer_plan();
  minfer_plan(const minfer_plan&) = delete;
  minfer_plan& operator=(const minfer_plan&) = delete;

  void bind(const minfer_bindings& bindings);
  void run(minfer_queue& queue, const minfer_run_args& args);
  void profile(std::vector<minfer_node_time>& out);
  const minfer_cuda::Program& program() const { return *program_; }

 private:
  void bind_tensors(const minfer_bindings& bindings);
  void bind_weights();
  void upload_constants();
  void send_counts(minfer_queue& queue, const minfer_run_args& args);
  void launch_steps(minfer_queue& queue);
  void run_timed(minfer_queue& queue);
  bool wants_graph() const;
  void replay(minfer_queue& queue);
  void capture(minfer_queue& queue);
  /// Captures the steps into graph_; returns what went wrong, the stream being as before then.
  std::string record(minfer_queue& queue);
  void drop_graph();

  minfer_device& device_;
  minfer_cuda::Gates gates_;
  std::unique_ptr<minfer_cuda::Program> program_;
  minfer_cuda::Bound bound_;
  bool is_bound_ = false;
  std::vector<std::shared_ptr<const minfer_cuda::WeightEntry>> weights_;
  minfer_cuda::DeviceMemory own_;  ///< step counts, counters, then constants
  minfer_cuda::StepCounts sent_{};
  cudaStream_t sent_on_ = nullptr;  ///< stream that the counts were last sent on
  uint32_t direct_runs_ = 0;        ///< since the last binding
  cudaGraphExec_t graph_ = nullptr;
  std::vector<cudaEvent_t> timers_;
  minfer_queue* timed_queue_ = nullptr;
};

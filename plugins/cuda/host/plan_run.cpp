// Binding, running, capturing and profiling plans (see plan.h).
//
// The first runs after a binding launch directly, which settles module loading and kernel
// attributes; the next one is captured into a CUDA graph and every later one replays it. What
// varies between steps reaches kernels through device memory: inputs in their buffers, valid counts
// in StepCounts. Capture is thread-local, so other threads' work goes on; an error inside a capture
// ends it and turns graphs off.
#include <algorithm>

#include "../kernels/basic.h"
#include "nvtx.h"
#include "plan.h"
#include "uploader.h"

namespace minfer_cuda {

namespace {
constexpr uint32_t kWarmUpRuns = 2;
constexpr uint64_t kCountsBytes = 256;
}  // namespace

View Bound::view(uint32_t t) const {
  const Tensor& from = graph->tensors[t];
  View v;
  v.data = tensor[t];
  for (int d = 0; d < 4; ++d) {
    v.ne[d] = static_cast<int32_t>(from.ne[d]);
    v.nb[d] = from.nb[d];
  }
  return v;
}

const int32_t* Bound::valid(uint32_t t) const {
  const Tensor& from = graph->tensors[t];
  if (from.dyn_axis == kNone) return nullptr;
  switch (from.dyn_count) {
    case MINFER_DYN_TOKENS:
      return &counts->tokens;
    case MINFER_DYN_SEQS:
      return &counts->seqs;
    case MINFER_DYN_OUTS:
      return &counts->outs;
    default:
      return nullptr;
  }
}

Limit Bound::limit(uint32_t t) const {
  const Tensor& from = graph->tensors[t];
  return {valid(t), from.dyn_axis == kNone ? 0 : static_cast<int32_t>(from.dyn_axis)};
}

}  // namespace minfer_cuda

using minfer_cuda::check;
using minfer_cuda::DeviceScope;
using minfer_cuda::Gate;
using minfer_cuda::kCountsBytes;
using minfer_cuda::kNone;
using minfer_cuda::kWarmUpRuns;
using minfer_cuda::PluginError;
using minfer_cuda::StepCounts;
using minfer_cuda::Tensor;
using minfer_cuda::text;

minfer_plan::minfer_plan(minfer_device& device, const minfer_cuda::Gates& gates,
                         std::unique_ptr<minfer_cuda::Program> program)
    : device_(device), gates_(gates), program_(std::move(program)) {
  bound_.graph = &program_->graph;
  bound_.overlap = device.caps().cc >= 90 && !gates.on(Gate::kNoOverlap);
}

minfer_plan::~minfer_plan() {
  const DeviceScope scope(device_.caps().ordinal);
  drop_graph();
  for (cudaEvent_t event : timers_) cudaEventDestroy(event);
}

void minfer_plan::drop_graph() {
  if (graph_) cudaGraphExecDestroy(graph_);
  graph_ = nullptr;
  direct_runs_ = 0;
}

void minfer_plan::bind(const minfer_bindings& bindings) {
  const DeviceScope scope(device_.caps().ordinal);
  is_bound_ = false;
  drop_graph();
  sent_on_ = nullptr;
  bind_weights();
  bind_tensors(bindings);
  upload_constants();
  is_bound_ = true;
}

void minfer_plan::bind_weights() {
  const minfer_cuda::Graph& graph = program_->graph;
  weights_.clear();
  bound_.tensor.assign(graph.tensors.size(), nullptr);
  for (uint32_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    if (!tensor.is_weight() || tensor.view_of != kNone) continue;
    auto entry = device_.weights().find(graph.model, tensor.weight_id);
    if (!entry) {
      throw PluginError(MINFER_INVALID, text(tensor.name, ": weight ", tensor.weight_id,
                                             " of model ", graph.model, " is not imported"));
    }
    if (entry->type != tensor.type || !std::equal(tensor.ne, tensor.ne + 4, entry->ne)) {
      throw PluginError(MINFER_INVALID, text(tensor.name, ": imported with another type or shape"));
    }
    bound_.tensor[t] = entry->data;
    weights_.push_back(std::move(entry));
  }
}

void minfer_plan::bind_tensors(const minfer_bindings& bindings) {
  const minfer_cuda::Graph& graph = program_->graph;
  char* workspace = nullptr;
  if (program_->workspace_bytes > 0) {
    if (!bindings.workspace) throw PluginError(MINFER_INVALID, "the plan needs a workspace");
    workspace = bindings.workspace->at(bindings.workspace_offset, program_->workspace_bytes);
  }
  bound_.item.clear();
  for (const auto& item : program_->items) bound_.item.push_back(workspace + item.offset);

  for (uint32_t i = 0; i < bindings.n_bindings; ++i) {
    const minfer_binding& b = bindings.bindings[i];
    if (b.tensor >= graph.tensors.size() || !b.buffer) {
      throw PluginError(MINFER_INVALID, text("binding ", i, " names tensor ", b.tensor));
    }
    const Tensor& tensor = graph.tensors[b.tensor];
    bound_.tensor[b.tensor] = b.buffer->at(b.offset, static_cast<uint64_t>(tensor.extent()));
  }
  for (uint32_t t = 0; t < graph.tensors.size(); ++t) {
    const uint32_t item = program_->item_of_tensor[t];
    if (item != kNone && !bound_.tensor[t]) bound_.tensor[t] = bound_.item[item];
  }
  for (uint32_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    if (tensor.view_of == kNone) {
      const bool outside = tensor.is_input() || (tensor.flags & MINFER_FLAG_ESCAPES);
      if (outside && !bound_.tensor[t] && tensor.elements() > 0) {
        throw PluginError(MINFER_INVALID, text(tensor.name, ": not bound"));
      }
    } else if (char* base = bound_.tensor[tensor.view_of]; base && !bound_.tensor[t]) {
      bound_.tensor[t] = base + tensor.view_offset;
    }
  }
  bound_.kv = graph.kv;
  for (size_t i = 0; i < graph.kv.size(); ++i) {
    if (!bindings.kv || !bindings.kv[i]) {
      throw PluginError(MINFER_INVALID, text("KV region ", i, " is not bound"));
    }
    bound_.kv[i].base = bindings.kv[i]->at(0, 0);
  }
}

void minfer_plan::upload_constants() {
  if (own_.bytes() > 0) return;
  const uint64_t counters = (program_->counter_bytes + 255) / 256 * 256;
  std::vector<uint8_t> image(kCountsBytes + counters, 0);
  image.insert(image.end(), program_->constants.begin(), program_->constants.end());
  own_ = minfer_cuda::DeviceMemory(device_, image.size(), "a plan's constants");
  bound_.counts = reinterpret_cast<StepCounts*>(own_.get());
  bound_.counters = own_.get() + kCountsBytes;
  bound_.constants = bound_.counters + counters;
  device_.uploader().upload_constants(image.data(), image.size(), own_.get());
}

void minfer_plan::send_counts(minfer_queue& queue, const minfer_run_args& args) {
  const minfer_capacity& capacity = program_->graph.capacity;
  if (args.n_tokens > capacity.tokens || args.n_seqs > capacity.seqs ||
      args.n_outs > capacity.outs) {
    throw PluginError(MINFER_INVALID,
                      text("a step of ", args.n_tokens, " tokens, ", args.n_seqs, " sequences, ",
                           args.n_outs, " outputs exceeds the plan's ", capacity.tokens, ", ",
                           capacity.seqs, ", ", capacity.outs));
  }
  const StepCounts counts{static_cast<int32_t>(args.n_tokens), static_cast<int32_t>(args.n_seqs),
                          static_cast<int32_t>(args.n_outs), 0};
  const bool same = counts.tokens == sent_.tokens && counts.seqs == sent_.seqs &&
                    counts.outs == sent_.outs && sent_on_ == queue.stream;
  if (same) return;
  queue.raise(minfer_cuda::launch_set_counts(bound_.counts, counts, queue.stream), "send counts");
  sent_ = counts;
  sent_on_ = queue.stream;
}

void minfer_plan::launch_steps(minfer_queue& queue) {
  for (const minfer_cuda::Step& step : program_->steps) {
    const minfer_cuda::NvtxRange range(program_->graph.nodes[step.node].name.c_str());
    const cudaError_t error = step.launch(bound_, queue.stream);
    if (error == cudaSuccess) continue;
    const std::string where =
        text(program_->graph.nodes[step.node].name, " (", program_->reports[step.node].kernel, ")");
    queue.raise(error, where.c_str());
  }
}

bool minfer_plan::wants_graph() const {
  if (device_.graphs_disabled() || gates_.on(Gate::kNoCudaGraph)) return false;
  const minfer_capacity& capacity = program_->graph.capacity;
  return capacity.tokens <= capacity.seqs || !gates_.on(Gate::kNoPrefillCapture);
}

void minfer_plan::run(minfer_queue& queue, const minfer_run_args& args) {
  queue.require_healthy();
  if (!is_bound_) throw PluginError(MINFER_INVALID, "the plan is not bound");
  const DeviceScope scope(device_.caps().ordinal);
  send_counts(queue, args);
  if (args.flags & MINFER_RUN_TIMED) return run_timed(queue);
  if (graph_) return replay(queue);
  if (wants_graph() && direct_runs_ >= kWarmUpRuns) return capture(queue);
  ++direct_runs_;
  launch_steps(queue);
}

void minfer_plan::replay(minfer_queue& queue) {
  const minfer_cuda::NvtxRange range("minfer replay");
  const cudaError_t error = cudaGraphLaunch(graph_, queue.stream);
  if (error == cudaSuccess) return;
  cudaGetLastError();
  device_.disable_graphs(text("replay failed: ", cudaGetErrorString(error)));
  drop_graph();
  launch_steps(queue);
}

void minfer_plan::capture(minfer_queue& queue) {
  const minfer_cuda::NvtxRange range("minfer capture");
  const std::string problem = record(queue);
  if (problem.empty()) return replay(queue);
  // Nothing of the capture ran, so the step is still whole when launched directly.
  cudaGetLastError();
  device_.disable_graphs(text("capture failed: ", problem));
  launch_steps(queue);
}

std::string minfer_plan::record(minfer_queue& queue) {
  cudaError_t error = cudaStreamBeginCapture(queue.stream, cudaStreamCaptureModeThreadLocal);
  if (error != cudaSuccess) return cudaGetErrorString(error);
  std::string problem;
  for (const minfer_cuda::Step& step : program_->steps) {
    // Memory that a step asks for now is refused by the driver, and that throws.
    try {
      error = step.launch(bound_, queue.stream);
      if (error != cudaSuccess) problem = cudaGetErrorString(error);
    } catch (const std::exception& e) {
      problem = e.what();
    }
    if (problem.empty()) continue;
    problem = text(program_->graph.nodes[step.node].name, ": ", problem);
    break;
  }
  cudaGraph_t graph = nullptr;
  error = cudaStreamEndCapture(queue.stream, &graph);
  if (problem.empty() && error == cudaSuccess) error = cudaGraphInstantiate(&graph_, graph, 0);
  if (graph) cudaGraphDestroy(graph);
  if (!problem.empty() || error != cudaSuccess) graph_ = nullptr;
  if (problem.empty() && error != cudaSuccess) problem = cudaGetErrorString(error);
  return problem;
}

void minfer_plan::run_timed(minfer_queue& queue) {
  const size_t wanted = program_->steps.size() + 1;
  while (timers_.size() < wanted) {
    cudaEvent_t event = nullptr;
    check(cudaEventCreate(&event), "create a timing event");
    timers_.push_back(event);
  }
  timed_queue_ = &queue;
  queue.raise(cudaEventRecord(timers_[0], queue.stream), "time a step");
  for (size_t i = 0; i < program_->steps.size(); ++i) {
    const minfer_cuda::Step& step = program_->steps[i];
    const minfer_cuda::NvtxRange range(program_->graph.nodes[step.node].name.c_str());
    queue.raise(step.launch(bound_, queue.stream), program_->graph.nodes[step.node].name.c_str());
    queue.raise(cudaEventRecord(timers_[i + 1], queue.stream), "time a step");
  }
}

void minfer_plan::profile(std::vector<minfer_node_time>& out) {
  if (!timed_queue_) throw PluginError(MINFER_INVALID, "no timed run of this plan");
  const DeviceScope scope(device_.caps().ordinal);
  timed_queue_->raise(cudaStreamSynchronize(timed_queue_->stream), "timed run");
  std::vector<double> seconds(program_->graph.nodes.size(), 0.0);
  for (size_t i = 0; i < program_->steps.size(); ++i) {
    float ms = 0.f;
    timed_queue_->raise(cudaEventElapsedTime(&ms, timers_[i], timers_[i + 1]), "timed run");
    seconds[program_->steps[i].node] += ms * 1e-3;
  }
  for (uint32_t n = 0; n < seconds.size(); ++n) out.push_back({n, 0, seconds[n], 0});
}

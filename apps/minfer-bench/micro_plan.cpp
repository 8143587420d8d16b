#include "micro_plan.h"

#include <algorithm>
#include <chrono>

#include "minfer/gguf.h"
#include "minfer/graph.h"

namespace minfer::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// Apart from the handles of engines, which count up from 1.
constexpr uint64_t kModelHandle = UINT64_MAX;

minfer_tensor tensor(uint32_t kind, uint32_t type, int64_t length, int64_t rows, const char* name) {
  minfer_tensor t{};
  t.struct_size = sizeof t;
  t.type = type;
  t.kind = kind;
  const auto row = static_cast<int64_t>(type_row_bytes(type, length));
  t.ne[0] = length;
  t.ne[1] = rows;
  t.ne[2] = t.ne[3] = 1;
  t.nb[0] = find_type(type)->block_bytes;
  t.nb[1] = row;
  t.nb[2] = t.nb[3] = row * rows;
  t.dyn_axis = MINFER_NONE;
  t.view_of = MINFER_NONE;
  t.name = name;
  return t;
}

/// Rows that follow the count of tokens.
minfer_tensor activation(uint32_t kind, int64_t length, uint32_t rows, const char* name) {
  minfer_tensor t = tensor(kind, MINFER_TYPE_F32, length, rows, name);
  t.dyn_axis = 1;
  t.dyn_count = MINFER_DYN_TOKENS;
  if (kind == MINFER_TENSOR_INPUT)
    t.input = MINFER_INPUT_HIDDEN;
  else
    t.flags = MINFER_FLAG_ESCAPES;
  return t;
}

/// Values from -1 to 1 that repeat after a prime number of them.
std::vector<float> values(size_t n) {
  constexpr size_t kPeriod = 997;
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i)
    out[i] = 2.0f * static_cast<float>(i % kPeriod) / static_cast<float>(kPeriod) - 1.0f;
  return out;
}

}  // namespace

MicroPlan::MicroPlan(std::shared_ptr<Device> device, const MicroShape& shape,
                     std::vector<uint8_t> weight)
    : device_(std::move(device)), shape_(shape), weight_(std::move(weight)) {}

void MicroPlan::describe() {
  tensors_.push_back(activation(MINFER_TENSOR_INPUT, shape_.length, shape_.rows, "x"));
  tensors_.push_back(activation(MINFER_TENSOR_ACTIVATION, shape_.out_length, shape_.rows, "y"));
  if (shape_.weight_type) {
    tensors_.push_back(
        tensor(MINFER_TENSOR_WEIGHT, *shape_.weight_type, shape_.length, shape_.out_length, "w"));
    sources_ = {2, 0};
  } else {
    sources_ = {0};
  }
  scale_ = {.struct_size = sizeof scale_, .factor = 1.0f, .offset = 0.5f, .reserved = 0};
  node_.struct_size = sizeof node_;
  node_.op = shape_.op;
  node_.revision = 1;
  node_.n_src = static_cast<uint32_t>(sources_.size());
  node_.src = sources_.data();
  node_.dst = 1;
  node_.params = shape_.op == MINFER_OP_SCALE ? &scale_ : nullptr;
  node_.name = "y";
  capacity_ = {.struct_size = sizeof capacity_,
               .tokens = shape_.rows,
               .seqs = 1,
               .outs = 1,
               .max_pages = 1,
               .n_pos = 1};
  split_.struct_size = sizeof split_;
  split_.n_tensors = static_cast<uint32_t>(tensors_.size());
  split_.tensor_stride = sizeof(minfer_tensor);
  split_.n_nodes = 1;
  split_.node_stride = sizeof(minfer_node);
  split_.kv_stride = sizeof(minfer_kv_desc);
  split_.tensors = tensors_.data();
  split_.nodes = &node_;
  split_.capacity = &capacity_;
  split_.model = kModelHandle;
}

Result<void> MicroPlan::import() {
  if (!shape_.weight_type) return {};
  minfer_weight w{};
  w.struct_size = sizeof w;
  w.type = *shape_.weight_type;
  w.uses = MINFER_USE_MATMUL;
  std::copy(tensors_[2].ne, tensors_[2].ne + 4, w.ne);
  w.mapping = weight_.data();
  w.mapping_bytes = weight_.size();
  w.bytes = weight_.size();
  w.name = "w";
  minfer_weight_unit unit{};
  unit.struct_size = sizeof unit;
  unit.n_weights = 1;
  unit.weight_stride = sizeof w;
  unit.weights = &w;
  unit.model = kModelHandle;
  unit.release = [](void*, uint64_t) {};
  MINFER_ASSIGN(imported_, device_->weights_import(unit));
  return {};
}

Result<void> MicroPlan::bind(const minfer_plan_info& info) {
  const uint64_t in_bytes = 4ull * static_cast<uint64_t>(shape_.length) * shape_.rows;
  const uint64_t out_bytes = 4ull * static_cast<uint64_t>(shape_.out_length) * shape_.rows;
  MINFER_ASSIGN(x_, device_->buffer_alloc(in_bytes));
  MINFER_ASSIGN(y_, device_->buffer_alloc(out_bytes));
  if (info.workspace_bytes > 0) {
    MINFER_ASSIGN(workspace_, device_->buffer_alloc(info.workspace_bytes));
  }
  MINFER_ASSIGN(queue_, device_->queue_create());
  const std::vector<float> data = values(in_bytes / 4);
  MINFER_TRY(device_->buffer_write(queue_.get(), x_.get(), 0, data.data(), in_bytes));
  MINFER_TRY(device_->queue_wait(queue_.get()));
  const minfer_binding bound[2] = {{.tensor = 0, .reserved = 0, .buffer = x_.get(), .offset = 0},
                                   {.tensor = 1, .reserved = 0, .buffer = y_.get(), .offset = 0}};
  minfer_bindings bindings{};
  bindings.struct_size = sizeof bindings;
  bindings.n_bindings = 2;
  bindings.bindings = bound;
  bindings.workspace = workspace_.get();
  bindings.generation = 1;
  return device_->plan_bind(plan_.get(), bindings);
}

Result<std::unique_ptr<MicroPlan>> MicroPlan::create(std::shared_ptr<Device> device,
                                                     const MicroShape& shape,
                                                     std::vector<uint8_t> weight) {
  std::unique_ptr<MicroPlan> plan(new MicroPlan(std::move(device), shape, std::move(weight)));
  plan->describe();
  MINFER_ASSIGN(const Verdict verdict, plan->device_->supports(plan->split_));
  if (!verdict.supported) return fail(ErrorCode::kUnsupported, verdict.reason);
  MINFER_TRY(plan->import());
  minfer_plan_info info{};
  info.struct_size = sizeof info;
  MINFER_ASSIGN(plan->plan_, plan->device_->plan_compile(plan->split_, &info));
  MINFER_TRY(plan->bind(info));
  return plan;
}

Result<double> MicroPlan::time(uint32_t rows, uint32_t runs) {
  minfer_run_args args{};
  args.struct_size = sizeof args;
  args.n_tokens = rows;
  args.n_seqs = 1;
  args.n_outs = 1;
  args.max_kv_len = 1;
  args.gates = device_->gates();
  const auto start = Clock::now();
  for (uint32_t i = 0; i < runs; ++i)
    MINFER_TRY(device_->plan_run(plan_.get(), queue_.get(), args));
  MINFER_TRY(device_->queue_wait(queue_.get()));
  return std::chrono::duration<double>(Clock::now() - start).count() / runs;
}

Result<std::string> MicroPlan::kernel() {
  MINFER_ASSIGN(NodeReport report, device_->plan_describe(plan_.get(), 0));
  return std::move(report.kernel);
}

}  // namespace minfer::bench

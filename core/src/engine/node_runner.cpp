// Node runs: one split of the caller's choice, compiled, bound to memory of its own and read back.
#include "minfer/node_runner.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/arena.h"
#include "engine/device_choice.h"
#include "engine/inputs.h"
#include "engine/splitter.h"
#include "engine/weights.h"

namespace minfer {
namespace {

constexpr uint8_t kPoison = 0xff;  // NaN in every float type

/// A value between -1 and 1 that depends on nothing but its place.
float made_up(uint32_t layer, uint64_t position, uint64_t element) {
  uint64_t x = (uint64_t{layer} << 48) ^ (position << 24) ^ element;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;  // the finaliser of SplitMix64
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  x ^= x >> 31;
  return static_cast<float>(static_cast<double>(x >> 11) * 0x1p-52 - 1.0);
}

class NodeRunnerImpl final : public NodeRunner {
 public:
  NodeRunnerImpl(std::shared_ptr<const Model> model, std::shared_ptr<Device> device,
                 NodeRunnerStep step)
      : model_(std::move(model)), device_(std::move(device)), step_(std::move(step)) {}

  Result<void> set_up();
  const Graph& graph() const override { return graph_; }
  uint32_t past() const override { return step_.past; }
  Result<void> enter_unit(uint32_t unit) override;
  Result<PartResult> run(std::span<const uint32_t> nodes, const TensorValues& inputs) override;

 private:
  /// A tensor of the split that is bound: where it lies in the arena.
  struct Place {
    uint32_t local = 0;
    uint32_t tensor = 0;  ///< in the graph
    uint64_t offset = 0;
    uint64_t bytes = 0;
    bool input = false;
  };

  Result<void> fill_step_inputs();
  std::vector<Place> place(const Split& split, uint64_t* bytes) const;
  Result<std::span<const uint8_t>> value_of(const Place& place, const TensorValues& inputs) const;
  Result<void> bind(const Split& split, std::span<const Place> places, uint64_t arena_bytes,
                    const minfer_plan_info& info, minfer_plan* plan);
  Result<minfer_buffer*> region(const minfer_kv_desc& kv, uint32_t graph_kv);
  Result<void> fill_past(const minfer_kv_desc& kv, minfer_buffer* region);
  Result<void> write(minfer_buffer* buffer, uint64_t offset, std::span<const uint8_t> data);

  std::shared_ptr<const Model> model_;
  std::shared_ptr<Device> device_;
  NodeRunnerStep step_;
  Graph graph_;
  uint64_t model_handle_ = 0;
  std::optional<KvCache> kv_;
  SequenceId sequence_ = 0;
  std::vector<uint32_t> pages_of_group_;
  InputLayout layout_;
  std::vector<uint8_t> step_inputs_;
  QueueHandle queue_;
  BufferHandle arena_;
  BufferHandle workspace_;
  uint64_t generation_ = 0;
  std::unique_ptr<WeightStore> weights_;      ///< of the entered unit
  std::map<uint32_t, BufferHandle> regions_;  ///< of the entered unit, by Graph::kv index
};

Result<void> NodeRunnerImpl::set_up() {
  const GraphParams probe{{1, 1, 1, 1}, step_.kv_type, 1, true};
  MINFER_ASSIGN(const Graph one_token, model_->build(probe));
  MINFER_ASSIGN(const uint32_t page_tokens, choose_page_tokens({&device_, 1}, one_token.kv, 0));
  if (!MINFER_HAS_FN(&device_->table(), kv_import_page)) step_.past = 0;
  const auto n = static_cast<uint32_t>(step_.tokens.size());
  const KvCacheShape shape{page_tokens, step_.past + n, 1, std::max(step_.past, n), 0};
  kv_.emplace(model_->kv_groups(), shape);
  for (const KvGroup& group : model_->kv_groups())
    pages_of_group_.push_back(pages_for_group(group, shape));
  MINFER_ASSIGN(graph_,
                model_->build({{n, 1, 1, kv_->max_pages()}, step_.kv_type, page_tokens, true}));
  model_handle_ = next_model_handle();
  MINFER_ASSIGN(queue_, device_->queue_create());
  return fill_step_inputs();
}

Result<void> NodeRunnerImpl::fill_step_inputs() {
  MINFER_ASSIGN(sequence_, kv_->create());
  if (step_.past > 0) {
    const KvCache::Append before{sequence_, step_.past};
    MINFER_TRY(kv_->begin({&before, 1}));
    kv_->commit();
  }
  const KvCache::Append append{sequence_, static_cast<uint32_t>(step_.tokens.size())};
  MINFER_TRY(kv_->begin({&append, 1}));
  layout_ = plan_inputs(graph_, std::max<uint64_t>(64, device_->info().buffer_alignment));
  step_inputs_.assign(layout_.bytes, 0);
  const StepEntry entry{sequence_, step_.tokens, true, false};
  fill_inputs(layout_, graph_.bucket, {&entry, 1}, *kv_, step_inputs_.data());
  return {};
}

Result<void> NodeRunnerImpl::enter_unit(uint32_t unit) {
  regions_.clear();
  weights_.reset();
  std::vector<bool> only(graph_.units.size(), false);
  only[unit] = true;
  weights_ = std::make_unique<WeightStore>(model_);
  return weights_->import(*device_, collect_weights(*model_, graph_, only), model_handle_, {});
}

std::vector<NodeRunnerImpl::Place> NodeRunnerImpl::place(const Split& split,
                                                         uint64_t* bytes) const {
  const uint64_t alignment = std::max<uint64_t>(64, device_->info().buffer_alignment);
  std::vector<Place> places;
  for (uint32_t i = 0; i < split.tensors.size(); ++i) {
    const minfer_tensor& t = split.tensors[i];
    const bool input = t.kind == MINFER_TENSOR_INPUT && t.view_of == MINFER_NONE;
    if (!input && (t.flags & MINFER_FLAG_ESCAPES) == 0) continue;
    const uint32_t tensor = split.graph_tensor[i];
    const uint64_t size = tensor_span_bytes(graph_.tensors[tensor]);
    places.push_back({i, tensor, *bytes, size, input});
    *bytes = (*bytes + size + alignment - 1) / alignment * alignment;
  }
  return places;
}

Result<std::span<const uint8_t>> NodeRunnerImpl::value_of(const Place& place,
                                                          const TensorValues& inputs) const {
  if (const InputLayout::Entry* entry = layout_.find(place.tensor))
    return std::span(step_inputs_).subspan(entry->offset, entry->bytes);
  const auto found = inputs.find(place.tensor);
  if (found != inputs.end() && found->second.size() == place.bytes)
    return std::span<const uint8_t>(found->second);
  return fail(
      ErrorCode::kInternal,
      fmt::format("an input of {} bytes is needed, {}", place.bytes,
                  found == inputs.end() ? std::string("none was given")
                                        : fmt::format("{} were given", found->second.size())),
      graph_.tensors[place.tensor].name);
}

Result<void> NodeRunnerImpl::write(minfer_buffer* buffer, uint64_t offset,
                                   std::span<const uint8_t> data) {
  if (data.empty()) return {};
  MINFER_TRY(device_->buffer_write(queue_.get(), buffer, offset, data.data(), data.size()));
  return device_->queue_wait(queue_.get());
}

Result<void> NodeRunnerImpl::fill_past(const minfer_kv_desc& kv, minfer_buffer* region) {
  const uint64_t k_row = uint64_t{kv.head_dim_k} * kv.n_head_kv;
  const uint64_t v_row = uint64_t{kv.head_dim_v} * kv.n_head_kv;
  std::vector<float> page((k_row + v_row) * kv.page_tokens);
  for (uint32_t first = 0; first < step_.past; first += kv.page_tokens) {
    const int32_t physical = kv_->page(sequence_, kv.group, first / kv.page_tokens);
    if (physical < 0) continue;  // behind the window
    float* v = page.data() + k_row * kv.page_tokens;
    for (uint32_t t = 0; t < kv.page_tokens; ++t) {
      for (uint64_t i = 0; i < k_row; ++i) page[t * k_row + i] = made_up(kv.layer, first + t, i);
      for (uint64_t i = 0; i < v_row; ++i)
        v[t * v_row + i] = made_up(kv.layer, first + t, k_row + i);
    }
    MINFER_TRY(device_->kv_import_page(queue_.get(), kv, region, static_cast<uint32_t>(physical),
                                       page.data()));
    MINFER_TRY(device_->queue_wait(queue_.get()));
  }
  return {};
}

Result<minfer_buffer*> NodeRunnerImpl::region(const minfer_kv_desc& kv, uint32_t graph_kv) {
  BufferHandle& held = regions_[graph_kv];
  if (held) return held.get();
  MINFER_ASSIGN(const uint64_t page, device_->kv_page_bytes(kv));
  MINFER_ASSIGN(held, device_->buffer_alloc(page * kv.n_pages));
  MINFER_TRY(write(held.get(), 0, std::vector<uint8_t>(page * kv.n_pages, 0)));
  MINFER_TRY(fill_past(kv, held.get()));
  return held.get();
}

Result<void> NodeRunnerImpl::bind(const Split& split, std::span<const Place> places,
                                  uint64_t arena_bytes, const minfer_plan_info& info,
                                  minfer_plan* plan) {
  arena_.reset();
  workspace_.reset();
  MINFER_ASSIGN(arena_, device_->buffer_alloc(std::max<uint64_t>(arena_bytes, 1)));
  if (info.workspace_bytes > 0) {
    MINFER_ASSIGN(workspace_, device_->buffer_alloc(info.workspace_bytes));
    MINFER_TRY(write(workspace_.get(), 0, std::vector<uint8_t>(info.workspace_bytes, kPoison)));
  }
  std::vector<minfer_binding> bindings;
  for (const Place& p : places) bindings.push_back({p.local, 0, arena_.get(), p.offset});
  std::vector<minfer_buffer*> kv;
  for (size_t k = 0; k < split.kv.size(); ++k) {
    MINFER_ASSIGN(kv.emplace_back(), region(split.kv[k], split.graph_kv[k]));
  }
  minfer_bindings table{};
  table.struct_size = sizeof table;
  table.n_bindings = static_cast<uint32_t>(bindings.size());
  table.bindings = bindings.data();
  table.kv = kv.data();
  table.workspace = workspace_.get();
  table.generation = ++generation_;
  return device_->plan_bind(plan, table);
}

Result<PartResult> NodeRunnerImpl::run(std::span<const uint32_t> nodes,
                                       const TensorValues& inputs) {
  const Split split = make_split(graph_, nodes, {pages_of_group_, model_handle_});
  minfer_plan_info info{};
  info.struct_size = sizeof info;
  MINFER_ASSIGN(const PlanHandle plan, device_->plan_compile(split.table(), &info));
  uint64_t arena_bytes = 0;
  const std::vector<Place> places = place(split, &arena_bytes);
  MINFER_TRY(bind(split, places, arena_bytes, info, plan.get()));
  MINFER_TRY(write(arena_.get(), 0, std::vector<uint8_t>(arena_bytes, kPoison)));
  for (const Place& p : places) {
    if (!p.input) continue;
    MINFER_ASSIGN(const auto value, value_of(p, inputs));
    MINFER_TRY(write(arena_.get(), p.offset, value));
  }
  minfer_run_args args{};
  args.struct_size = sizeof args;
  args.n_tokens = graph_.bucket.tokens;
  args.n_seqs = 1;
  args.n_outs = 1;
  args.max_kv_len = step_.past + graph_.bucket.tokens;
  args.gates = device_->gates();
  MINFER_TRY(device_->plan_run(plan.get(), queue_.get(), args));
  MINFER_TRY(device_->queue_wait(queue_.get()));

  PartResult out;
  for (const Place& p : places) {
    if (p.input) continue;
    std::vector<uint8_t>& bytes = out.outputs[p.tensor];
    bytes.resize(p.bytes);
    MINFER_TRY(device_->buffer_read(queue_.get(), arena_.get(), p.offset, bytes.data(), p.bytes));
  }
  MINFER_TRY(device_->queue_wait(queue_.get()));
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    MINFER_ASSIGN(out.reports.emplace_back(), device_->plan_describe(plan.get(), i));
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<NodeRunner>> NodeRunner::create(std::shared_ptr<const Model> model,
                                                       std::shared_ptr<Device> device,
                                                       const NodeRunnerStep& step) {
  if (step.tokens.empty()) return fail(ErrorCode::kUsage, "a step needs at least one token");
  const auto n_vocab = static_cast<TokenId>(model->hparams().n_vocab);
  for (const TokenId token : step.tokens)
    if (token < 0 || token >= n_vocab)
      return fail(ErrorCode::kUsage,
                  fmt::format("token {} is outside the vocabulary of {}", token, n_vocab));
  auto runner = std::make_unique<NodeRunnerImpl>(std::move(model), std::move(device), step);
  MINFER_TRY(runner->set_up());
  return runner;
}

}  // namespace minfer

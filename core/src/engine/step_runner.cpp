#include "engine/step_runner.h"

#include <algorithm>
#include <cassert>

namespace minfer {

StepRunner::StepRunner(std::span<const std::shared_ptr<Device>> devices,
                       std::span<const DeviceMemory> memory, std::vector<KvRegion> regions)
    : devices_(devices), memory_(memory), regions_(std::move(regions)) {}

StepRunner::~StepRunner() {
  drain();
}

Result<std::unique_ptr<StepRunner>> StepRunner::create(
    std::span<const std::shared_ptr<Device>> devices, std::span<const DeviceMemory> memory,
    std::vector<KvRegion> regions, std::span<const size_t> device_of_split,
    const StagingSizes& sizes) {
  std::unique_ptr<StepRunner> runner(new StepRunner(devices, memory, std::move(regions)));
  MINFER_TRY(runner->create_queues(device_of_split));
  MINFER_TRY(runner->pin_memory(sizes));
  return runner;
}

Result<void> StepRunner::create_queues(std::span<const size_t> device_of_split) {
  for (const auto& device : devices_) {
    MINFER_ASSIGN(auto queue, device->queue_create());
    queues_.push_back(std::move(queue));
  }
  for (const size_t d : device_of_split) {
    MINFER_ASSIGN(auto event, devices_[d]->event_create());
    split_done_.push_back(std::move(event));
  }
  slots_.resize(kStepSlots);
  for (Slot& slot : slots_) {
    MINFER_ASSIGN(slot.done, devices_[device_of_split.back()]->event_create());
  }
  return {};
}

Result<void> StepRunner::pin_memory(const StagingSizes& sizes) {
  // Memory pinned by a device with its own memory serves the CPU as well.
  const auto pinning = std::find_if(devices_.begin(), devices_.end(),
                                    [](const auto& d) { return !d->info().host_accessible; });
  Device& device = pinning == devices_.end() ? *devices_.front() : **pinning;
  const auto take = [&](uint64_t bytes) -> Result<void*> {
    MINFER_ASSIGN(auto memory, device.host_alloc(std::max<uint64_t>(bytes, 1)));
    pinned_.push_back(std::move(memory));
    return pinned_.back().get();
  };
  for (Slot& slot : slots_) {
    MINFER_ASSIGN(void* inputs, take(sizes.inputs));
    MINFER_ASSIGN(void* arg_max, take(sizes.arg_max));
    slot.inputs = static_cast<uint8_t*>(inputs);
    slot.arg_max = static_cast<TokenId*>(arg_max);
  }
  MINFER_ASSIGN(void* crossings, take(sizes.crossings));
  MINFER_ASSIGN(void* logits, take(sizes.logits));
  crossings_ = static_cast<uint8_t*>(crossings);
  logits_ = static_cast<float*>(logits);
  copy_from_.reserve(sizes.seqs);
  copy_to_.reserve(sizes.seqs);
  return {};
}

Result<void> StepRunner::check_cancel() const {
  if (cancelled_) return fail(ErrorCode::kCancelled, "the step was cancelled");
  return {};
}

Result<uint32_t> StepRunner::enqueue(const Step& step, const KvCache& kv) {
  const uint32_t index = next_slot_;
  Slot& slot = slots_[index];
  // A slot's memory may be rewritten once its step is over. Steps of several splits also share the
  // crossings' memory, and timed steps their plans' figures: those follow one another strictly.
  const bool one_at_a_time = step.plan->splits.splits.size() > 1 || timing_;
  for (uint32_t s = 0; s < kStepSlots; ++s)
    if (slots_[s].pending && (s == index || one_at_a_time)) MINFER_TRY(complete(s));
  auto queued = queue_step(step, kv, slot);
  if (!queued) {
    drain();
    return tl::make_unexpected(std::move(queued).error());
  }
  slot.plan = step.plan;
  slot.pending = true;
  slot.timed = timing_;
  next_slot_ = (index + 1) % kStepSlots;
  return index;
}

Result<void> StepRunner::queue_step(const Step& step, const KvCache& kv, Slot& slot) {
  const TraceScope span(trace_, "queue a step", "step",
                        {{"tokens", step.counts.tokens},
                         {"sequences", step.counts.seqs},
                         {"rows", step.counts.outs},
                         {"longest", step.counts.max_kv_len}});
  MINFER_TRY(check_cancel());
  MINFER_TRY(send_inputs(step, kv, slot));
  MINFER_TRY(copy_pages(kv));
  MINFER_TRY(run_splits(step));
  return read_back(step, slot);
}

Result<void> StepRunner::send_inputs(const Step& step, const KvCache& kv, Slot& slot) {
  const InputLayout& layout = step.plan->inputs;
  const TraceScope span(trace_, "send inputs", "copy", {{"bytes", layout.bytes}});
  fill_inputs(layout, step.plan->key.params.bucket, step.entries, kv, slot.inputs);
  for (size_t d = 0; d < devices_.size(); ++d)
    MINFER_TRY(devices_[d]->buffer_write(queues_[d].get(), memory_[d].arena.get(), 0, slot.inputs,
                                         layout.bytes));
  return {};
}

Result<void> StepRunner::copy_pages(const KvCache& kv) {
  const auto copies = kv.copies();
  if (copies.empty()) return {};
  for (const KvRegion& region : regions_) {
    copy_from_.clear();
    copy_to_.clear();
    for (const KvCache::PageCopy& copy : copies) {
      if (copy.group != region.desc.group) continue;
      copy_from_.push_back(copy.from);
      copy_to_.push_back(copy.to);
    }
    if (copy_from_.empty()) continue;
    MINFER_TRY(devices_[region.device]->kv_copy_pages(queues_[region.device].get(), region.desc,
                                                      region.buffer, copy_from_, copy_to_));
  }
  return {};
}

Result<void> StepRunner::run_splits(const Step& step) {
  StepPlan& plan = *step.plan;
  split_begin_.clear();
  for (uint32_t s = 0; s < plan.compiled.size(); ++s) {
    MINFER_TRY(check_cancel());
    MINFER_TRY(receive(step, s));
    Device& device = *devices_[plan.splits.splits[s].device];
    minfer_run_args args{};
    args.struct_size = sizeof args;
    args.flags = timing_ ? MINFER_RUN_TIMED : 0;
    args.n_tokens = step.counts.tokens;
    args.n_seqs = step.counts.seqs;
    args.n_outs = step.counts.outs;
    args.max_kv_len = step.counts.max_kv_len;
    args.gates = device.gates();
    if (trace_) split_begin_.push_back(Trace::Clock::now());
    {
      const TraceScope span(trace_, trace_ ? "run on " + device.info().id : "", "run",
                            {{"split", s}, {"nodes", plan.splits.splits[s].nodes.size()}});
      MINFER_TRY(device.plan_run(plan.compiled[s].plan.get(),
                                 queues_[plan.splits.splits[s].device].get(), args));
    }
    MINFER_TRY(send(step, s));
  }
  return {};
}

namespace {

uint64_t valid_bytes(const CrossingCopy& copy, const StepCounts& counts) {
  if (copy.row_bytes == 0) return copy.bytes;
  switch (copy.dyn_count) {
    case MINFER_DYN_TOKENS:
      return copy.row_bytes * counts.tokens;
    case MINFER_DYN_SEQS:
      return copy.row_bytes * counts.seqs;
    case MINFER_DYN_OUTS:
      return copy.row_bytes * counts.outs;
    default:
      return copy.bytes;
  }
}

}  // namespace

Result<void> StepRunner::receive(const Step& step, uint32_t split) {
  const StepPlan& plan = *step.plan;
  const size_t to = plan.splits.splits[split].device;
  for (const CrossingCopy& copy : plan.crossings) {
    if (copy.crossing.to != split) continue;
    const uint64_t bytes = valid_bytes(copy, step.counts);
    if (bytes == 0) continue;
    const size_t from = plan.splits.splits[copy.crossing.from].device;
    const TraceScope span(trace_, trace_ ? "copy to " + devices_[to]->info().id : "", "copy",
                          {{"bytes", bytes}});
    MINFER_TRY(devices_[from]->event_wait(split_done_[copy.crossing.from].get()));
    MINFER_TRY(devices_[to]->buffer_write(queues_[to].get(), memory_[to].arena.get(),
                                          plan.arena_offset(to, copy.crossing.tensor, memory_[to]),
                                          crossings_ + copy.staging_offset, bytes));
  }
  return {};
}

Result<void> StepRunner::send(const Step& step, uint32_t split) {
  const StepPlan& plan = *step.plan;
  const size_t from = plan.splits.splits[split].device;
  bool any = false;
  for (const CrossingCopy& copy : plan.crossings) {
    if (copy.crossing.from != split) continue;
    const uint64_t bytes = valid_bytes(copy, step.counts);
    if (bytes == 0) continue;
    const TraceScope span(trace_, trace_ ? "copy from " + devices_[from]->info().id : "", "copy",
                          {{"bytes", bytes}});
    MINFER_TRY(
        devices_[from]->buffer_read(queues_[from].get(), memory_[from].arena.get(),
                                    plan.arena_offset(from, copy.crossing.tensor, memory_[from]),
                                    crossings_ + copy.staging_offset, bytes));
    any = true;
  }
  if (!any) return {};
  return devices_[from]->event_record(split_done_[split].get(), queues_[from].get());
}

Result<void> StepRunner::read_back(const Step& step, Slot& slot) {
  const StepPlan& plan = *step.plan;
  const size_t head = plan.splits.splits.back().device;
  Device& device = *devices_[head];
  minfer_buffer* arena = memory_[head].arena.get();
  slot.n_arg_max = step.counts.outs;
  if (step.counts.outs > 0) {
    MINFER_TRY(device.buffer_read(queues_[head].get(), arena,
                                  plan.arena_offset(head, plan.graph.arg_max, memory_[head]),
                                  slot.arg_max, uint64_t{step.counts.outs} * sizeof(TokenId)));
  }
  if (step.read_logits) {
    const GraphTensor& logits = plan.graph.tensors[plan.graph.logits];
    const uint64_t bytes = step.counts.outs * static_cast<uint64_t>(logits.nb[1]);
    n_logits_ = static_cast<size_t>(step.counts.outs) * static_cast<size_t>(logits.ne[0]);
    if (bytes > 0)
      MINFER_TRY(device.buffer_read(queues_[head].get(), arena,
                                    plan.arena_offset(head, plan.graph.logits, memory_[head]),
                                    logits_, bytes));
  } else {
    n_logits_ = 0;
  }
  return device.event_record(slot.done.get(), queues_[head].get());
}

Result<bool> StepRunner::ready(uint32_t slot) {
  if (!slots_[slot].pending) return true;
  const size_t head = slots_[slot].plan->splits.splits.back().device;
  return devices_[head]->event_query(slots_[slot].done.get());
}

Result<void> StepRunner::complete(uint32_t index) {
  Slot& slot = slots_[index];
  if (!slot.pending) return {};
  const size_t head = slot.plan->splits.splits.back().device;
  Result<void> waited;
  {
    const TraceScope span(trace_, "wait for a step", "wait");
    waited = devices_[head]->event_wait(slot.done.get());
  }
  if (waited && slot.timed) waited = timer_.add(*slot.plan, devices_, {trace_, split_begin_});
  if (waited) waited = check_cancel();
  if (!waited) {
    drain();
    return waited;
  }
  slot.pending = false;
  return {};
}

void StepRunner::drain() {
  for (size_t d = 0; d < queues_.size(); ++d) (void)devices_[d]->queue_wait(queues_[d].get());
  for (Slot& slot : slots_) slot.pending = false;
}

std::span<const TokenId> StepRunner::arg_max(uint32_t slot) const {
  return {slots_[slot].arg_max, slots_[slot].n_arg_max};
}

void StepRunner::cancel() {
  cancelled_ = true;
  for (size_t d = 0; d < queues_.size(); ++d) (void)devices_[d]->queue_cancel(queues_[d].get());
}

}  // namespace minfer

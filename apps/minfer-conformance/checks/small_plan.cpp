#include "small_plan.h"

#include <cstdlib>
#include <cstring>

namespace conformance {

SmallPlan::SmallPlan(Bench& bench, uint64_t model) : bench_(bench), split_(kTokens) {
  const Dynamic tokens{1, MINFER_DYN_TOKENS};
  split_.model = model;
  weight_ = random_weight(bench.rng, MINFER_TYPE_F32, kRow, kRow);
  const uint32_t w = split_.weight(weight_, MINFER_USE_MATMUL);
  x_ = split_.input(MINFER_TYPE_F32, {kRow, kTokens}, MINFER_INPUT_HIDDEN, tokens);
  const uint32_t product = split_.inner(MINFER_TYPE_F32, {kRow, kTokens}, tokens);
  out_ = split_.output(MINFER_TYPE_F32, {kRow, kTokens}, tokens);
  split_.node(MINFER_OP_MATMUL, {w, x_}, product);
  split_.node(MINFER_OP_ADD, {product, x_}, out_);
  session_ = std::make_unique<Session>(bench.device, split_);
}

std::vector<float> SmallPlan::random_x() {
  return random_floats(bench_.rng, kRow * kTokens);
}

std::vector<double> SmallPlan::answer(const std::vector<float>& x, uint32_t tokens) const {
  std::vector<double> out(x.size(), 0.0);
  for (size_t t = 0; t < tokens; ++t) {
    const float* row = x.data() + t * kRow;
    for (size_t o = 0; o < kRow; ++o) {
      double sum = row[o];
      for (size_t i = 0; i < kRow; ++i)
        sum += double{weight_.row(static_cast<int64_t>(o))[i]} * row[i];
      out[t * kRow + o] = sum;
    }
  }
  return out;
}

void SmallPlan::enqueue(minfer_queue* queue, uint32_t tokens) {
  minfer_run_args args{};
  args.struct_size = sizeof args;
  args.n_tokens = tokens;
  args.n_seqs = args.n_outs = 1;
  args.gates = &bench_.device.gates;
  MINFER_CALL(plan_run, session_->plan(), queue, &args);
}

bool SmallPlan::run_and_check(minfer_queue* queue, const std::string& what, uint32_t tokens) {
  const std::vector<float> values = random_x();
  std::vector<float> got(values.size());
  MINFER_CALL(buffer_write, queue, x().buffer, x().start, values.data(), kBytes);
  enqueue(queue, tokens);
  MINFER_CALL(buffer_read, queue, out().buffer, out().start, got.data(), kBytes);
  MINFER_CALL(queue_wait, queue);
  return expect_below(relative_error(got, answer(values, tokens)), 1e-5, what);
}

HostMemory::HostMemory(Device& device, uint64_t bytes) : device_(device) {
  pinned_ = MINFER_HAS_FN(&plugin(), host_alloc);
  if (pinned_) {
    MINFER_CALL(host_alloc, device.handle, bytes, &memory_);
  } else {
    memory_ = std::malloc(bytes);
  }
  std::memset(memory_, 0xff, bytes);
}

HostMemory::~HostMemory() {
  if (pinned_) {
    plugin().host_free(device_.handle, memory_);
  } else {
    std::free(memory_);
  }
}

}  // namespace conformance

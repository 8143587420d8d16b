// Sorting pairs by expert and the three steps.
#include "matmul_by_id.h"

#include <algorithm>
#include <cstring>

#include "failure.h"

namespace minfer_cpu {
namespace {

constexpr int64_t kRowsPerTask = 128;

class Gather final : public Step {
 public:
  Gather(std::shared_ptr<ExpertWork> work, uint32_t node) : w_(std::move(work)), node_(node) {}

  int64_t prepare(const Run& run) override {
    w_->sort(run);
    return static_cast<int64_t>(w_->groups.size());
  }

  void task(const Run& run, int64_t index, unsigned) override {
    const ExpertWork::Group& group = w_->groups[static_cast<size_t>(index)];
    const Tensor& x = w_->ctx.tensor(w_->x);
    float* rows =
        reinterpret_cast<float*>(run.workspace + w_->gathered_offset) + group.first * w_->id;
    for (int64_t i = 0; i < group.count; ++i) {
      const ExpertWork::Pair pair = w_->pairs[static_cast<size_t>(group.first + i)];
      const int64_t place = x.ne[1] == 1 ? 0 : pair.place;
      std::memcpy(rows + i * w_->id, run.data[w_->x] + pair.token * x.nb[2] + place * x.nb[1],
                  static_cast<size_t>(w_->id) * sizeof(float));
    }
    w_->kernel->convert(
        rows, w_->id, w_->id, group.count, 0, group.count,
        run.workspace + w_->converted_offset + static_cast<uint64_t>(group.first) * w_->pair_bytes);
  }

  uint32_t node_of(uint32_t) const override { return node_; }

 private:
  std::shared_ptr<ExpertWork> w_;
  uint32_t node_;
};

class Multiply final : public Step {
 public:
  Multiply(std::shared_ptr<ExpertWork> work, uint32_t node) : w_(std::move(work)), node_(node) {}

  int64_t prepare(const Run& run) override {
    const int64_t group = w_->kernel->row_group;
    // Few experts: cut finer, so that every thread has some.
    const int64_t wanted = 4 * static_cast<int64_t>(run.threads);
    const int64_t groups = std::max<int64_t>(1, static_cast<int64_t>(w_->groups.size()));
    int64_t rows = std::min(kRowsPerTask, w_->od * groups / wanted + 1);
    rows_per_task_ = std::max(group, (rows + group - 1) / group * group);
    tasks_per_group_ = (w_->od + rows_per_task_ - 1) / rows_per_task_;
    return static_cast<int64_t>(w_->groups.size()) * tasks_per_group_;
  }

  void task(const Run& run, int64_t index, unsigned thread) override {
    const ExpertWork::Group& group = w_->groups[static_cast<size_t>(index / tasks_per_group_)];
    const int64_t row0 = index % tasks_per_group_ * rows_per_task_;
    const int64_t row1 = std::min(w_->od, row0 + rows_per_task_);
    const WeightForm& form = *run.packed[w_->weight];
    float* out = reinterpret_cast<float*>(run.workspace + w_->result_offset) + group.first * w_->od;
    w_->kernel->run(
        form.data + static_cast<uint64_t>(group.expert) * form.matrix_bytes, w_->id, w_->od,
        run.workspace + w_->converted_offset + static_cast<uint64_t>(group.first) * w_->pair_bytes,
        group.count, row0, row1, nullptr, out, w_->od, run.scratch(thread));
  }

  uint64_t scratch_bytes() const override {
    return std::max(w_->kernel->scratch_bytes(w_->id, 1),
                    w_->kernel->scratch_bytes(w_->id, w_->max_tokens * w_->places));
  }
  uint64_t bytes_read() const override {
    return w_->groups.size() * w_->kernel->packed_bytes(w_->id, w_->od);
  }
  uint32_t node_of(uint32_t) const override { return node_; }

 private:
  std::shared_ptr<ExpertWork> w_;
  uint32_t node_;
  int64_t rows_per_task_ = 1, tasks_per_group_ = 1;
};

class Scatter final : public Step {
 public:
  Scatter(std::shared_ptr<ExpertWork> work, uint32_t node) : w_(std::move(work)), node_(node) {}

  int64_t prepare(const Run&) override { return static_cast<int64_t>(w_->groups.size()); }

  void task(const Run& run, int64_t index, unsigned) override {
    const ExpertWork::Group& group = w_->groups[static_cast<size_t>(index)];
    const Tensor& out = w_->ctx.tensor(w_->out);
    const float* rows = reinterpret_cast<const float*>(run.workspace + w_->result_offset);
    for (int64_t i = group.first; i < group.first + group.count; ++i) {
      const ExpertWork::Pair pair = w_->pairs[static_cast<size_t>(i)];
      std::memcpy(run.data[w_->out] + pair.token * out.nb[2] + pair.place * out.nb[1],
                  rows + i * w_->od, static_cast<size_t>(w_->od) * sizeof(float));
    }
  }

  uint32_t node_of(uint32_t) const override { return node_; }

 private:
  std::shared_ptr<ExpertWork> w_;
  uint32_t node_;
};

}  // namespace

ExpertWork::ExpertWork(const OpContext& context, const Node& node, const MatmulKernel* k)
    : ctx(context),
      kernel(k),
      weight(node.src[0]),
      x(node.src[1]),
      ids(node.src[2]),
      out(node.dst) {
  const Tensor& w = ctx.tensor(weight);
  const Tensor& o = ctx.tensor(out);
  id = w.ne[0];
  od = w.ne[1];
  experts = w.ne[2];
  places = ctx.tensor(ids).ne[0];
  max_tokens = o.ne[2];
  rows = {o.dyn, o.ne[2]};
  pair_bytes = align_up(kernel->activation_bytes(id, 1));
  pairs.resize(static_cast<size_t>(max_tokens * places));
  starts.resize(static_cast<size_t>(experts) + 1);
  groups.reserve(static_cast<size_t>(std::min(experts, max_tokens * places)));
}

uint64_t ExpertWork::gathered_bytes() const {
  return pairs.size() * static_cast<uint64_t>(id) * sizeof(float);
}
uint64_t ExpertWork::converted_bytes() const {
  return pairs.size() * pair_bytes;
}
uint64_t ExpertWork::result_bytes() const {
  return pairs.size() * static_cast<uint64_t>(od) * sizeof(float);
}

// A counting sort: stable, and its tables have fixed sizes.
void ExpertWork::sort(const Run& run) {
  const int64_t tokens = run.count(rows.dyn, rows.fixed);
  const Tensor& list = ctx.tensor(ids);
  const auto expert_of = [&](int64_t token, int64_t place) {
    return int64_t{
        *reinterpret_cast<const int32_t*>(run.data[ids] + token * list.nb[1] + place * list.nb[0])};
  };
  std::fill(starts.begin(), starts.end(), 0);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t p = 0; p < places; ++p) {
      const int64_t expert = expert_of(t, p);
      if (expert < 0 || expert >= experts) {
        throw Failure(MINFER_INVALID, "MATMUL_BY_ID: token %lld asks for expert %lld of %lld",
                      static_cast<long long>(t), static_cast<long long>(expert),
                      static_cast<long long>(experts));
      }
      ++starts[static_cast<size_t>(expert) + 1];
    }
  }
  groups.clear();
  for (int64_t e = 0; e < experts; ++e) {
    const int64_t count = starts[static_cast<size_t>(e) + 1];
    starts[static_cast<size_t>(e) + 1] += starts[static_cast<size_t>(e)];
    if (count > 0) groups.push_back({e, starts[static_cast<size_t>(e)], count});
  }
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t p = 0; p < places; ++p) {
      const auto at = static_cast<size_t>(starts[static_cast<size_t>(expert_of(t, p))]++);
      pairs[at] = {static_cast<int32_t>(t), static_cast<int32_t>(p)};
    }
  }
}

std::vector<std::unique_ptr<Step>> make_matmul_by_id(std::shared_ptr<ExpertWork> work,
                                                     uint32_t node) {
  std::vector<std::unique_ptr<Step>> steps;
  steps.push_back(std::make_unique<Gather>(work, node));
  steps.push_back(std::make_unique<Multiply>(work, node));
  steps.push_back(std::make_unique<Scatter>(work, node));
  return steps;
}

}  // namespace minfer_cpu

// Running a bound plan: checks what the step's inputs could break, runs the steps on the pool,
// clears rows past the valid counts.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "abi_read.h"
#include "failure.h"
#include "plan.h"

namespace minfer_cpu {
namespace {

using Clock = std::chrono::steady_clock;

long long show(int64_t value) {
  return static_cast<long long>(value);
}

class PlanJob final : public Job {
 public:
  PlanJob(minfer_plan& plan, minfer_queue& queue, const Run& run, bool timed)
      : plan_(plan), queue_(queue), run_(run), timed_(timed) {}

  int64_t next(unsigned) override {
    if (started_) finish_part();
    while (step_ < plan_.steps.size()) {
      if (queue_.cancelled.load()) throw Failure(MINFER_CANCELLED, "cpu: cancelled");
      Step& step = *plan_.steps[step_];
      step.select_part(timed_ ? static_cast<int64_t>(part_) : -1);
      start_ = timed_ ? Clock::now() : Clock::time_point();
      const int64_t tasks = step.prepare(run_);
      if (tasks > 0) {
        started_ = true;
        return tasks;
      }
      advance(step);
    }
    return 0;
  }

  void task(int64_t index, unsigned thread) override {
    plan_.steps[step_]->task(run_, index, thread);
  }

 private:
  void finish_part() {
    started_ = false;
    Step& step = *plan_.steps[step_];
    if (timed_) {
      minfer_node_time& time = plan_.times[step.node_of(part_)];
      time.seconds += std::chrono::duration<double>(Clock::now() - start_).count();
      time.bytes += step.bytes_read();
    }
    advance(step);
  }

  void advance(const Step& step) {
    if (timed_ && ++part_ < step.parts()) return;
    part_ = 0;
    ++step_;
  }

  minfer_plan& plan_;
  minfer_queue& queue_;
  const Run& run_;
  const bool timed_;
  size_t step_ = 0;
  uint32_t part_ = 0;
  bool started_ = false;
  Clock::time_point start_;
};

void check_count(const char* name, uint32_t count, uint32_t capacity) {
  if (count > capacity) {
    throw Failure(MINFER_INVALID, "run: %u %s, the plan has room for %u", count, name, capacity);
  }
}

template <class T>
T value_at(const minfer_plan& plan, uint32_t tensor, int64_t i0, int64_t i1 = 0) {
  const Tensor& t = plan.graph.tensors[tensor];
  T value;
  std::memcpy(&value, plan.data[tensor] + i0 * t.nb[0] + i1 * t.nb[1], sizeof value);
  return value;
}

void check_indices(const minfer_plan& plan, const Run& run) {
  for (const IndexCheck& check : plan.index_checks) {
    const bool slots = check.kv != MINFER_NONE;
    const int64_t limit = slots ? check.limit * plan.kv_pages[check.kv] : check.limit;
    const int64_t n = run.count(check.dyn, plan.graph.tensors[check.list].ne[0]);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t value =
          slots ? value_at<int64_t>(plan, check.list, i) : value_at<int32_t>(plan, check.list, i);
      if (value < limit && value >= (slots ? -1 : 0)) continue;
      const Node& node = plan.graph.nodes[check.node];
      throw Failure(MINFER_INVALID, "run: %s %s: entry %lld of %s is %lld, there are %lld",
                    op_name(node.op), node.name.c_str(), show(i),
                    plan.graph.tensors[check.list].name.c_str(), show(value), show(limit));
    }
  }
}

// q_start ascends within the tokens; lengths lie within the table; pages lie within the region.
void check_table(const minfer_plan& plan, const Run& run, uint32_t index) {
  const Node& node = plan.graph.nodes[index];
  const uint32_t kv = node.params.attention.kv;
  const int64_t max_pages = plan.graph.tensors[node.src[4]].ne[0];
  const int64_t page_tokens = plan.graph.kv[kv].page_tokens;
  const int64_t n_seqs = run.count(Dyn::kSeqs, 0);
  int64_t last = 0;
  for (int64_t s = 0; s <= n_seqs && n_seqs > 0; ++s) {
    const int64_t start = value_at<int32_t>(plan, node.src[2], s);
    if (start < last || start > run.count(Dyn::kTokens, 0)) {
      throw Failure(MINFER_INVALID, "run: ATTENTION %s: q_start[%lld] is %lld after %lld, of %lld",
                    node.name.c_str(), show(s), show(start), show(last),
                    show(run.count(Dyn::kTokens, 0)));
    }
    last = start;
  }
  for (int64_t s = 0; s < n_seqs; ++s) {
    const int64_t length = value_at<int32_t>(plan, node.src[3], s);
    if (length < 0 || length > max_pages * page_tokens) {
      throw Failure(MINFER_INVALID,
                    "run: ATTENTION %s: kv_len[%lld] is %lld, the table holds %lld positions",
                    node.name.c_str(), show(s), show(length), show(max_pages * page_tokens));
    }
    for (int64_t p = 0; p < (length + page_tokens - 1) / page_tokens; ++p) {
      const int64_t page = value_at<int32_t>(plan, node.src[4], p, s);
      if (page >= -1 && page < plan.kv_pages[kv]) continue;
      throw Failure(MINFER_INVALID,
                    "run: ATTENTION %s: page %lld of sequence %lld is %lld, the region has %lld",
                    node.name.c_str(), show(p), show(s), show(page), show(plan.kv_pages[kv]));
    }
  }
}

void zero_tails(const minfer_plan& plan, const Run& run) {
  for (uint32_t index : plan.zero_tails) {
    const Tensor& t = plan.graph.tensors[index];
    int64_t begin[4] = {};
    begin[t.dyn_axis] = run.count(t.dyn, 0);
    const int64_t n = t.ne[0] - begin[0];
    if (begin[t.dyn_axis] >= t.ne[t.dyn_axis]) continue;
    for (int64_t i3 = begin[3]; i3 < t.ne[3]; ++i3) {
      for (int64_t i2 = begin[2]; i2 < t.ne[2]; ++i2) {
        for (int64_t i1 = begin[1]; i1 < t.ne[1]; ++i1) {
          std::memset(
              plan.data[index] + begin[0] * t.nb[0] + i1 * t.nb[1] + i2 * t.nb[2] + i3 * t.nb[3], 0,
              static_cast<size_t>(n * t.nb[0]));
        }
      }
    }
  }
}

}  // namespace

void run_plan(minfer_plan& plan, minfer_queue& queue, const minfer_run_args* args) {
  const auto raw = read_struct<minfer_run_args>(args, "minfer_run_args");
  if (!plan.is_bound) throw Failure(MINFER_INVALID, "run: the plan is not bound");
  const minfer_capacity& capacity = plan.graph.capacity;
  check_count("tokens", raw.n_tokens, capacity.tokens);
  check_count("sequences", raw.n_seqs, capacity.seqs);
  check_count("output rows", raw.n_outs, capacity.outs);
  Run run;
  run.data = plan.data.data();
  run.packed = plan.forms.data();
  run.kv = plan.kv.data();
  run.workspace = plan.workspace;
  run.thread_scratch = plan.thread_scratch;
  run.thread_scratch_bytes = plan.thread_scratch_bytes;
  run.counts[static_cast<int>(Dyn::kTokens)] = raw.n_tokens;
  run.counts[static_cast<int>(Dyn::kSeqs)] = raw.n_seqs;
  run.counts[static_cast<int>(Dyn::kOuts)] = raw.n_outs;
  run.threads = plan.device->pool.size();
  check_indices(plan, run);
  for (uint32_t index : plan.table_checks) check_table(plan, run, index);

  const bool timed = (raw.flags & MINFER_RUN_TIMED) != 0;
  if (timed) {
    for (uint32_t i = 0; i < plan.times.size(); ++i) plan.times[i] = {i, 0, 0.0, 0};
  }
  PlanJob job(plan, queue, run, timed);
  plan.device->pool.run(job);
  zero_tails(plan, run);
  plan.has_times = plan.has_times || timed;
}

}  // namespace minfer_cpu

// A run allocates nothing: it is on the path of every token, and an allocation there is a lock, a
// page fault or a failure at the worst moment. Counted in the plugin's own code, threads included;
// what a driver's library does by itself is shown and not judged.
#include "../alloc_counter.h"

#include <algorithm>

#include "checks.h"
#include "layer.h"

namespace conformance {
namespace {

constexpr int kRuns = 200;

/// Libraries whose calls are the plugin's own: itself, and the run-time libraries it calls.
bool is_own(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename();
  return std::filesystem::path(path).filename() ==
             std::filesystem::path(settings().plugin).filename() ||
         name.rfind("libstdc++", 0) == 0 || name.rfind("libc++", 0) == 0 ||
         name.rfind("libc.", 0) == 0 || name.rfind("libgomp", 0) == 0;
}

}  // namespace

void check_allocations(Bench& bench) {
  using namespace minfer::testing;
  if (!can_count_allocations()) throw Refused("the allocator is a sanitizer's");
  Layer layer(bench.rng);
  Session session(bench.device, layer.split);
  layer.fill(session);
  minfer_run_args args{};
  args.struct_size = sizeof args;
  args.n_tokens = Layer::kStep.tokens;
  args.n_seqs = Layer::kStep.seqs;
  args.n_outs = Layer::kStep.outs;
  args.max_kv_len = Layer::kStep.max_kv_len;
  args.gates = &bench.device.gates;
  minfer_error error = {};
  const auto run = [&](int n) {
    minfer_status status = MINFER_OK;
    for (int i = 0; i < n && status == MINFER_OK; ++i) {
      status = plugin().plan_run(session.plan(), bench.device.queue, &args, &error);
      if (status == MINFER_OK) status = plugin().queue_wait(bench.device.queue, &error);
    }
    return status;
  };
  require_ok(run(3), error, "plan_run");  // capture and warm-up are the plugin's
  start_counting();
  const minfer_status status = run(kRuns);
  stop_counting();
  require_ok(status, error, "plan_run");
  for (const AllocatingLibrary& library : allocating_libraries()) {
    const std::string text =
        fmt::format("{} allocations in {} runs by {}", library.calls, kRuns, library.path);
    if (is_own(library.path)) {
      fail(text);
    } else {
      listener().note(text);
    }
  }
}

}  // namespace conformance

// Correctness and speed of the Hopper kernels alone: bench_hopper
// [tests|batch|decode|prefill_tests|prefill|all];
// batch: tests and times of several decoded tokens only; prefill: of prefill only.
//
// First every kernel against float64 on the host, on random file blocks repacked by the plugin's
// own kernel, with poisoned outputs; then the matrices of a Qwen2.5-7B Q4_K_M in CUDA graphs.
// Prints one line per case and a table last; exits 1 when a case is wrong.
#include "bench.h"

#include <algorithm>

namespace minfer_cuda::hopper::bench {

int g_sms = 0;
cudaStream_t g_stream = nullptr;
bool g_all_right = true;
std::string g_table;

double time_graph(const std::function<void()>& work, int repeats) {
  work();
  CHECK(cudaStreamSynchronize(g_stream));
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaStreamBeginCapture(g_stream, cudaStreamCaptureModeThreadLocal));
  work();
  CHECK(cudaStreamEndCapture(g_stream, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(exec, g_stream));
  cudaEvent_t a, b;
  CHECK(cudaEventCreate(&a));
  CHECK(cudaEventCreate(&b));
  std::vector<float> times;
  for (int i = 0; i < repeats; ++i) {
    CHECK(cudaEventRecord(a, g_stream));
    CHECK(cudaGraphLaunch(exec, g_stream));
    CHECK(cudaEventRecord(b, g_stream));
    CHECK(cudaEventSynchronize(b));
    float ms;
    CHECK(cudaEventElapsedTime(&ms, a, b));
    times.push_back(ms * 1e3f);
  }
  std::sort(times.begin(), times.end());
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  return times[times.size() / 2];
}

}  // namespace minfer_cuda::hopper::bench

int main(int argc, char** argv) {
  using namespace minfer_cuda::hopper::bench;
  const std::string what = argc > 1 ? argv[1] : "all";
  cudaDeviceProp device;
  CHECK(cudaGetDeviceProperties(&device, 0));
  g_sms = device.multiProcessorCount;
  std::printf("%s, %d SMs\n", device.name, g_sms);
  CHECK(cudaStreamCreate(&g_stream));
  if (what == "tests" || what == "all") {
    run_decode_tests();
    run_prefill_tests();
    std::printf(g_all_right ? "all right\n" : "SOMETHING IS WRONG\n");
  }
  if (what == "batch") run_batch_tests();
  if (what == "prefill_tests") run_prefill_tests();
  if (what != "tests" && what != "prefill_tests") {
    const Model model;
    std::printf("weights %.4f GB\n", model.bytes * 1e-9);
    if (what != "prefill") bench_decode(model, {1, 2, 4, 8, 16});
    if (what == "prefill" || what == "all") bench_prefill(model);
  }
  std::printf("\n%s", g_table.c_str());
  return g_all_right ? 0 : 1;
}

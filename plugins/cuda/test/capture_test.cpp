// What goes wrong while a plan is captured or replayed: the capture ends, the step still runs, and
// graphs stay off, said in one line. Programs are made by hand here, so that a step can fail on
// purpose; the linker puts a cudaGraphLaunch before the driver's that can fail, too.
#include <memory>
#include <thread>

#include "../host/plan.h"
#include "harness.h"

namespace {
bool replays_fail = false;
}

extern "C" cudaError_t __real_cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);
extern "C" cudaError_t __wrap_cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  return replays_fail ? cudaErrorUnknown : __real_cudaGraphLaunch(graph, stream);
}

namespace minfer_cuda::test {
namespace {

enum class Misdeed { kNone, kWaits, kAllocates, kReportsAnError };

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(stream, &status);
  return status != cudaStreamCaptureStatusNone;
}

/// A plan of one step, which writes device memory and misbehaves whenever it is captured.
class Counting {
 public:
  Counting(minfer_device& device, Misdeed misdeed)
      : device_(device),
        queue_{&device, nullptr},
        count_(device, sizeof(StepCounts), "a test's count"),
        plan_(device, Gates(nullptr), program(misdeed)) {
    check(cudaStreamCreateWithFlags(&queue_.stream, cudaStreamNonBlocking), "a test's stream");
    check(cudaMemset(count_.get(), 0, sizeof(StepCounts)), "a test's count");
    minfer_bindings bindings{};
    bindings.struct_size = sizeof bindings;
    plan_.bind(bindings);
  }
  ~Counting() { cudaStreamDestroy(queue_.stream); }

  void run() {
    minfer_run_args args{};
    args.struct_size = sizeof args;
    plan_.run(queue_, args);
  }
  /// What the step wrote.
  int32_t seen() {
    StepCounts out{};
    check(cudaMemcpyAsync(&out, count_.get(), sizeof out, cudaMemcpyDeviceToHost, queue_.stream),
          "read a test's count");
    check(cudaStreamSynchronize(queue_.stream), "wait for a test's count");
    return out.tokens;
  }
  bool capturing() const { return is_capturing(queue_.stream); }
  int direct_launches() const { return direct_launches_; }

 private:
  std::unique_ptr<Program> program(Misdeed misdeed) {
    auto program = std::make_unique<Program>();
    program->graph.nodes.resize(1);
    program->graph.nodes[0].name = "counting";
    program->graph.capacity = {};
    program->reports.resize(1);
    Step step;
    step.launch = [this, misdeed](const Bound&, cudaStream_t stream) {
      if (is_capturing(stream)) {
        if (misdeed == Misdeed::kWaits) return cudaStreamSynchronize(stream);
        if (misdeed == Misdeed::kAllocates) DeviceMemory(device_, 1 << 20, "growing scratch");
        if (misdeed == Misdeed::kReportsAnError) return cudaErrorInvalidConfiguration;
      } else {
        ++direct_launches_;
      }
      return cudaMemsetAsync(count_.get(), 1, sizeof(int32_t), stream);
    };
    program->steps.push_back(std::move(step));
    return program;
  }

  minfer_device& device_;
  minfer_queue queue_;
  DeviceMemory count_;
  int direct_launches_ = 0;
  minfer_plan plan_;
};

class CaptureTest : public testing::Test {
 protected:
  void SetUp() override {
    MINFER_REQUIRE_GPU();
    // A device of its own: graphs that were turned off stay off for the device.
    MINFER_OK_OR_FAIL(Gpu::instance()->table().device_open(0, nullptr, &device_, error));
  }
  void TearDown() override {
    if (device_) Gpu::instance()->table().device_close(device_);
  }
  minfer_device* device_ = nullptr;
};

TEST_F(CaptureTest, TheThirdRunIsReplayed) {
  Counting plan(*device_, Misdeed::kNone);
  for (int i = 0; i < 6; ++i) plan.run();
  EXPECT_EQ(plan.seen(), 0x01010101);
  EXPECT_EQ(plan.direct_launches(), 2);
  EXPECT_FALSE(device_->graphs_disabled());
}

TEST_F(CaptureTest, AnErrorEndsTheCaptureAndTheStepStillRuns) {
  for (const Misdeed misdeed : {Misdeed::kWaits, Misdeed::kAllocates, Misdeed::kReportsAnError}) {
    SCOPED_TRACE(static_cast<int>(misdeed));
    TearDown();
    SetUp();
    const uint64_t held = device_->held();
    {
      Counting plan(*device_, misdeed);
      for (int i = 0; i < 6; ++i) {
        ASSERT_NO_THROW(plan.run()) << "run " << i;
        ASSERT_FALSE(plan.capturing()) << "run " << i;
      }
      EXPECT_EQ(plan.seen(), 0x01010101);
      EXPECT_EQ(plan.direct_launches(), 6);
    }
    EXPECT_TRUE(device_->graphs_disabled());
    EXPECT_EQ(device_->held(), held);
  }
}

TEST_F(CaptureTest, AReplayThatFailsRunsDirectlyAndTurnsGraphsOff) {
  for (const int good_replays : {0, 3}) {
    SCOPED_TRACE(good_replays);
    TearDown();
    SetUp();
    Counting plan(*device_, Misdeed::kNone);
    for (int i = 0; i < 2 + good_replays; ++i) plan.run();
    EXPECT_EQ(plan.direct_launches(), 2);
    replays_fail = true;
    EXPECT_NO_THROW(plan.run());
    replays_fail = false;
    EXPECT_EQ(plan.direct_launches(), 3);
    EXPECT_TRUE(device_->graphs_disabled());
    for (int i = 0; i < 3; ++i) plan.run();
    EXPECT_EQ(plan.direct_launches(), 6);
    EXPECT_EQ(plan.seen(), 0x01010101);
  }
}

// Whether or not the driver finds room for the graph, the step runs.
TEST_F(CaptureTest, NoMemoryIsNoError) {
  Counting plan(*device_, Misdeed::kNone);
  plan.run();
  plan.run();
  const FullDevice full;
  for (int i = 0; i < 4; ++i) ASSERT_NO_THROW(plan.run()) << "run " << i;
  EXPECT_EQ(plan.seen(), 0x01010101);
}

// Captures are thread-local: work of another queue, on another thread, goes on meanwhile.
TEST_F(CaptureTest, OtherQueuesGoOn) {
  Counting captured(*device_, Misdeed::kNone);
  captured.run();
  captured.run();
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  std::string problem;
  std::thread([&] {
    try {
      Counting other(*device_, Misdeed::kNone);  // allocates, copies and waits
      for (int i = 0; i < 4; ++i) other.run();
      if (other.seen() != 0x01010101) problem = "the other queue's work is missing";
    } catch (const std::exception& e) {
      problem = e.what();
    }
  }).join();
  EXPECT_EQ(problem, "");
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  if (graph) cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace minfer_cuda::test

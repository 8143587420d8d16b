// What a device's answers may be: garbage becomes a kPlugin error that names function and value,
// statuses become Errors, objects are released exactly once.
#include <functional>

#include "fixture.h"
#include "minfer/log.h"

namespace minfer {
namespace {

struct Case {
  const char* name;
  const char* fault;
  ErrorCode code;
  std::vector<std::string> parts;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

class Enumeration : public AbiTest, public ::testing::WithParamInterface<Case> {};

TEST_P(Enumeration, GarbageIsReportedAndTakesNoOtherBackendAway) {
  auto host = load({plugin_file("good"), plugin_file("newer_minor")});
  ASSERT_TRUE(host) << host.error().message();
  set_fault(plugin_file("good"), GetParam().fault);
  ASSERT_TRUE((*host)->enumerate());
  set_fault(plugin_file("good"), "");
  EXPECT_TRUE(contains((*host)->plugins()[0].note, GetParam().parts));
  for (const DeviceInfo& device : (*host)->devices()) EXPECT_EQ(device.backend, "newer");
  EXPECT_TRUE((*host)->find_device("newer"));
  auto found = (*host)->find_device("good");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, GetParam().code) << found.error().message();
  EXPECT_TRUE(contains(found.error().message(), GetParam().parts));
}

constexpr ErrorCode kBad = ErrorCode::kPlugin;
INSTANTIATE_TEST_SUITE_P(
    Device, Enumeration,
    ::testing::Values(
        Case{"throw", "throw", kBad, {"device_enumerate", "lost my way"}},
        Case{"status", "device_lost", ErrorCode::kDevice, {"device_enumerate", "xid 79"}},
        Case{"no_count", "no_count", kBad, {"no count"}},
        Case{"absurd_count", "absurd_count", kBad, {"n = 4000000"}},
        Case{"kind", "kind", kBad, {"good:0", "kind = 9"}},
        Case{"score", "score", kBad, {"score = 1000000"}},
        Case{"flag", "flag", kBad, {"host_accessible = 5"}},
        Case{"no_name", "no_name", kBad, {"no readable name"}},
        Case{"name_not_text", "name_not_text", kBad, {"no readable name"}},
        Case{"memory", "memory", kBad, {"memory_free = 2000", "memory_total = 1000"}},
        Case{"alignment", "alignment", kBad, {"buffer_alignment = 96"}},
        Case{"alignment_zero", "alignment_zero", kBad, {"buffer_alignment = 0"}},
        Case{"none", "no_devices", ErrorCode::kNotFound, {"not macOS"}}),
    case_name);

class DeviceTest : public AbiTest {
 protected:
  void SetUp() override {
    AbiTest::SetUp();
    auto host = load({plugin_file("good")});
    ASSERT_TRUE(host) << host.error().message();
    host_ = std::move(*host);
    fault("");
    ASSERT_TRUE(host_->enumerate());
    auto device = host_->open(host_->devices()[0]);
    ASSERT_TRUE(device) << device.error().message();
    device_ = std::move(*device);
    split_.struct_size = sizeof(split_);
    split_.n_nodes = 3;
    split_.n_tensors = 4;
  }
  void TearDown() override {
    fault("");
    device_.reset();
    EXPECT_EQ(live(), 0) << "objects of the plugin were not released";
    AbiTest::TearDown();
  }
  static int fault(const char* name) { return set_fault(plugin_file("good"), name); }
  static int live() { return fault(""); }

  std::unique_ptr<PluginHost> host_;
  std::shared_ptr<Device> device_;
  minfer_split split_{};
  minfer_kv_desc kv_{.struct_size = sizeof(minfer_kv_desc),
                     .layer = 0,
                     .group = 0,
                     .type = MINFER_TYPE_F16,
                     .n_head_kv = 2,
                     .head_dim_k = 64,
                     .head_dim_v = 64,
                     .page_tokens = 16,
                     .n_pages = 4,
                     .reserved = 0};
};

class Status : public DeviceTest, public ::testing::WithParamInterface<Case> {};

TEST_P(Status, BecomesAnError) {
  fault(GetParam().fault);
  auto answer = device_->memory();
  fault("");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, GetParam().code) << answer.error().message();
  EXPECT_EQ(answer.error().where, "good:0");
  EXPECT_TRUE(contains(answer.error().message(), {"device_memory"}));
  EXPECT_TRUE(contains(answer.error().message(), GetParam().parts));
}

INSTANTIATE_TEST_SUITE_P(
    Device, Status,
    ::testing::Values(
        Case{"unsupported", "unsupported", ErrorCode::kUnsupported, {"896"}},
        Case{"invalid", "invalid", ErrorCode::kInternal, {"offset 3"}},
        Case{"oom_host", "oom_host", ErrorCode::kOutOfMemory, {"out of host memory", "5 GiB"}},
        Case{
            "oom_device", "oom_device", ErrorCode::kOutOfMemory, {"out of device memory", "3 GiB"}},
        Case{"device_lost", "device_lost", ErrorCode::kDevice, {"xid 79", "restarted"}},
        Case{"internal", "internal", ErrorCode::kPlugin, {"node 7 has no kernel"}},
        Case{"cancelled", "cancelled", ErrorCode::kCancelled, {"cancelled"}},
        Case{"version", "version", ErrorCode::kPlugin, {"versions do not fit"}},
        Case{"not_ready", "not_ready", ErrorCode::kPlugin, {"NOT_READY"}},
        Case{"unknown", "unknown_status", ErrorCode::kPlugin, {"unknown status -77"}},
        Case{"throws", "throw", ErrorCode::kPlugin, {"threw an exception: lost my way"}},
        Case{"throws_int", "throw_int", ErrorCode::kPlugin, {"threw an exception"}},
        Case{"unterminated", "unterminated_error", ErrorCode::kPlugin, {"xxxxxxxx"}},
        Case{"control", "control_characters", ErrorCode::kPlugin, {"line break?[31m ?"}}),
    case_name);

struct Garbage {
  const char* fault;
  std::vector<std::string> parts;
  std::function<Result<void>(Device&, const minfer_split&, const minfer_kv_desc&)> call;
};

void PrintTo(const Garbage& garbage, std::ostream* out) {
  *out << garbage.fault;
}

/// Drops the value of a Result, so that calls of every type fit one table.
template <class T>
Result<void> outcome(const Result<T>& result) {
  if (!result) return tl::make_unexpected(result.error());
  return {};
}

#define CALL(expr)                                                                          \
  [](Device& device, const minfer_split& split, const minfer_kv_desc& kv) -> Result<void> { \
    (void)split, (void)kv;                                                                  \
    return outcome(expr);                                                                   \
  }

/// Compiles a plan of the split and asks about it.
template <class Ask>
Result<void> with_plan(Device& device, const minfer_split& split, Ask&& ask) {
  MINFER_ASSIGN(PlanHandle plan, device.plan_compile(split, nullptr));
  return outcome(ask(plan.get()));
}

#define PLAN_CALL(expr)                                                                  \
  [](Device& device, const minfer_split& split, const minfer_kv_desc&) -> Result<void> { \
    return with_plan(device, split, [&](minfer_plan* plan) { return expr; });            \
  }

const minfer_weight kWeight = [] {
  minfer_weight weight{};
  weight.struct_size = sizeof(weight);
  weight.bytes = 1000;
  return weight;
}();
const minfer_weight_unit kUnit = [] {
  minfer_weight_unit unit{};
  unit.struct_size = sizeof(unit);
  unit.n_weights = 1;
  unit.weight_stride = sizeof(minfer_weight);
  unit.weights = &kWeight;
  return unit;
}();

class GarbageAnswer : public DeviceTest, public ::testing::WithParamInterface<Garbage> {};

TEST_P(GarbageAnswer, IsAnErrorThatNamesTheValue) {
  ASSERT_TRUE(GetParam().call(*device_, split_, kv_)) << "it works without the fault";
  fault(GetParam().fault);
  auto answer = GetParam().call(*device_, split_, kv_);
  fault("");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kPlugin);
  EXPECT_TRUE(contains(answer.error().message(), {"good:0", "broke the plugin contract"}));
  EXPECT_TRUE(contains(answer.error().message(), GetParam().parts));
}

INSTANTIATE_TEST_SUITE_P(
    Device, GarbageAnswer,
    ::testing::Values(
        Garbage{"free", {"device_memory", "free = 1001"}, CALL(device.memory())},
        Garbage{"held", {"held = 700", "peak = 600"}, CALL(device.memory())},
        Garbage{"no_verdict", {"no verdict"}, CALL(device.supports(split))},
        Garbage{"supported", {"supported = 7"}, CALL(device.supports(split))},
        Garbage{"node", {"node = 3 of a split of 3"}, CALL(device.supports(split))},
        Garbage{"tensor", {"tensor = 4 of a split of 4"}, CALL(device.supports(split))},
        Garbage{"unterminated_reason", {"reason", "rrrr"}, CALL(device.supports(split))},
        Garbage{"reason_not_text", {"reason", "?("}, CALL(device.supports(split))},
        Garbage{"no_size", {"no size"}, CALL(device.weights_size(kUnit))},
        Garbage{"huge_size",
                {"1152921504606846976 bytes", "1000 bytes"},
                CALL(device.weights_size(kUnit))},
        Garbage{"null_object", {"weights_import", "NULL"}, CALL(device.weights_import(kUnit))},
        Garbage{"no_sizes", {"n = 0"}, CALL(device.kv_page_sizes(kv))},
        Garbage{"count_of_sizes", {"n = 99"}, CALL(device.kv_page_sizes(kv))},
        Garbage{"not_ascending", {"size 1 is 16"}, CALL(device.kv_page_sizes(kv))},
        Garbage{"page_too_small", {"8 bytes", "8192"}, CALL(device.kv_page_bytes(kv))},
        Garbage{"page_too_large", {"kv_page_bytes"}, CALL(device.kv_page_bytes(kv))},
        Garbage{"null_object", {"buffer_alloc", "NULL"}, CALL(device.buffer_alloc(64))},
        Garbage{"null_object", {"host_alloc", "NULL"}, CALL(device.host_alloc(64))},
        Garbage{"null_object", {"queue_create", "NULL"}, CALL(device.queue_create())},
        Garbage{"null_object", {"event_create", "NULL"}, CALL(device.event_create())},
        Garbage{"null_object", {"plan_compile", "NULL"}, CALL(device.plan_compile(split, nullptr))},
        Garbage{
            "no_workspace", {"workspace_bytes unset"}, CALL(device.plan_compile(split, nullptr))},
        Garbage{"workspace", {"workspace_bytes ="}, CALL(device.plan_compile(split, nullptr))},
        Garbage{
            "plan_alignment", {"workspace_align = 48"}, CALL(device.plan_compile(split, nullptr))},
        Garbage{"no_label", {"node 0", "neither"}, PLAN_CALL(device.plan_describe(plan, 0))},
        Garbage{
            "fused_far", {"into node 3 of a plan of 3"}, PLAN_CALL(device.plan_describe(plan, 0))},
        Garbage{"fused_self", {"into node 0"}, PLAN_CALL(device.plan_describe(plan, 0))},
        Garbage{"unterminated_label", {"label", "kkkk"}, PLAN_CALL(device.plan_describe(plan, 0))},
        Garbage{"unterminated_why", {"why", "wwww"}, PLAN_CALL(device.plan_describe(plan, 0))},
        Garbage{"count_of_times", {"n = 4 times"}, PLAN_CALL(device.plan_profile(plan, 3))},
        Garbage{"time_of_no_node", {"node = 99"}, PLAN_CALL(device.plan_profile(plan, 3))},
        Garbage{"nan_time", {"nan seconds"}, PLAN_CALL(device.plan_profile(plan, 3))},
        Garbage{"negative_time", {"-1 seconds"}, PLAN_CALL(device.plan_profile(plan, 3))}),
    [](const auto& test) {
      return std::string(test.param.fault) + "_" + std::to_string(test.index);
    });

TEST_F(DeviceTest, AVerdictIsPassedOn) {
  auto yes = device_->supports(split_);
  ASSERT_TRUE(yes);
  EXPECT_TRUE(yes->supported);
  fault("refuses");
  auto no = device_->supports(split_);
  ASSERT_TRUE(no);
  EXPECT_FALSE(no->supported);
  EXPECT_EQ(no->node, 1u);
  EXPECT_EQ(no->tensor, 2u);
  EXPECT_EQ(no->reason, "rows of 896");
  fault("refuses_silently");
  auto silent = device_->supports(split_);
  ASSERT_TRUE(silent);
  EXPECT_EQ(silent->reason, "the plugin gave no reason");
}

TEST_F(DeviceTest, AFusedNodeIsPassedOn) {
  auto plan = device_->plan_compile(split_, nullptr);
  ASSERT_TRUE(plan);
  fault("fused");
  auto report = device_->plan_describe(plan->get(), 0);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->fused_into, 2u);
}

TEST_F(DeviceTest, ObjectsOutliveHostAndDeviceHandles) {
  auto buffer = device_->buffer_alloc(64);
  ASSERT_TRUE(buffer);
  auto memory = device_->host_alloc(64);
  ASSERT_TRUE(memory);
  EXPECT_EQ(live(), 3);
  host_.reset();
  device_.reset();
  EXPECT_EQ(live(), 3) << "the device must live as long as its objects";
  buffer->reset();
  memory->reset();
  EXPECT_EQ(live(), 0);
}

TEST_F(DeviceTest, AThrowWhileReleasingIsLoggedNotFatal) {
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  auto queue = device_->queue_create();
  ASSERT_TRUE(queue);
  fault("release_throws");
  queue->reset();
  device_.reset();
  fault("");
  set_log_sink({});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(contains(lines[0], {"threw an exception"}));
  EXPECT_TRUE(contains(lines[1], {"good:0", "device_close threw"}));
}

TEST_F(DeviceTest, EventsAreReadyOrNot) {
  auto event = device_->event_create();
  ASSERT_TRUE(event);
  auto ready = device_->event_query(event->get());
  ASSERT_TRUE(ready);
  EXPECT_TRUE(*ready);
  fault("not_ready");
  auto waiting = device_->event_query(event->get());
  ASSERT_TRUE(waiting);
  EXPECT_FALSE(*waiting);
}

TEST_F(DeviceTest, ABufferBeyondTheLimitIsRefusedWithBothNumbers) {
  auto buffer = device_->buffer_alloc(513);
  ASSERT_FALSE(buffer);
  EXPECT_EQ(buffer.error().code, ErrorCode::kOutOfMemory);
  EXPECT_TRUE(contains(buffer.error().message(), {"513", "512"}));
}

TEST_F(DeviceTest, OptionalFunctionsThatAreAbsentAreUnsupported) {
  auto queue = device_->queue_create();
  ASSERT_TRUE(queue);
  for (const Result<void>& answer :
       {device_->queue_cancel(queue->get()),
        device_->kv_export_page(queue->get(), kv_, nullptr, 0, nullptr),
        device_->kv_import_page(queue->get(), kv_, nullptr, 0, nullptr)}) {
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, ErrorCode::kUnsupported);
  }
}

TEST_F(DeviceTest, GateValuesAlwaysFitTheDeclaredTable) {
  device_->set_gates({5});
  ASSERT_EQ(device_->gates()->n, 2u);
  EXPECT_EQ(device_->gates()->values[0], 5);
  EXPECT_EQ(device_->gates()->values[1], 1) << "the default";
}

TEST_F(DeviceTest, FindsTheBestDeviceOfABackend) {
  EXPECT_EQ((*host_->find_device("good"))->id, "good:1") << "the higher score";
  EXPECT_EQ((*host_->find_device("good:0"))->id, "good:0");
  auto typo = host_->find_device("god:1");
  ASSERT_FALSE(typo);
  EXPECT_EQ(typo.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(contains(typo.error().message(), {"god:1", "usable: good:0, good:1", "'good:1'"}));
  EXPECT_FALSE(host_->find_device("good:7"));
}

TEST_F(DeviceTest, AnUnusableDeviceGivesItsReason) {
  fault("unusable");
  ASSERT_TRUE(host_->enumerate());
  ASSERT_EQ(host_->devices().size(), 2u);
  auto found = host_->find_device("good:0");
  ASSERT_FALSE(found);
  EXPECT_TRUE(
      contains(found.error().message(), {"driver 470 is older than 535", "no device is usable"}));
  EXPECT_FALSE(host_->open(host_->devices()[0]));
}

TEST_F(DeviceTest, MoreDevicesThanTheFirstGuessAreAllListed) {
  fault("many_devices");
  ASSERT_TRUE(host_->enumerate());
  ASSERT_EQ(host_->devices().size(), 20u);
  EXPECT_EQ(host_->devices()[19].id, "good:19");
}

TEST_F(DeviceTest, LogLinesCarryThePluginsName) {
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  auto device = host_->open(host_->devices()[0]);
  set_log_sink({});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0], "good: device opened");
}

}  // namespace
}  // namespace minfer

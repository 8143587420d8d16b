// Placement and memory: units stay where they fit, refusals name what refused with the numbers, and
// the memory plan is what the devices then hold.
#include <cmath>
#include <numeric>

#include "sim_fixture.h"

namespace minfer::testing {
namespace {

class Placement : public SimTest {
 protected:
  Result<std::unique_ptr<Engine>> plan(const std::string& arch, const Layout& layout,
                                       EngineOptions options = small_options()) {
    options.devices = layout.devices;
    options.gpu_layers = layout.gpu_layers;
    return Engine::plan(tiny(arch), *host_, options);
  }
  static size_t units_on(const Engine& engine, const std::string& device) {
    size_t n = 0;
    for (const UnitPlacement& unit : engine.placement())
      n += engine.devices()[unit.device]->info().id == device;
    return n;
  }
};

TEST_F(Placement, TheFirstDeviceTakesEverythingThatFits) {
  const auto engine = plan("llama", {"", {"sim:0", "cpu"}});
  ASSERT_TRUE(engine) << engine.error().message();
  EXPECT_EQ(units_on(**engine, "sim:0"), 6u);
  EXPECT_EQ((*engine)->devices().size(), 1u);  // what holds nothing is closed
}

TEST_F(Placement, GpuLayersCountsFromTheHead) {
  for (const auto& [layers, expected] :
       std::vector<std::pair<int32_t, size_t>>{{0, 0}, {1, 3}, {6, 13}, {7, 16}, {99, 16}}) {
    const auto engine = plan("gemma3", {"", {"sim:0", "cpu"}, layers});
    ASSERT_TRUE(engine) << engine.error().message();
    EXPECT_EQ(units_on(**engine, "sim:0"), expected) << layers;
  }
}

TEST_F(Placement, GpuLayersBringTheCpuWithThem) {
  const auto engine = plan("llama", {"", {"sim:0"}, 1});
  ASSERT_TRUE(engine) << engine.error().message();
  EXPECT_EQ(units_on(**engine, "cpu:0"), 3u);
}

TEST_F(Placement, GpuLayersMeanNothingOnTheCpuAlone) {
  const auto engine = plan("llama", {"", {"cpu"}, 1});
  ASSERT_TRUE(engine) << engine.error().message();
  EXPECT_EQ(units_on(**engine, "cpu:0"), 6u);
}

TEST_F(Placement, ATiedEmbeddingOnTwoDevicesIsHeldAndCountedTwice) {
  const auto one = plan("llama", {"", {"cpu"}});
  const auto two = plan("llama", {"", {"sim:0", "cpu"}, 1});
  ASSERT_TRUE(one && two);
  const auto weights = [](const Engine& engine) {
    uint64_t sum = 0;
    for (const auto& entry : engine.memory_plan().devices) sum += entry.weights;
    return sum;
  };
  const uint64_t embedding = 256 * 64 * 4;
  EXPECT_NEAR(static_cast<double>(weights(**two) - weights(**one)), embedding, 4096);
}

TEST_F(Placement, MemoryIsFilledFromTheHeadAndTheRestMovesOn) {
  const auto all = plan("gemma3", {"", {"sim:0"}});
  ASSERT_TRUE(all);
  const uint64_t need = (*all)->memory_plan().devices[0].total();
  sim().set_memory(need * 6 / 10);
  const auto engine = open("gemma3", {"", {"sim:0", "cpu"}});
  ASSERT_TRUE(engine) << engine.error().message();
  const size_t on_sim = units_on(**engine, "sim:0");
  EXPECT_GT(on_sim, 3u);
  EXPECT_LT(on_sim, 14u);
  // One run of units per device: a single crossing.
  size_t changes = 0;
  const auto units = (*engine)->placement();
  for (size_t u = 1; u < units.size(); ++u) changes += units[u].device != units[u - 1].device;
  EXPECT_EQ(changes, 1u);
  const auto lines = logged("sim:0 does not take");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("KiB are left"), std::string::npos) << lines[0];
}

TEST_F(Placement, TooLittleMemoryEverywhereIsAnErrorWithNumbers) {
  sim().set_memory(300 << 10);
  const auto engine = plan("gemma3", {"", {"sim:0"}});
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, ErrorCode::kOutOfMemory);
  EXPECT_NE(engine.error().what.find("KiB"), std::string::npos) << engine.error().message();
  EXPECT_NE(engine.error().what.find("sim:0"), std::string::npos);
}

TEST_F(Placement, AContextBeyondAllBoundsIsAnErrorWithBothNumbers) {
  EngineOptions options = small_options();
  for (const uint32_t context : {kMaxContext + 1, UINT32_MAX}) {
    options.context = context;
    const auto engine = plan("llama", {"", {"sim:0"}}, options);
    ASSERT_FALSE(engine);
    EXPECT_EQ(engine.error().code, ErrorCode::kConfig);
    EXPECT_NE(engine.error().what.find(std::to_string(context)), std::string::npos);
    EXPECT_NE(engine.error().what.find("16777216"), std::string::npos);
  }
}

TEST_F(Placement, AnUnknownWeightTypeStaysOffAndTheTensorIsNamed) {
  sim().refuse(MINFER_NONE, MINFER_TYPE_F32);
  const auto engine = plan("llama", {"", {"sim:0", "cpu"}});
  ASSERT_TRUE(engine) << engine.error().message();
  EXPECT_EQ(units_on(**engine, "cpu:0"), 6u);
  const auto lines = logged("sim:0 does not take head");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("output_norm.weight"), std::string::npos) << lines[0];
  EXPECT_NE((*engine)->placement().back().passed_over.find("sim:0"), std::string::npos);
}

TEST_F(Placement, ANamedDeviceThatCannotRunTheModelIsAnError) {
  sim().refuse(MINFER_OP_ROPE, MINFER_NONE);
  const auto engine = plan("llama", {"", {"sim:0"}});
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(engine.error().what.find("RoPE"), std::string::npos) << engine.error().message();
}

TEST_F(Placement, AnUnknownDeviceIsAnErrorUnlessDevicesAreOptional) {
  EngineOptions options = small_options();
  options.devices = {"warp:0", "cpu"};
  EXPECT_EQ(Engine::plan(tiny("llama"), *host_, options).error().code, ErrorCode::kNotFound);
  options.strict_devices = false;
  EXPECT_TRUE(Engine::plan(tiny("llama"), *host_, options));
  EXPECT_EQ(logged("passing over warp:0").size(), 1u);
}

TEST_F(Placement, AutoPrefersTheBestScore) {
  EngineOptions options = small_options();
  const auto engine = Engine::plan(tiny("llama"), *host_, options);
  ASSERT_TRUE(engine);
  EXPECT_EQ((*engine)->devices()[0]->info().id, "cpu:0");
}

TEST_F(Placement, NothingIsReadOrHeldByPlanning) {
  const auto engine = plan("gemma3", {"", {"sim:0", "sim:1"}, 3});
  ASSERT_TRUE(engine);
  EXPECT_EQ(sim_stats().imported, 0u);
  EXPECT_EQ(sim_stats().live_buffers, 0);
  const SequenceId id = *(*engine)->sequence_new();
  const TokenId token = 1;
  const StepEntry entry{id, {&token, 1}, true, false};
  EXPECT_EQ((*engine)->step({&entry, 1}).error().code, ErrorCode::kUsage);
}

class Memory : public Placement, public ::testing::WithParamInterface<Layout> {};

TEST_P(Memory, ThePlanIsWhatIsMeasured) {
  for (const char* arch : {"llama", "gemma3"}) {
    EngineOptions options = small_options();
    options.context = 512;
    const auto engine = must_open(arch, GetParam(), options);
    const auto measured = engine->measured_memory();
    ASSERT_TRUE(measured) << measured.error().message();
    ASSERT_EQ(measured->devices.size(), engine->memory_plan().devices.size());
    for (size_t d = 0; d < measured->devices.size(); ++d) {
      const auto& planned = engine->memory_plan().devices[d];
      const auto& found = measured->devices[d];
      EXPECT_EQ(planned.kv, found.kv);
      EXPECT_EQ(planned.arena, found.arena);
      EXPECT_EQ(planned.workspace, found.workspace);
      const auto expected = static_cast<double>(planned.total());
      EXPECT_GE(expected * 1.0001, static_cast<double>(found.total())) << planned.device;
      EXPECT_NEAR(static_cast<double>(found.total()), expected, expected * 0.01) << planned.device;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Placements, Memory, ::testing::ValuesIn(all_layouts()),
                         [](const auto& tested) { return tested.param.name; });

TEST_F(Placement, DotAndExplainCoverEveryNode) {
  const auto engine = must_open("llama", {"", {"sim:0", "cpu"}, 1});
  const auto lines = engine->explain(1);
  ASSERT_TRUE(lines) << lines.error().message();
  size_t on_sim = 0;
  for (const NodePlacement& line : *lines) {
    EXPECT_FALSE(line.kernel.empty()) << line.node;
    on_sim += line.device == "sim:0";
  }
  EXPECT_GT(on_sim, 5u);
  EXPECT_LT(on_sim, lines->size() - 5);
  const auto dot = engine->dot(1);
  ASSERT_TRUE(dot);
  EXPECT_NE(dot->find("layer 1 ffn on sim:0"), std::string::npos);
  EXPECT_NE(dot->find("layer 0 ffn on cpu:0"), std::string::npos);
}

}  // namespace
}  // namespace minfer::testing

// Compiling for simulated devices: what placement asks and what a plan then is, without a GPU.
#include <set>

#include "../host/dispatch.h"
#include "../host/plan.h"
#include "layer.h"

namespace minfer_cuda::test {
namespace {

struct Device {
  const char* name;
  int cc;
  uint64_t shared;
};
constexpr Device kDevices[] = {{"Turing", 75, 64 << 10},
                               {"Ampere", 80, 163 << 10},
                               {"Ada", 89, 99 << 10},
                               {"Hopper", 90, 227 << 10},
                               {"Blackwell", 120, 99 << 10}};

Caps caps_of(const Device& device) {
  Caps caps;
  caps.cc = device.cc;
  caps.sms = 100;
  caps.shared_bytes = device.shared;
  caps.memory_bytes = 16ull << 30;
  return caps;
}

std::string labels(const Program& program) {
  std::string out;
  for (const NodeReport& report : program.reports) out += report.kernel + "\n";
  return out;
}

class CompileTest : public testing::TestWithParam<Device> {
 protected:
  std::unique_ptr<Program> compiled(Layer& layer, const GateOverrides& changes = {}) {
    return compile(caps_of(GetParam()), gates_with(changes), layer.split->split());
  }
};

TEST_P(CompileTest, EveryNodeRunsOnceOrIsDoneByAnother) {
  for (int64_t tokens : {1, 6, 40, 300}) {
    for (bool head_norms : {false, true}) {
      Layer layer = make_layer(MINFER_TYPE_Q4_K, MINFER_TYPE_Q6_K, tokens, tokens, head_norms);
      const auto program = compiled(layer);
      std::set<uint32_t> run;
      for (const Step& step : program->steps) run.insert(step.node);
      for (uint32_t n = 0; n < program->reports.size(); ++n) {
        const NodeReport& report = program->reports[n];
        EXPECT_NE(report.kernel, "") << "node " << n;
        if (report.fused_into == kNone) continue;
        EXPECT_LT(report.fused_into, program->reports.size());
        EXPECT_EQ(program->reports[report.fused_into].fused_into, kNone) << "node " << n;
        EXPECT_TRUE(run.count(report.fused_into)) << "node " << n;
      }
    }
  }
}

TEST_P(CompileTest, MemoryOfLivingItemsDoesNotOverlap) {
  for (int64_t tokens : {1, 300}) {
    Layer layer = make_layer(MINFER_TYPE_Q8_0, MINFER_TYPE_Q8_0, tokens, tokens, true);
    const auto program = compiled(layer);
    const auto& items = program->items;
    for (size_t a = 0; a < items.size(); ++a) {
      EXPECT_LE(items[a].offset + items[a].bytes, program->workspace_bytes);
      for (size_t b = a + 1; b < items.size(); ++b) {
        if (items[a].first == kNone || items[b].first == kNone) continue;
        const bool together = items[a].first <= items[b].last && items[b].first <= items[a].last;
        const bool apart = items[a].offset + items[a].bytes <= items[b].offset ||
                           items[b].offset + items[b].bytes <= items[a].offset;
        EXPECT_TRUE(!together || apart) << "items " << a << " and " << b;
      }
    }
  }
}

TEST_P(CompileTest, ReferenceFusesNothing) {
  Layer layer = make_layer(MINFER_TYPE_Q4_K, MINFER_TYPE_Q6_K, 6, 6, false);
  const auto fused = compiled(layer), plain = compiled(layer, {{Gate::kReference, 1}});
  EXPECT_LT(fused->steps.size(), plain->steps.size());
  for (const NodeReport& report : plain->reports) EXPECT_EQ(report.fused_into, kNone);
}

// The bucket decides the plan; nothing else does.
TEST_P(CompileTest, EqualSplitsGiveEqualPlans) {
  Layer a = make_layer(MINFER_TYPE_Q4_K, MINFER_TYPE_Q6_K, 40, 40, true);
  Layer b = make_layer(MINFER_TYPE_Q4_K, MINFER_TYPE_Q6_K, 40, 3, true);
  const auto first = compiled(a), second = compiled(b);
  EXPECT_EQ(labels(*first), labels(*second));
  EXPECT_EQ(first->workspace_bytes, second->workspace_bytes);
}

TEST_P(CompileTest, RefusalsNameNodeTensorAndNumbers) {
  Split split;
  // Rows of 100 are no whole blocks of any super-block type.
  const uint32_t w = split.weight(MINFER_TYPE_Q4_K, {100, 64}, {}, MINFER_USE_MATMUL);
  const uint32_t x = split.floats({100, 1}, std::vector<float>(100));
  split.node(MINFER_OP_MATMUL, {w, x}, split.activation({64, 1}, true));
  try {
    compile(caps_of(GetParam()), gates_with({}), split.split());
    FAIL() << "taken";
  } catch (const Refusal& refusal) {
    EXPECT_EQ(refusal.node, 0u);
    EXPECT_EQ(refusal.tensor, w);
    EXPECT_NE(std::string(refusal.what()).find("100"), std::string::npos) << refusal.what();
  }
}

TEST_P(CompileTest, RevisionsOfLaterHostsAreRefused) {
  Layer layer = make_layer(MINFER_TYPE_Q4_K, MINFER_TYPE_Q6_K, 1, 1, false);
  minfer_split split = layer.split->split();
  std::vector<minfer_node> nodes(split.nodes, split.nodes + split.n_nodes);
  nodes[1].revision = 2;
  split.nodes = nodes.data();
  try {
    compile(caps_of(GetParam()), gates_with({}), split);
    FAIL() << "taken";
  } catch (const Refusal& refusal) {
    EXPECT_EQ(refusal.node, 1u);
    EXPECT_NE(std::string(refusal.what()).find("revision 2"), std::string::npos);
  }
}

// Fields behind an older host's struct_size are not read, even where memory follows.
TEST_P(CompileTest, StructsOfOlderHostsEndAtTheirSize) {
  Layer layer = make_layer(MINFER_TYPE_Q4_K, MINFER_TYPE_Q6_K, 1, 1, false);
  minfer_split split = layer.split->split();
  std::vector<minfer_tensor> tensors(split.tensors, split.tensors + split.n_tensors);
  std::vector<minfer_node> nodes(split.nodes, split.nodes + split.n_nodes);
  const auto* nowhere = reinterpret_cast<const char*>(uintptr_t{8});
  for (minfer_tensor& t : tensors) t.struct_size = offsetof(minfer_tensor, name), t.name = nowhere;
  for (minfer_node& n : nodes) n.struct_size = offsetof(minfer_node, name), n.name = nowhere;
  split.tensors = tensors.data();
  split.nodes = nodes.data();
  const auto older = compile(caps_of(GetParam()), gates_with({}), split);
  EXPECT_EQ(labels(*older), labels(*compiled(layer)));
}

// Devices differ in what they run, and the table says so for each.
TEST_P(CompileTest, LabelsFollowTheDecisionTable) {
  Layer layer = make_layer(MINFER_TYPE_Q4_K, MINFER_TYPE_Q4_K, 64, 64, false);
  const std::string all = labels(*compiled(layer));
  const std::string table = describe_dispatch(caps_of(GetParam()), gates_with({}));
  const MatmulChoice choice =
      choose_matmul(caps_of(GetParam()), gates_with({}), {MINFER_TYPE_Q4_K, 512, 512, 64});
  EXPECT_NE(all.find(choice.label), std::string::npos) << choice.label << " in\n" << all;
  EXPECT_NE(table.find(choice.label), std::string::npos) << choice.label << " in\n" << table;
}

INSTANTIATE_TEST_SUITE_P(Simulated, CompileTest, testing::ValuesIn(kDevices),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace minfer_cuda::test

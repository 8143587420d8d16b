#include "steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <random>

#include "gguf/writer.h"
#include "options.h"

namespace minfer::verify {
namespace {

constexpr const char* kMadeBy = "minfer.verify.made_by";
constexpr const char* kSteps = "minfer.verify.steps";
constexpr uint64_t kMaxSteps = 1000;

uint32_t owner_of(const Graph& graph, uint32_t tensor) {
  const uint32_t base = graph.tensors[tensor].view_of;
  return base == MINFER_NONE ? tensor : base;
}

bool is_activation(const GraphTensor& t) {
  return t.kind == MINFER_TENSOR_ACTIVATION && t.view_of == MINFER_NONE &&
         t.type == MINFER_TYPE_F32;
}

/// A tensor of the file on its way out.
struct Item {
  std::string name;
  const TypeInfo* type;
  const std::vector<uint8_t>* bytes;
};

std::vector<Item> items_of(const Graph& graph, const std::vector<StepValues>& steps) {
  std::vector<Item> items;
  const TypeInfo* f32 = find_type(uint32_t{MINFER_TYPE_F32});
  for (size_t s = 0; s < steps.size(); ++s) {
    for (const auto& [tensor, bytes] : steps[s].values) {
      const GraphTensor& t = graph.tensors[tensor];
      items.push_back({fmt::format("{}/{}/{}", s, tensor, t.name), find_type(t.type), &bytes});
    }
    for (const auto& [node, bytes] : steps[s].probes)
      items.push_back({fmt::format("{}/probe/{}", s, node), f32, &bytes});
  }
  return items;
}

/// Reads "N/INDEX/..." and "N/probe/INDEX".
bool parse_name(std::string_view name, size_t& step, bool& probe, uint32_t& index) {
  const char* const end = name.data() + name.size();
  auto [at, error] = std::from_chars(name.data(), end, step);
  if (error != std::errc{} || at == end || *at != '/') return false;
  constexpr std::string_view kProbe = "probe/";
  probe = std::string_view(at + 1, end).starts_with(kProbe);
  const auto [stop, wrong] = std::from_chars(at + 1 + (probe ? kProbe.size() : 0), end, index);
  return wrong == std::errc{} && (stop == end || *stop == '/');
}

}  // namespace

std::vector<uint8_t> probe_values(uint32_t node, size_t bytes) {
  constexpr float kLargest = 127.0f / 128;
  std::mt19937 random(node + 1);
  std::vector<float> values(bytes / sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto drawn = static_cast<uint32_t>(random());
    const float size = i % 32 == 0 ? kLargest : static_cast<float>(64 + drawn % 64) / 128;
    values[i] = (drawn & 0x10000) != 0 ? -size : size;
  }
  std::vector<uint8_t> out(bytes);
  std::memcpy(out.data(), values.data(), values.size() * sizeof(float));
  return out;
}

bool can_probe(const Graph& graph, uint32_t node) {
  const GraphNode& n = graph.nodes[node];
  return n.op == MINFER_OP_MATMUL && is_activation(graph.tensors[n.src[1]]) &&
         is_activation(graph.tensors[n.dst]);
}

TensorValues probe_inputs(const Graph& graph, uint32_t node) {
  const uint32_t x = graph.nodes[node].src[1];
  const GraphTensor& t = graph.tensors[x];
  const auto bytes = static_cast<size_t>(t.ne[0] * t.ne[1] * t.ne[2] * t.ne[3]) * sizeof(float);
  return {{x, probe_values(node, bytes)}};
}

Result<StepValues> run_step(Side& side, const std::vector<TokenId>& tokens, uint32_t past) {
  MINFER_ASSIGN(auto device, side.device());
  MINFER_ASSIGN(auto runner,
                NodeRunner::create(side.model(), device, {tokens, past, side.kv_type()}));
  const Graph& graph = runner->graph();
  StepValues out{tokens, runner->past(), {}, {}};
  uint32_t unit = MINFER_NONE;
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].unit != unit) {
      unit = graph.nodes[n].unit;
      MINFER_TRY(runner->enter_unit(unit));
    }
    MINFER_ASSIGN(PartResult part, runner->run({&n, 1}, out.values));
    out.values.merge(part.outputs);
    if (!can_probe(graph, n)) continue;
    MINFER_ASSIGN(PartResult probed, runner->run({&n, 1}, probe_inputs(graph, n)));
    out.probes[n] = std::move(probed.outputs[owner_of(graph, graph.nodes[n].dst)]);
  }
  return out;
}

Result<void> write_steps(const std::filesystem::path& path, const Graph& graph,
                         const std::vector<StepValues>& steps, const std::string& made_by) {
  GgufWriter writer;
  writer.add(kMadeBy, made_by);
  writer.add(kSteps, static_cast<uint32_t>(steps.size()));
  for (size_t s = 0; s < steps.size(); ++s) {
    writer.add_array<int32_t>(fmt::format("step.{}.tokens", s), steps[s].tokens);
    writer.add(fmt::format("step.{}.past", s), steps[s].past);
  }
  const std::vector<Item> items = items_of(graph, steps);
  for (const Item& item : items) {
    const auto elements = static_cast<int64_t>(item.bytes->size() / item.type->block_bytes);
    writer.add_tensor(item.name, *item.type, std::span(&elements, 1));
  }
  MINFER_TRY(writer.open(path));
  for (const Item& item : items) MINFER_TRY(writer.write(*item.bytes));
  return writer.finish();
}

Result<StepFile> read_steps(const std::filesystem::path& path) {
  MINFER_ASSIGN(const auto file, GgufFile::open(path));
  const auto wrong = [&](std::string what) {
    return fail(ErrorCode::kBadModel, std::move(what), path.string(),
                "expected a file that minfer-verify --dump has written");
  };
  StepFile out;
  MINFER_ASSIGN(const uint64_t n, file->require_uint(kSteps, kMaxSteps));
  MINFER_ASSIGN(out.made_by, file->require_string(kMadeBy));
  for (uint64_t s = 0; s < n; ++s) {
    StepValues& step = out.steps.emplace_back();
    MINFER_ASSIGN(const auto tokens, file->get_ints(fmt::format("step.{}.tokens", s)));
    if (!tokens || tokens->empty() || tokens->size() > kMaxStepTokens)
      return wrong(fmt::format("step {} has no tokens, or more than {}", s, kMaxStepTokens));
    for (const int64_t token : *tokens) step.tokens.push_back(static_cast<TokenId>(token));
    MINFER_ASSIGN(const uint64_t past,
                  file->require_uint(fmt::format("step.{}.past", s), kMaxPast));
    step.past = static_cast<uint32_t>(past);
  }
  for (const GgufTensor& tensor : file->tensors()) {
    size_t step = 0;
    bool probe = false;
    uint32_t index = 0;
    if (!parse_name(tensor.name, step, probe, index) || step >= out.steps.size())
      return wrong(fmt::format("the tensor '{}' belongs to no step", tensor.name));
    const uint8_t* data = file->data(tensor);
    auto& values = probe ? out.steps[step].probes : out.steps[step].values;
    values[index].assign(data, data + tensor.bytes);
  }
  return out;
}

}  // namespace minfer::verify

#include "parity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace minfer::verify {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A row of a probe is judged by what the other rows show: kernels that work in 8 bits are exact to
// f32 rounding on a probe, those that hold weights in 16 bits are not. Between the two limits a row
// is wrong when it stands out.
constexpr double kLeastRowLimit = 1e-4;
constexpr double kLargestRowLimit = 3e-3;
constexpr double kOutstanding = 20;

// Of a unit whose matrix products quantise activations to 8 bits; errors of its nodes add up.
constexpr double kRoundedUnit = 2e-2;
constexpr double kRoundedUnitLimit = 5e-2;

struct OpRule {
  uint32_t op;
  const char* name;
  double limit;
};
/// The tolerances of docs/operators.md, twice where both sides may be off by them.
constexpr OpRule kRules[] = {
    {MINFER_OP_GET_ROWS, "GetRows", 1e-6},
    {MINFER_OP_ADD, "Add", 2e-6},
    {MINFER_OP_MUL, "Mul", 2e-6},
    {MINFER_OP_SCALE, "Scale", 2e-6},
    {MINFER_OP_RMS_NORM, "RmsNorm", 2e-5},
    {MINFER_OP_MATMUL, "MatMul", 2e-2},
    {MINFER_OP_ROPE, "Rope", 1e-4},
    {MINFER_OP_KV_STORE, "KvStore", 0},
    {MINFER_OP_ATTENTION, "Attention", 2e-3},
    {MINFER_OP_SILU, "Silu", 2e-5},
    {MINFER_OP_GELU, "Gelu", 2e-5},
    {MINFER_OP_SOFTMAX, "Softmax", 2e-5},
    {MINFER_OP_SOFT_CAP, "SoftCap", 2e-5},
    {MINFER_OP_CONCAT, "Concat", 0},
    {MINFER_OP_TOP_K, "TopK", 0},
    {MINFER_OP_MATMUL_BY_ID, "MatMulById", 2e-2},
    {MINFER_OP_ARG_MAX, "ArgMax", 0},
};

const OpRule& rule_of(uint32_t op) {
  static constexpr OpRule kUnknown{0, "?", 0};
  const auto* found = std::find_if(std::begin(kRules), std::end(kRules),
                                   [&](const OpRule& rule) { return rule.op == op; });
  return found == std::end(kRules) ? kUnknown : *found;
}

double limit_of(const Graph& graph, const GraphNode& node, uint32_t kv_type) {
  const double limit = rule_of(node.op).limit;
  if (node.op == MINFER_OP_ATTENTION && kv_type == MINFER_TYPE_Q8_0) return 2e-2;
  if (node.op != MINFER_OP_MATMUL) return limit;
  switch (graph.tensors[node.src[0]].type) {
    case MINFER_TYPE_F32:
      return 2e-5;
    case MINFER_TYPE_F16:
    case MINFER_TYPE_BF16:
      return 2e-3;
    default:
      return limit;
  }
}

std::span<const float> floats(const std::vector<uint8_t>& bytes) {
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

double norm_of(const std::vector<uint8_t>& bytes) {
  double squares = 0;
  for (const float value : floats(bytes)) squares += double{value} * value;
  return std::sqrt(squares);
}

/// ‖a − b‖ / ‖b‖ of floats, where `least_norm` stands in for a smaller ‖b‖; the share of elements
/// that differ of integers.
double relative_error(uint32_t type, const std::vector<uint8_t>& a, const std::vector<uint8_t>& b,
                      double least_norm) {
  if (a.size() != b.size()) return kInfinity;
  if (a == b) return 0;
  if (type != MINFER_TYPE_F32) {
    size_t different = 0;
    for (size_t i = 0; i + 4 <= a.size(); i += 4)
      different += std::memcmp(a.data() + i, b.data() + i, 4) != 0 ? 1 : 0;
    return static_cast<double>(different) / static_cast<double>(a.size() / 4);
  }
  double difference = 0;
  for (size_t i = 0; i < floats(a).size(); ++i) {
    const double x = floats(a)[i], y = floats(b)[i];
    if (!std::isfinite(x) && std::isfinite(y)) return kInfinity;
    difference += (x - y) * (x - y);
  }
  if (difference == 0) return 0;
  const double norm = std::max(norm_of(b), least_norm);
  return norm == 0 ? kInfinity : std::sqrt(difference) / norm;
}

/// Errors of the rows of a weight, each relative to a typical row's result.
void judge_rows(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b, size_t rows,
                Finding& out) {
  out.error = kInfinity;
  if (a.size() != b.size() || rows == 0) return;
  std::vector<double> errors(rows, 0.0);
  double norm = 0;
  for (size_t i = 0; i < floats(a).size(); ++i) {
    const double x = floats(a)[i], y = floats(b)[i];
    errors[i % rows] += (x - y) * (x - y);
    norm += y * y;
  }
  const double typical = std::sqrt(norm / static_cast<double>(rows));
  for (double& error : errors)
    error = std::isfinite(error) ? std::sqrt(error) / std::max(typical, 1e-30) : kInfinity;
  const auto worst = std::max_element(errors.begin(), errors.end());
  out.error = *worst;
  out.row = worst - errors.begin();
  const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(rows / 2);
  std::nth_element(errors.begin(), middle, errors.end());
  out.limit = std::clamp(kOutstanding * *middle, kLeastRowLimit, kLargestRowLimit);
}

/// The name and shape of the first weight that a node reads.
std::string weight_text(const Graph& graph, const GraphNode& node) {
  for (const uint32_t src : node.src) {
    if (src == MINFER_NONE || graph.tensors[src].kind != MINFER_TENSOR_WEIGHT) continue;
    const GraphTensor& w = graph.tensors[src];
    const TypeInfo* type = find_type(w.type);
    return fmt::format("{} {} [{}, {}]", w.name, type ? type->name : "?", w.ne[0], w.ne[1]);
  }
  return "";
}

class StepComparison {
 public:
  StepComparison(NodeRunner& runner, const StepValues& reference, uint32_t kv_type, Parity& out)
      : runner_(runner),
        graph_(runner.graph()),
        reference_(reference),
        kv_type_(kv_type),
        out_(out) {}

  Result<void> run() {
    uint32_t first = 0;
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      const bool last =
          n + 1 == graph_.nodes.size() || graph_.nodes[n + 1].unit != graph_.nodes[n].unit;
      if (!last) continue;
      MINFER_TRY(run_unit(first, n));
      first = n + 1;
    }
    return {};
  }

 private:
  Result<void> run_unit(uint32_t first, uint32_t last) {
    MINFER_TRY(runner_.enter_unit(graph_.nodes[first].unit));
    std::vector<uint32_t> nodes;
    double limit = 0;
    for (uint32_t n = first; n <= last; ++n) {
      MINFER_TRY(run_node(n));
      nodes.push_back(n);
      limit += limit_of(graph_, graph_.nodes[n], kv_type_);
    }
    if (nodes.size() > 1) return run_whole(nodes, limit < kRoundedUnit ? limit : kRoundedUnitLimit);
    return {};
  }

  Finding finding(uint32_t n, const PartResult& part) const {
    const GraphNode& node = graph_.nodes[n];
    Finding out;
    out.node = node.name;
    out.op = rule_of(node.op).name;
    if (node.op == MINFER_OP_MATMUL)
      if (const TypeInfo* type = find_type(graph_.tensors[node.src[0]].type))
        out.op += fmt::format(" {}", type->name);
    out.unit = graph_.units[node.unit].name();
    out.weight = weight_text(graph_, node);
    out.kernel = part.reports.front().kernel;
    out.tokens = graph_.bucket.tokens;
    out.limit = limit_of(graph_, node, kv_type_);
    return out;
  }

  Result<const std::vector<uint8_t>*> expected(uint32_t tensor, size_t bytes) const {
    const auto found = reference_.values.find(tensor);
    if (found != reference_.values.end() && found->second.size() == bytes) return &found->second;
    return fail(ErrorCode::kBadModel, "the reference has no such tensor of that size",
                graph_.tensors[tensor].name, "both sides need the same architecture and shape");
  }

  /// What the norm of a product would be if weight and activation had nothing to do with each
  /// other: what the probe gives, with the activation's norm. Where outliers cancel, the result is
  /// smaller, but the rounding of activations is not.
  double unrelated_norm(uint32_t n) const {
    const auto probe = reference_.probes.find(n);
    if (!can_probe(graph_, n) || probe == reference_.probes.end()) return 0;
    const uint32_t x = graph_.nodes[n].src[1];
    const auto values = reference_.values.find(x);
    if (values == reference_.values.end()) return 0;
    return norm_of(probe->second) * norm_of(values->second) /
           norm_of(probe_values(n, values->second.size()));
  }

  Result<double> error_of(uint32_t tensor, const std::vector<uint8_t>& bytes,
                          double least_norm) const {
    MINFER_ASSIGN(const auto* reference, expected(tensor, bytes.size()));
    return relative_error(graph_.tensors[tensor].type, bytes, *reference, least_norm);
  }

  Result<void> run_node(uint32_t n) {
    MINFER_ASSIGN(const PartResult part, runner_.run({&n, 1}, reference_.values));
    if (part.outputs.empty()) return {};  // what KV_STORE left is judged by the ATTENTION after it
    Finding& values = out_.findings.emplace_back(finding(n, part));
    for (const auto& [tensor, bytes] : part.outputs) {
      MINFER_ASSIGN(const double error, error_of(tensor, bytes, unrelated_norm(n)));
      values.error = std::max(values.error, error);
    }
    const auto probe = reference_.probes.find(n);
    if (!can_probe(graph_, n) || probe == reference_.probes.end()) return {};
    MINFER_ASSIGN(const PartResult probed, runner_.run({&n, 1}, probe_inputs(graph_, n)));
    Finding& exact = out_.findings.emplace_back(finding(n, probed));
    exact.probe = Probe::kExact;
    const auto& tensor = graph_.tensors[graph_.nodes[n].dst];
    judge_rows(probed.outputs.at(graph_.nodes[n].dst), probe->second,
               static_cast<size_t>(tensor.ne[0]), exact);
    return {};
  }

  Result<void> run_whole(const std::vector<uint32_t>& nodes, double limit) {
    MINFER_ASSIGN(const PartResult part, runner_.run(nodes, reference_.values));
    Finding out;
    out.probe = Probe::kUnit;
    out.node = out.unit = graph_.units[graph_.nodes[nodes.front()].unit].name();
    out.op = "unit";
    out.tokens = graph_.bucket.tokens;
    const auto fused = std::count_if(part.reports.begin(), part.reports.end(),
                                     [](const auto& r) { return r.fused_into != MINFER_NONE; });
    out.kernel = fmt::format("{} nodes, {} of them fused into others", nodes.size(), fused);
    out.limit = limit;
    for (const auto& [tensor, bytes] : part.outputs) {
      // An index that a near-tie has turned is no error; alone its node is exact.
      if (graph_.tensors[tensor].type != MINFER_TYPE_F32) continue;
      MINFER_ASSIGN(const double error, error_of(tensor, bytes, 0));
      out.error = std::max(out.error, error);
    }
    out_.findings.push_back(std::move(out));
    return {};
  }

  NodeRunner& runner_;
  const Graph& graph_;
  const StepValues& reference_;
  uint32_t kv_type_;
  Parity& out_;
};

}  // namespace

const Finding* Parity::first_difference() const {
  const auto found =
      std::find_if(findings.begin(), findings.end(), [](const Finding& f) { return !f.holds(); });
  return found == findings.end() ? nullptr : &*found;
}

Result<void> compare_step(Side& candidate, const StepValues& reference, Parity& out) {
  MINFER_ASSIGN(auto device, candidate.device());
  MINFER_ASSIGN(auto runner,
                NodeRunner::create(candidate.model(), device,
                                   {reference.tokens, reference.past, candidate.kv_type()}));
  if (runner->past() != reference.past)
    return fail(ErrorCode::kUnsupported, "it cannot import KV pages, which the reference could",
                device->info().id, "use --past 0");
  return StepComparison(*runner, reference, candidate.kv_type(), out).run();
}

}  // namespace minfer::verify

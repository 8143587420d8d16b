#include "reference_llama.h"

#include <cmath>

#include "tiny_models.h"

namespace conformance {
namespace {

constexpr int kLayers = 2;
constexpr int64_t kWidth = 64, kFfn = 96;
constexpr int kHeads = 4, kHeadsKv = 2, kHeadDim = 16;
constexpr double kEps = 1e-6, kRopeBase = 10000.0;

/// Turns each pair (2i, 2i + 1) of every head by its angle at this position.
void turn(std::vector<double>& x, size_t position) {
  for (size_t head = 0; head < x.size(); head += kHeadDim) {
    for (int i = 0; i < kHeadDim; i += 2) {
      const double angle =
          static_cast<double>(position) * std::pow(kRopeBase, -static_cast<double>(i) / kHeadDim);
      double& a = x[head + static_cast<size_t>(i)];
      double& b = x[head + static_cast<size_t>(i) + 1];
      const double turned = a * std::cos(angle) - b * std::sin(angle);
      b = a * std::sin(angle) + b * std::cos(angle);
      a = turned;
    }
  }
}

std::string block(int layer, const char* name) {
  return "blk." + std::to_string(layer) + "." + name + ".weight";
}

void add(std::vector<double>& to, const std::vector<double>& x) {
  for (size_t i = 0; i < to.size(); ++i) to[i] += x[i];
}

}  // namespace

const std::vector<float>& ReferenceLlama::weight(const std::string& name,
                                                 const std::vector<int64_t>& ne) const {
  auto& values = weights_[name];
  if (values.empty()) values = minfer::testing::tiny_weights(name, ne);
  return values;
}

ReferenceLlama::Row ReferenceLlama::multiply(const std::string& name, const Row& x,
                                             int64_t rows) const {
  const auto& w = weight(name, {static_cast<int64_t>(x.size()), rows});
  Row out(static_cast<size_t>(rows), 0.0);
  for (size_t o = 0; o < out.size(); ++o)
    for (size_t i = 0; i < x.size(); ++i) out[o] += double{w[o * x.size() + i]} * x[i];
  return out;
}

ReferenceLlama::Row ReferenceLlama::norm(const std::string& name, const Row& x) const {
  const auto& w = weight(name, {kWidth});
  double squares = 0.0;
  for (const double v : x) squares += v * v;
  const double factor = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + kEps);
  Row out(x.size());
  for (size_t i = 0; i < x.size(); ++i) out[i] = x[i] * factor * w[i];
  return out;
}

std::vector<ReferenceLlama::Row> ReferenceLlama::attend(int layer,
                                                        const std::vector<Row>& x) const {
  std::vector<Row> q, k, v, out;
  for (size_t t = 0; t < x.size(); ++t) {
    q.push_back(multiply(block(layer, "attn_q"), x[t], kHeads * kHeadDim));
    k.push_back(multiply(block(layer, "attn_k"), x[t], kHeadsKv * kHeadDim));
    v.push_back(multiply(block(layer, "attn_v"), x[t], kHeadsKv * kHeadDim));
    turn(q[t], t);
    turn(k[t], t);
    Row joined(kHeads * kHeadDim, 0.0);
    for (size_t h = 0; h < kHeads; ++h) {
      const size_t at = h * kHeadDim, at_kv = h / (kHeads / kHeadsKv) * kHeadDim;
      Row scores(t + 1);
      double sum = 0.0;
      for (size_t j = 0; j <= t; ++j) {
        double dot = 0.0;
        for (size_t i = 0; i < kHeadDim; ++i) dot += q[t][at + i] * k[j][at_kv + i];
        sum += scores[j] = std::exp(dot / std::sqrt(double{kHeadDim}));
      }
      for (size_t j = 0; j <= t; ++j)
        for (size_t i = 0; i < kHeadDim; ++i) joined[at + i] += scores[j] / sum * v[j][at_kv + i];
    }
    out.push_back(multiply(block(layer, "attn_output"), joined, kWidth));
  }
  return out;
}

ReferenceLlama::Row ReferenceLlama::feed_forward(int layer, const Row& x) const {
  Row gate = multiply(block(layer, "ffn_gate"), x, kFfn);
  const Row up = multiply(block(layer, "ffn_up"), x, kFfn);
  for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1.0 + std::exp(-gate[i])) * up[i];
  return multiply(block(layer, "ffn_down"), gate, kWidth);
}

std::vector<std::vector<double>> ReferenceLlama::logits(const std::vector<int32_t>& tokens) const {
  const auto& table = weight("token_embd.weight", {kWidth, kVocab});
  std::vector<Row> x, out;
  for (const int32_t token : tokens)
    x.emplace_back(table.begin() + token * kWidth, table.begin() + (token + 1) * kWidth);
  for (int layer = 0; layer < kLayers; ++layer) {
    std::vector<Row> normed;
    for (const Row& row : x) normed.push_back(norm(block(layer, "attn_norm"), row));
    const std::vector<Row> attended = attend(layer, normed);
    for (size_t t = 0; t < x.size(); ++t) {
      add(x[t], attended[t]);
      add(x[t], feed_forward(layer, norm(block(layer, "ffn_norm"), x[t])));
    }
  }
  for (const Row& row : x)
    out.push_back(multiply("output.weight", norm("output_norm.weight", row), kVocab));
  return out;
}

}  // namespace conformance

#include "tensor_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace minfer::synth {
namespace {

struct QuantName {
  std::string_view name;
  std::string_view main;
  std::string_view more;
  uint32_t file_type;
};

constexpr std::array kQuants = {
    QuantName{"f32", "F32", "F32", 0},           QuantName{"f16", "F16", "F16", 1},
    QuantName{"bf16", "BF16", "BF16", 32},       QuantName{"q4_0", "Q4_0", "Q4_0", 2},
    QuantName{"q4_1", "Q4_1", "Q4_1", 3},        QuantName{"q5_0", "Q5_0", "Q5_0", 8},
    QuantName{"q5_1", "Q5_1", "Q5_1", 9},        QuantName{"q8_0", "Q8_0", "Q8_0", 7},
    QuantName{"q2_k", "Q2_K", "Q2_K", 10},       QuantName{"q3_k", "Q3_K", "Q3_K", 11},
    QuantName{"q4_k", "Q4_K", "Q4_K", 14},       QuantName{"q4_k_m", "Q4_K", "Q6_K", 15},
    QuantName{"q5_k", "Q5_K", "Q5_K", 16},       QuantName{"q5_k_m", "Q5_K", "Q6_K", 17},
    QuantName{"q6_k", "Q6_K", "Q6_K", 18},       QuantName{"iq4_nl", "IQ4_NL", "IQ4_NL", 25},
    QuantName{"iq4_xs", "IQ4_XS", "IQ4_XS", 30}, QuantName{"mxfp4", "MXFP4", "MXFP4", 38},
};

/// The layers whose value and down projections a mix keeps in the better type: the first and last
/// eighth, and every third between.
bool is_sensitive_layer(int64_t layer, int64_t n_layer) {
  const int64_t eighth = n_layer / 8;
  return layer < eighth || layer >= 7 * n_layer / 8 || (layer - eighth) % 3 == 2;
}

class Planner {
 public:
  Planner(const Shape& shape, const Quant& quant) : s_(shape), quant_(quant) {}

  std::vector<PlannedTensor> plan() {
    matrix("token_embd", s_.tied ? "output" : "token_embd", -1, s_.n_embd, s_.n_vocab);
    if (s_.rope_factor > 0) {
      tensors_.push_back(
          {"rope_freqs.weight", find_type("F32"), {s_.head_dim / 2}, Fill::kRopeFactors});
    }
    for (int64_t layer = 0; layer < s_.n_layer; ++layer) plan_layer(layer);
    norm("output_norm", s_.n_embd);
    if (!s_.tied) matrix("output", "output", -1, s_.n_embd, s_.n_vocab);
    return std::move(tensors_);
  }

 private:
  void plan_layer(int64_t layer) {
    const auto name = [&](std::string_view role) { return fmt::format("blk.{}.{}", layer, role); };
    const auto weight = [&](std::string_view role, int64_t in, int64_t out) {
      matrix(name(role), role, layer, in, out);
    };
    const int64_t q = s_.n_head * s_.head_dim;
    const int64_t kv = s_.n_head_kv * s_.head_dim;
    norm(name("attn_norm"), s_.n_embd);
    weight("attn_q", s_.n_embd, q);
    weight("attn_k", s_.n_embd, kv);
    weight("attn_v", s_.n_embd, kv);
    if (s_.arch == Arch::kQwen2) {
      bias(name("attn_q"), q);
      bias(name("attn_k"), kv);
      bias(name("attn_v"), kv);
    }
    if (s_.arch == Arch::kQwen3 || s_.arch == Arch::kGemma3) {
      norm(name("attn_q_norm"), s_.head_dim);
      norm(name("attn_k_norm"), s_.head_dim);
    }
    weight("attn_output", q, s_.n_embd);
    if (s_.arch == Arch::kGemma3) norm(name("post_attention_norm"), s_.n_embd);
    norm(name("ffn_norm"), s_.n_embd);
    weight("ffn_gate", s_.n_embd, s_.n_ff);
    weight("ffn_up", s_.n_embd, s_.n_ff);
    weight("ffn_down", s_.n_ff, s_.n_embd);
    if (s_.arch == Arch::kGemma3) norm(name("post_ffw_norm"), s_.n_embd);
  }

  void matrix(const std::string& name, std::string_view role, int64_t layer, int64_t in,
              int64_t out) {
    const TypeInfo& type = quant_.type_of(role, layer, s_.n_layer, in);
    tensors_.push_back({name + ".weight", &type, {in, out}, Fill::kMatrix});
  }
  void norm(const std::string& name, int64_t length) {
    tensors_.push_back({name + ".weight", find_type("F32"), {length}, Fill::kNorm});
  }
  void bias(const std::string& name, int64_t length) {
    tensors_.push_back({name + ".bias", find_type("F32"), {length}, Fill::kMatrix});
  }

  const Shape& s_;
  const Quant& quant_;
  std::vector<PlannedTensor> tensors_;
};

}  // namespace

Result<Quant> Quant::parse(std::string_view name) {
  const auto it = std::find_if(kQuants.begin(), kQuants.end(),
                               [&](const QuantName& known) { return known.name == name; });
  if (it == kQuants.end()) {
    return fail(ErrorCode::kUsage, fmt::format("unknown quantisation '{}'", name), "--quant",
                "known are " + known_names());
  }
  Quant quant;
  quant.name_ = it->name;
  quant.main_ = find_type(it->main);
  quant.more_ = find_type(it->more);
  quant.file_type_ = it->file_type;
  return quant;
}

std::string Quant::known_names() {
  std::string names;
  for (const QuantName& known : kQuants) {
    if (!names.empty()) names += ", ";
    names += known.name;
  }
  return names;
}

const TypeInfo& Quant::type_of(std::string_view role, int64_t layer, int64_t n_layer,
                               int64_t row) const {
  const bool more = role == "output" || ((role == "attn_v" || role == "ffn_down") &&
                                         is_sensitive_layer(layer, n_layer));
  const TypeInfo* wanted = more ? more_ : main_;
  for (const TypeInfo* type : {wanted, find_type("Q8_0")}) {
    if (row % type->block_elements == 0) return *type;
  }
  return *find_type("F16");
}

std::vector<PlannedTensor> plan_tensors(const Shape& shape, const Quant& quant) {
  return Planner(shape, quant).plan();
}

}  // namespace minfer::synth

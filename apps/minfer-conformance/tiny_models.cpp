#include "tiny_models.h"

#include <fmt/format.h>

#include <cmath>

#include "gguf/writer.h"

namespace minfer::testing {
namespace {

constexpr int64_t kVocab = 256;
constexpr int64_t kWidth = 64;
constexpr int64_t kFfn = 96;
constexpr int64_t kHeads = 4;
constexpr int64_t kHeadsKv = 2;

struct TensorSpec {
  std::string name;
  std::vector<int64_t> ne;
};

std::vector<TensorSpec> tensors_of(const TinyModel& model, int64_t layers, int64_t head_dim) {
  const bool gemma = model.arch == "gemma3";
  const bool qk_norm = gemma || model.arch == "qwen3";
  const int64_t q = kHeads * head_dim;
  const int64_t kv = kHeadsKv * head_dim;
  std::vector<TensorSpec> list = {{"token_embd.weight", {kWidth, kVocab}}};
  for (int64_t il = 0; il < layers; ++il) {
    const auto add = [&](std::string_view name, std::vector<int64_t> ne) {
      list.push_back({fmt::format("blk.{}.{}", il, name), std::move(ne)});
    };
    add("attn_norm.weight", {kWidth});
    add("attn_q.weight", {kWidth, q});
    add("attn_k.weight", {kWidth, kv});
    add("attn_v.weight", {kWidth, kv});
    if (model.arch == "qwen2") {
      add("attn_q.bias", {q});
      add("attn_k.bias", {kv});
      add("attn_v.bias", {kv});
    }
    if (qk_norm) {
      add("attn_q_norm.weight", {head_dim});
      add("attn_k_norm.weight", {head_dim});
    }
    add("attn_output.weight", {q, kWidth});
    if (gemma) add("post_attention_norm.weight", {kWidth});
    add("ffn_norm.weight", {kWidth});
    add("ffn_gate.weight", {kWidth, kFfn});
    add("ffn_up.weight", {kWidth, kFfn});
    add("ffn_down.weight", {kFfn, kWidth});
    if (gemma) add("post_ffw_norm.weight", {kWidth});
  }
  list.push_back({"output_norm.weight", {kWidth}});
  if (!model.tied) list.push_back({"output.weight", {kWidth, kVocab}});
  return list;
}

void add_metadata(GgufWriter& writer, const TinyModel& model, uint32_t layers, uint32_t head_dim) {
  const std::string& arch = model.arch;
  const auto key = [&](std::string_view name) { return fmt::format("{}.{}", arch, name); };
  writer.add("general.architecture", arch.c_str());
  writer.add("general.name", fmt::format("tiny {}", arch).c_str());
  writer.add(key("block_count"), layers);
  writer.add(key("context_length"), uint32_t{512});
  writer.add(key("embedding_length"), static_cast<uint32_t>(kWidth));
  writer.add(key("feed_forward_length"), static_cast<uint32_t>(kFfn));
  writer.add(key("attention.head_count"), static_cast<uint32_t>(kHeads));
  writer.add(key("attention.head_count_kv"), static_cast<uint32_t>(kHeadsKv));
  writer.add(key("attention.key_length"), head_dim);
  writer.add(key("attention.value_length"), head_dim);
  writer.add(key("attention.layer_norm_rms_epsilon"), 1e-6f);
  writer.add(key("rope.freq_base"), model.rope_base);
  if (arch == "gemma3") writer.add(key("attention.sliding_window"), uint32_t{8});
  writer.add("tokenizer.ggml.model", "none");
}

}  // namespace

// The rule in record_transformers.py: splitmix64 over the FNV-1a hash of the name.
std::vector<float> tiny_weights(const std::string& name, const std::vector<int64_t>& ne) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  int64_t n = 1;
  for (const int64_t d : ne) n *= d;
  const bool norm = name.ends_with("norm.weight");
  const bool bias = name.ends_with(".bias");
  const double scale = std::sqrt(3.0 / static_cast<double>(ne[0]));
  std::vector<float> out(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    uint64_t z = hash + static_cast<uint64_t>(i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    const double u = static_cast<double>(z >> 40) / (1 << 23) - 1.0;
    out[static_cast<size_t>(i)] = static_cast<float>(norm   ? 1.0 + 0.2 * u
                                                     : bias ? 0.2 * u
                                                            : u * scale);
  }
  return out;
}

Result<void> write_tiny_model(const std::filesystem::path& path, const TinyModel& model) {
  const bool wide_head = model.arch == "qwen3" || model.arch == "gemma3";
  const uint32_t head_dim = wide_head ? 32 : static_cast<uint32_t>(kWidth / kHeads);
  const uint32_t layers = model.arch == "gemma3" ? 7 : 2;
  const std::vector<TensorSpec> specs = tensors_of(model, layers, head_dim);
  const TypeInfo& f32 = *find_type("F32");

  GgufWriter writer;
  add_metadata(writer, model, layers, head_dim);
  for (const TensorSpec& spec : specs) writer.add_tensor(spec.name, f32, spec.ne);
  if (!model.rope_freqs.empty()) {
    const int64_t ne[] = {static_cast<int64_t>(model.rope_freqs.size())};
    writer.add_tensor("rope_freqs.weight", f32, ne);
  }
  MINFER_TRY(writer.open(path));
  const auto write = [&](const std::vector<float>& data) {
    return writer.write(
        {reinterpret_cast<const uint8_t*>(data.data()), data.size() * sizeof(float)});
  };
  for (const TensorSpec& spec : specs) MINFER_TRY(write(tiny_weights(spec.name, spec.ne)));
  if (!model.rope_freqs.empty()) MINFER_TRY(write(model.rope_freqs));
  return writer.finish();
}

}  // namespace minfer::testing

#include "hparams.h"

#include <fmt/format.h>

#include <cmath>

namespace minfer {
namespace {

constexpr uint64_t kMaxLayers = 1024;
constexpr uint64_t kMaxWidth = 1u << 20;
constexpr uint64_t kMaxContext = 1u << 28;

/// A count that some files give per layer: the value when all layers agree.
Result<uint64_t> uniform_count(const GgufFile& file, const std::string& key, uint64_t fallback) {
  const GgufValue* value = file.find(key);
  if (!value) return fallback;
  if (value->kind != GgufKind::kArray) return file.require_uint(key, kMaxWidth);
  MINFER_ASSIGN(const auto counts, file.get_ints(key));
  if (!counts || counts->empty())
    return fail(ErrorCode::kBadModel, "empty array, expected a count", key);
  for (int64_t n : *counts) {
    if (n != counts->front() || n <= 0)
      return fail(ErrorCode::kUnsupported,
                  fmt::format("layers differ ({} and {}), expected one count for all layers",
                              counts->front(), n),
                  key);
  }
  return static_cast<uint64_t>(counts->front());
}

Result<void> read_rope_scaling(const GgufFile& file, const std::string& arch, HyperParams& hp) {
  minfer_rope_params& rope = hp.rope;
  MINFER_ASSIGN(const auto kind, file.get_string(arch + ".rope.scaling.type"));
  MINFER_ASSIGN(auto factor, file.get_float(arch + ".rope.scaling.factor"));
  if (!factor) {
    MINFER_ASSIGN(factor, file.get_float(arch + ".rope.scale_linear"));
  }
  MINFER_ASSIGN(const auto original,
                file.get_uint(arch + ".rope.scaling.original_context_length", kMaxContext));
  MINFER_ASSIGN(const auto attn_factor, file.get_float(arch + ".rope.scaling.attn_factor"));
  rope.n_ctx_orig = static_cast<uint32_t>(original.value_or(hp.context_length));
  rope.freq_scale = 1.0f;
  rope.attn_factor = static_cast<float>(attn_factor.value_or(1.0));
  rope.beta_fast = 32.0f;
  rope.beta_slow = 1.0f;
  const std::string_view name = kind.value_or(factor ? "linear" : "none");
  if (name == "none" || name == "llama3" || name == "longrope") return {};  // by frequency factors
  if (name != "linear" && name != "yarn")
    return fail(ErrorCode::kUnsupported,
                fmt::format("unknown RoPE scaling '{}', expected none, linear or yarn", name),
                arch + ".rope.scaling.type");
  const double f = factor.value_or(1.0);
  if (!(f > 0) || !std::isfinite(f))
    return fail(ErrorCode::kBadModel,
                fmt::format("RoPE scaling factor is {}, expected a positive number", f),
                arch + ".rope.scaling.factor");
  rope.freq_scale = static_cast<float>(1.0 / f);
  if (name == "yarn") rope.ext_factor = 1.0f;
  return {};
}

}  // namespace

Result<HyperParams> read_hparams(const GgufFile& file, std::string_view arch_name,
                                 uint32_t rope_mode) {
  const std::string arch(arch_name);
  HyperParams hp;
  hp.architecture = arch;
  MINFER_ASSIGN(const auto name, file.get_string("general.name"));
  hp.name = name.value_or("");

  const auto size = [&](const char* key, uint64_t max) {
    return file.require_uint(arch + key, max);
  };
  MINFER_ASSIGN(const uint64_t n_layer, size(".block_count", kMaxLayers));
  MINFER_ASSIGN(const uint64_t n_embd, size(".embedding_length", kMaxWidth));
  MINFER_ASSIGN(const uint64_t context, size(".context_length", kMaxContext));
  MINFER_ASSIGN(const uint64_t n_ff, uniform_count(file, arch + ".feed_forward_length", 0));
  MINFER_ASSIGN(const uint64_t n_head, uniform_count(file, arch + ".attention.head_count", 0));
  MINFER_ASSIGN(const uint64_t n_head_kv,
                uniform_count(file, arch + ".attention.head_count_kv", n_head));
  for (const auto& [key, value] : {std::pair{".block_count", n_layer},
                                   {".embedding_length", n_embd},
                                   {".context_length", context},
                                   {".feed_forward_length", n_ff},
                                   {".attention.head_count", n_head},
                                   {".attention.head_count_kv", n_head_kv}}) {
    if (value == 0)
      return fail(ErrorCode::kBadModel, "missing or 0, expected a positive number", arch + key);
  }
  if (n_head % n_head_kv != 0)
    return fail(ErrorCode::kBadModel,
                fmt::format("{} attention heads cannot share {} KV heads", n_head, n_head_kv),
                arch + ".attention.head_count_kv");
  MINFER_ASSIGN(const auto key_length, file.get_uint(arch + ".attention.key_length", kMaxWidth));
  MINFER_ASSIGN(const auto value_length,
                file.get_uint(arch + ".attention.value_length", kMaxWidth));
  if (!key_length && n_embd % n_head != 0)
    return fail(
        ErrorCode::kBadModel,
        fmt::format("embedding length {} is not divisible by {} heads and no key_length is given",
                    n_embd, n_head),
        arch + ".attention.key_length");
  const uint64_t head_dim = key_length.value_or(n_embd / n_head);
  if (value_length && *value_length != head_dim)
    return fail(ErrorCode::kUnsupported,
                fmt::format("value heads of {} beside key heads of {}; expected equal sizes",
                            *value_length, head_dim),
                arch + ".attention.value_length");
  if (head_dim == 0 || head_dim > 1024)
    return fail(ErrorCode::kUnsupported, fmt::format("head size {} is outside 1..1024", head_dim),
                arch + ".attention.key_length");
  MINFER_ASSIGN(const double eps, file.require_float(arch + ".attention.layer_norm_rms_epsilon"));
  MINFER_ASSIGN(const auto n_rot, file.get_uint(arch + ".rope.dimension_count", head_dim));
  MINFER_ASSIGN(const auto base, file.get_float(arch + ".rope.freq_base"));
  if (base && !(*base > 1.0))
    return fail(ErrorCode::kBadModel, fmt::format("RoPE base is {}, expected more than 1", *base),
                arch + ".rope.freq_base");

  hp.n_layer = static_cast<uint32_t>(n_layer);
  hp.n_embd = static_cast<uint32_t>(n_embd);
  hp.n_head = static_cast<uint32_t>(n_head);
  hp.n_head_kv = static_cast<uint32_t>(n_head_kv);
  hp.head_dim = static_cast<uint32_t>(head_dim);
  hp.n_ff = static_cast<uint32_t>(n_ff);
  hp.context_length = static_cast<uint32_t>(context);
  hp.rms_eps = static_cast<float>(eps);
  hp.rope.struct_size = sizeof(hp.rope);
  hp.rope.mode = rope_mode;
  hp.rope.n_rot = static_cast<uint32_t>(n_rot.value_or(head_dim));
  hp.rope.freq_base = static_cast<float>(base.value_or(10000.0));
  MINFER_TRY(read_rope_scaling(file, arch, hp));

  const GgufTensor* embedding = file.tensor("token_embd.weight");
  if (!embedding)
    return fail(ErrorCode::kBadModel, "the model has no such tensor", "token_embd.weight");
  if (embedding->ne[0] != static_cast<int64_t>(n_embd))
    return fail(ErrorCode::kBadModel,
                fmt::format("rows of {} elements, {}.embedding_length says {}", embedding->ne[0],
                            arch, n_embd),
                "token_embd.weight");
  if (embedding->ne[1] > INT32_MAX)
    return fail(ErrorCode::kBadModel, fmt::format("{} rows are too many", embedding->ne[1]),
                "token_embd.weight");
  hp.n_vocab = static_cast<uint32_t>(embedding->ne[1]);
  if (const GgufValue* tokens = file.find("tokenizer.ggml.tokens")) {
    const auto* list = std::get_if<std::vector<std::string_view>>(&tokens->data);
    if (list && list->size() > hp.n_vocab)
      return fail(ErrorCode::kBadModel,
                  fmt::format("the vocabulary has {} tokens, the embedding only {} rows",
                              list->size(), hp.n_vocab),
                  "tokenizer.ggml.tokens");
  }
  hp.tied_head = file.tensor("output.weight") == nullptr;
  return hp;
}

}  // namespace minfer

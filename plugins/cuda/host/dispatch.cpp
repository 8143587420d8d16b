// The decision tables (see dispatch.h).
#include "dispatch.h"

#include "../hopper/attention.h"
#include "../hopper/decode.h"
#include "../hopper/prefill.h"
#include "../kernels/layout.h"
#include "../kernels/matmul.h"

namespace minfer_cuda {
namespace {

struct Context {
  const Caps& caps;
  const Gates& gates;
  const MatmulQuery& q;
};

bool is_quantised(uint32_t type) {
  return type != MINFER_TYPE_F32 && type != MINFER_TYPE_F16 && type != MINFER_TYPE_BF16;
}

/// Fewest tokens that tensor cores are used for.
int64_t tensor_core_tokens(const Context& c) {
  return c.gates.on(Gate::kSmallMGemm) ? 2 : c.gates[Gate::kMmqMinTokens];
}

/// What all Hopper kernels ask for.
std::string refuse_hopper(const Caps& caps, const Gates& gates) {
#ifndef MINFER_CUDA_SM90A
  return "not built for sm_90a";
#endif
  if (gates.on(Gate::kNoHopper)) return "MINFER_NO_HOPPER";
  if (caps.shared_bytes < hopper::kSharedBytes) {
    return text("needs ", hopper::kSharedBytes, " bytes of shared memory");
  }
  return {};
}

/// What both Hopper matmuls ask for.
std::string refuse_hopper(const Context& c) {
  if (!c.q.aligned) return "rows are not aligned to 16 bytes";
  return refuse_hopper(c.caps, c.gates);
}

std::string refuse_hopper_decode(const Context& c) {
  if (const std::string reason = refuse_hopper(c); !reason.empty()) return reason;
  if (c.gates.on(Gate::kNoKqMmvq)) return "MINFER_NO_KQ_MMVQ";
  if (!hopper::decode_fits(&c.q.type, 1, c.q.id, c.q.tokens))
    return "no kernel for the type and length";
  return {};
}

std::string refuse_hopper_gemm(const Context& c) {
  if (const std::string reason = refuse_hopper(c); !reason.empty()) return reason;
  if (c.gates.on(Gate::kNoPrefillGemm)) return "MINFER_NO_PREFILL_GEMM";
  if (!hopper::prefill_fits(c.q.type, c.q.id, c.q.od)) return "no kernel for the type and shape";
  return {};
}

std::string refuse_mmvq(const Context& c) {
  if (c.gates.on(Gate::kNoKqMmvq)) return "MINFER_NO_KQ_MMVQ";
  if (c.gates.on(Gate::kSmallMGemm) && c.q.tokens > 1) return "MINFER_SMALL_M_GEMM";
  return {};
}

std::string refuse_mmq(const Context& c) {
  if (c.gates.on(Gate::kNoPrefillGemm)) return "MINFER_NO_PREFILL_GEMM";
  if (!c.gates.on(Gate::kMmq)) return "MINFER_MMQ=0";
  if (c.caps.cc < 80) return "int8 mma needs compute capability 8.0";
  const uint64_t shared = mmq_shared_bytes(c.q.type, static_cast<int>(c.q.tokens));
  if (shared > c.caps.shared_bytes) {
    return text(shared, " bytes of shared memory, the device has ", c.caps.shared_bytes);
  }
  return {};
}

std::string refuse_gemm_half(const Context& c) {
  if (c.gates.on(Gate::kNoPrefillGemm)) return "MINFER_NO_PREFILL_GEMM";
  if (c.caps.cc < 75) return "f16 mma needs compute capability 7.5";
  return {};
}

bool suits_hopper_decode(const Context& c) {
  return c.caps.cc == 90 && c.q.tokens <= c.gates[Gate::kHopperDecodeMaxTokens];
}

bool suits_hopper_gemm(const Context& c) {
  return c.caps.cc == 90 && c.q.tokens >= c.gates[Gate::kHopperGemmMinTokens];
}

bool suits_mmvq(const Context& c) {
  return is_quantised(c.q.type) && c.q.tokens <= kMmvqMaxTokens;
}

bool suits_gemm_half(const Context& c) {
  return gemm_half_supports(c.q.type) && c.q.tokens >= tensor_core_tokens(c);
}

bool suits_mmq(const Context& c) {
  const bool half_is_faster =
      gemm_half_supports(c.q.type) && c.q.tokens >= c.gates[Gate::kGemmMinTokens];
  return mmq_supports(c.q.type) && c.q.tokens >= tensor_core_tokens(c) && !half_is_faster;
}

struct Rule {
  MatmulKernel kernel;
  const char* name;
  /// Whether the kernel is the fastest for this type and number of tokens on such a device. Passing
  /// over one that is not needs no reason.
  bool (*suits)(const Context&);
  /// Why a kernel that suits is not taken; empty: it is.
  std::string (*refuse)(const Context&);
};

constexpr Rule kRules[] = {
    {MatmulKernel::kHopperDecode, "hopper_gemv", suits_hopper_decode, refuse_hopper_decode},
    {MatmulKernel::kHopperGemm, "hopper_gemm", suits_hopper_gemm, refuse_hopper_gemm},
    {MatmulKernel::kMmvq, "mmvq", suits_mmvq, refuse_mmvq},
    {MatmulKernel::kMmq, "mmq", suits_mmq, refuse_mmq},
    {MatmulKernel::kGemmHalf, "gemm_f16", suits_gemm_half, refuse_gemm_half},
    {MatmulKernel::kGeneric, "matmul", [](const Context&) { return true; },
     [](const Context&) { return std::string(); }},
};

const char* activation_name(MatmulKernel kernel) {
  if (takes_int8(kernel)) return "int8";
  const bool half = kernel == MatmulKernel::kGemmHalf || kernel == MatmulKernel::kHopperGemm;
  return half ? "f16" : "f32";
}

}  // namespace

MatmulChoice choose_matmul(const Caps& caps, const Gates& gates, const MatmulQuery& query) {
  const Context context{caps, gates, query};
  const TypeLayout* layout = find_layout(query.type);
  MatmulChoice choice;
  for (const Rule& rule : kRules) {
    if (!rule.suits(context)) continue;
    const bool reference = gates.on(Gate::kReference) && rule.kernel != MatmulKernel::kGeneric;
    const std::string reason = reference ? "MINFER_CUDA_REFERENCE" : rule.refuse(context);
    if (reason.empty()) {
      choice.kernel = rule.kernel;
      choice.label = text(rule.name, "_", layout ? layout->name : "?", "/",
                          activation_name(rule.kernel), " activations");
      return choice;
    }
    choice.why += text(choice.why.empty() ? "" : "; ", rule.name, ": ", reason);
  }
  return choice;
}

PrefillAttention choose_prefill_attention(const Caps& caps, const Gates& gates,
                                          const AttentionCall& shape, std::string& why) {
  const std::string dims = text("head dims ", shape.kv.dim_k, ", ", shape.kv.dim_v, ", KV type ",
                                shape.kv.type, ", pages of ", shape.kv.page_tokens);
  const auto refuse = [&](const char* kernel, const std::string& reason) {
    if (!reason.empty()) why += text(why.empty() ? "" : "; ", kernel, ": ", reason);
    return !reason.empty();
  };
  const auto refuse_any = [&]() -> std::string {
    if (gates.on(Gate::kReference)) return "MINFER_CUDA_REFERENCE";
    if (gates.on(Gate::kNoTiledAttention)) return "MINFER_NO_TILED_ATTENTION";
    return {};
  };
  const auto refuse_hopper_attention = [&]() -> std::string {
    if (const std::string reason = refuse_any(); !reason.empty()) return reason;
    if (gates.on(Gate::kNoHopperAttention)) return "MINFER_NO_HOPPER_ATTENTION";
    if (const std::string reason = refuse_hopper(caps, gates); !reason.empty()) return reason;
    return hopper::attention_fits(shape) ? "" : dims;
  };
  const auto refuse_tiled = [&]() -> std::string {
    if (const std::string reason = refuse_any(); !reason.empty()) return reason;
    if (caps.cc < 80) return "needs compute capability 8.0";
    return attention_tiled_supports(shape) ? "" : dims;
  };
  if (caps.cc == 90 && !refuse("hopper_attention", refuse_hopper_attention())) {
    return PrefillAttention::kHopper;
  }
  return refuse("attention_tiled", refuse_tiled()) ? PrefillAttention::kNone
                                                   : PrefillAttention::kTiled;
}

std::string describe_dispatch(const Caps& caps, const Gates& gates) {
  constexpr uint32_t kTypes[] = {
      MINFER_TYPE_F32,  MINFER_TYPE_F16,    MINFER_TYPE_BF16,   MINFER_TYPE_Q4_0,
      MINFER_TYPE_Q4_1, MINFER_TYPE_Q5_0,   MINFER_TYPE_Q5_1,   MINFER_TYPE_Q8_0,
      MINFER_TYPE_Q2_K, MINFER_TYPE_Q3_K,   MINFER_TYPE_Q4_K,   MINFER_TYPE_Q5_K,
      MINFER_TYPE_Q6_K, MINFER_TYPE_IQ4_NL, MINFER_TYPE_IQ4_XS, MINFER_TYPE_MXFP4};
  constexpr int64_t kMost = 4096;
  std::string out;
  for (uint32_t type : kTypes) {
    int64_t first = 1;
    std::string label = choose_matmul(caps, gates, {type, 4096, 4096, 1}).label;
    for (int64_t tokens = 2; tokens <= kMost + 1; ++tokens) {
      const std::string next =
          tokens > kMost ? "" : choose_matmul(caps, gates, {type, 4096, 4096, tokens}).label;
      if (next == label) continue;
      out += text(first, tokens > kMost ? "+" : text("-", tokens - 1), " tokens: ", label, "\n");
      first = tokens;
      label = next;
    }
  }
  return out;
}

}  // namespace minfer_cuda

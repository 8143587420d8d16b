#!/usr/bin/env python3
"""Records logits of tiny random f32 models as Hugging Face transformers computes them on the CPU.

usage: record_transformers.py OUT.json         (needs: pip install torch transformers numpy)

Weights are not stored: both sides draw them from the tensor's GGUF name. Element i of a tensor is
splitmix64(fnv1a64(name) + i * 0x9e3779b97f4a7c15) >> 40, a 24-bit integer u, as
(u / 2^23 - 1) * sqrt(3 / row length) for matrices, 1 + 0.2 * (u / 2^23 - 1) for norm weights and
0.2 * (u / 2^23 - 1) for biases. apps/minfer-conformance/tiny_models.cpp builds the GGUF files by the same rule.
"""
import json, math, sys
import numpy as np
import torch
import transformers as tf

TOKENS = [3, 17, 250, 99, 0, 128, 64, 65, 66, 201, 7, 7, 31, 180, 12, 5, 222, 90, 91, 4,
          33, 44, 55, 66, 77, 88, 99, 110, 121, 132, 143, 154]

def uniform(name, n):
    h = 0xcbf29ce484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001b3) & 0xffffffffffffffff
    with np.errstate(over="ignore"):
        golden = np.uint64(0x9e3779b97f4a7c15)
        z = np.uint64(h) + np.arange(n, dtype=np.uint64) * golden + golden
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(40)).astype(np.float64) / (1 << 23) - 1.0

def values(name, shape):
    u = uniform(name, int(np.prod(shape)))
    if name.endswith("norm.weight"):
        u = 1.0 + 0.2 * u
    elif name.endswith(".bias"):
        u = 0.2 * u
    else:
        u = u * math.sqrt(3.0 / shape[-1])
    return u.astype(np.float32).reshape(shape)

LAYER = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
         "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm"}

def gguf_name(hf, arch):
    hf = hf.removeprefix("model.").removeprefix("language_model.")
    if hf == "embed_tokens.weight": return "token_embd.weight"
    if hf == "norm.weight": return "output_norm.weight"
    if hf == "lm_head.weight": return "output.weight"
    _, layer, rest = hf.split(".", 2)
    base, kind = rest.rsplit(".", 1)
    names = dict(LAYER)
    if arch == "gemma3":
        names |= {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
                  "post_feedforward_layernorm": "post_ffw_norm"}
    else:
        names["post_attention_layernorm"] = "ffn_norm"
    return f"blk.{layer}.{names[base]}.{kind}"

def unpermute(w, heads):
    """GGUF keeps Llama's Q and K with pairs interleaved; transformers wants the halves apart."""
    rows = w.shape[0] // heads
    return w.reshape(heads, rows // 2, 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)

COMMON = dict(vocab_size=256, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
              num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512, rms_norm_eps=1e-6)
MODELS = {
    "qwen2": (tf.Qwen2ForCausalLM, tf.Qwen2Config(**COMMON, rope_theta=1e6, tie_word_embeddings=False)),
    "qwen2_tied": (tf.Qwen2ForCausalLM, tf.Qwen2Config(**COMMON, rope_theta=1e4, tie_word_embeddings=True)),
    "qwen3": (tf.Qwen3ForCausalLM, tf.Qwen3Config(**COMMON, head_dim=32, rope_theta=1e6, tie_word_embeddings=False)),
    "llama": (tf.LlamaForCausalLM, tf.LlamaConfig(**COMMON, rope_theta=1e4, tie_word_embeddings=False)),
    "llama3": (tf.LlamaForCausalLM, tf.LlamaConfig(**COMMON, tie_word_embeddings=True, rope_theta=500000.0,
               rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                 original_max_position_embeddings=64))),
    "gemma3": (tf.Gemma3ForCausalLM, tf.Gemma3TextConfig(**COMMON | dict(num_hidden_layers=7), head_dim=32,
               query_pre_attn_scalar=32, sliding_window=8, rope_theta=1e6, rope_local_base_freq=1e4)),
}

def main(out_path):
    cases = []
    for label, (cls, config) in MODELS.items():
        arch = label.split("_")[0].replace("llama3", "llama")
        config._attn_implementation = "eager"
        model = cls(config).to(torch.float32).eval()
        state = {}
        for name, p in model.state_dict().items():
            if name == "lm_head.weight" and config.tie_word_embeddings: continue
            g = gguf_name(name, arch)
            w = values(g, tuple(p.shape))
            if arch == "llama" and (g.endswith("attn_q.weight") or g.endswith("attn_k.weight")):
                w = unpermute(w, config.num_attention_heads if "attn_q" in g else config.num_key_value_heads)
            if arch == "gemma3" and g.endswith("norm.weight"): w = w - 1.0  # GGUF adds the 1
            state[name] = torch.from_numpy(np.ascontiguousarray(w))
        model.load_state_dict(state, strict=False)
        if config.tie_word_embeddings: model.tie_weights()
        with torch.no_grad():
            logits = model(torch.tensor([TOKENS])).logits[0].double().numpy()
        case = {"label": label, "arch": arch,
                "rows": {str(r): [float(f"{x:.7g}") for x in logits[r]] for r in (0, 9, len(TOKENS) - 1)}}
        if label == "llama3":
            inv = model.model.rotary_emb.inv_freq.double().numpy()
            d = config.hidden_size // config.num_attention_heads
            plain = 1.0 / (500000.0 ** (np.arange(0, d, 2) / d))
            case["rope_freqs"] = [float(f"{x:.9g}") for x in plain / inv]
        cases.append(case)
        print(label, logits[-1][:4], file=sys.stderr)
    with open(out_path, "w") as f:
        json.dump({"source": f"transformers {tf.__version__}, torch {torch.__version__}", "tokens": TOKENS,
                   "cases": cases}, f, separators=(",", ":"))
        f.write("\n")

if __name__ == "__main__":
    if len(sys.argv) != 2: raise SystemExit(__doc__)
    main(sys.argv[1])

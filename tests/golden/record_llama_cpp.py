#!/usr/bin/env python3
"""Records greedy tokens and prompt logits of a GGUF model as llama.cpp computes them on the CPU.

usage: record_llama_cpp.py MODEL.gguf OUT.json      (needs: pip install llama-cpp-python numpy)

For each prompt: its token ids, 64 greedy tokens with the two best logits at each step (so that a
near-tie can be told from a fault), and the logits after the prompt at 1,024 fixed vocabulary ids beside
the 64 best, which is enough for a relative error. The prompts are our own text; the long one is made
by a small generator so that it stays out of the repository. Tests read the recorded file only.
"""
import ctypes, json, os, sys
import numpy as np
import llama_cpp

QUIET = llama_cpp.llama_log_callback(lambda *_: None)  # lives as long as the process
GREEDY = 64
SAMPLED_IDS = 1024

def long_text(words=962):
    """Deterministic prose-like text, about 1,500 tokens: sentences over a small vocabulary."""
    subjects = ["The river", "A clerk", "Our engine", "The old map", "Every pilot", "The garden"]
    verbs = ["carries", "describes", "forgets", "measures", "follows", "repairs"]
    objects = ["the quiet harbour", "three brass keys", "a list of names", "the northern road",
               "an unfinished letter", "the price of salt"]
    state, out = 12345, []
    while sum(len(s.split()) for s in out) < words:
        pick = []
        for options in (subjects, verbs, objects):
            state = (state * 1103515245 + 12345) % (1 << 31)
            pick.append(options[(state >> 16) % len(options)])
        out.append(" ".join(pick) + f" in year {1700 + len(out)}.")
    return " ".join(out) + " In short,"

PROMPTS = {
    "fact": "The capital of France is",
    "code": "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n",
    "list": "Five fruits that grow on trees:\n1.",
    "dialogue": "Alice: Did you finish the report?\nBob: Almost. I still need to",
    "unicode": "Les élèves étudient à l'école. Die Straße ist lang. 東京は",
    "long": long_text(),
}

def logits_of(ctx, n_vocab, row):
    return np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(ctx, row), (n_vocab,)).astype(np.float64)

def decode(ctx, tokens, start, want_last=True):
    batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for i, token in enumerate(tokens):
        batch.token[i], batch.pos[i] = token, start + i
        batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
        batch.logits[i] = 1 if want_last and i == len(tokens) - 1 else 0
    rc = llama_cpp.llama_decode(ctx, batch)
    llama_cpp.llama_batch_free(batch)
    if rc:
        raise SystemExit(f"llama_decode returned {rc}")

def main(model_path, out_path):
    llama_cpp.llama_backend_init()
    llama_cpp.llama_log_set(QUIET, ctypes.c_void_p())
    model = llama_cpp.llama_model_load_from_file(model_path.encode(), llama_cpp.llama_model_default_params())
    vocab = llama_cpp.llama_model_get_vocab(model)
    n_vocab = llama_cpp.llama_vocab_n_tokens(vocab)
    params = llama_cpp.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = 4096, 512, 512
    params.n_threads = params.n_threads_batch = os.cpu_count()
    ids = np.unique(np.random.default_rng(7).integers(0, n_vocab, SAMPLED_IDS))
    cases = []
    for name, text in PROMPTS.items():
        raw = text.encode()
        buffer = (llama_cpp.llama_token * (len(raw) + 8))()
        n = llama_cpp.llama_tokenize(vocab, raw, len(raw), buffer, len(buffer), True, False)
        tokens = list(buffer[:n])
        ctx = llama_cpp.llama_init_from_model(model, params)
        for start in range(0, n, 512):
            decode(ctx, tokens[start:start + 512], start)
        logits = logits_of(ctx, n_vocab, -1)
        best = np.argsort(-logits)[:64]
        prompt_ids = np.unique(np.concatenate([ids, best]))
        case = {"name": name, "tokens": tokens, "logit_ids": prompt_ids.tolist(),
                "logits": [round(float(x), 5) for x in logits[prompt_ids]], "greedy": [], "top2": []}
        for step in range(GREEDY):
            order = np.argpartition(-logits, 2)[:2]
            order = order[np.argsort(-logits[order])]
            case["greedy"].append(int(order[0]))
            case["top2"].append([int(order[1]), round(float(logits[order[0]] - logits[order[1]]), 4)])
            decode(ctx, [int(order[0])], n + step)
            logits = logits_of(ctx, n_vocab, -1)
        llama_cpp.llama_free(ctx)
        cases.append(case)
        print(f"{name}: {n} prompt tokens", file=sys.stderr)
    with open(out_path, "w") as f:
        json.dump({"model": os.path.basename(model_path), "source": f"llama-cpp-python {llama_cpp.__version__}",
                   "vocab": n_vocab, "cases": cases}, f, separators=(",", ":"))
        f.write("\n")

if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(sys.argv[1], sys.argv[2])

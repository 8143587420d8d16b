#!/usr/bin/env python3
"""Compares minfer's token ids with llama.cpp's on texts made at random.

usage: compare_tokenizer.py TOOL VOCAB.gguf [--pre NAME] [--texts N] [--seed N] [--special] [--show N]

TOOL is the test binary tokenizer_batch. Needs the Python package llama-cpp-python. With --pre, the
vocabulary is tokenized by another pre-tokeniser than its own (byte-level BPE only, file without
tensors). With --special, texts hold special tokens, are parsed with them, and BOS and EOS are added.
A BOS that llama.cpp doubles is taken out of its ids. Prints the texts where ids differ, and exits 1 if
there are any. Known differences, where minfer does as the tokenizers library: gpt-4o and tekken keep
combining marks in words; deepseek-llm and deepseek-coder see U+3000 and other wide spaces as what they
are; ordinary tokens such as </s> in Qwen's vocabulary are no control tokens.
"""
import argparse
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

CODE = ["def f(x):\n    return x**2\n", "for (int i = 0; i < n; ++i) {\n\t\tsum += a[i];\n\t}\n",
        "#include <vector>\r\n", "x=1;y=2  # ok\n\n\n", "{\"key\": [1, 2.5e-3, null]}", "<p class='a'>",
        "SELECT * FROM t WHERE a>=10;", "a_b-c/d\\e", "https://example.org/?q=1&r=%20", "CamelCaseWord",
        "snake_case_word", "HTTPServer2", "0x1F600", "3.14159", "1,000,000", "it's", "I'LL", "we'Ve"]
SPACES = [" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", " \n", "\n ", "\u00a0", "\u3000", "\u2003", "\x0b",
          "\x0c", "\u0085", "\u2028", " \t \n  ", " " * 17]
WORDS = ["the", "Hello", "world", "I", "ÄÖÜ", "straße", "naïve", "Привет", "мир", "Ελλάδα", "你好世界",
         "日本語", "カタカナ", "한국어", "हिन्दी", "العربية", "עברית", "ไทย", "កាន់តែ", "🚀", "👨‍👩‍👧", "😶‍🌫️", "é", "ﬁ",
         "123", "12345", "１２３", "Ⅷ", "½", "²", "٣", "!!", "...", "—", "“q”", "$%^", "~|`", "«»", "。", "、"]


def assigned(rng):
    """A character that has had the same category since Unicode 13 or so."""
    while True:
        point = rng.choice([rng.randrange(0x20, 0x250), rng.randrange(0x250, 0x3000),
                            rng.randrange(0x3000, 0xD800), rng.randrange(0xE000, 0x11000),
                            rng.randrange(0x1F000, 0x1FB00)])
        c = chr(point)
        if unicodedata.category(c) not in ("Cn", "Co", "Cs") and c not in "\u180e\u017f\u212a":
            return c


def random_text(rng, special):
    parts = []
    for _ in range(rng.randrange(1, 30)):
        kind = rng.randrange(10)
        if kind < 3:
            parts.append(rng.choice(WORDS))
        elif kind < 5:
            parts.append(rng.choice(SPACES))
        elif kind == 5:
            parts.append(rng.choice(CODE))
        elif kind == 6:
            parts.append("".join(assigned(rng) for _ in range(rng.randrange(1, 8))))
        elif kind == 7:
            parts.append("".join(chr(rng.randrange(32, 127)) for _ in range(rng.randrange(1, 12))))
        elif kind == 8:
            parts.append(rng.choice(WORDS + SPACES + CODE) * rng.randrange(1, 9))
        elif special:
            parts.append(rng.choice(special))
    return "".join(parts)


def with_pre(path, name):
    """A copy of a vocabulary file with another `tokenizer.ggml.pre`."""
    data = open(path, "rb").read()
    key = b"tokenizer.ggml.pre" + struct.pack("<I", 8)
    at = data.index(key) + len(key)
    (length,) = struct.unpack_from("<Q", data, at)
    copy = tempfile.NamedTemporaryFile(suffix=".gguf")
    copy.write(data[:at] + struct.pack("<Q", len(name)) + name.encode() + data[at + 8 + length:])
    copy.flush()
    return copy


def minfer_ids(tool, path, texts, flags):
    frames = b"".join(struct.pack("<IB", len(t), flags) + t for t in texts)
    run = subprocess.run([tool, path], input=frames, capture_output=True, check=False)
    if run.returncode != 0:
        sys.exit(run.stderr.decode())
    return [[int(i) for i in line.split()] for line in run.stdout.decode().split("\n")[0:-1:2]]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("tool")
    parser.add_argument("vocab")
    parser.add_argument("--pre")
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--special", action="store_true")
    parser.add_argument("--show", type=int, default=5)
    args = parser.parse_args()
    from llama_cpp import Llama

    copy = with_pre(args.vocab, args.pre) if args.pre else None
    path = copy.name if copy else args.vocab
    llama = Llama(path, vocab_only=True, verbose=False)
    special, doubles_bos = [], False
    if args.special:
        from llama_cpp import llama_vocab_get_add_bos, llama_vocab_get_attr, llama_vocab_get_text
        vocab = llama._model.vocab
        doubles_bos = llama_vocab_get_add_bos(vocab)
        special = [llama_vocab_get_text(vocab, i).decode() for i in range(llama.n_vocab())
                   if llama_vocab_get_attr(vocab, i) & (8 | 16)][:200]
    rng = random.Random(args.seed)
    texts = [random_text(rng, special).encode() for _ in range(args.texts)]
    ours = minfer_ids(args.tool, path, texts, 3 if args.special else 0)
    differing = 0
    for text, found in zip(texts, ours):
        expected = llama.tokenize(text, add_bos=args.special, special=args.special)
        if doubles_bos and len(expected) > 1 and expected[0] == expected[1] == llama.token_bos():
            expected = expected[1:]
        if found == expected:
            continue
        differing += 1
        if differing <= args.show:
            at = next((i for i, (a, b) in enumerate(zip(found, expected)) if a != b),
                      min(len(found), len(expected)))
            print(f"{text.decode()!r}\n  at {at}: minfer {found[at:at + 8]}, "
                  f"llama.cpp {expected[at:at + 8]}")
    print(f"{args.vocab} {args.pre or ''}: {differing} of {len(texts)} texts differ")
    sys.exit(differing > 0)


if __name__ == "__main__":
    main()

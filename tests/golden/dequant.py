#!/usr/bin/env python3
"""Records what the `gguf` Python package makes of random blocks of every weight type.

Writes tests/golden/dequant.txt, one line per type: number, name, the bytes of eight blocks in hex, and
the 64-bit FNV-1a hash of the dequantised values as little-endian f32. Run it again after adding a
type: `pip install gguf numpy; tests/golden/dequant.py`.
"""
import pathlib

import gguf
import numpy as np

TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K",
         "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"]
BLOCKS = 8


def fnv1a(data: bytes) -> int:
    value = 0xcbf29ce484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return value


def main() -> None:
    rng = np.random.default_rng(20240607)
    lines = []
    for name in TYPES:
        kind = gguf.GGMLQuantizationType[name]
        _, size = gguf.GGML_QUANT_SIZES[kind]
        # NaN has many bit patterns: draw until every value is finite.
        while True:
            raw = rng.integers(0, 256, size=BLOCKS * size, dtype=np.uint8)
            with np.errstate(all="ignore"):
                if name == "F32":
                    values = raw.view(np.float32)
                elif name == "F16":
                    values = raw.view(np.float16).astype(np.float32)
                else:
                    values = gguf.dequantize(raw.reshape(1, -1), kind).reshape(-1)
            if np.isfinite(values).all():
                break
        digest = fnv1a(values.astype("<f4").tobytes())
        lines.append(f"{int(kind)} {name} {raw.tobytes().hex()} {digest:016x}\n")
    path = pathlib.Path(__file__).with_name("dequant.txt")
    path.write_text("".join(lines))
    print(f"{len(lines)} types, {path.stat().st_size} bytes in {path}")


if __name__ == "__main__":
    main()

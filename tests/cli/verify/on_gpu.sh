#!/bin/sh
# Plants a wrong nibble in one layer of a small model and expects minfer-verify to name its node on a
# GPU; then expects an unharmed model to pass. usage: on_gpu.sh BIN_FOLDER [DEVICE]
set -eu
bin=$1
device=${2:-cuda}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$bin/minfer-synth" --preset tiny --quant q4_k_m --vocab bytes -o "$folder/good.gguf" >/dev/null
cp "$folder/good.gguf" "$folder/harmed.gguf"
# Byte 21 of the nibbles of row 17 of a Q4_K matrix with rows of one block (144 bytes, nibbles from 16).
start=$("$bin/minfer-inspect" "$folder/good.gguf" --json |
  sed 's/.*"name":"blk.1.ffn_up.weight"[^}]*"offset":\([0-9]*\).*/\1/')
at=$((start + 17 * 144 + 16 + 21))
byte=$(od -An -tu1 -j "$at" -N 1 "$folder/good.gguf")
printf "$(printf '\\%03o' $((byte ^ 8)))" |
  dd of="$folder/harmed.gguf" bs=1 seek="$at" conv=notrunc status=none
"$bin/minfer-verify" -q --device "$device" -m "$folder/good.gguf"
status=0
"$bin/minfer-verify" -q --device "$device" -m "$folder/harmed.gguf" --reference-model "$folder/good.gguf" \
  --check parity >"$folder/out" || status=$?
grep "first node that differs" "$folder/out"
[ "$status" = 1 ]
grep -q "first node that differs: .*blk.1.ffn_up.weight.*row 17" "$folder/out"
echo "found"

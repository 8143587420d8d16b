#!/bin/sh
# Builds the exercises for the GPU at hand and runs them, one after the other; the first wrong one
# ends it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$(mktemp -d)}
for exercise in vector_loads dequant_grain tile_height; do
  echo "== $exercise"
  "${CUDACXX:-nvcc}" -O2 -std=c++17 -arch=native "$here/$exercise.cu" -o "$out/$exercise"
  "$out/$exercise"
done

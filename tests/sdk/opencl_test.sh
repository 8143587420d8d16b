#!/usr/bin/env bash
# examples/plugin-opencl, built out of tree against the installed tree: whole models on it with the CPU
# plugin's tokens, or a shown near-tie.
set -euo pipefail
. "$(dirname "$0")/sdk.sh"
echo '#include <CL/cl.h>' | cc -fsyntax-only -xc - 2>/dev/null ||
  skip "there are no OpenCL headers (Debian: opencl-headers ocl-icd-opencl-dev pocl-opencl-icd)"

# Drivers compile kernels at run time: what they keep stays out of the user's cache.
export POCL_CACHE_DIR=$work/kernels
mkdir "$POCL_CACHE_DIR"
build_example plugin-opencl
plugin=$(find "$work/plugin-opencl" -name 'libminfer_opencl.so')
check_exports "$plugin"
mkdir "$work/plugins"
cp "$plugin" "$work/plugins/"
MINFER_PLUGIN_PATH=$work/plugins "$prefix/bin/minfer-run" --list-devices >"$work/devices"
grep -q opencl:0 "$work/devices" || skip "OpenCL has no device: $(grep -A1 opencl "$work/devices")"

check_conformance "$plugin"
compare_with_cpu opencl "$work/plugins"

say "matrices in blocks of their file, frequency factors, and a KV cache in q8_0"
for quant in q8_0 q4_0 q6_k; do
  "$prefix/bin/minfer-synth" --preset tiny-llama --quant "$quant" --vocab bytes -o "$work/$quant.gguf" >&2
  "$binary_dir/tests/compare_devices" --model "$work/$quant.gguf" --second opencl --tokens 8 --cache-type q8_0
done

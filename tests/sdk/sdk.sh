# Shared by the SDK's tests: an installed tree of this build, a tiny model, and examples built against
# it as strangers would build them. Sourced; expects MINFER_SOURCE_DIR, MINFER_BINARY_DIR and
# MINFER_SDK_DIR (the installed tree, made by install_test.sh) in the environment.

source_dir=${MINFER_SOURCE_DIR:?}
binary_dir=${MINFER_BINARY_DIR:?}
prefix=${MINFER_SDK_DIR:?}/tree
tiny=$MINFER_SDK_DIR/tiny.gguf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { printf '%s\n' "-- $*" >&2; }
die() { printf '%s\n' "error: $*" >&2; exit 1; }
# ctest counts status 77 as a skipped test and shows the reason.
skip() { printf '%s\n' "skipped: $*" >&2; exit 77; }

# Programs and plugins come from the installed tree alone.
unset MINFER_PLUGIN_PATH
prefix_pkgconfig=$(dirname "$(find "$prefix" -name minfer-core.pc)") || true

# build_example NAME [CMAKE-ARGUMENT...]: examples/NAME, copied out of the tree first, into $work/NAME.
build_example() {
  local name=$1
  shift
  cp -r "$source_dir/examples/$name" "$work/$name-source"
  cmake -G Ninja -S "$work/$name-source" -B "$work/$name" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_COMPILE_WARNING_AS_ERROR=ON "$@" >"$work/log" 2>&1 &&
    cmake --build "$work/$name" >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    die "examples/$name does not build against $prefix"
  }
}

# check_exports FILE: the plugin shows the loader its entry and nothing else.
check_exports() {
  local symbols
  symbols=$(nm -D --defined-only "$1" | awk '{print $3}')
  [ "$symbols" = minfer_plugin_query_v1 ] || die "$1 exports: $symbols"
}

# check_conformance FILE: the kit, but for what only takes long: speed, and long contexts.
check_conformance() {
  "$prefix/bin/minfer-conformance" --plugin "$1" --except speed --except attention.LongContextDecode >"$work/report" ||
    { cat "$work/report" >&2; die "minfer-conformance found faults"; }
  tail -n 1 "$work/report" >&2
}

# compare_with_cpu BACKEND FOLDER: whole models on the plugin in FOLDER, against the CPU plugin's scalar
# kernels: the tiny model, and SmolLM2 where MINFER_TEST_MODEL names it.
compare_with_cpu() {
  local backend=$1 cpu="cpu,MINFER_CPU_ISA=scalar" text
  export MINFER_PLUGIN_PATH=$2
  say "the tiny model"
  "$binary_dir/tests/compare_devices" --model "$tiny" --first "$cpu" --second "$backend" --tokens 16
  for device in cpu "$backend"; do
    "$prefix/bin/minfer-run" --model "$tiny" --device "$device" --gate cpu:MINFER_CPU_ISA=scalar \
      --no-template --temp 0 -n 24 --quiet --prompt "a text" >"$work/$device.txt"
  done
  cmp "$work/cpu.txt" "$work/$backend.txt" || say "note: the texts part; see the near-tie above"
  if [ -z "${MINFER_TEST_MODEL:-}" ]; then
    say "SmolLM2: skipped, MINFER_TEST_MODEL names no file"
    return 0
  fi
  say "SmolLM2"
  "$binary_dir/tests/compare_devices" --model "$MINFER_TEST_MODEL" --first "$cpu" --second "$backend" \
    --prompt "The capital of France is" --tokens 12
}

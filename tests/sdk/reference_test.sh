#!/usr/bin/env bash
# examples/plugin-reference, built out of tree against the installed tree: one symbol, at most 800 lines,
# and whole models with the CPU plugin's tokens. compare_devices feeds both the same tokens and shows
# every near-tie where the best ones differ.
set -euo pipefail
. "$(dirname "$0")/sdk.sh"

say "it has at most 800 lines"
lines=$(cat "$source_dir"/examples/plugin-reference/*.[ch] | wc -l)
[ "$lines" -le 800 ] || die "it has $lines"

say "it builds with CMake, and with pkg-config alone"
build_example plugin-reference
plugin=$(find "$work/plugin-reference" -name 'libminfer_reference.so')
export PKG_CONFIG_PATH=$prefix_pkgconfig
# shellcheck disable=SC2046
cc -std=c11 -O2 -shared -fPIC -fvisibility=hidden $(pkg-config --cflags minfer-plugin-abi) \
  "$source_dir"/examples/plugin-reference/*.c -lm -o "$work/by-hand.so"

say "a user's one file: installed where the core looks, it is listed"
cmake --install "$work/plugin-reference" --prefix "$work/elsewhere" >/dev/null
check_exports "$plugin"
mkdir -p "$work/plugins"
cp "$plugin" "$work/plugins/"
MINFER_PLUGIN_PATH=$work/plugins "$prefix/bin/minfer-run" --list-devices | grep -q reference:0 ||
  die "minfer-run --list-devices does not show it"

check_conformance "$plugin"
compare_with_cpu reference "$work/plugins"

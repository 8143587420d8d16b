#!/usr/bin/env bash
# Made the files beside this script when ABI 1.0 was frozen; run it again only for a new minor, with another
# name. The reference backend as gcc and as clang build it, stripped, for x86-64, and what libabigail reads out
# of a file that has every type of plugin_abi.h in its debug information. Every build of the core loads the
# former and runs the conformance kit on them, and is compared with the latter.
# usage: make.sh VERSION
set -euo pipefail
version=${1:?e.g. 1.0}
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../../..
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for compiler in gcc clang; do
  "$compiler" -std=c11 -O2 -shared -fPIC -fvisibility=hidden -I "$root/core/include" \
    "$root"/examples/plugin-reference/*.c -Wl,--version-script="$root/examples/plugin-reference/plugin.map" \
    -Wl,--gc-sections -lm -o "$work/plugin.so"
  strip --strip-unneeded "$work/plugin.so"
  cp "$work/plugin.so" "$here/reference-$version-$compiler.so"
done
gcc -std=c11 -g -shared -fPIC -I "$root/core/include" "$here/types.c" -o "$work/types.so"
abidw --no-corpus-path --no-comp-dir-path --short-locs --type-id-style hash "$work/types.so" >"$here/plugin_abi-$version.abi"
ls -l "$here"

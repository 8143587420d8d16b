#!/usr/bin/env bash
# examples/engine, built out of tree against the installed tree with CMake and with pkg-config, answers
# as minfer-run does.
set -euo pipefail
. "$(dirname "$0")/sdk.sh"

say "with find_package"
build_example engine
from_cmake=$("$work/engine/minfer-engine-example" "$tiny" "a text" 16 cpu)

say "with pkg-config"
export PKG_CONFIG_PATH=$prefix_pkgconfig
# shellcheck disable=SC2046
c++ -std=c++20 "$source_dir/examples/engine/main.cpp" $(pkg-config --cflags --libs minfer-core) \
  -Wl,-rpath,"$(pkg-config --variable=libdir minfer-core)" -o "$work/from-pkg-config"
from_pkg_config=$("$work/from-pkg-config" "$tiny" "a text" 16 cpu)

expected=$("$prefix/bin/minfer-run" --model "$tiny" --device cpu --no-template --temp 0 -n 16 --quiet --prompt "a text")
[ "$from_cmake" = "$expected" ] || die "built with CMake it says '$from_cmake', minfer-run '$expected'"
[ "$from_pkg_config" = "$expected" ] || die "built with pkg-config it says '$from_pkg_config', minfer-run '$expected'"

say "errors are for people"
status=0
text=$("$work/engine/minfer-engine-example" /nonexistent.gguf x 2>&1) || status=$?
[ "$status" -ne 0 ] && [[ $text == *nonexistent.gguf* ]] || die "status $status, '$text'"

say "the version file refuses another minor"
cat >"$work/wrong.cmake" <<'TEXT'
find_package(minfer 0.9 CONFIG REQUIRED)
TEXT
if cmake -DCMAKE_PREFIX_PATH="$prefix" -P "$work/wrong.cmake" >"$work/log" 2>&1; then
  die "find_package(minfer 0.9) was content with this version"
fi
grep -q "0.9" "$work/log" || die "no version in: $(cat "$work/log")"

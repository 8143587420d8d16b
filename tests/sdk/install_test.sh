#!/usr/bin/env bash
# Installs this build into an empty folder and moves it, for the SDK's other tests: nothing installed
# may depend on where it was built or first installed.
set -euo pipefail
: "${MINFER_SDK_DIR:?}" "${MINFER_BINARY_DIR:?}"
rm -rf "$MINFER_SDK_DIR"
mkdir -p "$MINFER_SDK_DIR"
cmake --install "$MINFER_BINARY_DIR" --prefix "$MINFER_SDK_DIR/first" >/dev/null
mv "$MINFER_SDK_DIR/first" "$MINFER_SDK_DIR/tree"
. "$(dirname "$0")/sdk.sh"

"$prefix/bin/minfer-synth" --preset tiny --quant q4_k_m --vocab bytes -o "$tiny" >&2

say "the installed text files name no folder of the build"
if grep -rIl -e "$binary_dir" -e "$source_dir" "$prefix" >"$work/found"; then
  die "these do: $(cat "$work/found")"
fi

say "every public header compiles alone: C11 where a plugin needs it, C++20"
for header in plugin_abi plugin_helper quant_blocks; do
  echo "#include <minfer/$header.h>" | cc -std=c11 -Wall -Wextra -Wpedantic -Werror -Wno-unused-function -I"$prefix/include" -fsyntax-only -xc - ||
    die "minfer/$header.h is no C11"
done
for header in "$prefix"/include/minfer/*.h; do
  echo "#include <minfer/$(basename "$header")>"
done | c++ -std=c++20 -Wall -Wextra -Werror -I"$prefix/include" -fsyntax-only -xc++ - || die "C++20"

say "completion offers a tool's flags"
offered=$(bash -c '. "$1/share/bash-completion/completions/minfer-run"
  _minfer "$1/bin/minfer-run" --dev ""
  echo "${COMPREPLY[*]}"' sh "$prefix")
[ "$offered" = "--device" ] || die "for --dev it offers: $offered"

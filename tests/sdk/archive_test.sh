#!/usr/bin/env bash
# The relocatable archive: small enough to travel, says what it needs, and runs a model wherever it was
# unpacked, without anything of the build or of this user's environment.
set -euo pipefail
. "$(dirname "$0")/sdk.sh"
command -v patchelf >/dev/null || skip "there is no patchelf here (Debian: patchelf)"

(cd "$work" && cpack -G External --config "$binary_dir/CPackConfig.cmake" -B "$work" >"$work/log" 2>&1) ||
  { cat "$work/log" >&2; die "cpack failed"; }
archive=$(find "$work" -maxdepth 1 -name 'minfer-*.tar.xz')
bytes=$(stat -c %s "$archive")
[ "$bytes" -le $((40 << 20)) ] || die "$archive has $bytes bytes"

mkdir "$work/elsewhere"
tar -C "$work/elsewhere" -xf "$archive"
mv "$work/elsewhere/minfer" "$work/elsewhere/moved"
top=$work/elsewhere/moved
grep -qE '^needs glibc 2\.[0-9]+ or newer' "$top/BUNDLE" || die "BUNDLE says: $(cat "$top/BUNDLE")"
say "$((bytes >> 10)) KiB, $(sed -n 2p "$top/BUNDLE")"

outside=$(find "$top" -type f -perm -u+x -exec ldd {} + 2>/dev/null | awk '$3 ~ /^\// {print $3}' | sort -u |
  grep -v "^$top" | grep -vE '/(libc|libm|libdl|libpthread|librt)\.so' || true)
[ -z "$outside" ] || die "it takes from this machine: $outside"
answer=$(env -i "$top/bin/minfer-run" --model "$tiny" --device cpu --no-template --temp 0 -n 16 --quiet --prompt "a text")
expected=$("$prefix/bin/minfer-run" --model "$tiny" --device cpu --no-template --temp 0 -n 16 --quiet --prompt "a text")
[ "$answer" = "$expected" ] || die "it says '$answer', the installed tree '$expected'"

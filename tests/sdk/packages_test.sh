#!/usr/bin/env bash
# The Debian packages: lintian has nothing to say that an override does not explain; core, tools and
# plugin-cpu alone in an empty root run a model, with no trace of CUDA; a third party's plugin is one
# more file there.
set -euo pipefail
. "$(dirname "$0")/sdk.sh"
command -v dpkg-shlibdeps >/dev/null || skip "this system makes no Debian packages"

(cd "$work" && cpack -G DEB --config "$binary_dir/CPackConfig.cmake" -B "$work/packages" >"$work/log" 2>&1) ||
  { cat "$work/log" >&2; die "cpack failed"; }
for package in core plugin-cpu tools dev; do
  ls "$work/packages/minfer-${package}_"*.deb >/dev/null || die "there is no minfer-$package"
done

if command -v lintian >/dev/null; then
  say "lintian"
  lintian --allow-root --fail-on error,warning "$work"/packages/minfer-*.deb >"$work/lintian" 2>&1 ||
    { cat "$work/lintian" >&2; die "lintian is not content"; }
else
  say "lintian: skipped, it is not installed"
fi

[ "$(id -u)" -eq 0 ] || skip "installing into an empty root needs root"
chroot / true 2>/dev/null || skip "chroot is not permitted here"
root=$work/root
mkdir -p "$root"/{var/lib/dpkg/{info,updates},tmp,dev}
touch "$root/var/lib/dpkg/status"
say "core, tools and plugin-cpu in an empty root"
# The root holds no other packages: what ours depend on comes as bare libraries of this system.
dpkg --root="$root" --force-depends --force-script-chrootless --log=/dev/null -i \
  "$work"/packages/minfer-{core,plugin-cpu,tools}_*.deb >"$work/log" 2>&1 ||
  { cat "$work/log" >&2; die "dpkg failed"; }
ldd "$root"/usr/bin/minfer-run "$root"/usr/bin/minfer-synth "$root"/usr/lib/libminfer_core.so.* \
  "$root"/usr/lib/minfer/plugins/*.so | awk '$3 ~ /^\// {print $3} $1 ~ /^\/lib/ {print $1}' | sort -u |
  grep -v "^$root" | while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
  done

[ -z "$(find "$root" -iname '*cuda*' -o -iname '*nvidia*' -o -iname 'libcu*')" ] || die "there is CUDA"
run() { chroot "$root" /usr/bin/"$@"; }
devices=$(run minfer-run --list-devices)
[[ $devices == *cpu:0* ]] || die "no CPU in: $devices"
! grep -qi cuda <<<"$devices" || die "CUDA in: $devices"
run minfer-synth --preset tiny --quant q8_0 --vocab bytes -o /tmp/tiny.gguf >&2
ask() { run minfer-run --model /tmp/tiny.gguf --device "$1" --no-template --temp 0 -n 16 --quiet --prompt "a text"; }
expected=$(ask cpu)
[ -n "$expected" ] || die "no answer"

say "a third party's plugin is one more file"
build_example plugin-reference
cp "$work/plugin-reference/libminfer_reference.so" "$root/usr/lib/minfer/plugins/"
answer=$(ask reference)
[ "$answer" = "$expected" ] || die "the reference says '$answer', the CPU '$expected'"

say "removing a package leaves none of its files"
dpkg --root="$root" --force-script-chrootless --log=/dev/null -r minfer-plugin-cpu >/dev/null
[ ! -e "$root/usr/lib/minfer/plugins/libminfer_cpu.so" ] || die "the plugin is still there"
answer=$(ask reference)
[ "$answer" = "$expected" ] || die "without the CPU plugin the reference says '$answer'"

# Shared by the scripts here: where things are, and how to install what the build needs.
# Sourced, not run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/minfer

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

# Debian packages that a build needs. Boost 1.81's headers conflict with those of 1.74: apt is told not
# to remove anything, so a machine that has the older ones gets a clear refusal instead of a surprise.
packages="build-essential cmake ninja-build ccache pkg-config git python3 unzip
  libboost1.81-dev libboost-program-options1.81-dev libboost-json1.81-dev
  libyaml-cpp-dev libpcre2-dev libfmt-dev libexpected-dev libgtest-dev libbenchmark-dev"

# install_packages NAME...: installs what is missing, as root or with sudo; without either, prints the
# line to run and stops.
install_packages() {
  command -v dpkg-query >/dev/null || {
    say "This is not a Debian system; please install the equivalents of: $*"
    return 0
  }
  local name missing=()
  for name in "$@"; do
    dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing+=("$name")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  local as_root=""
  if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
      as_root="sudo -n"
    else
      say "These packages are missing, and installing them needs root. Please run:"
      say "    apt-get install --no-remove ${missing[*]}"
      exit 1
    fi
  fi
  say "installing: ${missing[*]}"
  local log
  log=$(mktemp)
  { $as_root apt-get update -qq || true  # the lists at hand may do
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-remove \
      --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 || {
    grep -E '^(E|W|Err)' "$log" | head -n 3 >&2
    if grep -q 'but remove is disabled' "$log"; then
      say "minfer needs Boost 1.81 (Boost.JSON), whose headers cannot stand beside those of 1.74: remove"
      say "the older -dev packages yourself and run this again."
    elif grep -qE 'resolving|connect' "$log"; then
      say "Is there a network? With it, this script goes on by itself; or install the packages by hand:"
      say "    apt-get install --no-remove ${missing[*]}"
    fi
    die "could not install the Debian packages (the whole log: $log)"
  }
  rm -f "$log"
}

# build PRESET [TARGET...]: configures once and builds; output only when something goes wrong.
build() {
  local preset=$1 log
  shift
  log=$(mktemp)
  cd "$root" || exit 1
  { [ -f "build/$preset/build.ninja" ] || cmake --preset "$preset" >"$log" 2>&1; } || {
    cat "$log" >&2
    die "cmake --preset $preset failed"
  }
  if [ $# -eq 0 ]; then set -- all; fi
  ninja -C "build/$preset" "$@" >"$log" 2>&1 || {
    tail -n 60 "$log" >&2
    die "the build failed (the whole log: $log)"
  }
  rm -f "$log"
}

# Bash completion for minfer's tools: options as `TOOL --help` lists them, devices and gates as
# minfer-run does; files elsewhere.

_minfer() {
  local tool=$1 current=$2 previous=$3 words
  case $previous in
    --device | --first | --second)
      words=$("${tool%/*}"/minfer-run --list-devices 2>/dev/null || minfer-run --list-devices 2>/dev/null)
      words=$(grep -oE '\b[a-z0-9_-]+:[0-9]+\b' <<<"$words" | sort -u) ;;
    --cache-type) words="auto f32 f16 q8_0" ;;
    --preset) words=$("$tool" --list 2>/dev/null | awk '{print $1}') ;;
    *)
      [[ $current == -* ]] || return 0
      words=$("$tool" --help 2>/dev/null | grep -oE '(^|[[:space:]])--[a-z][a-z0-9-]*' | sort -u) ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

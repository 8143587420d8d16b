#!/bin/sh
# The conformance kit on a plugin binary of an earlier time, but for what only takes long.
# usage: run.sh MINFER-CONFORMANCE PLUGIN
set -eu
case $(uname -sm) in
  "Linux x86_64") ;;
  *) echo "skipped: the kept binaries are for Linux on x86-64"; exit 77 ;;
esac
only=$("$1" --list | awk '$1 != "speed" && $1 != "attention.LongContextDecode" {print "--only", $1}')
# shellcheck disable=SC2086
"$1" --plugin "$2" $only

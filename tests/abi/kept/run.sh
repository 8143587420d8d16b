#!/bin/sh
# Runs a program on a plugin binary of an earlier time, where that binary can run at all.
# usage: run.sh PLUGIN PROGRAM [ARGUMENT...]    (the program gets --plugin PLUGIN besides)
set -eu
case $(uname -sm) in
  "Linux x86_64") ;;
  *) echo "skipped: the kept binaries are for Linux on x86-64"; exit 77 ;;
esac
plugin=$1
shift
exec "$@" --plugin "$plugin"

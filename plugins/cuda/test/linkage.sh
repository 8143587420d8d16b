#!/bin/sh
# The plugin must load on a machine with nothing but glibc: no CUDA, C++ or compiler library among those
# it needs, and one symbol out. usage: linkage.sh libminfer_cuda.so
set -eu
needed=$(objdump -p "$1" | awk '$1 == "NEEDED" {print $2}')
for library in $needed; do
  case $library in
    libc.so.*|libm.so.*|libdl.so.*|libpthread.so.*|librt.so.*|ld-linux*) ;;
    *) echo "the plugin needs $library"; exit 1 ;;
  esac
done
exported=$(nm -D --defined-only "$1" | awk '{print $3}' | sed 's/@.*//' | grep -v '^MINFER_' | tr '\n' ' ')
[ "$exported" = "minfer_plugin_query_v1 " ] || { echo "exported: $exported"; exit 1; }
echo "needs: $needed; exports: $exported"

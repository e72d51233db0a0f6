#!/bin/sh
# Builds the reference device against the torch of an interpreter. Does nothing where nothing changed.
#   build.sh PYTHON OUTDIR     afterwards OUTDIR holds the importable package `refdev`
set -eu
if [ $# -ne 2 ]; then
  echo "usage: $0 PYTHON OUTDIR" >&2
  exit 2
fi
python=$1
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
# Asking torch itself would import it, which takes seconds.
torch=$("$python" -c '
import importlib.util, os, sys
spec = importlib.util.find_spec("torch")
if spec is None:
    sys.exit("torch is not installed for " + sys.executable + ": install probe/requirements.lock")
print(os.path.dirname(spec.origin))')
build=$out/build
stamp=$build/torch
key="$torch $(cat "$torch/version.py" "$0" | cksum)"
if [ ! -f "$build/build.ninja" ] || [ "$(cat "$stamp" 2>/dev/null)" != "$key" ]; then
  rm -rf "$build"
  launcher=
  if command -v ccache >/dev/null; then launcher=-DCMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
  cmake -S "$here" -B "$build" -G Ninja -DREFDEV_OUTPUT="$out" -DREFDEV_TORCH="$torch" \
    $launcher >"$out/configure.log" 2>&1 || { cat "$out/configure.log" >&2; exit 1; }
  echo "$key" >"$stamp"
fi
cmake --build "$build" -- --quiet >"$out/build.log" 2>&1 || { cat "$out/build.log" >&2; exit 1; }

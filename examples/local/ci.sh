#!/bin/sh
# What a backend's workflow does, for `crosscheck serve --local`: tells the relay that it began, runs the tests on the
# reference device, tells how it ended. Arguments go to `crosscheck run`; without any it runs the quick set.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
crosscheck=${CROSSCHECK_BIN:-$root/build/release/bin/crosscheck}
out=${DEMO_RESULTS:-$root/.crosscheck/results}/$GITHUB_RUN_ID
mkdir -p "$out"
[ $# -gt 0 ] || set -- --quick
"$crosscheck" report start
status=0
"$crosscheck" run --device refdev --no-store \
  --junit "$out/junit.xml" --results "$out/results.jsonl.gz" "$@" || status=$?
"$crosscheck" report finish --results "$out/results.jsonl.gz"
exit "$status"

#!/usr/bin/env bash
# What the action runs. Inputs come as variables, never as text inside a script: they may hold anything.
set -euo pipefail

if command -v crosscheck >/dev/null; then
  crosscheck=crosscheck
else
  # An action is checked out whole: build the program that belongs to this very revision.
  root=$(cd "$GITHUB_ACTION_PATH/../.." && pwd)
  echo "::group::crosscheck is not installed; building it"
  "$root/scripts/setup" build
  "$root/scripts/build" release crosscheck
  echo "::endgroup::"
  crosscheck=$root/build/release/bin/crosscheck
  # The steps that follow call it by its name.
  echo "${crosscheck%/*}" >>"$GITHUB_PATH"
fi

arguments=(--json report "$PHASE" --job "$JOB_NAME")
case $PHASE in
  start) ;;
  finish)
    # GitHub's word for a job that was stopped is the relay's too; anything else it may say is kept.
    arguments+=(--conclusion "$CONCLUSION")
    [ -z "$RESULTS" ] || arguments+=(--results "$RESULTS")
    [ -z "$ARTIFACT_URL" ] || arguments+=(--artifact-url "$ARTIFACT_URL")
    ;;
  *)
    echo "::error::phase: '$PHASE' is neither start nor finish"
    exit 2
    ;;
esac
answer=$("$crosscheck" "${arguments[@]}")
echo "$answer"
word=$(sed -n 's/.*"answer":"\([a-z]*\)".*/\1/p' <<<"$answer")
echo "answer=$word" >>"$GITHUB_OUTPUT"

#!/usr/bin/env bash
# Installs and builds missing parts, then trains on two ranks with the page on port 8765 and prints its URL.
#
#   scripts/demo.sh [--open] [--model smollm2] [flags of `tensor-tracer train`…]
#
#   --open            also opens the page in the default browser
#   --model smollm2   fine-tunes SmolLM2-135M-Instruct with adapters, instead of training a small new model;
#                     fetches the model (93 MB) into build/models
# Ctrl-C ends the run after its step; a second Ctrl-C ends everything at once. scripts/setup.sh --help lists
# the environment variables of the set-up.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

# The text of Python's library that is not worth learning: tests, and what others installed.
excluded_folders=test,tests,idlelib,site-packages,dist-packages,__pycache__

flags=()  # ours, then the caller's
model=    # of --model; empty: a new model

read_arguments() {
  while [[ $# -gt 0 ]]; do
    case $1 in
      --help | -h) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
      --open) flags+=(--tensor-tracer-open) ;;
      --model)
        model=${2:-}
        [[ $model == smollm2 ]] || fail "--model: \"$model\" is not smollm2"
        shift ;;
      *) flags+=("$1") ;;
    esac
    shift
  done
}

# add_default NAME VALUE…: unless the caller gave this flag.
add_default() {
  local given
  for given in "${flags[@]}"; do
    if [[ $given == "$1" || $given == "$1="* ]]; then return; fi
  done
  flags=("$@" "${flags[@]}")
}

add_defaults() {
  local on_terminal=off
  if [[ -t 1 ]]; then
    # Without a terminal the program names the token's file instead, so no log holds the token.
    on_terminal=on
    add_default --print-url
  fi
  add_default --progress-bar "$on_terminal"
  add_default --data-exclude "$excluded_folders"
  add_default --data-path "$(standard_library)" docs
  # What examples/persona_direction.py makes a direction of, and where it puts it.
  mkdir -p build/vectors
  add_default --tensor-tracer-vectors build/vectors
  add_default --monitor-prompts examples/prompts/code.txt examples/prompts/prose.txt
  add_default --tensor-tracer-port 8765
  if [[ $model == smollm2 ]]; then
    add_default --hf-model "$model_folder"
    add_default --config configs/runs/smollm2.json
  else
    add_default --config configs/runs/demo.json
  fi
}

model_folder=build/models/smollm2

# Python's own library, as source: real text that every machine with the set-up has.
standard_library() {
  "$TT_VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("stdlib"))'
}

launcher=(mpirun --quiet -np 2)

# Open MPI asks root to say so, and counts cores where it should count CPUs.
prepare_launcher() {
  if [[ $(id -u) -eq 0 ]]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
  if [[ $(nproc) -lt 2 ]]; then
    launcher+=(--oversubscribe)
  elif [[ $(physical_cores) -lt 2 ]]; then
    launcher+=(--use-hwthread-cpus)
  fi
}

physical_cores() {
  lscpu --parse=CORE,SOCKET 2>/dev/null | grep -v '^#' | sort -u | wc -l
}

run=0        # the launcher's process
interrupts=0

# The launcher passes SIGUSR1 on to the ranks. A kill fails only if the launcher has just ended.
on_interrupt() {
  interrupts=$((interrupts + 1))
  if [[ $interrupts -eq 1 ]]; then
    printf '\nThe run ends after this step. Ctrl-C again ends it at once.\n' >&2
    kill -USR1 "$run" 2>/dev/null || true
  else
    on_termination
  fi
}

on_termination() { kill -TERM "$run" 2>/dev/null || true; }

# run_alone COMMAND…: in a separate process group, so that Ctrl-C reaches this script only.
run_alone() {
  trap on_interrupt INT
  trap on_termination TERM HUP
  set -m
  "$@" </dev/null &
  run=$!
  set +m
  while kill -0 "$run" 2>/dev/null; do
    wait "$run" || true  # a signal to this script ends it early; the code comes from the last wait
  done
  local code=0
  wait "$run" || code=$?
  exit "$code"
}

main() {
  read_arguments "$@"
  cd "$TT_ROOT"
  scripts/setup.sh --for demo
  if [[ $model == smollm2 ]]; then scripts/fetch_smollm2.sh "$model_folder"; fi
  add_defaults
  prepare_launcher
  run_alone "${launcher[@]}" "$TT_BIN_DIR/tensor-tracer" train "${flags[@]}"
}

main "$@"

# shellcheck shell=bash
# shellcheck disable=SC2034  # what is set here is used by the scripts that source this
# Sourced by the scripts of this folder: where things are, numbered stages, one quiet log, stamps.

TT_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
TT_VENV=$TT_ROOT/.venv
TT_LOG=$TT_ROOT/build/setup.log
TT_BIN_DIR=$TT_ROOT/build/release/bin

stage_index=0
stage_count=0
stage_name=""
stage_note=""
stage_started=0
ticker=""

# Starts the log anew and arms the report of a failure. $1: number of stages to come.
begin_stages() {
  stage_count=$1
  mkdir -p "$(dirname "$TT_LOG")"
  : >"$TT_LOG"
  trap report_end EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
}

# run_stage NAME FUNCTION: runs FUNCTION, then prints its stage_note and the time it took.
run_stage() {
  stage_name=$1
  stage_note=""
  stage_index=$((stage_index + 1))
  stage_started=$SECONDS
  printf '\n== %s\n' "$stage_name" >>"$TT_LOG"
  "$2"
  clear_line
  printf '[%d/%d] %s: %s (%d s)\n' "$stage_index" "$stage_count" "$stage_name" \
    "${stage_note:-done}" "$((SECONDS - stage_started))"
  stage_name=""
}

# Runs a command quietly: its output goes to the log, a line that moves shows that it lives.
# Descriptor 9 is the set-up's lock, which no child may keep.
run_logged() {
  printf '+ %s\n' "$*" >>"$TT_LOG"
  start_ticker
  "$@" >>"$TT_LOG" 2>&1 </dev/null 9>&-
  stop_ticker
}

# Ends the script with its own message, without the log.
fail() {
  clear_line
  printf 'error: %s\n' "$1" >&2
  stage_name=""
  exit 1
}

report_end() {
  local status=$?
  stop_ticker
  if [[ $status -eq 130 || $status -eq 143 ]]; then
    clear_line
    echo "interrupted; the next run goes on from here" >&2
  elif [[ $status -ne 0 && -n $stage_name ]]; then
    clear_line
    printf '[%d/%d] %s: FAILED after %d s; the end of %s:\n' "$stage_index" "$stage_count" \
      "$stage_name" "$((SECONDS - stage_started))" "${TT_LOG#"$TT_ROOT"/}" >&2
    tail -n 40 "$TT_LOG" >&2
  fi
}

clear_line() {
  if [[ -t 1 ]]; then printf '\r\033[K'; fi
}

# On a terminal the last log line each second, elsewhere one line a minute.
start_ticker() {
  local period=60
  if [[ -t 1 ]]; then period=1; fi
  (
    trap - EXIT
    trap 'kill "$!"; exit' TERM
    while true; do
      sleep "$period" >/dev/null 2>&1 &
      wait "$!"
      show_progress
    done
  ) 9>&- &
  ticker=$!
}

stop_ticker() {
  if [[ -z $ticker ]]; then return; fi
  kill "$ticker" 2>/dev/null || true
  wait "$ticker" 2>/dev/null || true
  ticker=""
}

show_progress() {
  local head last columns
  head="[$stage_index/$stage_count] $stage_name: $((SECONDS - stage_started)) s"
  last=$(tail -n 1 "$TT_LOG" | tr -d '\r\033')
  if [[ -t 1 ]]; then
    columns=$(tput cols 2>/dev/null || echo 80)
    printf '\r\033[K%.*s' "$((columns - 1))" "$head  $last"
  else
    printf '%.*s\n' 160 "$head  $last"
  fi
}

# hash_of [NAME]...: one hash over the files' names and contents, given relative to the root.
hash_of() {
  (cd "$TT_ROOT" && sha256sum -- "$@" | sha256sum | cut -d ' ' -f 1)
}

# stamp_matches FILE TEXT / write_stamp FILE TEXT
stamp_matches() {
  [[ -f $1 && $(<"$1") == "$2" ]]
}

write_stamp() {
  mkdir -p "$(dirname "$1")"
  printf '%s\n' "$2" >"$1"
}

# The libtorch to build with: the caller's, or the one in the venv.
libtorch_root() {
  local root=${TT_LIBTORCH:-}
  if [[ -z $root ]]; then
    root=$(compgen -G "$TT_VENV/lib/python3*/site-packages/torch" | head -n 1)
  fi
  [[ -f $root/lib/libtorch_cpu.so && -d $root/include/ATen ]] || return 1
  (cd "$root" && pwd)
}

no_libtorch="no libtorch at ${TT_LIBTORCH:-$TT_VENV}: TT_LIBTORCH must be a folder with \
lib/libtorch_cpu.so and include/ATen; without one, scripts/setup.sh --for test installs it in .venv"

# configure_preset NAME: for the builds that scripts/setup.sh does not make.
configure_preset() {
  local torch
  torch=$(libtorch_root) || fail "$no_libtorch"
  mkdir -p "$TT_ROOT/build"
  cmake --preset "$1" --no-warn-unused-cli "-DTT_LIBTORCH=$torch" >"$TT_ROOT/build/$1.log"
}

# Jobs that fit the CPUs allowed to us and the free memory, at about 1.5 GB each. TT_JOBS overrides.
build_jobs() {
  local jobs memory limit
  jobs=$(nproc)
  memory=$(awk '/^MemAvailable:/ {print int($2 / 1024)}' /proc/meminfo)
  limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || echo max)
  if [[ $limit != max && $((limit / 1048576)) -lt $memory ]]; then memory=$((limit / 1048576)); fi
  if [[ $((memory / 1536)) -lt $jobs ]]; then jobs=$((memory / 1536)); fi
  if [[ $jobs -lt 1 ]]; then jobs=1; fi
  echo "${TT_JOBS:-$jobs}"
}

# Vite's own demand: Node 20.19, 22.12 or newer, with npm.
machine_node_fits() {
  local version major minor
  command -v npm >/dev/null || return 1
  version=$(node --version 2>/dev/null) || return 1
  IFS=. read -r major minor _ <<<"${version#v}"
  ((major > 22 || (major == 22 && minor >= 12) || (major == 20 && minor >= 19)))
}

# Puts the set-up's Node first on PATH where the machine's does not fit.
use_node() {
  if ! machine_node_fits && [[ -x $TT_VENV/bin/node ]]; then
    export PATH="$TT_VENV/bin:$PATH"
    hash -r
  fi
}

# check_flags FLAGS [ARGUMENT]...: refuses an argument other than FLAGS and --only before the set-up starts.
check_flags() {
  local known=" $1 "
  shift
  while [[ $# -gt 0 ]]; do
    case $1 in
      --only=*) ;;
      --only) shift ;;
      --help | -h) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
      *)
        if [[ $known != *" $1 "* ]]; then
          printf '%s: unknown flag %s; see %s --help\n' "${0##*/}" "$1" "$0" >&2
          exit 2
        fi ;;
    esac
    shift
  done
}

# Sets up what is missing for the tests, then becomes the runner of suites, with its flags.
run_suites() {
  cd "$TT_ROOT"
  scripts/setup.sh --for test
  use_node
  export TT_BIN_DIR
  if [[ $(id -u) -eq 0 ]]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
  exec "$TT_VENV/bin/python" scripts/run_suites.py "$@"
}

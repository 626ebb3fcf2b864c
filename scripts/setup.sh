#!/usr/bin/env bash
# Installs packages and builds the program in this checkout. It skips stages that are already done.
#
#   scripts/setup.sh --for demo|test [--only STAGE,…]
#
# Stages: packages venv node page configure build. `demo` builds the programs; `test` also builds the tests and
# installs the test tools. The output of the tools goes to build/setup.log.
#
#   TT_LIBTORCH=/path   use this libtorch instead of the pip package
#   TT_PIP_OPTIONS=…    more options for `pip install`, such as another index
#   TT_JOBS=N           number of compile jobs (default: number of CPUs, limited by free memory)
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=scripts/lib/packages.sh
source "$TT_ROOT/scripts/lib/packages.sh"

all_stages=(packages venv node page configure build)
stages=("${all_stages[@]}")
purpose=""

usage() {
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
}

parse_arguments() {
  while [[ $# -gt 0 ]]; do
    case $1 in
      --for) purpose=${2:-}; shift 2 || bad_usage "--for needs demo or test" ;;
      --only) IFS=, read -r -a stages <<<"${2:-}"; shift 2 || bad_usage "--only needs stages" ;;
      --help | -h) usage; exit 0 ;;
      *) bad_usage "unknown flag $1" ;;
    esac
  done
  [[ $purpose == demo || $purpose == test ]] || bad_usage "--for needs demo or test"
  local stage
  for stage in "${stages[@]}"; do
    [[ " ${all_stages[*]} " == *" $stage "* ]] || bad_usage "unknown stage $stage"
  done
}

bad_usage() {
  printf 'setup.sh: %s; see scripts/setup.sh --help\n' "$1" >&2
  exit 2
}

# Two set-ups of one checkout take turns.
take_lock() {
  mkdir -p "$TT_ROOT/build"
  if ! command -v flock >/dev/null; then return; fi
  exec 9>"$TT_ROOT/build/setup.lock"
  if ! flock -n 9; then
    echo "waiting for another set-up of this checkout"
    flock 9
  fi
}

# --- venv: the interpreter, libtorch, and what exports and tests import ----------------------

setup_venv() {
  create_venv
  install_requirements export
  link_client
  if [[ $purpose == test ]]; then
    install_requirements libtorch
    install_requirements test
  elif [[ -z ${TT_LIBTORCH:-} ]]; then
    install_bare_libtorch
  fi
  stage_note=${stage_note:-nothing missing}
}

create_venv() {
  if "$TT_VENV/bin/python" -c 'import importlib.util as u; u.find_spec("pip").origin' 2>/dev/null
  then
    return
  fi
  local python
  python=$(find_python) || fail "no Python 3.11 or newer with the modules venv and ensurepip \
(on Debian: apt-get install python3-venv)"
  run_logged "$python" -m venv --clear "$TT_VENV"
  stage_note="created .venv"
}

find_python() {
  local candidate
  for candidate in python3 /usr/bin/python3 python3.11; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
      2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

# install_requirements NAME: installs scripts/requirements-NAME.txt unless its stamp is current.
install_requirements() {
  local file=scripts/requirements-$1.txt stamp=$TT_VENV/.tensor-tracer-$1 hash
  hash=$(hash_of "$file")
  if stamp_matches "$stamp" "$hash"; then return; fi
  pip_install -r "$TT_ROOT/$file"
  write_stamp "$stamp" "$hash"
  stage_note="${stage_note:+$stage_note, }installed $1"
}

# Python imports the client and the exports from this checkout.
link_client() {
  local folder
  for folder in "$TT_VENV"/lib/python3*/site-packages; do
    if [[ -d $folder ]]; then printf '%s\n' "$TT_ROOT/python" >"$folder/tensor_tracer.pth"; fi
  done
}

# To build and run, libtorch needs none of what Python needs to import it.
install_bare_libtorch() {
  local file=scripts/requirements-libtorch.txt stamp=$TT_VENV/.tensor-tracer-libtorch hash needs
  hash=$(hash_of "$file")
  if stamp_matches "$stamp" "$hash" || stamp_matches "$stamp-bare" "$hash"; then return; fi
  pip_install --no-deps -r "$TT_ROOT/$file"
  needs=$("$TT_VENV/bin/python" "$TT_ROOT/scripts/lib/libtorch_needs.py")
  if [[ -n $needs ]]; then pip_install "$needs"; fi
  write_stamp "$stamp-bare" "$hash"
  stage_note="${stage_note:+$stage_note, }installed libtorch"
}

pip_install() {
  local options
  read -r -a options <<<"${TT_PIP_OPTIONS:-}"
  run_logged "$TT_VENV/bin/python" -m pip install --disable-pip-version-check --no-input \
    "${options[@]}" "$@"
}

# --- node and the page ------------------------------------------------------------------------

setup_node() {
  if machine_node_fits; then
    stage_note="the machine's $(node --version)"
    return
  fi
  install_requirements node
  use_node
  machine_node_fits || fail "neither the machine nor the pip package gives Node 20.19 or newer"
  stage_note=${stage_note:-"the venv's $(node --version)"}
}

setup_page() {
  use_node
  local stamp=$TT_ROOT/build/page.stamp hash
  hash=$(page_hash)
  if [[ $purpose == test ]]; then install_page_packages; fi
  if stamp_matches "$stamp" "$hash" && [[ -f $TT_ROOT/frontend/dist/index.html ]]; then
    stage_note=${stage_note:-up to date}
    return
  fi
  install_page_packages
  run_logged npm --prefix "$TT_ROOT/frontend" run build
  write_stamp "$stamp" "$hash"
  stage_note="built"
}

# `npm ci` unless it was done with this very lock file.
install_page_packages() {
  local stamp=$TT_ROOT/frontend/node_modules/.tensor-tracer-lock hash
  hash=$(hash_of frontend/package-lock.json)
  if stamp_matches "$stamp" "$hash"; then return; fi
  PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 run_logged npm --prefix "$TT_ROOT/frontend" ci \
    --no-audit --no-fund
  write_stamp "$stamp" "$hash"
  stage_note="installed its packages"
}

# Everything the built page depends on: names and contents of the sources, tests left out.
page_hash() {
  local files
  mapfile -d '' files < <(cd "$TT_ROOT" && find frontend configs/interventions \( -name node_modules -o -name dist \
    -o -name test-results -o -name playwright-report -o -name e2e -o -name '.*' \) -prune \
    -o -type f ! -name '*.test.ts' -print0 | sort -z)
  [[ ${#files[@]} -gt 0 ]] || fail "frontend/ is empty: is the clone complete?"
  hash_of "${files[@]}"
}

# --- configure and build ----------------------------------------------------------------------

setup_configure() {
  local folder=$TT_ROOT/build/release torch tests state options=()
  torch=$(libtorch_root) || fail "$no_libtorch"
  # Once on, the tests stay on: a demo in between must not throw their objects away.
  tests=OFF
  if [[ $purpose == test || $(cached TT_BUILD_TESTS) == ON ]]; then tests=ON; fi
  state="$torch $tests $(hash_of CMakePresets.json)"
  if stamp_matches "$folder/.configured" "$state" && [[ -f $folder/build.ninja ]]; then
    stage_note="up to date"
    return
  fi
  # Another libtorch or another place: what find_package remembers would be wrong.
  if [[ -f $folder/CMakeCache.txt &&
    "$(cached TT_LIBTORCH) $(cached CMAKE_HOME_DIRECTORY)" != "$torch $TT_ROOT" ]]; then
    options+=(--fresh)
  fi
  cd "$TT_ROOT"
  run_logged cmake --preset release "${options[@]}" "-DTT_LIBTORCH=$torch" \
    "-DTT_BUILD_TESTS=$tests"
  write_stamp "$folder/.configured" "$state"
  stage_note="configured"
}

# The value that CMake's cache has for $1, if any.
cached() {
  sed -n "s/^$1:[A-Z]*=//p" "$TT_ROOT/build/release/CMakeCache.txt" 2>/dev/null || true
}

setup_build() {
  local targets=(all) jobs
  if [[ $purpose == demo ]]; then targets=(tensor-tracer tensor-tracer-hub); fi
  jobs=$(build_jobs)
  cd "$TT_ROOT"
  run_logged cmake --build --preset release --parallel "$jobs" --target "${targets[@]}"
  if tail -n 1 "$TT_LOG" | grep -q 'no work to do'; then
    stage_note="up to date"
  else
    stage_note="built with $jobs jobs"
  fi
}

main() {
  parse_arguments "$@"
  take_lock
  begin_stages "${#stages[@]}"
  local stage
  for stage in "${stages[@]}"; do run_stage "$stage" "setup_$stage"; done
}

main "$@"

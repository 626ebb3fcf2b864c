#!/usr/bin/env bash
# Sets up what is missing, builds everything, runs every check and test, and prints one summary.
#
#   scripts/test.sh [--fast] [--sanitizers] [--only SUITE,…]
#
#   --fast         checks, ctest and vitest only: no run of the whole program, no browser
#   --sanitizers   also the unit tests of the parts without libtorch under ASan+UBSan and TSan
#   --only         these suites only; a wrong name lists them
# Ends with a line `N passed, M failed`, and with 1 if anything failed or a suite ran no test.
# For the set-up's environment variables see scripts/setup.sh --help.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

check_flags() {
  while [[ $# -gt 0 ]]; do
    case $1 in
      --fast | --sanitizers | --only=*) ;;
      --only) shift ;;
      --help | -h) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
      *) printf 'test.sh: unknown flag %s; see scripts/test.sh --help\n' "$1" >&2; exit 2 ;;
    esac
    shift
  done
}

main() {
  check_flags "$@"
  cd "$TT_ROOT"
  scripts/setup.sh --for test
  use_node
  export TT_BIN_DIR
  if [[ $(id -u) -eq 0 ]]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
  exec "$TT_VENV/bin/python" scripts/run_suites.py "$@"
}

main "$@"

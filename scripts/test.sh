#!/usr/bin/env bash
# Installs missing parts, builds everything, runs all suites of CI, and prints one summary.
#
#   scripts/test.sh [--fast] [--only SUITE,…]
#
#   --fast   run only checks, ctest and vitest: no run of the whole program, no browser, no sanitizer
#   --only   run only these suites; a wrong name lists all suites
# The script prints `N passed, M failed` at the end, and exits with 1 if a suite failed or ran no test.
# scripts/nightly.sh has the suites that are slow and rarely fail. scripts/setup.sh --help lists the environment
# variables of the set-up.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

check_flags "--fast" "$@"
run_suites "$@"

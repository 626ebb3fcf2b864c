#!/usr/bin/env bash
# Sets up what is missing, builds everything, runs what CI runs, and prints one summary.
#
#   scripts/test.sh [--fast] [--only SUITE,…]
#
#   --fast   checks, ctest and vitest only: no run of the whole program, no browser, no sanitizer
#   --only   these suites only; a wrong name lists them
# Ends with a line `N passed, M failed`, and with 1 if anything failed or a suite ran no test. What is
# slow and rarely fails is in scripts/nightly.sh.
# For the set-up's environment variables see scripts/setup.sh --help.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

check_flags "--fast" "$@"
run_suites "$@"

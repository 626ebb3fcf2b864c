#!/usr/bin/env bash
# Runs the suites that are slow and rarely fail, in at most 100 minutes on two CPUs: conformance, attacks, kills,
# more meshes, most browser tests, the thread sanitizer, the check of all names. CI keeps a short test of each.
#
#   scripts/nightly.sh [--only SUITE,…]
#
#   --only   run only these suites, even if they have passed; a wrong name lists all suites
# The results are in build/nightly/<commit>. A suite that has passed for this commit is not run again, so an
# interrupted run continues where it stopped. With uncommitted changes, the results are in
# build/nightly/<commit>-dirty and are not used again. A suite that exceeds its budget in scripts/suites.py has
# failed. The script prints `N passed, M failed` at the end, and exits with 1 if a suite failed.
# scripts/soak.sh has versions that run for hours.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

check_flags "" "$@"
run_suites --nightly "$@"

#!/usr/bin/env bash
# Runs what is slow and rarely fails, in at most 100 minutes on two CPUs: conformance, attacks, kills,
# more meshes, most tests of the browser, the thread sanitizer, every name. CI keeps a short test of each.
#
#   scripts/nightly.sh [--only SUITE,…]
#
#   --only   these suites only, also if they have passed; a wrong name lists them
# Results are kept in build/nightly/<commit>. A suite that has passed for this commit is not run again, so
# an interrupted run goes on where it stopped. A tree with changes that are not committed has its results in
# build/nightly/<commit>-dirty, and they are not used again. A suite that exceeds its budget, in
# scripts/suites.py, has failed. Ends with a line `N passed, M failed`, and with 1 if anything failed.
# The hours-long versions are in scripts/soak.sh.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

check_flags "" "$@"
run_suites --nightly "$@"

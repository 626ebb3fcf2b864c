#!/usr/bin/env bash
# Runs the quick checks of a change, in a few seconds. scripts/test.sh runs these checks and the tests.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

failures=0
for check in "python3 scripts/check_layers.py" "python3 scripts/check_sizes.py" \
  "python3 scripts/check_style.py" "python3 scripts/check_classes.py" scripts/check_format.sh; do
  $check || failures=$((failures + 1))
done
if [[ $failures -gt 0 ]]; then
  echo "presubmit: $failures of the checks failed"
  exit 1
fi
echo "presubmit: all checks passed"

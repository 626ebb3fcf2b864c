#!/usr/bin/env bash
# Builds and runs the unit tests of the parts without libtorch (hub, protocol, base, mesh) under
# sanitizers, and replays the corpora of the fuzz targets.
#
#   scripts/sanitize.sh [asan-ubsan|tsan|all] [flags of GoogleTest…]
#
# For a long run: scripts/sanitize.sh all --gtest_repeat=20 --gtest_shuffle
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:strict_string_checks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=0:second_deadlock_stack=1}

run_preset() {
  local preset=$1
  shift
  cmake --preset "$preset" >"build/$preset.log"
  cmake --build --preset "$preset" --parallel "$(build_jobs)" --target unit_tests fuzz
  "build/$preset/bin/unit_tests" "$@"
  ctest --test-dir "build/$preset" -L fuzz --no-tests=error --output-on-failure
}

main() {
  local presets=("${1:-all}")
  shift || true
  case ${presets[0]} in
    asan-ubsan | tsan) ;;
    all) presets=(asan-ubsan tsan) ;;
    *) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 2 ;;
  esac
  cd "$TT_ROOT"
  mkdir -p build
  local preset
  for preset in "${presets[@]}"; do run_preset "$preset" "$@"; done
}

main "$@"

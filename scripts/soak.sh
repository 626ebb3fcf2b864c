#!/usr/bin/env bash
# Runs endurance tests of the hub for a long time. They are tests of tests/e2e; environment variables set their
# length.
#
#   scripts/soak.sh [all|storm|stall|churn|race|kills|large|meshes|watchdog|fuzz]…
#
#   storm   64 clients that connect, cut and close at random: 10 minutes with each sanitizer build
#   stall   a stalled viewer and 63 healthy viewers: 30 minutes
#   churn   100,000 clients that connect and disconnect
#   race    20,000 races of two controllers, and 2,000 on a real run of two ranks
#   kills   400 times kill -9 of a recording hub, 30 times of real recorded runs
#   large   opens a recording of 10 GiB and reads it at random
#   meshes  every program of tests/oracle on ten meshes instead of two
#   watchdog  four ranks on a busy machine, 10 minutes: the watchdog raises no false alarm
#   fuzz    10,000,000 inputs for every fuzz target, at most 30 minutes each; needs clang
#
# TT_SOAK_MINUTES sets the length of storm, stall, watchdog and each target of fuzz. stall, churn, race,
# kills, large and watchdog use the programs in TT_BIN_DIR, by default build/release/bin; storm and fuzz build their own.
set -euo pipefail

bin_dir=${TT_BIN_DIR:-}
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
export TT_BIN_DIR=${bin_dir:-build/release/bin}

run_test() {
  "$TT_VENV/bin/python" -m pytest "tests/e2e/test_$1.py" -q -s
}

storm() {
  local preset
  export TT_STORM_SECONDS=$((${TT_SOAK_MINUTES:-10} * 60))
  for preset in asan-ubsan tsan; do
    echo "storm of $TT_STORM_SECONDS s, $preset"
    configure_preset "$preset"
    cmake --build --preset "$preset" --parallel "$(build_jobs)" --target tensor-tracer-hub
    TT_BIN_DIR=build/$preset/bin run_test hub_storm
  done
}

stall() {
  export TT_STALL_SECONDS=$((${TT_SOAK_MINUTES:-30} * 60))
  echo "stalled viewer, $TT_STALL_SECONDS s"
  run_test hub_crowd
}

churn() {
  echo "100,000 clients"
  TT_CHURN_CLIENTS=100000 run_test hub_churn
}

race() {
  echo "20,000 races"
  TT_RACES=20000 run_test hub_race
}

kills() {
  echo "200 kills of each hub"
  TT_RECORD_KILLS=200 run_test record_kills
}

large() {
  scripts/bench.sh record --gib 10 --rounds 1
}

meshes() {
  TT_ALL_MESHES=1 "$TT_VENV/bin/python" -m pytest tests/oracle/test_interventions.py -q
}

watchdog() {
  export TT_WATCHDOG_SECONDS=$((${TT_SOAK_MINUTES:-10} * 60))
  echo "a busy machine, $TT_WATCHDOG_SECONDS s"
  "$TT_VENV/bin/python" -m pytest tests/oracle/test_watchdog.py -k busy_machine -q -s
}

fuzz() {
  scripts/fuzz.sh all --runs 10000000 --seconds $((${TT_SOAK_MINUTES:-30} * 60))
}

main() {
  local names=("$@") name
  if [[ ${names[*]:-all} == all ]]; then names=(storm stall churn race kills large meshes watchdog fuzz); fi
  for name in "${names[@]}"; do
    case $name in
      storm | stall | churn | race | kills | large | meshes | watchdog | fuzz) ;;
      *) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 2 ;;
    esac
  done
  cd "$TT_ROOT"
  mkdir -p build
  for name in "${names[@]}"; do "$name"; done
}

main "$@"

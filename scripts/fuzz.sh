#!/usr/bin/env bash
# Builds the fuzz targets of tests/fuzz with clang's libFuzzer and the address and undefined-behaviour
# sanitizers, and runs them one after the other; each starts from its corpus.
#
#   scripts/fuzz.sh [all|expression|record|recording|upgrade_request|viewer_message]… [--runs N] [--seconds N]
#
#   --runs      inputs of each target, 1,000,000
#   --seconds   at most so long each, 0: no bound
#
# What a target finds is written to build/fuzz/found/<target>-<kind>-<hash> and fails the script: keep it as
# tests/fuzz/corpus/<target>/regression-<what> with the correction. What it learnt stays in
# build/fuzz/learnt/<target> for the next run. TT_CLANG names another clang++.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

targets=(expression record recording upgrade_request viewer_message)
runs=1000000
seconds=0

usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; }

# The first compiler that has libFuzzer; Debian has it in libclang-rt-<version>-dev.
find_clang() {
  local compiler
  for compiler in ${TT_CLANG:-clang++ clang++-{20..14}}; do
    if command -v "$compiler" >/dev/null && echo 'extern "C" int LLVMFuzzerTestOneInput() { return 0; }' |
      "$compiler" -x c++ -fsanitize=fuzzer,address - -o /dev/null 2>/dev/null; then
      echo "$compiler"
      return
    fi
  done
  fail "no clang++ with libFuzzer is here; on Debian 12: apt-get install clang libclang-rt-14-dev"
}

build() {
  local compiler=$1
  cmake --preset fuzz -DCMAKE_CXX_COMPILER="$compiler" >build/fuzz.log
  cmake --build --preset fuzz --parallel "$(build_jobs)"
}

run_target() {
  local target=$1 limits=(-runs="$runs")
  if [[ $seconds -gt 0 ]]; then limits+=(-max_total_time="$seconds"); fi
  mkdir -p "build/fuzz/learnt/$target" build/fuzz/found
  echo "== $target, $runs runs"
  "build/fuzz/bin/${target}_fuzz" "${limits[@]}" -max_len=16384 -timeout=10 -rss_limit_mb=2048 \
    -print_final_stats=1 -verbosity=1 -artifact_prefix="build/fuzz/found/$target-" \
    "build/fuzz/learnt/$target" "tests/fuzz/corpus/$target" 2>&1 | tee "build/fuzz/$target.log" |
    grep -Ev '^#[0-9]+.*(NEW|REDUCE|RELOAD)'
}

main() {
  local chosen=() target compiler
  while [[ $# -gt 0 ]]; do
    case $1 in
      --runs) runs=$2; shift 2 ;;
      --seconds) seconds=$2; shift 2 ;;
      all) chosen=("${targets[@]}"); shift ;;
      expression | record | recording | upgrade_request | viewer_message) chosen+=("$1"); shift ;;
      --help | -h) usage; exit 0 ;;
      *) usage; exit 2 ;;
    esac
  done
  cd "$TT_ROOT"
  mkdir -p build
  compiler=$(find_clang)
  build "$compiler"
  for target in "${chosen[@]:-${targets[@]}}"; do run_target "$target"; done
}

main "$@"

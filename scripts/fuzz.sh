#!/usr/bin/env bash
# Builds the fuzz targets of tests/fuzz with clang's libFuzzer and the address and undefined-behaviour
# sanitizers, and runs them one after the other; each starts from its corpus.
#
#   scripts/fuzz.sh [all|TARGET]… [--runs N] [--seconds N]
#
#   TARGET      expression, graph, hf_adapter, hf_config, hf_index, manifest, npy, program, pt, record, recording,
#               safetensors, tokenizer, upgrade_request or viewer_message
#   --runs      inputs for each target, by default 1,000,000
#   --seconds   time limit for each target; 0: no limit
#
# An input that fails is written to build/fuzz/found/<target>-<kind>-<hash>, and the script fails. Add the input
# to the corpus together with the correction, as tests/fuzz/corpus/<target>/regression-<name>. Inputs with new
# coverage are kept in build/fuzz/learnt/<target> for the next run. TT_CLANG names another clang++.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

targets=(expression graph hf_adapter hf_config hf_index manifest npy program pt record recording safetensors
  tokenizer upgrade_request viewer_message)
runs=1000000
seconds=0

usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; }

# The first compiler that has libFuzzer; Debian has it in libclang-rt-<version>-dev.
find_clang() {
  local empty='extern "C" int LLVMFuzzerTestOneInput() { return 0; }'
  local compiler candidates=(clang++ clang++-{20..14})
  if [[ -n ${TT_CLANG:-} ]]; then candidates=("$TT_CLANG"); fi
  for compiler in "${candidates[@]}"; do
    if command -v "$compiler" >/dev/null &&
      "$compiler" -x c++ -fsanitize=fuzzer,address - -o /dev/null 2>/dev/null <<<"$empty"; then
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

# Bytes of an input: long ones take long and seldom find more.
longest() {
  case $1 in
    recording) echo 32768 ;;
    viewer_message) echo 1024 ;;
    *) echo 8192 ;;
  esac
}

# Short stacks of allocations and little freed memory kept cost least.
run_target() {
  export ASAN_OPTIONS=${ASAN_OPTIONS:-malloc_context_size=5:quarantine_size_mb=32}
  export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
  local target=$1 limits=(-runs="$runs")
  if [[ $seconds -gt 0 ]]; then limits+=(-max_total_time="$seconds"); fi
  mkdir -p "build/fuzz/learnt/$target" build/fuzz/found
  echo "== $target, $runs runs"
  "build/fuzz/bin/${target}_fuzz" "${limits[@]}" -max_len="$(longest "$target")" -timeout=10 \
    -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="build/fuzz/found/$target-" \
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
      --help | -h) usage; exit 0 ;;
      *)
        if [[ " ${targets[*]} " != *" $1 "* ]]; then usage; exit 2; fi
        chosen+=("$1"); shift ;;
    esac
  done
  cd "$TT_ROOT"
  mkdir -p build
  compiler=$(find_clang)
  build "$compiler"
  for target in "${chosen[@]:-${targets[@]}}"; do run_target "$target"; done
}

main "$@"

#!/usr/bin/env bash
# Runs the C++ tests of a build. Each program runs once for each CPU with a part of its tests: ctest starts a
# process for each test, and loading libtorch takes longer than most tests.
#
#   scripts/cpp_tests.sh release|no-mpi|asan-ubsan|asan-ubsan-slow|tsan [--reports FOLDER] [flags of GoogleTest…]
#
# release: all tests of the build of scripts/setup.sh. The others build first. no-mpi: the tests of a program without
# MPI. asan-ubsan: the tests of all parts, with ranks as threads and as two processes; of the mutations a quarter, of the
# programs on ranks a fifth, of the invariance tests those with two query groups. asan-ubsan-slow: with the same build, the
# other programs on ranks, another quarter of the mutations, and three tests that take minutes. tsan: the tests of the
# parts without libtorch, but not the mutations of graphs, which have one thread. All but asan-ubsan-slow run the corpora
# of the fuzz targets.
# --reports writes JUnit files. For a long run: scripts/cpp_tests.sh tsan --gtest_repeat=20 --gtest_shuffle
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:strict_string_checks=1}
export LSAN_OPTIONS=${LSAN_OPTIONS:-suppressions=$TT_ROOT/cmake/lsan_suppressions.txt:print_suppressions=0}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=0:second_deadlock_stack=1}

# Under the sanitizers of asan-ubsan: ten tests take half of the time.
slow='Device.KernelsHaveTheBitsOfTheCpu:Packing.IsTheSameBitForBitForEveryNumberOfLinesAndColumns'
slow+=':Programs.ThatAreReadyMadeGiveTheBitsOfOneRankToo:*GraphMutation*/1'
for last in 1 2 3 4 6 7 8 9; do slow+=":*ProgramsOnRanks*/*$last"; done

reports=""

# run_shards PRESET PROGRAM FLAG…: the tests of a program, in as many processes as there are jobs.
run_shards() {
  local preset=$1 program=$2 failed=0 shard shards pid pids=()
  shift 2
  shards=$(build_jobs)
  for ((shard = 0; shard < shards; ++shard)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard "build/$preset/bin/$program" \
      ${reports:+"--gtest_output=xml:$reports/$program-$shard.xml"} "$@" &
    pids+=("$!")
  done
  for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
  return "$failed"
}

# Every program runs, also after one that failed.
run_preset() {
  local preset=$1 programs=(unit_tests) others=(-R '^(fuzz_corpus\..*)$') failed=0 program
  shift
  case $preset in
    release)
      programs+=(torch_tests)
      others=(-LE '^(unit|torch)$')
      ;;
    no-mpi)
      programs+=(torch_tests)
      build "$preset" "${programs[@]}" fuzz tensor-tracer
      ;;
    asan-ubsan)
      programs+=(torch_tests)
      set -- "--gtest_filter=-*InvarianceOf*/8_groups_*:*InvarianceOf*/1_groups_*:*GraphMutation*/2:*GraphMutation*/3:$slow" "$@"
      others=(-R '^(fuzz_corpus\..*|bare_1|mpi_2|mpi_plain_2)$')
      build "$preset" "${programs[@]}" fuzz mpi_tests
      ;;
    asan-ubsan-slow)
      programs+=(torch_tests)
      build asan-ubsan "${programs[@]}"
      for program in "${programs[@]}"; do
        run_shards asan-ubsan "$program" "--gtest_filter=$slow" "$@" || failed=1
      done
      return "$failed"
      ;;
    tsan)
      set -- '--gtest_filter=-*GraphMutation*' "$@"
      build "$preset" "${programs[@]}" fuzz
      ;;
  esac
  for program in "${programs[@]}"; do
    run_shards "$preset" "$program" "$@" || failed=1
  done
  # Open MPI has no frame pointers: only a slow unwind sees which library of it leaks.
  ASAN_OPTIONS+=:fast_unwind_on_malloc=0 ctest --test-dir "build/$preset" "${others[@]}" \
    --no-tests=error --output-on-failure --timeout 300 \
    ${reports:+--output-junit "$reports/ctest.xml"} || failed=1
  return "$failed"
}

# build PRESET TARGET…
build() {
  local preset=$1
  shift
  configure_preset "$preset"
  cmake --build --preset "$preset" --parallel "$(build_jobs)" --target "$@"
}

main() {
  local preset=${1:-}
  case $preset in
    release | no-mpi | asan-ubsan | asan-ubsan-slow | tsan) shift ;;
    *) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 2 ;;
  esac
  if [[ ${1:-} == --reports ]]; then
    mkdir -p "$2"
    reports=$(cd "$2" && pwd)
    shift 2
  fi
  cd "$TT_ROOT"
  run_preset "$preset" "$@"
}

main "$@"

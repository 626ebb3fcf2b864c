#!/usr/bin/env bash
# Runs everything that needs a CUDA device, in less than 10 minutes: kernels against the CPU, an attached training,
# the tests of attached runs that fit on one device, the cost, and two ranks with NCCL where two devices are. Needs
# Python with torch for CUDA, transformers, pytest with xdist and the packages of python/pyproject.toml, and the files of
#
#   cmake --preset cuda && cmake --build --preset cuda
#
# in build/cuda (or TENSOR_TRACER_BUILD), which may come from another machine; it needs no compiler.
#
#   scripts/gpu_check.sh [--write] [--rehearse]
#
#   --write     put the measured rows into docs/benchmarks.md
#   --rehearse  run the same checks on the CPU, to check this script; measures nothing that counts
# Prints `N passed, M failed`, and what was not run. Exits with 1 if a check failed. Without a device it exits with 77:
# not run.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case " $* " in
  *" --help "*) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
esac
python=${TT_PYTHON:-$(command -v "$root/.venv/bin/python" python3 | head -n 1)}
export TENSOR_TRACER_BUILD=${TENSOR_TRACER_BUILD:-$root/build/cuda}
PYTHONPATH=$root/python${PYTHONPATH:+:$PYTHONPATH} exec "$python" "$root/scripts/bench/gpu_check.py" "$@"

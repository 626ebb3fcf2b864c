#!/usr/bin/env bash
# Benchmarks. `scripts/bench.sh train --help` shows the options.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

case "${1:-}" in
  train | gemm | tracer | idle | hub | interventions | record | stream)
    script=$1
    shift
    exec "${TT_PYTHON:-$root/.venv/bin/python}" "$root/scripts/bench/$script.py" "$@"
    ;;
  *)
    echo "usage: scripts/bench.sh train|gemm|tracer|idle|hub|interventions|record|stream [options]" >&2
    exit 2
    ;;
esac

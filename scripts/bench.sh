#!/usr/bin/env bash
# Benchmarks. `scripts/bench.sh train --help` shows the options.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# The demo's set-up installs libtorch without the Python packages that importing it needs.
# check_modules PYTHON MODULE…
check_modules() {
  local missing
  missing=$("$1" -c 'import importlib.util as u, sys; print(*(m for m in sys.argv[1:] if u.find_spec(m) is None))' \
    torch typing_extensions numpy websockets "${@:2}") || missing="$1"
  if [[ -n $missing ]]; then
    echo "bench.sh: missing: $missing; run scripts/setup.sh --for test" >&2
    exit 1
  fi
}

case "${1:-}" in
  train | gemm | tracer | idle | hub | interventions | record | client | stream | builds | freshness | tokenizer | models | generate | attach)
    script=$1
    shift
    python=${TT_PYTHON:-$root/.venv/bin/python}
    extra=()
    if [[ $script == models ]]; then extra=(safetensors transformers peft); fi
    check_modules "$python" "${extra[@]}"
    exec "$python" "$root/scripts/bench/$script.py" "$@"
    ;;
  *)
    echo "usage: scripts/bench.sh train|gemm|tracer|idle|hub|interventions|record|client|stream|builds|freshness|tokenizer|models|generate|attach [options]" >&2
    exit 2
    ;;
esac

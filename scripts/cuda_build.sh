#!/usr/bin/env bash
# Compiles and links the build for CUDA, without a GPU: the preset cuda in build/cuda. Its objects for the CPU are
# those of build/release, which the compiler cache has. Then checks, on the CPU:
#
# * a training with the tracer of this build passes its test;
# * the CUDA libtorch of the same version has every symbol that the library takes from libtorch.
#
# Where nvcc, the compiler cache or the wheel of the CUDA libtorch is missing, the last line says so and the exit code
# is 77: not run.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

CUDA_TORCH=$TT_ROOT/build/cuda_libtorch

not_run() {
  echo "not run: $1"
  exit 77
}

# The libraries of the wheel that belongs to the version of the CPU build: 527 MB to load, 450 MB to keep. The settings
# of pip on this machine may prefer the CPU build.
load_cuda_libtorch() {
  local version=$1 wheels
  if stamp_matches "$CUDA_TORCH/stamp" "$version"; then return; fi
  rm -rf "$CUDA_TORCH"
  mkdir -p "$CUDA_TORCH"
  wheels=$(mktemp -d)
  if ! env -u PIP_FIND_LINKS PIP_CONFIG_FILE=/dev/null timeout 300 \
    "$TT_VENV/bin/python" -m pip download --quiet --no-deps --dest "$wheels" "torch==$version"; then
    rm -rf "$wheels"
    not_run "the wheel of the CUDA libtorch $version could not be loaded"
  fi
  if ! unzip -q -o -j "$wheels"/torch-*.whl 'torch/lib/libc10*.so' 'torch/lib/libtorch_c*.so' -d "$CUDA_TORCH"; then
    rm -rf "$wheels"
    not_run "the wheel of the CUDA libtorch $version could not be unpacked"
  fi
  rm -rf "$wheels"
  [[ -f $CUDA_TORCH/libc10_cuda.so ]] || not_run "the index gives no CUDA build of torch $version"
  write_stamp "$CUDA_TORCH/stamp" "$version"
}

main() {
  local torch version
  command -v nvcc >/dev/null || not_run "nvcc is missing"
  command -v ccache >/dev/null || not_run "ccache is missing: all objects would be compiled again"
  torch=$(libtorch_root) || fail "$no_libtorch"
  version=$(sed -n "s/^__version__ = '\([0-9.]*\).*/\1/p" "$torch/version.py") # without "+cpu"
  load_cuda_libtorch "$version"
  configure_preset cuda
  cmake --build --preset cuda --parallel "$(build_jobs)"
  "$TT_VENV/bin/python" scripts/check_symbols.py build/cuda/lib/libtensor_tracer_torch.so "$torch/lib" "$CUDA_TORCH"
  TENSOR_TRACER_BUILD=$TT_ROOT/build/cuda "$TT_VENV/bin/python" -m pytest -q -m "not nightly" tests/oracle/test_attach_cuda.py
}

cd "$TT_ROOT"
main

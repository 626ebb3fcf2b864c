#!/usr/bin/env bash
# Checks that clang-format would change nothing in the tracked C++ files.
#
#   scripts/check_format.sh [--fix] [--root FOLDER]
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
mode=(--dry-run -Werror)

while [[ $# -gt 0 ]]; do
  case $1 in
    --fix) mode=(-i); shift ;;
    --root) root=$2; shift 2 ;;
    *) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 2 ;;
  esac
done

list_sources() {
  if [[ -e $root/.git ]]; then
    git -C "$root" ls-files -z -- '*.h' '*.cpp' '*.cu' '*.cuh'
  else
    (cd "$root" && find . -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0)
  fi
}

cd "$root"
mapfile -d '' files < <(list_sources | while IFS= read -r -d '' file; do
  if [[ -f $file ]]; then printf '%s\0' "$file"; fi
done)
if [[ ${#files[@]} -eq 0 ]]; then
  echo "format: found no file to check"
  exit 1
fi
if ! complaints=$(clang-format "${mode[@]}" --style=file -- "${files[@]}" 2>&1); then
  # The first place of each file is enough: it is a machine that mends them.
  grep -q ': error: ' <<<"$complaints" || echo "$complaints"
  awk -F : '/: error: / && !seen[$1]++ {print $1 ":" $2 ": not as clang-format has it"}' \
    <<<"$complaints"
  echo "format: scripts/check_format.sh --fix mends this"
  exit 1
fi
echo "format: ${#files[@]} files"

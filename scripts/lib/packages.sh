# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154  # purpose and stage_note belong to setup.sh
# Sourced by setup.sh: what the machine itself must have, through apt or named one by one.

program_packages=(g++ cmake ninja-build ccache libgloo-dev libopenmpi-dev openmpi-bin libboost1.81-dev
  libcli11-dev libfmt-dev libspdlog-dev libpcre2-dev libsqlite3-dev libsqlitecpp-dev
  libutf8proc-dev nlohmann-json3-dev python3-venv)
test_packages=(libgtest-dev libgmock-dev chromium clang-format clang-tidy
  openssh-server openssh-client)

# The same, for machines without apt: programs and headers that must be found.
program_tools=(g++ cmake ninja mpirun mpicxx python3)
program_headers=(boost/beast.hpp CLI/CLI.hpp fmt/format.h spdlog/spdlog.h SQLiteCpp/Database.h
  nlohmann/json.hpp pcre2.h utf8proc.h)
test_tools=(chromium clang-format clang-tidy)
test_headers=(gtest/gtest.h gmock/gmock.h)

setup_packages() {
  if command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
    install_missing_packages
  else
    require_tools_and_headers
  fi
  if [[ $purpose == test ]]; then fetch_promtool; fi
}

# The checker of /metrics alone: the package would install and start a server.
fetch_promtool() {
  local folder=$TT_ROOT/build/tools
  if [[ -x $folder/promtool ]] || command -v promtool >/dev/null || ! command -v apt-get >/dev/null
  then
    return
  fi
  mkdir -p "$folder/prometheus"
  if (cd "$folder" && apt-get download prometheus && dpkg-deb -x prometheus_*.deb prometheus &&
    mv prometheus/usr/bin/promtool promtool) >>"$TT_LOG" 2>&1 </dev/null; then
    stage_note="${stage_note:+$stage_note, }fetched promtool"
  else
    stage_note="${stage_note:+$stage_note, }no promtool: its test will be skipped"
  fi
  rm -rf "$folder/prometheus" "$folder"/prometheus_*.deb
}

install_missing_packages() {
  local missing
  mapfile -t missing < <(missing_packages)
  if [[ ${#missing[@]} -eq 0 ]]; then
    stage_note="nothing missing"
    return
  fi
  local as_root=()
  if [[ $(id -u) -ne 0 ]]; then
    command -v sudo >/dev/null || fail "these packages are missing and neither root nor sudo is \
at hand; run as root: apt-get install ${missing[*]}"
    printf 'sudo installs: %s\n' "${missing[*]}"
    sudo -v || fail "sudo was refused; run as root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  as_root+=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)
  run_logged "${as_root[@]}" update
  run_logged "${as_root[@]}" install -y --no-install-recommends "${missing[@]}"
  stage_note="installed ${missing[*]}"
}

missing_packages() {
  local wanted=("${program_packages[@]}") installed
  if [[ $purpose == test ]]; then wanted+=("${test_packages[@]}"); fi
  # dpkg-query ends with 1 where it does not know a package, and still lists the others.
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Abbrev}\n' "${wanted[@]}" 2>/dev/null) ||
    true
  printf '%s\n' "${wanted[@]}" |
    awk -v installed="$installed" '
      BEGIN { n = split(installed, lines, "\n")
              for (i = 1; i <= n; i++) { split(lines[i], f, " "); if (f[2] == "ii") have[f[1]] = 1 } }
      !($1 in have)'
}

# Without apt: says exactly what is missing, by program and header.
require_tools_and_headers() {
  local tools=("${program_tools[@]}") headers=("${program_headers[@]}") missing=() name
  if [[ $purpose == test ]]; then
    tools+=("${test_tools[@]}")
    headers+=("${test_headers[@]}")
  fi
  for name in "${tools[@]}"; do
    command -v "$name" >/dev/null || missing+=("program $name")
  done
  # Preprocessing takes seconds, so what was found once is believed.
  if ! stamp_matches "$TT_ROOT/build/headers.stamp" "${headers[*]}"; then
    for name in "${headers[@]}"; do
      header_found "$name" || missing+=("header $name")
    done
  fi
  if [[ ${#missing[@]} -gt 0 ]]; then
    fail "there is no apt here, so install these by hand, then run this again:
$(printf '  %s\n' "${missing[@]}")"
  fi
  write_stamp "$TT_ROOT/build/headers.stamp" "${headers[*]}"
  stage_note="no apt; all programs and headers found"
}

# CPATH and the compiler's own folders count.
header_found() {
  command -v g++ >/dev/null && printf '#include <%s>\n' "$1" |
    g++ -std=c++20 -M -x c++ - >/dev/null 2>>"$TT_LOG"
}

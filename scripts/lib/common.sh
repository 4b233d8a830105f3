# shellcheck shell=bash
# Sourced by the scripts beside it: where the project lies, and how what it needs gets onto a Debian or Ubuntu machine.

project_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export project_dir

say() { printf '== %s\n' "$*" >&2; }
fail() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# install_packages NAME...: installs those that are missing through apt, as root or with sudo.
install_packages() {
  local missing=() package
  command -v dpkg-query >/dev/null || fail "this system has no dpkg; install by hand what docs/design.md lists under dependencies"
  for package in "$@"; do
    if [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) != installed ]]; then
      missing+=("$package")
    fi
  done
  if ((${#missing[@]} == 0)); then return; fi

  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get)
  command -v apt-get >/dev/null || fail "these packages are missing and there is no apt-get: ${missing[*]}"
  if ((EUID != 0)); then
    command -v sudo >/dev/null || fail "these packages are missing; run as root or install sudo: ${missing[*]}"
    apt=(sudo "${apt[@]}")
  fi
  say "installing ${missing[*]}"
  "${apt[@]}" update -qq >&2
  "${apt[@]}" install -y -qq --no-install-recommends "${missing[@]}" >&2
}

install_build_packages() {
  install_packages g++ cmake ninja-build ccache pkg-config libboost-program-options-dev libboost-container-dev nlohmann-json3-dev \
    libspdlog-dev libfmt-dev libpcre2-dev libutf8proc-dev libdnnl-dev
}

install_test_packages() {
  install_packages libgtest-dev libgmock-dev libbenchmark-dev dpkg-dev file man-db
}

# build PRESET [CMAKE ARGUMENT...]: configures and builds everything of a preset.
build() {
  local preset=$1
  shift
  cd "$project_dir" || return
  say "configuring $preset"
  cmake --preset "$preset" "$@" >&2
  say "building $preset"
  cmake --build --preset "$preset" --parallel "$(nproc)" >&2
}

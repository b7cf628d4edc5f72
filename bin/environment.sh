# Sourced by the other scripts: makes or updates the virtual environment of this checkout.
# Use: source bin/environment.sh; make_environment EXTRA   (EXTRA: ml or dev)

make_environment() {
  local extra="$1"
  local root; root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
  local venv="${FEDFLOW_VENV:-$root/.venv}"
  local python="" candidate
  for candidate in python3.11 python3.12 python3.13 python3; do
    if command -v "$candidate" >/dev/null 2>&1 &&
      "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      python="$candidate"
      break
    fi
  done
  if [ -z "$python" ]; then
    echo "Missing: Python 3.11 or newer (python3.11, or a newer python3, on the PATH)." >&2
    return 1
  fi
  if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    echo "Missing: Python's venv module (on Debian: apt install python3-venv)." >&2
    return 1
  fi
  local stamp="$venv/.fedflow-$extra"
  if [ ! -x "$venv/bin/python" ]; then
    echo "Making a virtual environment in $venv ..." >&2
    "$python" -m venv "$venv"
  fi
  if [ ! -f "$stamp" ] || [ "$root/pyproject.toml" -nt "$stamp" ]; then
    echo "Installing fedflow[$extra] ..." >&2
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -e "$root[$extra]" || {
      echo "Missing: the packages of pyproject.toml could not be installed (is a package index reachable?)." >&2
      return 1
    }
    touch "$stamp"
  fi
  # Without bytecode each process of a server compiles the package again (PYTHONDONTWRITEBYTECODE); slower, not wrong.
  "$venv/bin/python" -m compileall -q "$root/fedflow" "$root/tests" || true
  export FEDFLOW_PYTHON="$venv/bin/python"
  export PATH="$venv/bin:$PATH"
}

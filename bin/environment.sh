# Sourced by the other scripts: makes or updates the virtual environment of this checkout.
# Use: source bin/environment.sh; make_environment WHAT   (WHAT: main, spark or dev)

make_environment() {
  local what="$1"
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
  local stamp="$venv/.fedflow-$what"
  if [ ! -x "$venv/bin/python" ]; then
    echo "Making a virtual environment in $venv ..." >&2
    "$python" -m venv "$venv"
  fi
  if [ ! -f "$stamp" ] || [ "$root/pyproject.toml" -nt "$stamp" ]; then
    echo "Installing fedflow ($what) ..." >&2
    install_"$what" "$root" "$venv/bin/python" || {
      echo "Missing: the packages of pyproject.toml could not be installed (is a package index reachable?)." >&2
      return 1
    }
    touch "$stamp"
  fi
  # Every process writes and reads bytecode: a server that compiles what it imports takes twice as long to start.
  unset PYTHONDONTWRITEBYTECODE
  "$venv/bin/python" -m compileall -q "$root/fedflow" "$root/tests" || true
  export FEDFLOW_PYTHON="$venv/bin/python"
  export PATH="$venv/bin:$PATH"
}

# run_pip PYTHON WORDS...: pip without remarks
run_pip() { "$1" -m pip --quiet --disable-pip-version-check "${@:2}"; }

# install_main ROOT PYTHON: what a server needs
install_main() { run_pip "$2" install --editable "$1"; }

# install_spark ROOT PYTHON: what a server with a Spark cluster needs
install_spark() { run_pip "$2" install --editable "$1[spark]"; }

# install_dev ROOT PYTHON: what the tests need. PySpark is published as source alone: its wheel (450 MB) is packed
# and unpacked, uncompressed, while the other packages are installed. Bytecode is written by what imports them.
install_dev() {
  local root="$1" python="$2" packed status=0 others source pip torch
  run_pip "$python" install --upgrade pip || return  # an older one needs twice the time to choose versions
  packed="$(mktemp)"
  printf '[bdist_wheel]\ncompression = stored\n' >"$packed"
  mapfile -t source < <(requirements "$root" "$python" source)
  mapfile -t others < <(requirements "$root" "$python" others)
  DIST_EXTRA_CONFIG="$packed" run_pip "$python" install --no-compile "${source[@]}" &
  pip="$!"
  install_torch "$python" --no-index --no-deps >/dev/null 2>&1 &  # if a file of the CPU build is at hand
  torch="$!"
  run_pip "$python" install --no-compile --editable "$root" "${others[@]}" || status="$?"
  wait "$pip" || status="$?"
  if wait "$torch"; then
    install_torch "$python" || status="$?"  # the few packages that it needs
  else
    echo "No file of torch $TORCH for the CPU here: the tests that need it are skipped." >&2
  fi
  rm -f "$packed"
  return "$status"
}

# install_torch PYTHON WORDS...: torch for the tests of torchrun and HomoNN. From PyPI it would be a build with CUDA, several GB.
TORCH=2.13.0
install_torch() { run_pip "$1" install --no-compile "${@:2}" "torch==$TORCH"; }

# requirements ROOT PYTHON WHICH: of the extras `spark`, `redis`, `dp` and `dev`, those published as source, or the others
requirements() {
  "$2" - "$1/pyproject.toml" "$3" <<'PYTHON'
import sys, tomllib
with open(sys.argv[1], "rb") as file:
    extras = tomllib.load(file)["project"]["optional-dependencies"]
for package in extras["spark"] + extras["redis"] + extras["dp"] + extras["dev"]:
    if not package.startswith("fedflow") and package.startswith("pyspark") == (sys.argv[2] == "source"):
        print(package)
PYTHON
}

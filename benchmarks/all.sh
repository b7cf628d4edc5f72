#!/bin/sh
# Runs every benchmark and prints the tables in Markdown; takes about four minutes.
#     benchmarks/all.sh > tables.md
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.."
python=${PYTHON:-.venv/bin/python}

block() {
    printf '### %s\n\n```\n' "$1"
    shift
    "$@" 2>/dev/null
    printf '```\n\n'
}

printf 'Measured %s on %s, load %s\n\n' "$(date -u +%Y-%m-%dT%H:%MZ)" "$(uname -srm)" \
    "$(cut -d' ' -f1-3 /proc/loadavg)"
for name in server_start idle submit chain fan burst skeleton main_job; do
    "$python" "benchmarks/$name.py"
done
block "Executor start, alone" "$python" benchmarks/executor_start.py 40
block "Data plane, 1 GiB" "$python" benchmarks/data_plane.py
block "Exchange, 1 GiB" "$python" benchmarks/exchange.py
block "Intersection, 100,000 ids" "$python" benchmarks/psi.py

#!/usr/bin/env bash
# What FATE's administrators are used to: service.sh start|stop|restart|status
# Settings: FEDFLOW_HOME (home folder), FEDFLOW_CONF (default conf/service_conf.yaml of this checkout).
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
source "$root/bin/environment.sh"
conf="${FEDFLOW_CONF:-$root/conf/service_conf.yaml}"
server() { "$FEDFLOW_PYTHON" -m fedflow.cli.main server "$@"; }
case "${1:-}" in
  start)
    make_environment main
    server start --conf "$conf"
    ;;
  stop)
    make_environment main
    server stop
    ;;
  restart)
    make_environment main
    server stop || true
    server start --conf "$conf"
    ;;
  status)
    make_environment main
    server status
    ;;
  *)
    echo "usage: $0 start|stop|restart|status" >&2
    exit 2
    ;;
esac

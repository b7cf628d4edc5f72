"""The script that `fate_test flow-test cli` starts: FATE's first command line.

    python fate_flow_client.py -f submit_job -c conf.json -d dsl.json

fate_test looks for it at `python/fate_flow/fate_flow_client.py` below `data_base_dir`. It hands the
call to fedflow's `flow`, so the Python that starts it needs fedflow; the server is that of
`flow init` or FEDFLOW_SERVER.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

FUNCTIONS = {
    "submit_job": "job submit",
    "stop_job": "job stop",
    "query_job": "job query",
    "job_config": "job config",
    "job_log": "job log",
    "data_view_query": "job view",
    "query_task": "task query",
    "clean_queue": "queue clean",
    "component_metrics": "tracking metrics",
    "component_metric_all": "tracking metric-all",
    "component_metric_delete": "component metric-delete",
    "component_output_data": "tracking output-data",
    "component_output_data_table": "tracking output-data-table",
    "component_output_model": "tracking output-model",
    "component_parameters": "tracking parameters",
    "table_info": "table info",
    "table_delete": "table delete",
    "upload": "data upload",
    "download": "data download",
    "upload_history": "data upload-history",
    "load": "model load",
    "bind": "model bind",
    "import": "model import",
    "export": "model export",
    "store": "model export --to-database",
    "restore": "model import --from-database",
}
"""Function -> command of `flow`."""

_ONLY_JOB = {"component_metric_delete"}  #: the old functions took a whole share
_SPELLED = {"-limit": "-l"}


def main(words: list[str]) -> None:
    """Run the function that `-f` names with the other options. Raises: SystemExit."""
    options = dict(zip(words[::2], words[1::2]))
    function = options.pop("-f", "")
    if function == "clean_job":
        _clean(options["-j"])
        return
    if function not in FUNCTIONS:
        known = ", ".join(sorted([*FUNCTIONS, "clean_job"]))
        print(json.dumps({"retcode": 100, "retmsg": f"no function {function!r}; known: {known}"}))
        return
    if function in _ONLY_JOB:
        options = {"-j": options["-j"]}
    if function == "export":
        options["-c"] = _with_output(options["-c"], options.pop("-o", "."))
    from fedflow.cli.flow.main import cli

    os.environ["FEDFLOW_FLOW_EXIT_ZERO"] = "1"
    cli.main([*FUNCTIONS[function].split(), *_spelled(options)])


def _spelled(options: dict[str, str]) -> list[str]:
    """Return the options as `flow` spells them."""
    words: list[str] = []
    for name, value in options.items():
        if name == "-drop":
            words += ["--drop"] if value == "1" else []
        else:
            words += [_SPELLED.get(name, name), value]
    return words


def _with_output(conf: str, folder: str) -> str:
    """Return a copy of a conf file that names the folder to write to."""
    given = json.loads(Path(conf).read_text(encoding="utf-8"))
    Path(folder).mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
        json.dump({**given, "output_path": str(Path(folder).absolute())}, file)
    return file.name


def _clean(job_id: str) -> None:
    """Delete what a job produced: FATE's `flow` has no command for it."""
    from fedflow.base.errors.error import FedflowError
    from fedflow.cli.session import connect

    try:
        with connect(None) as client:
            client.clean(job_id)
        print(json.dumps({"retcode": 0, "retmsg": "success"}))
    except FedflowError as exc:
        print(json.dumps({"retcode": exc.retcode, "retmsg": exc.message}))


if __name__ == "__main__":
    main(sys.argv[1:])

"""What a run of attacks is summed up in, as Markdown."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence

from tests.attack.run import RATIO, Result


def to_text(results: Sequence[Result], *, seed: int, quiet: Sequence[float]) -> str:
    """Return the report of a run; `quiet` are seconds per task of honest chains before it."""
    base = statistics.median(quiet)
    found = [(one.attack, text) for one in results for text in one.violations]
    lines = [
        f"seed {seed}: {len(results)} attacks, {sum(one.tries for one in results)} tries,"
        f" {len(found)} violations; an honest task takes {base * 1000:.0f} ms when it is quiet",
        "",
        "| attack | who | runs | tries | answers | honest task: ratio to quiet | memory at most"
        " | log | violations |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in sorted({one.attack for one in results}):
        lines.append(_row([one for one in results if one.attack == name], base))
    lines += ["", f"violations: {len(found)}"]
    lines += [f"- {name}: {text}" for name, text in found]
    return "\n".join(lines)


def _row(runs: Sequence[Result], base: float) -> str:
    answers: Counter[str] = sum((one.answers for one in runs), Counter())
    shown = ", ".join(f"{count} {word}" for word, count in answers.most_common(6))
    more = len(answers) - 6
    times = [seconds for one in runs for seconds in one.per_task]
    ratio = statistics.median(times) / base if times else float("nan")
    cells = (
        runs[0].attack,
        runs[0].who,
        len(runs),
        answers.total(),
        shown + (f", {more} other kinds" if more > 0 else ""),
        f"{ratio:.2f}" + (" **over**" if ratio > RATIO else ""),
        f"+{max(one.peak_mib for one in runs):.0f} MiB",
        f"{max(one.log_mib for one in runs):.2f} MiB",
        sum(len(one.violations) for one in runs),
    )
    return "| " + " | ".join(map(str, cells)) + " |"

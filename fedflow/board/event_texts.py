"""The words of events in the viewer's language: their sentences, who made them happen, phases."""

from __future__ import annotations

from collections.abc import Callable

from fedflow.board.language import t


def reader() -> Callable[[str], str]:
    """Return the function that translates the words of a page of events; other text, such as the
    message of an error, stays as it is.
    """
    known = {**_sentences(), **_actors(), **_phases()}

    def told(text: str) -> str:
        if text in known:
            return known[text]
        if text.startswith("reported by "):
            return t("reported by {site}", site=text.removeprefix("reported by "))
        if text.startswith("a user at "):
            return t("a user at {site}", site=text.removeprefix("a user at "))
        return text

    return told


def _sentences() -> dict[str, str]:
    return {
        "it was submitted, and its sites are asked to take part": t(
            "it was submitted, and its sites are asked to take part"
        ),
        "all its sites have accepted it": t("all its sites have accepted it"),
        "all its sites have granted their cores": t("all its sites have granted their cores"),
        "it is held: its cores were given back": t("it is held: its cores were given back"),
        "everything that was to run has run": t("everything that was to run has run"),
        "it is run again, and its sites are asked to open it": t(
            "it is run again, and its sites are asked to open it"
        ),
        "was asked to open the job again": t("was asked to open the job again"),
        "accepted the job": t("accepted the job"),
        "was told to give the job's cores back for now": t(
            "was told to give the job's cores back for now"
        ),
        "was asked for the job's cores": t("was asked for the job's cores"),
        "was asked again for the job's cores": t("was asked again for the job's cores"),
        "granted the job's cores": t("granted the job's cores"),
        "has too few free cores": t("has too few free cores"),
        "refused the job": t("refused the job"),
        "does not take part any more": t("does not take part any more"),
        "a further attempt was made": t("a further attempt was made"),
        "its result was taken over from an earlier job": t(
            "its result was taken over from an earlier job"
        ),
        "what it waited for has ended, and it is started": t(
            "what it waited for has ended, and it is started"
        ),
        "it succeeded at all its sites": t("it succeeded at all its sites"),
        "it had nothing to do": t("it had nothing to do"),
        "its process runs": t("its process runs"),
        "it succeeded": t("it succeeded"),
        "the job was created here": t("the job was created here"),
        "the job was started": t("the job was started"),
        "the job is held": t("the job is held"),
        "the job was opened again": t("the job was opened again"),
        "the job succeeded": t("the job succeeded"),
        "the job took its cores here": t("the job took its cores here"),
        "the job gave its cores back here": t("the job gave its cores back here"),
        "its process began": t("its process began"),
        "it was changed": t("it was changed"),
    }


def _actors() -> dict[str, str]:
    return {
        "a user": t("a user"),
        "the scheduler": t("the scheduler"),
        "the detector": t("the detector"),
        "its process": t("its process"),
        "the initiator": t("the initiator"),
    }


def _phases() -> dict[str, str]:
    return {
        "creating": t("creating"),
        "created": t("created"),
        "applying": t("applying"),
        "granted": t("granted"),
        "denied": t("denied"),
        "refused": t("refused"),
        "gone": t("gone"),
        "held": t("held"),
        "free": t("free"),
    }

"""`fedflow board user` against a small real HTTP server: what is sent, what is printed."""

from __future__ import annotations

import msgspec

from fedflow.base.errors.requests import AccountExists

ROW = {"name": "ann", "role": "admin", "create_time": 1, "update_time": 1, "sessions": 2}


def sent(shell):
    return msgspec.json.decode(shell.server.received[-1].body)


def test_a_password_is_made_and_printed_once(shell):
    shell.answer("/v1/board/account/add", ROW)
    result = shell("board", "user", "add", "ann", "--role", "admin")
    assert result.exit_code == 0, result.output
    password = sent(shell)["password"]
    assert len(password) == 20
    assert result.output.count(password) == 1
    assert sent(shell) == {"name": "ann", "role": "admin", "password": password}


def test_a_password_from_standard_input_or_a_file_is_not_printed(shell, tmp_path):
    shell.answer("/v1/board/account/add", ROW)
    file = tmp_path / "password"
    file.write_text("correct horse\nsecond line\n")
    for name, text in (("-", "correct horse\n"), (file, None)):
        words = ("board", "user", "add", "ann", "--password-file", name)
        result = shell(*words, text=text)
        assert result.exit_code == 0, result.output
        assert "horse" not in result.output
        assert sent(shell) == {"name": "ann", "role": "viewer", "password": "correct horse"}


def test_no_option_takes_the_password_itself(shell):
    result = shell("board", "user", "add", "ann", "--password", "correct horse")
    assert result.exit_code == 2
    assert not shell.server.received


def test_an_empty_or_missing_password_file_sends_nothing(shell, tmp_path):
    (tmp_path / "empty").write_text("\nx")
    for name in ("empty", "missing"):
        result = shell("board", "user", "password", "ann", "--password-file", tmp_path / name)
        assert result.exit_code != 0
    assert not shell.server.received


def test_accounts_are_listed(shell):
    shell.answer("/v1/board/account/list", [ROW])
    assert "admin" in shell("board", "user", "list").stdout
    assert shell.json("board", "user", "list")[0]["sessions"] == 2


def test_a_new_password_is_part_of_the_json_only_if_it_was_made_here(shell):
    shell.answer("/v1/board/account/password")
    assert len(shell.json("board", "user", "password", "ann")["password"]) == 20
    words = ("board", "user", "password", "ann", "--password-file", "-")
    assert "password" not in shell.json(*words, text="correct horse\n")


def test_removing_asks_first(shell):
    shell.answer("/v1/board/account/remove")
    assert shell("board", "user", "remove", "ann", text="n\n").exit_code == 1
    assert not shell.server.received
    assert shell("board", "user", "remove", "ann", "--yes").exit_code == 0


def test_a_refusal_is_one_sentence(shell):
    shell.refuse("/v1/board/account/role", AccountExists(name="ann"))
    result = shell("board", "user", "role", "ann", "--role", "viewer")
    assert result.exit_code == 1
    assert "An account ann exists already." in result.output


def test_sessions_are_ended(shell):
    shell.answer("/v1/board/account/sign-out", {"ended": 3})
    assert "3 sessions of ann ended." in shell("board", "user", "sign-out", "ann").stdout

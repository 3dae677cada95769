"""A config's file of variables: read wherever toolcrib is started, for what refers to it and nothing else."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.conftest import Load
from toolcrib.config.env_file import format_variables, parse_variables
from toolcrib.config.settings import Settings, StdioTarget

SERVER = {"command": "x", "env": {"TOKEN": "${GH_TOKEN}"}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "project" / "toolcrib.env"
    file.parent.mkdir()
    file.write_text("GH_TOKEN=canary-file\nOTHER=canary-other\n")
    file.chmod(0o600)
    return file


@pytest.fixture
def loaded(load_server: Load) -> Any:
    def loaded(toolcrib: Any = None, **variables: str) -> Settings:
        return load_server(SERVER, toolcrib={"env_file": "toolcrib.env", **(toolcrib or {})}, **variables)

    return loaded


def _env(settings: Settings) -> dict[str, str]:
    target = settings.servers["it"].target
    assert isinstance(target, StdioTarget)
    return dict(target.env)


def test_what_the_environment_lacks_is_taken_from_the_file_for_what_refers_to_it(loaded: Any, file: Path):
    settings = loaded()
    assert _env(settings)["TOKEN"] == "canary-file"
    assert "canary-other" not in _env(settings).values(), "nobody gets what they do not refer to"
    assert not [problem for problem in settings.notices if problem.is_mistake]
    assert (settings.env_file.path, sorted(settings.env_file.variables)) == (file, ["GH_TOKEN", "OTHER"])
    assert _env(loaded(GH_TOKEN="from-outside"))["TOKEN"] == "from-outside"


def test_a_secret_of_the_file_is_masked(loaded: Any, file: Path):
    token = {"token": "${GH_TOKEN}", "subject": "ann"}
    settings = loaded({"http": {"tokens": [token]}, "servers": {"it": {"description": "with ${OTHER}"}}})
    assert settings.redactor.clean("a canary-file, a canary-other") == "a ***, a ***"
    assert "canary" not in repr(settings.env_file)


def test_a_variable_in_neither_leaves_its_server_out_and_says_where_to_write_it(loaded: Any, file: Path):
    file.write_text("OTHER=1\n")
    [problem] = loaded().skipped
    assert (problem.reason, problem.is_mistake) == ("the variable GH_TOKEN is not set", True)
    assert problem.hint == f"write GH_TOKEN=… into {file}, or write ${{GH_TOKEN:-default}}"


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"A=\0", b"A=" + b"x" * 300_000], ids=repr)
def test_a_file_that_cannot_be_read_is_a_mistake_and_costs_only_those_that_need_it(
    content: bytes | None, loaded: Any, file: Path
):
    file.unlink() if content is None else file.write_bytes(content)
    settings = loaded()
    [problem] = [each for each in settings.notices if each.is_mistake]
    assert (problem.path, str(file) in problem.reason, bool(problem.hint)) == ("toolcrib.env_file", True, True)
    assert [each.path for each in settings.skipped] == ["mcpServers.it"]


def test_a_file_that_others_can_read_is_told_with_the_command_that_mends_it(loaded: Any, file: Path):
    file.chmod(0o644)
    assert [each.hint for each in loaded().notices] == [f"chmod 600 {file}"]


def test_its_path_may_have_variables_and_a_wrong_one_is_an_error_of_the_schema(
    load_server: Load, loaded: Any, file: Path
):
    settings = load_server(SERVER, toolcrib={"env_file": "${WHERE}/toolcrib.env"}, WHERE=str(file.parent))
    assert _env(settings)["TOKEN"] == "canary-file"
    with pytest.raises(Exception, match=r"toolcrib\.env_file: must be text"):
        loaded({"env_file": 7})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A=b", "b"),
        ("export A = b # c", "b"),
        ("A=b#c", "b#c"),
        ("A='b c' # d", "b c"),
        ('A="b\\"c\\nd\\x"', 'b"c\nd\\x'),
        ("A='it'\"'\"'s'", "it's"),
        ("A='one\ntwo'\nB=c", "one\ntwo"),
        ("A=it's", "it's"),
        ("A=", ""),
        ("A=1\r\nA=2\r\n", "2"),
        ("# A=1\nA = $B", "$B"),
    ],
)
def test_lines_are_read_as_a_shell_or_an_editor_reads_them(text: str, value: str):
    assert parse_variables(text)["A"] == value


@given(st.dictionaries(st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True), st.text(st.characters(codec="utf-8"))))
def test_what_is_written_is_read_again(variables: dict[str, str]):
    assert parse_variables(format_variables(variables)) == variables


def test_a_shell_reads_it_too(tmp_path: Path):
    variables = {"A": 'it\'s $HOME `x` \\n "q"', "B": "two\nlines", "C": "plain"}
    (tmp_path / "env").write_text(format_variables(variables))
    script = 'set -a; . ./env; printf "%s|%s|%s" "$A" "$B" "$C"'
    said = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert said.stdout == "|".join(variables.values())

"""Secrets that a config refers to: in files and in the keyring."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakes.keyring import MemoryKeyring
from toolcrib.base.errors import ConfigError
from toolcrib.config.loading import load
from toolcrib.config.settings import HttpTarget, Settings
from toolcrib.config.variables import FILE_MAX_BYTES, References

LoadWith = Callable[..., Settings]


@pytest.fixture
def keyring() -> MemoryKeyring:
    return MemoryKeyring()


@pytest.fixture
def loaded(tmp_path: Path, environ: dict[str, str], keyring: MemoryKeyring) -> LoadWith:
    """Load a config whose server has this token in a header."""

    def loaded(token: str, toolcrib: Any = None) -> Settings:
        file = tmp_path / "project" / "crib.json"
        file.parent.mkdir(exist_ok=True)
        entry = {"url": "https://host/mcp", "headers": {"Authorization": f"Bearer {token}"}}
        file.write_text(json.dumps({"mcpServers": {"it": entry}, "toolcrib": toolcrib or {}}))
        return load(file, environ, tmp_path, keyring.get)

    return loaded


def _secret_file(path: Path, content: str | bytes = "from-a-file\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(0o600)
    return path


def _header(settings: Settings) -> str:
    target = settings.servers["it"].target
    assert isinstance(target, HttpTarget)
    return target.headers["Authorization"]


def _why_left_out(settings: Settings) -> str:
    [problem] = settings.skipped
    assert problem.is_mistake
    return str(problem)


def test_a_file_is_read_from_the_home_from_anywhere_and_from_beside_the_config(loaded: LoadWith, tmp_path: Path):
    _secret_file(tmp_path / "home" / "token")
    _secret_file(tmp_path / "project" / "secrets" / "token", "beside\r\n")
    assert _header(loaded("${file:~/token}")) == "Bearer from-a-file"
    assert _header(loaded(f"${{file:{tmp_path}/home/token}}")) == "Bearer from-a-file"
    assert _header(loaded("${file:secrets/token}")) == "Bearer beside"


def test_the_keyring_is_asked_once_for_a_name(loaded: LoadWith, keyring: MemoryKeyring):
    keyring.secrets["wiki-token"] = "from-the-keyring"
    assert _header(loaded("${keyring:wiki-token}")) == "Bearer from-the-keyring"
    asked: list[str] = []
    references = References({}, Path(), lambda name: asked.append(name) or "value")
    assert [references.value("keyring", "a"), references.value("keyring", "a")] == ["value", "value"]
    assert asked == ["a"]


def test_a_secret_is_not_expanded_again(loaded: LoadWith, keyring: MemoryKeyring):
    keyring.secrets["a"] = "${HOME}"
    assert _header(loaded("${keyring:a}")) == "Bearer ${HOME}"


@pytest.mark.parametrize(
    ("token", "why"),
    [
        ("${keyring:absent}", "the keyring has no secret absent (run `toolcrib secret set absent`)"),
        ("${keyring:login/other}", "login/other is not a name for a secret"),
        ("${file:absent}", "absent cannot be read: No such file or directory"),
        ("${file:.}", "project cannot be read: Is a directory"),
        ("${file:large}", f"is larger than {FILE_MAX_BYTES} bytes"),
        ("${file:binary}", "is not UTF-8 text"),
        ("${file:zero}", "is not text"),
        ("${file:empty}", "is empty"),
    ],
)
def test_what_is_missing_leaves_its_server_out_and_says_what_to_do(
    loaded: LoadWith, tmp_path: Path, token: str, why: str
):
    for name, content in {
        "large": b"x" * (FILE_MAX_BYTES + 1),
        "binary": b"\xff",
        "zero": b"a\0b",
        "empty": b"\n",
    }.items():
        _secret_file(tmp_path / "project" / name, content)
    said = _why_left_out(loaded(token))
    assert said.startswith("mcpServers.it: ")
    assert why in said
    assert _header(loaded(f"{token[:-1]}:-none}}")) == "Bearer none"


@pytest.mark.skipif(sys.platform == "win32", reason="no such files there")
def test_a_pipe_is_not_waited_for(loaded: LoadWith, tmp_path: Path):
    (tmp_path / "project").mkdir()
    os.mkfifo(tmp_path / "project" / "pipe")
    assert "is not a file" in _why_left_out(loaded("${file:pipe}"))


def test_a_keyring_that_refuses_is_told_of(loaded: LoadWith, keyring: MemoryKeyring):
    keyring.is_locked = True
    assert "refuses (KeyringLocked)" in _why_left_out(loaded("${keyring:a}"))


def test_outside_of_servers_what_is_missing_is_an_error(loaded: LoadWith):
    with pytest.raises(ConfigError, match=r"toolcrib\.http\.tokens\[0\]\.token: the keyring has no secret ann"):
        loaded("x", {"http": {"tokens": [{"token": "${keyring:ann}", "subject": "ann"}]}})


def test_no_secret_that_is_referred_to_gets_past_the_redactor(loaded: LoadWith, keyring: MemoryKeyring, tmp_path: Path):
    keyring.secrets.update(digits="1234567890", section="of-the-section")
    _secret_file(tmp_path / "project" / "token")
    settings = loaded("${keyring:digits}${file:token}", {"context": {"project_id": "${keyring:section}"}})
    said = "1234567890 from-a-file of-the-section"
    assert settings.redactor.clean(said) == "*** *** ***"
    assert "1234567890" not in repr(settings)


@pytest.mark.skipif(sys.platform == "win32", reason="no such modes there")
def test_a_file_that_others_can_read_is_used_and_told_of(loaded: LoadWith, tmp_path: Path):
    _secret_file(tmp_path / "project" / "token").chmod(0o644)
    settings = loaded("${file:token}")
    assert _header(settings) == "Bearer from-a-file"
    [notice] = settings.notices
    assert str(notice).endswith(f"token: holds a secret, and others can read it (chmod 600 {tmp_path}/project/token)")
    assert not notice.is_mistake

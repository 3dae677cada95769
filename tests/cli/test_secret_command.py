"""toolcrib secret: takes a secret from the terminal or stdin, never shows one, and says how a config refers to it."""

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from cli.command_line import Run


@pytest.fixture(autouse=True)
def _no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)


def _typed(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text), encoding="utf-8"))


def test_a_secret_from_stdin_is_kept_and_used(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    _typed(monkeypatch, b"canary-secret\n")
    code, out, err = run("secret", "set", "wiki")
    assert (code, err) == (0, "")
    reference = f"${{file:{tmp_path}/data/toolcrib/secrets/wiki.secret}}"
    assert f"write {reference} in its place" in out
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"a": {"url": "https://host/mcp", "headers": {"X-Key": reference}}}}))
    code, out, err = run("config", "check", "--config", str(file))
    assert (code, err) == (0, "")
    code, out, _ = run("secret", "list", "--json")
    assert json.loads(out) == {"secrets": [{"name": "wiki", "reference": reference, "in_keyring": False}]}
    assert "canary" not in out
    assert run("secret", "remove", "wiki") == (0, "wiki is deleted.\n", "")
    code, out, err = run("config", "check", "--config", str(file))
    assert code == 1
    assert "cannot be read: No such file" in err


def test_what_is_not_kept_is_named_with_what_is_near(run: Run, monkeypatch: pytest.MonkeyPatch):
    _typed(monkeypatch, b"canary-secret")
    run("secret", "set", "wiki-token")
    code, _, err = run("secret", "remove", "wiki_token")
    assert code == 1
    assert "did you mean wiki-token?" in err


@pytest.mark.parametrize("text", [b"", b"\n", b"\xff\xfe", b"x" * 70_000])
def test_what_is_no_secret_is_not_kept(run: Run, monkeypatch: pytest.MonkeyPatch, text: bytes):
    _typed(monkeypatch, text)
    code, _, err = run("secret", "set", "wiki")
    assert code == 1
    assert "nothing was stored" in err
    assert run("secret", "list")[1].startswith("No secret is stored.")


def test_uninstall_takes_secrets_away(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    _typed(monkeypatch, b"canary-secret")
    run("secret", "set", "wiki")
    assert run("uninstall", "--yes")[0] == 0
    assert not (tmp_path / "data" / "toolcrib").exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no terminals to open there")
def test_what_is_typed_at_a_terminal_is_not_shown(tmp_path: Path):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "toolcrib", "secret", "set", "wiki"],
        env={**os.environ, "XDG_DATA_HOME": str(tmp_path), "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    try:
        while b"wiki: " not in shown:
            shown += os.read(ours, 1024)
        os.write(ours, b"canary-typed\n")
        process.wait(30)
        shown += os.read(ours, 4096)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert b"canary" not in shown
    assert (tmp_path / "toolcrib" / "secrets" / "wiki.secret").read_text() == "canary-typed"

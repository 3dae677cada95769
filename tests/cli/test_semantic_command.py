"""toolcrib index semantic, and what status says about search by meaning, to people and to clients."""

import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from models import make_model, make_package

from fakes.menu import tool
from toolcrib.cli import main
from toolcrib.search.static_model import ModelFiles, StaticModel, load_model
from worlds import world

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run a command with ``semantic`` as the config's section."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TOOLCRIB_PARENT", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def run(*arguments: str, **semantic: Any) -> tuple[int, str, str]:
        file = tmp_path / "crib.json"
        section = {"cache_dir": "index", "tool_search": {"semantic": semantic}}
        file.write_text(json.dumps({"mcpServers": {}, "toolcrib": section}))
        code = main([*arguments, "--config", str(file)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, installed_model: None) -> Path:
    """Install a package with a tiny model."""
    monkeypatch.syspath_prepend(make_package(tmp_path / "site"))
    return tmp_path / "site"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Put a hub in place that gives a tiny model; return the names that were asked for."""
    asked: list[str] = []

    def snapshot_download(name: str, *, allow_patterns: list[str], local_dir: Path) -> None:
        asked.append(name)
        make_model(local_dir)

    make_model(tmp_path / "unused")  # skips the test where the extra is not installed
    fake = ModuleType("huggingface_hub")
    monkeypatch.setattr(fake, "snapshot_download", snapshot_download, raising=False)
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    return asked


def test_it_can_be_switched_off_and_nothing_is_fetched(run: Run, hub: list[str]):
    code, out, _err = run("index", "semantic", enabled=False)
    assert code == 0
    assert out.splitlines()[0] == "state    off: tool_search.semantic.enabled is false"
    assert "model    minishlab/potion-retrieval-32M" in out
    assert "semantic off: tool_search.semantic.enabled is false" in run("status", enabled=False)[1]
    assert hub == []


def test_it_is_off_at_first_where_no_model_is_installed(run: Run, hub: list[str]):
    code, out, err = run("index", "semantic")
    assert (code, err) == (0, "")
    said = "off: No model is installed: pip install 'toolcrib[semantic]', or `toolcrib index semantic --download`."
    assert out.splitlines()[:2] == [f"state    {said}", "model    minishlab/potion-retrieval-32M"]
    assert f"semantic {said}" in run("status")[1]
    assert hub == []


def test_an_installed_model_is_used_by_itself(run: Run, hub: list[str], package: Path):
    code, out, _err = run("index", "semantic")
    assert (code, out.splitlines()) == (
        0,
        ["state    ready", "model    wordllama 0.4.0", f"path     {package / 'wordllama' / 'weights'}"],
    )
    assert "semantic ready" in run("status")[1]
    assert run("index", "semantic", enabled=False)[1].startswith("state    off")
    assert hub == []


def test_a_damaged_installed_model_is_told_whether_it_was_asked_for_or_not(run: Run, package: Path):
    (package / "wordllama/weights/l2_supercat_256.safetensors").write_bytes(b"")
    for semantic in ({}, {"enabled": True}):
        code, out, _err = run("index", "semantic", **semantic)
        assert (code, out.splitlines()[0]) == (
            1,
            "state    unavailable: The model in the package wordllama is damaged: reinstall it.",
        )


def test_a_downloaded_model_takes_the_place_of_the_installed_one(run: Run, hub: list[str], package: Path):
    assert run("index", "semantic", "--download")[0] == 0
    assert "model    minishlab/potion-retrieval-32M" in run("index", "semantic")[1]
    assert "model    wordllama" in run("index", "semantic", model="some/model")[1]
    assert hub == ["minishlab/potion-retrieval-32M"]


def test_a_model_that_is_not_there_is_named_with_what_fetches_it(run: Run, hub: list[str], tmp_path: Path):
    code, out, _err = run("index", "semantic", "--json", enabled=True, model="some/model")
    assert code == 1
    assert json.loads(out) == {
        "state": "unavailable",
        "reason": "No model is installed: pip install 'toolcrib[semantic]', or `toolcrib index semantic --download`.",
        "model": "some/model",
        "path": str(tmp_path / "cache" / "toolcrib" / "models" / "some" / "model"),
    }
    status = json.loads(run("status", "--json", enabled=True, model="some/model")[1])
    assert status["semantic"]["state"] == "unavailable"
    assert hub == []


def test_a_model_is_fetched_when_asked_for_and_then_used(run: Run, hub: list[str]):
    assert run("index", "semantic", "--download")[0] == 0
    assert hub == ["minishlab/potion-retrieval-32M"]
    code, out, _err = run("index", "semantic", enabled=True)
    assert (code, out.splitlines()[0]) == (0, "state    ready")
    assert json.loads(run("status", "--json", enabled=True)[1])["semantic"] == {"state": "ready", "reason": None}


def test_a_model_of_ones_own_is_used_from_its_folder(run: Run, tmp_path: Path):
    make_model(tmp_path / "mine")
    code, out, _err = run("index", "semantic", enabled=True, path="mine")
    assert (code, out.splitlines()[0]) == (0, "state    ready")
    assert str(tmp_path / "mine") in out


def test_nothing_is_fetched_into_a_folder_of_ones_own(run: Run, hub: list[str]):
    code, out, err = run("index", "semantic", "--download", path="mine")
    assert (code, out) == (1, "")
    assert "tool_search.semantic.path names your own folder" in err
    assert hub == []


def test_a_fetch_that_fails_is_told_on_stderr(run: Run, hub: list[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys.modules["huggingface_hub"], "snapshot_download", lambda *_args, **_options: 1 / 0)
    code, out, err = run("index", "semantic", "--download")
    assert (code, out) == (1, "")
    assert "minishlab/potion-retrieval-32M cannot be fetched" in err


@pytest.mark.parametrize("model", ["../../etc", "a/../b", "/absolute", "one", "a/b/c", "a/.."])
def test_a_models_name_is_no_path(run: Run, model: str):
    code, _out, err = run("status", model=model)
    assert code == 2
    assert "tool_search.semantic.model" in err


@pytest.mark.anyio
async def test_clients_see_the_state_and_find_by_meaning(tmp_path: Path):
    make_model(tmp_path / "model")
    tools = {"desk": [tool("create_issue", "Opens an issue."), tool("list_rooms", "Lists rooms.")]}
    section = {
        "tool_search": {"semantic": {"enabled": True, "path": "model"}},
        "skills": {"skill_packs": [], "skill_dirs": []},
    }
    async with world(tmp_path, tools, section) as w, w.client() as client:
        assert await client.found("bug") == ["desk__create_issue"]
        answer = await client.ask("resources/read", {"uri": "toolcrib://status"})
        assert json.loads(answer["contents"][0]["text"])["semantic"] == {"state": "ready", "reason": None}


@pytest.mark.anyio
async def test_an_installed_model_needs_neither_a_config_nor_a_network(
    tmp_path: Path, package: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_args: object, **_options: object) -> None:
        raise AssertionError("the network was used")

    for name in ("create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    tools = {"desk": [tool("create_issue", "Opens an issue."), tool("list_rooms", "Lists rooms.")]}
    async with world(tmp_path, tools, {"skills": {"skill_packs": [], "skill_dirs": []}}) as w, w.client() as client:
        assert await client.found("gripe") == ["desk__create_issue"]
        answer = await client.ask("resources/read", {"uri": "toolcrib://status"})
        assert json.loads(answer["contents"][0]["text"])["semantic"] == {"state": "ready", "reason": None}


@pytest.mark.anyio
async def test_a_reload_keeps_the_model_unless_it_names_another(
    tmp_path: Path, package: Path, monkeypatch: pytest.MonkeyPatch
):
    loaded: list[str] = []

    def load(files: ModelFiles) -> StaticModel:
        loaded.append(files.label)
        return load_model(files)

    monkeypatch.setattr("toolcrib.search.semantic.load_model", load)
    section = {"skills": {"skill_packs": [], "skill_dirs": []}}
    async with world(tmp_path, {"desk": [tool("create_issue", "Opens an issue.")]}, section) as w, w.client() as client:
        assert await client.found("gripe") == ["desk__create_issue"]
        assert not (await w.reload({**section, "policy": {"deny": ["*drop*"]}})).failure
        assert await client.found("gripe") == ["desk__create_issue"]
        assert loaded == ["wordllama 0.4.0"]
        own = make_model(tmp_path / "mine")
        assert not (await w.reload({**section, "tool_search": {"semantic": {"path": str(own)}}})).failure
        assert await client.found("gripe") == ["desk__create_issue"]
        assert loaded == ["wordllama 0.4.0", str(own)]


@pytest.mark.anyio
async def test_clients_see_why_it_is_not_used_and_find_by_words(tmp_path: Path):
    tools = {"desk": [tool("create_issue", "Opens an issue.")]}
    section = {
        "tool_search": {"semantic": {"enabled": True, "path": "nowhere"}},
        "skills": {"skill_packs": [], "skill_dirs": []},
    }
    async with world(tmp_path, tools, section) as w, w.client() as client:
        assert await client.found("open issue") == ["desk__create_issue"]
        answer = await client.ask("resources/read", {"uri": "toolcrib://status"})
        state = json.loads(answer["contents"][0]["text"])["semantic"]
        assert state["state"] == "unavailable"
        assert str(tmp_path) not in state["reason"]

"""toolcrib index vocabulary: what use has taught, shown and forgotten, under a running toolcrib too."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from fakes.menu import tool
from toolcrib.base.model import Caller
from toolcrib.cli import main
from toolcrib.policy.state import LessonFilter, StoredVocabularies
from worlds import MemoryServer, until, world

pytestmark = pytest.mark.anyio

Run = Callable[..., tuple[int, str, str]]
RED = {"token": "0123456789abcdef", "subject": "ann", "tenant_id": "red", "profile": "guest"}
CONFIG: dict[str, Any] = {"tool_search": {"learn": True}, "http": {"tokens": [RED]}}
FEED, COUNT = "zoo__feed", "zoo__count"


@pytest.fixture
def run(in_project: None, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run a command by the config of the world in ``tmp_path``."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["index", "vocabulary", *arguments, "--config", str(tmp_path / "toolcrib.json")])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def zoo() -> dict[str, MemoryServer]:
    return {"zoo": MemoryServer([tool("feed", "Feeds an animal."), tool("count", "Counts the animals.")])}


async def taught(tmp_path: Path) -> None:
    """Have the person at this machine teach two words, and ann of the tenant red one."""
    async with world(tmp_path, zoo(), CONFIG) as w:
        kept = w.gateway.generation.offline.learning._kept
        async with w.client() as client, w.client(caller=Caller("ann", "red", None, "guest")) as ann:
            for each, query, name in ((client, "breakfast hippos", FEED), (ann, "headcount", COUNT)):
                await each.search(query)
                await each.call(name)
            await until(lambda: len(kept.all()) == 2)


async def test_it_is_shown_to_a_person_and_to_a_program(tmp_path, run):
    await taught(tmp_path)
    code, out, err = await anyio.to_thread.run_sync(run)
    assert (code, err) == (0, "")
    heading, *lines = out.splitlines()
    assert heading.split() == ["word", "tool", "from", "weight", "last"]
    assert [line.split()[:3] for line in lines] == [
        ["headcount", COUNT, "ann"],
        ["breakfast", FEED, "local"],
        ["hippo", FEED, "local"],
    ]
    _, out, _ = await anyio.to_thread.run_sync(lambda: run("--json", "--principal", "ann"))
    [one] = json.loads(out)
    assert one == {
        "word": "headcount",
        "tool": COUNT,
        "principal": "ann",
        "tenant_id": "red",
        "project_id": None,
        "profile": "guest",
        "weight": 0.5,
        "taught_at": "2027-01-15T08:00:00+00:00",
    }
    _, out, _ = await anyio.to_thread.run_sync(lambda: run("hippos"))
    assert [line.split()[0] for line in out.splitlines()] == ["word", "hippo"]


async def test_what_is_denied_now_is_not_shown_and_is_forgotten_all_the_same(tmp_path, run):
    await taught(tmp_path)
    file = tmp_path / "toolcrib.json"
    document = json.loads(file.read_text())
    rule = {"when": {"profile": "guest"}, "deny": ["zoo.count"]}
    document["toolcrib"]["policy"] = {"deny": ["zoo.feed"], "visibility": [rule]}
    file.write_text(json.dumps(document))
    _, out, _ = await anyio.to_thread.run_sync(run)
    assert out == "Nothing was learned about this.\n"
    _, out, _ = await anyio.to_thread.run_sync(lambda: run("--forget", "--all", "--json"))
    assert json.loads(out) == {"forgotten": 3}


@pytest.mark.sampled
@pytest.mark.parametrize(("meant", "gone"), [(["--all"], 3), (["--tool", FEED], 2), (["--principal", "ann"], 1)])
async def test_all_that_is_meant_is_forgotten_at_once(tmp_path, run, monkeypatch, meant, gone):
    await taught(tmp_path)
    changes: list[LessonFilter] = []
    forget = StoredVocabularies.forget

    def noted(kept: StoredVocabularies, what: LessonFilter) -> int:
        changes.append(what)
        return forget(kept, what)

    monkeypatch.setattr(StoredVocabularies, "forget", noted)
    _, out, _ = await anyio.to_thread.run_sync(lambda: run("--forget", *meant, "--json"))
    assert json.loads(out) == {"forgotten": gone}
    assert len(changes) == 1


async def test_a_running_toolcrib_forgets_what_is_deleted(tmp_path, run):
    async with world(tmp_path, zoo(), CONFIG) as w, w.client() as client:
        kept = w.gateway.generation.offline.learning._kept
        for query in ("breakfast", "lunch"):
            await client.search(query)
            await client.call(FEED)
        await until(lambda: kept.all() == w.gateway.generation.offline.learning._known)
        assert await client.found("breakfast") == [FEED]
        code, out, _ = await anyio.to_thread.run_sync(lambda: run("breakfast", "--tool", FEED, "--forget"))
        assert (code, out.split(".")[0]) == (0, "Deleted 1 lesson")
        # A search looks for what others have deleted; the one above may have looked before this was.
        await client.search("lunch")
        await until(lambda: kept.all() == w.gateway.generation.offline.learning._known)
        assert await client.found("breakfast") == []
        assert await client.found("lunch") == [FEED]


async def test_commands_that_only_look_take_nothing_from_the_index_of_a_running_toolcrib(tmp_path, run):
    skills = {"enabled": True, "core_pack": False, "discover": []}
    anew = {"tool_search": {"learn": True, "rebuild_cache_on_init": True}, "skills": skills}
    config = ["--config", str(tmp_path / "toolcrib.json")]
    async with world(tmp_path, zoo(), anew) as w, w.client() as client:
        indexer, kept = w.gateway.tools.indexer, w.gateway.generation.offline.learning._kept
        await client.search("breakfast")
        await client.call(FEED)
        await until(lambda: bool(kept.all()))
        _, out, _ = await anyio.to_thread.run_sync(run)
        assert out.splitlines()[1].split()[:2] == ["breakfast", FEED]
        for command in (["tokens"], ["skills", "list"], ["search", "animals"]):
            assert await anyio.to_thread.run_sync(main, [*command, *config]) == 0
            assert indexer.unlisted() == [], command


@pytest.mark.parametrize("wrong", [["--forget"], ["--forget", "--all", "word"], ["--all"]])
def test_what_is_to_be_forgotten_has_to_be_said(run, wrong, tmp_path):
    (tmp_path / "toolcrib.json").write_text("{}")
    code, _, err = run(*wrong)
    assert code == 2
    assert "--forget" in err


def test_that_nothing_is_learnt_is_said(run, tmp_path):
    (tmp_path / "toolcrib.json").write_text(json.dumps({"toolcrib": {"cache_dir": "cache"}}))
    _, out, _ = run()
    assert out.splitlines() == [
        "Learning is off, and lessons are ignored: tool_search.learn is false.",
        "Nothing was learned about this.",
    ]

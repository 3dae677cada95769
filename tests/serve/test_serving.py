"""``toolcrib serve`` as a client sees it: what it answers, and that nothing but messages is on its stdout."""

import json
import logging
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from fakes.menu import FakeServer, tool
from serve.served import (
    ENDINGS,
    ENVELOPE,
    INITIALIZE,
    PATIENCE_S,
    command,
    environment,
    run,
    served,
    started,
    write_config,
)
from toolcrib.cli import serve
from worlds import OWN_TOOLS

pytestmark = pytest.mark.anyio


SLOW = pytest.mark.slow


@pytest.mark.slow
@pytest.mark.parametrize("listing", ["dynamic", pytest.param("stable", marks=SLOW)])
async def test_it_answers_in_both_listing_modes(tmp_path: Path, listing: str):
    fake = FakeServer(tmp_path, tools=[tool("echo", "Answers with its arguments.")])
    async with served(tmp_path, fake, options=["--listing", listing]) as crib:
        await crib.initialize()
        found = await crib.tool("tool_search", query="answers with arguments")
        assert [hit["name"] for hit in found["structuredContent"]["tools"]] == ["fake__echo"]
        assert (await crib.tool("tool_call", name="fake__echo", arguments={"a": 1}))["structuredContent"] == {"a": 1}
        assert (await crib.tool("fake__echo", a=2))["structuredContent"] == {"a": 2}
        names = [entry["name"] for entry in (await crib.request("tools/list"))["tools"]]
        assert names == [*OWN_TOOLS, *(["fake__echo"] if listing == "dynamic" else [])]
        crib.close_stdin()
        assert await crib.ended() == 0
        assert crib.said == ""
    assert fake.survivors() == []


@SLOW
@pytest.mark.parametrize(("options", "named"), [([], "2026-07-28"), (["--listing", "dynamic"], "2025-11-25")])
async def test_a_modern_client_is_served_whichever_revision_the_probe_names(tmp_path: Path, options, named):
    async with served(tmp_path, FakeServer(tmp_path), options=options) as crib:
        discovered = await crib.request("server/discover", {"_meta": ENVELOPE})
        assert discovered["supportedVersions"][-1] == named
        called = await crib.request(
            "tools/call", {"_meta": ENVELOPE, "name": "tool_call", "arguments": {"name": "fake__echo"}}
        )
        assert called["content"][0]["text"] == "{}"


# -- stdout --------------------------------------------------------------------------------------

NOISY = """
import os, subprocess, sys
import toolcrib.server.stdio as stdio
from toolcrib.cli.serve import main

real = stdio.serve_by_era

async def noisy(*arguments, **options):
    print("noise from print")
    os.write(1, b"noise from a descriptor\\n")
    subprocess.run(["echo", "noise from a child"])
    assert sys.stdin.read() == ""
    try:
        return await real(*arguments, **options)
    finally:
        print("noise at the end")

stdio.serve_by_era = noisy
sys.exit(main(sys.argv[1:]))
"""


@SLOW
async def test_what_is_printed_in_the_process_cannot_reach_stdout(tmp_path: Path):
    config = write_config(tmp_path, FakeServer(tmp_path))
    async with started([sys.executable, "-c", NOISY, "--config", str(config)], tmp_path) as crib:
        await crib.initialize()
        assert (await crib.tool("tool_call", name="fake__echo"))["content"][0]["text"] == "{}"
        crib.close_stdin()
        assert await crib.ended() == 0
        for noise in ("from print", "from a descriptor", "from a child", "at the end"):
            assert f"noise {noise}\n" in crib.said


TELLING = """
import logging, sys
import toolcrib.server.stdio as stdio
from toolcrib.cli.serve import main

real = stdio.serve_by_era

async def telling(*arguments, **options):
    try:
        raise ValueError("no such key: canary-secret of ann@corp.io")
    except ValueError:
        logging.getLogger("some.library").exception("It used %s", "canary-secret")
    return await real(*arguments, **options)

stdio.serve_by_era = telling
sys.exit(main(sys.argv[1:]))
"""


@SLOW
@pytest.mark.parametrize("form", ["text", "json"])
async def test_what_is_logged_has_no_secret_in_it(tmp_path: Path, form: str):
    config = tmp_path / "toolcrib.json"
    entry = {"command": "x", "args": ["--api-key=canary-secret"]}
    config.write_text(json.dumps({"mcpServers": {"db": entry}, "toolcrib": {"cache_dir": "cache"}}))
    arguments = [sys.executable, "-c", TELLING, "--config", str(config), "--log-format", form]
    async with started(arguments, tmp_path) as crib:
        await crib.initialize()
        crib.close_stdin()
        assert await crib.ended() == 0
        assert "It used ***" in crib.said
        assert "no such key: *** of [REDACTED_EMAIL]" in crib.said
        assert "canary" not in crib.said


@SLOW
async def test_a_server_s_own_noise_cannot_reach_stdout(tmp_path: Path):
    fake = FakeServer(tmp_path, garbage=3, stderr="noise on stderr")
    async with served(tmp_path, fake) as crib:
        await crib.initialize()
        assert (await crib.tool("tool_call", name="fake__echo"))["content"][0]["text"] == "{}"
        crib.close_stdin()
        assert await crib.ended() == 0
        assert "noise" not in crib.said


# -- a start that is refused ---------------------------------------------------------------------

Ended = subprocess.CompletedProcess[str]


@pytest.fixture
def serve_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Ended]:
    """Return what runs the command in this process, which it leaves as it was where nothing comes to be served."""

    def serve_here(*options: str, **environ: str) -> Ended:
        monkeypatch.setattr(os, "environ", environment(tmp_path, **environ))
        monkeypatch.setattr(serve, "_log_to_stderr", lambda *_given, **_options: logging.NullHandler())
        code = serve.main(list(options))
        said = capfd.readouterr()
        return Ended(options, code, said.out, said.err)

    return serve_here


def test_a_config_that_cannot_be_used_is_told_on_stderr_only(tmp_path: Path, serve_here: Callable[..., Ended]):
    file = tmp_path / "bad.json"
    file.write_text('{"mcpServers": {}, "toolcrib": {"gaet": {}, "limits": {"name_max": "x"}}}')
    ended = serve_here("--config", str(file))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "toolcrib.gaet" in ended.stderr
    assert "toolcrib.limits.name_max" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_config_that_is_missing_is_told_on_stderr_only(tmp_path: Path, serve_here: Callable[..., Ended]):
    ended = serve_here("--config", str(tmp_path / "none.json"))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "none.json" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_toolcrib_started_by_a_toolcrib_refuses(tmp_path: Path, serve_here: Callable[..., Ended]):
    ended = serve_here("--config", str(write_config(tmp_path)), TOOLCRIB_PARENT="1")
    assert (ended.returncode, ended.stdout) == (3, "")
    assert "started by another toolcrib" in ended.stderr


@SLOW
def test_session_scope_without_a_session_id_is_refused(tmp_path: Path):
    config = write_config(tmp_path, tool_search={"activation_scope": "session"})
    ended = run(tmp_path, "--config", str(config))
    assert (ended.returncode, ended.stdout) == (3, "")
    assert "TOOLCRIB_SESSION_ID" in ended.stderr
    assert "Traceback" not in ended.stderr


# -- descriptors ---------------------------------------------------------------------------------


@SLOW
async def test_a_socket_may_take_the_place_of_the_pipes(tmp_path: Path):
    async with served(tmp_path, FakeServer(tmp_path), sockets=True) as crib:
        await crib.initialize()
        assert (await crib.tool("tool_call", name="fake__echo"))["content"][0]["text"] == "{}"
        crib.from_it = -1
        crib.close_stdin()
        assert await crib.ended() == 0


@SLOW
def test_files_may_take_the_place_of_the_pipes(tmp_path: Path):
    lines = [
        {"id": 1, "method": "initialize", "params": INITIALIZE},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
    ]
    said, answers = tmp_path / "in", tmp_path / "out"
    said.write_text("".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines))
    with said.open("rb") as stdin, answers.open("wb") as stdout:
        ended = subprocess.run(
            command(write_config(tmp_path)),
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=environment(tmp_path),
            timeout=PATIENCE_S,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (0, b"")
    first = json.loads(answers.read_text().splitlines()[0])
    assert first["result"]["serverInfo"]["name"] == "toolcrib"


@SLOW
async def test_a_client_that_reads_nothing_more_does_not_bring_it_down(tmp_path: Path):
    async with served(tmp_path, FakeServer(tmp_path)) as crib:
        await crib.initialize()
        os.close(crib.from_it)
        crib.from_it = -1
        for key in range(5):
            await crib.send({"id": f"unread {key}", "method": "tools/list", "params": {}})
        await anyio.sleep(0.1)
        assert crib.process.poll() is None
        crib.close_stdin()
        assert await crib.ended() == 0
        assert "Traceback" not in crib.said


# -- a client that sends rubbish -----------------------------------------------------------------


@SLOW
async def test_garbage_and_long_lines_from_a_client_are_borne_with(tmp_path: Path):
    limits = {"request_max_bytes": 65_536, "garbage_lines": 10}
    async with served(tmp_path, FakeServer(tmp_path), limits=limits) as crib:
        await crib.initialize()
        for _ in range(5):
            await crib.write(b"garbage\n" * 10 + b"\n\n")
            assert await crib.request("ping") == {}
        padding = " " * 60_000
        assert (await crib.tool("tool_call", name="fake__echo", arguments={"text": padding}))["structuredContent"]


@SLOW
@pytest.mark.parametrize(
    ("rubbish", "reason"),
    [
        (b"garbage\n" * 11, "the client sent 11 lines in a row that are not MCP messages"),
        (b"x" * 70_000, "the client sent a line of more than 65536 bytes (limits.request_max_bytes)"),
    ],
    ids=["garbage", "a long line"],
)
async def test_too_much_rubbish_from_a_client_ends_it_with_a_reason(tmp_path: Path, rubbish: bytes, reason: str):
    limits = {"request_max_bytes": 65_536, "garbage_lines": 10}
    async with served(tmp_path, limits=limits) as crib:
        await crib.initialize()
        await crib.write(rubbish)
        assert await crib.ended() == 0
        assert reason in crib.said


# -- the end -------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [ENDINGS[0], *[pytest.param(end, marks=SLOW) for end in ENDINGS[1:]]])
async def test_every_way_to_end_it_leaves_nothing_behind(tmp_path: Path, end: Any):
    fakes = [
        FakeServer(tmp_path, "calm", fork_child=True),
        FakeServer(tmp_path, "stubborn", fork_child=True, ignore_sigterm=True, tools=["sleep"]),
        FakeServer(tmp_path, "starting", hang_at="list", ignore_sigterm=True),
    ]
    options: dict[str, Any] = {"calm": {"start": "eager"}, "stubborn": {"start": "eager"}}
    async with served(tmp_path, *fakes, servers=options) as crib:
        await crib.initialize()
        await crib.send(
            {"id": "x", "method": "tools/call", "params": {"name": "stubborn__sleep", "arguments": {"seconds": 60}}}
        )
        await fakes[1].reached("tools/call")
        await fakes[2].reached("tools/list")
        assert sum(len(fake.survivors()) for fake in fakes) >= 4
        await end(crib)
        assert await crib.ended() == 0
        assert "Traceback" not in crib.said
    assert [fake.survivors() for fake in fakes] == [[], [], []]


@SLOW
@pytest.mark.parametrize("end", [ENDINGS[1], *ENDINGS[::2]])
async def test_it_may_be_ended_before_anybody_spoke(tmp_path: Path, end: Any):
    fake = FakeServer(tmp_path, hang_at="spawn")
    async with served(tmp_path, fake) as crib:
        with anyio.fail_after(PATIENCE_S):
            while not fake.starts():
                await anyio.sleep(0.01)
        await end(crib)
        assert await crib.ended() == 0
    assert fake.survivors() == []


# -- a second start ------------------------------------------------------------------------------


@SLOW
async def test_a_second_start_writes_nothing_to_either_index(tmp_path: Path):
    fake = FakeServer(tmp_path, tools={"generate": 50})

    async def one_start() -> None:
        async with served(tmp_path, fake) as crib:
            await crib.initialize()
            assert (await crib.tool("tool_search", query="create an issue"))["structuredContent"]["tools"]
            assert (await crib.tool("skill_search", query="undo a commit"))["structuredContent"]["skills"]
            crib.close_stdin()
            assert await crib.ended() == 0

    await one_start()
    indexes = [tmp_path / "cache" / name for name in ("tool_cache.db", "skills.db")]
    before = [(index.read_bytes(), index.stat().st_mtime_ns) for index in indexes]
    with ExitStack() as stack:
        outside = [stack.enter_context(closing(sqlite3.connect(index))) for index in indexes]
        versions = [one.execute("PRAGMA data_version").fetchone() for one in outside]
        await one_start()
        assert [one.execute("PRAGMA data_version").fetchone() for one in outside] == versions
    assert [(index.read_bytes(), index.stat().st_mtime_ns) for index in indexes] == before
    assert len(fake.starts()) == 1


@SLOW
async def test_after_a_restart_it_answers_from_the_index_however_many_servers_cannot_be_started(tmp_path: Path):
    fakes = [FakeServer(tmp_path, f"fake{number}", tools=["echo", "book_flight"]) for number in range(3)]
    options = {"fake1": {"connect_timeout_s": 5}}
    limits = {"first_index_wait_s": 3600}
    async with served(tmp_path, *fakes, servers=options, limits=limits) as crib:
        await crib.initialize()
        await crib.tool("tool_search", query="book a flight")
        crib.close_stdin()
        assert await crib.ended() == 0
    fakes[0].change(exit_at="spawn")
    fakes[1].change(hang_at="spawn")
    fakes[2].change(exit_at="list")
    async with served(tmp_path, *fakes, servers=options, limits=limits) as crib:
        await crib.initialize()
        found = await crib.tool("tool_search", query="book a flight")
        assert len(found["structuredContent"]["tools"]) == 3
        for number, reason in enumerate(("exited with status 3", "did not answer within 5 s", "exited with status 3")):
            refused = await crib.tool("tool_call", name=f"fake{number}__book_flight")
            assert refused["isError"]
            assert f"The server 'fake{number}' could not be started: it " in refused["content"][0]["text"]
            assert reason in refused["content"][0]["text"]

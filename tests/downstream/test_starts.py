"""How a server is started: once, in the era it speaks, within its deadline, and with an explanation if it fails."""

import os
import re
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from downstream.fleets import (
    DEADLINE_S,
    HURRIED_S,
    Watched,
    fleet_of,
    passing,
    session_of,
    settings_of,
    settled,
    time_passes,
    until,
)
from fakes.menu import FakeServer
from toolcrib.base.errors import StartFailed
from toolcrib.config.schema import ServerSection
from toolcrib.config.settings import ServerSettings, StdioTarget
from toolcrib.downstream.states import State

pytestmark = pytest.mark.anyio


async def refusal(it: Watched, key: str = "fake") -> str:
    """Ask for the connection of a server that cannot be started, and return what is said."""
    with pytest.raises(StartFailed) as caught:
        await it.fleet[key].connection()
    assert caught.value.server == key
    return str(caught.value)


def methods(fake: FakeServer) -> list[str]:
    return [message["method"] for message in fake.messages()]


# -- eras ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("speaks", "era"), [(["legacy"], "legacy"), (["modern"], "modern"), (["legacy", "modern"], "modern")]
)
async def test_both_eras_are_spoken_the_newer_one_where_there_is_a_choice(tmp_path: Path, speaks: Any, era: str):
    fake = FakeServer(tmp_path, tools=["echo", "other"], eras=speaks)
    async with fleet_of(settings_of(fake)) as it:
        assert await it.text("fake", "echo", {"a": 1}) == '{"a": 1}'
        assert it.lists == [("fake", ["echo", "other"], era)]
        assert it.states_of() == ["starting", "ready"]
    assert len(fake.starts()) == 1


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("speaks", "is_modern", "era"),
    [
        (["legacy"], False, "legacy"),
        (["modern"], False, "modern"),
        (["modern"], True, "modern"),
        (["legacy", "modern"], False, "legacy"),
        (["legacy", "modern"], True, "modern"),
    ],
)
async def test_for_a_client_that_can_be_asked_its_own_era_is_spoken_where_there_is_a_choice(
    tmp_path: Path, speaks: Any, *, is_modern: bool, era: str
):
    fake = FakeServer(tmp_path, tools=["echo"], eras=speaks)
    async with fleet_of(settings_of(fake), session=session_of("elicitation", is_modern=is_modern)) as it:
        assert await it.text("fake", "echo") == "{}"
        assert it.lists == [("fake", ["echo"], era)]
    assert len(fake.starts()) == 1


@pytest.mark.sampled
@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_every_handshake_revision_is_spoken(tmp_path: Path, version: str):
    fake = FakeServer(tmp_path, eras=["legacy"], legacy_version=version)
    async with fleet_of(settings_of(fake)) as it:
        assert await it.text("fake", "echo") == "{}"


async def test_a_server_that_dies_of_the_probe_is_started_once_more_the_old_way(tmp_path: Path):
    fake = FakeServer(tmp_path, eras=["legacy"], die_on_discover=True)
    async with fleet_of(settings_of(fake)) as it:
        assert await it.text("fake", "echo") == "{}"
        assert it.lists == [("fake", ["echo"], "legacy")]
        assert it.states_of() == ["starting", "ready"]
        assert len(fake.starts()) == 2


async def test_the_era_of_a_server_is_remembered_for_its_next_start(tmp_path: Path):
    fake = FakeServer(tmp_path, eras=["legacy"], die_on_discover=True)
    async with fleet_of(settings_of(fake, idle_stop_s=DEADLINE_S)) as it:
        await it.text("fake", "echo")
        await time_passes(DEADLINE_S)
        await it.is_in(State.SLEEPING)
        await it.text("fake", "echo")
        assert len(fake.starts()) == 3
        assert methods(fake).count("server/discover") == 1


async def test_a_known_era_is_used_at_once(tmp_path: Path):
    fake = FakeServer(tmp_path, eras=["legacy"], die_on_discover=True)
    async with fleet_of(settings_of(fake), eras={"fake": "legacy"}) as it:
        assert await it.text("fake", "echo") == "{}"
    assert methods(fake)[0] == "initialize"
    assert len(fake.starts()) == 1


@pytest.mark.parametrize(("known", "speaks"), [("legacy", "modern"), ("modern", "legacy")])
async def test_a_server_that_has_changed_its_era_is_understood(tmp_path: Path, known: Any, speaks: Any):
    fake = FakeServer(tmp_path, eras=[speaks])
    async with fleet_of(settings_of(fake), eras={"fake": known}) as it:
        assert await it.text("fake", "echo") == "{}"
        assert it.lists == [("fake", ["echo"], speaks)]


async def test_crashes_at_the_start_do_not_make_a_server_old(tmp_path: Path):
    fake = FakeServer(tmp_path, exit_at="spawn", faulty_starts=2)
    async with fleet_of(settings_of(fake)) as it:
        await refusal(it)
        assert await it.text("fake", "echo") == "{}"
        assert it.lists == [("fake", ["echo"], "modern")]


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_configured_era_is_the_only_one_tried(tmp_path: Path, era: Any):
    fake = FakeServer(tmp_path)
    async with fleet_of(settings_of(fake, protocol=era)) as it:
        assert await it.text("fake", "echo") == "{}"
        assert it.lists == [("fake", ["echo"], era)]
    assert methods(fake)[0] == {"legacy": "initialize", "modern": "server/discover"}[era]


@pytest.mark.parametrize(("era", "speaks"), [("legacy", "modern"), ("modern", "legacy")])
async def test_a_server_that_does_not_speak_the_configured_era_fails(tmp_path: Path, era: Any, speaks: Any):
    fake = FakeServer(tmp_path, eras=[speaks])
    async with fleet_of(settings_of(fake, protocol=era)) as it:
        assert "it answered with an error: " in await refusal(it)
    assert len(fake.starts()) == 1


async def test_a_slow_server_that_takes_the_late_probe_for_the_opening_is_modern_after_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("mcp.client.session.DISCOVER_TIMEOUT_SECONDS", DEADLINE_S)
    fake = FakeServer(tmp_path, hold_at="spawn")
    async with fleet_of(settings_of(fake)) as it:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.call, "fake", "echo")
            await until(lambda: bool(fake.starts()))
            await time_passes(DEADLINE_S)
            fake.let_go()
        assert it.lists == [("fake", ["echo"], "modern")]
    assert methods(fake)[:3] == ["server/discover", "initialize", "server/discover"]
    assert len(fake.starts()) == 1


async def test_a_server_that_keeps_silent_at_the_probe_is_asked_the_old_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("mcp.client.session.DISCOVER_TIMEOUT_SECONDS", DEADLINE_S)
    fake = FakeServer(tmp_path, eras=["legacy"], hang_at="discover")
    async with fleet_of(settings_of(fake)) as it:
        async with passing(DEADLINE_S, lambda: fake.reached("server/discover")):
            await it.text("fake", "echo")
        assert it.lists == [("fake", ["echo"], "legacy")]


async def test_a_version_of_neither_era_is_refused(tmp_path: Path):
    fake = FakeServer(tmp_path, eras=["legacy"], legacy_version="1999-01-01")
    async with fleet_of(settings_of(fake)) as it:
        assert "Unsupported protocol version from the server: 1999-01-01" in await refusal(it)


# -- deadlines and exits -------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("point", "era"), [("spawn", None), ("initialize", "legacy"), ("discover", "modern"), ("list", None)]
)
async def test_a_server_that_hangs_is_given_up_at_its_deadline(tmp_path: Path, point: Any, era: Any):
    async def spoken() -> None:
        if point == "spawn":
            await until(lambda: bool(fake.starts()))
        else:
            method = {"initialize": "initialize", "discover": "server/discover", "list": "tools/list"}[point]
            await fake.reached(method)

    fake = FakeServer(tmp_path, hang_at=point, stderr="loading the model", ignore_sigterm=True)
    settings = settings_of(fake, connect_timeout_s=DEADLINE_S)
    async with fleet_of(settings, eras={"fake": era} if era else {}, close_timeout_s=HURRIED_S) as it:
        async with passing(DEADLINE_S, spoken):
            said = await refusal(it)
        assert said == (
            "The server 'fake' could not be started: it did not answer within 6 s (its connect_timeout_s); its last "
            "output on stderr: 'loading the model'. "
            "Run its command in a terminal to see what it waits for; if it is only slow, raise that limit. "
            "A call in 1 s tries again; other servers are not affected."
        )
        assert it.fleet[fake.name].status.state is State.FAILED
        await until(lambda: not fake.survivors())


@pytest.mark.sampled
@pytest.mark.parametrize("point", ["spawn", "initialize", "discover", "list"])
async def test_a_server_that_exits_is_told_with_its_status_and_its_last_words(tmp_path: Path, point: Any):
    eras: Any = {"initialize": ["legacy"]}.get(point, ["legacy", "modern"])
    fake = FakeServer(tmp_path, exit_at=point, stderr="API key missing", eras=eras)
    protocol = {"initialize": "legacy", "discover": "modern"}.get(point, "auto")
    async with fleet_of(settings_of(fake, protocol=protocol)) as it:
        assert await refusal(it) == (
            "The server 'fake' could not be started: it closed the connection; it exited with status 3; its last "
            f"output on stderr: 'API key missing / the fake server exits at {point}'. "
            "Run its command in a terminal to see more; check args, env and cwd in its config entry. "
            "A call in 1 s tries again; other servers are not affected."
        )
        assert it.reason().startswith("it closed the connection; it exited with status 3")


async def test_a_server_that_is_killed_is_told_with_the_signal(tmp_path: Path):
    fake = FakeServer(tmp_path, hang_at="list")
    async with fleet_of(settings_of(fake)) as it, anyio.create_task_group() as tasks:

        async def kill() -> None:
            await fake.reached("tools/list")
            os.kill(fake.starts()[0], 9)

        tasks.start_soon(kill)
        assert "it was ended by signal 9" in await refusal(it)


def missing(tmp_path: Path) -> StdioTarget:
    return StdioTarget(str(tmp_path / "no-such-program"), (), {}, None)


def not_executable(tmp_path: Path) -> StdioTarget:
    (tmp_path / "data").write_text("text")
    return StdioTarget(str(tmp_path / "data"), (), {}, None)


def no_folder(tmp_path: Path) -> StdioTarget:
    return StdioTarget(sys.executable, (), {}, tmp_path / "no-such-folder")


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (
            missing,
            "no such program or folder: '{}/no-such-program'. Install it, or correct command and cwd in its",
        ),
        (
            not_executable,
            "'{}/data' cannot be executed. Make it executable, or correct the command in its",
        ),
        (
            no_folder,
            "no such program or folder: '{}/no-such-folder'. Install it, or correct command and cwd in its",
        ),
    ],
)
async def test_what_cannot_be_started_is_named_with_what_to_check(tmp_path: Path, target: Any, reason: str):
    settings = ServerSettings("gone", target(tmp_path), ServerSection(), "fingerprint")
    async with fleet_of(settings) as it:
        said = await refusal(it, "gone")
        assert said.startswith(f"The server 'gone' could not be started: {reason.format(tmp_path)} config entry. ")
        assert it.states_of("gone") == ["starting", "failed"]


async def test_one_that_cannot_be_started_does_not_touch_another(tmp_path: Path):
    good, bad = FakeServer(tmp_path, "good"), FakeServer(tmp_path, "bad", exit_at="spawn")
    async with fleet_of(settings_of(good), settings_of(bad)) as it:
        await it.text("good", "echo")
        await refusal(it, "bad")
        assert await it.text("good", "echo") == "{}"
        assert len(good.starts()) == 1


# -- garbage -------------------------------------------------------------------------------------


async def test_garbage_before_every_answer_is_borne_with(tmp_path: Path):
    fake = FakeServer(tmp_path, garbage=20)
    async with fleet_of(settings_of(fake), garbage_lines=20) as it:
        for _ in range(5):
            assert await it.text("fake", "echo") == "{}"


async def test_too_much_garbage_fails_the_start_and_is_quoted(tmp_path: Path):
    fake = FakeServer(tmp_path, garbage=21, eras=["legacy"])
    async with fleet_of(settings_of(fake, protocol="legacy"), garbage_lines=20) as it:
        said = await refusal(it)
        assert "it sent 21 lines in a row that are not MCP messages; " in said
        assert "it printed 'this is not JSON 0' on stdout, where only MCP messages may go" in said


async def test_a_flood_without_a_newline_fails_the_start(tmp_path: Path):
    fake = FakeServer(tmp_path, flood=1_000_000)
    async with fleet_of(settings_of(fake), message_max_bytes=65_536, close_timeout_s=HURRIED_S) as it:
        assert "it sent a line of more than 65536 bytes" in await refusal(it)


# -- secrets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("secret", ["s3cr3t-value", 'it\'s "quoted" \\ here', "päss wörd", "x" * 290])
async def test_no_secret_is_told_of_a_failure(tmp_path: Path, secret: str):
    fake = FakeServer(tmp_path, exit_at="list", stderr=f"cannot log in with {secret} at all", garbage=1)
    async with fleet_of(settings_of(fake, secrets=(secret, "JSON"))) as it:
        said = await refusal(it) + it.reason()
        assert said.count("cannot log in with *** at all") == 2
        assert said.count("this is not *** 0") == 2
        assert secret[:10] not in said


# -- one start -----------------------------------------------------------------------------------


async def test_many_callers_start_a_sleeping_server_once(tmp_path: Path):
    fake = FakeServer(tmp_path, tools=["counter"], hold_at="list")
    numbers: list[str] = []
    async with fleet_of(settings_of(fake)) as it, anyio.create_task_group() as tasks:

        async def call() -> None:
            numbers.append(await it.text("fake", "counter"))

        for _ in range(20):
            tasks.start_soon(call)
        await fake.reached("tools/list")
        await settled()
        fake.let_go()
    assert sorted(map(int, numbers)) == list(range(1, 21))
    assert len(fake.starts()) == 1


async def test_all_who_wait_for_a_start_hear_of_its_failure(tmp_path: Path):
    fake = FakeServer(tmp_path, exit_at="list")
    said: list[str] = []
    async with fleet_of(settings_of(fake, protocol="legacy")) as it:
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                said.append(await refusal(it))

            for _ in range(10):
                tasks.start_soon(wait)
        assert len(said) == 10
        assert len(fake.starts()) == 1


async def test_a_start_goes_on_when_the_first_who_waits_has_left(tmp_path: Path):
    fake = FakeServer(tmp_path, hold_at="list")
    async with fleet_of(settings_of(fake)) as it:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.call, "fake", "echo")
            await fake.reached("tools/list")
            tasks.cancel_scope.cancel()
        fake.let_go()
        assert await it.text("fake", "echo") == "{}"
    assert len(fake.starts()) == 1


# -- backoff -------------------------------------------------------------------------------------


async def test_a_short_pause_after_a_failure_is_waited_out(tmp_path: Path):
    fake = FakeServer(tmp_path, exit_at="list", faulty_starts=1)
    async with fleet_of(settings_of(fake, protocol="legacy")) as it:
        began = anyio.current_time()
        await refusal(it)
        assert await it.text("fake", "echo") == "{}"
        assert anyio.current_time() - began > 0.25, "it was not waited out"
        assert it.states_of() == ["starting", "failed", "starting", "ready"]
    assert len(fake.starts()) == 2


async def test_pauses_grow_and_a_long_one_is_refused_at_once(tmp_path: Path):
    fake = FakeServer(tmp_path, exit_at="list")
    async with fleet_of(settings_of(fake, protocol="legacy"), jitter=0.999) as it:
        it.fleet["fake"]._backoff._failures = 7
        await refusal(it)
        said = [await refusal(it) for _ in range(5)]
        assert len(fake.starts()) == 1
        assert all(
            re.search(r"A call in [3-6]\d s tries again; other servers are not affected\.$", each) for each in said
        )


async def test_a_pause_is_told_in_seconds_and_bounded(tmp_path: Path):
    fake = FakeServer(tmp_path, exit_at="list")
    async with fleet_of(settings_of(fake, protocol="legacy"), jitter=0.999, backoff_max_s=30) as it:
        downstream = it.fleet["fake"]
        downstream._backoff._failures = 20
        downstream._backoff._now = lambda: 0.0
        await refusal(it)
        assert "A call in 30 s tries again" in await refusal(it)
        assert len(fake.starts()) == 1


async def test_a_start_that_worked_ends_the_growing_of_pauses(tmp_path: Path):
    fake = FakeServer(tmp_path, exit_at="list", faulty_starts=1)
    async with fleet_of(settings_of(fake, protocol="legacy")) as it:
        await refusal(it)
        await it.text("fake", "echo")
        assert it.fleet["fake"]._backoff._failures == 0


# -- the end -------------------------------------------------------------------------------------


async def test_nothing_is_left_when_the_fleet_is_left(tmp_path: Path):
    fakes = [
        FakeServer(tmp_path, "sleeping"),
        FakeServer(tmp_path, "running", fork_child=True),
        FakeServer(tmp_path, "starting", hang_at="list", ignore_sigterm=True, fork_child=True),
    ]
    async with fleet_of(*map(settings_of, fakes), close_timeout_s=HURRIED_S) as it, anyio.create_task_group() as tasks:
        await it.text("running", "echo")
        tasks.start_soon(it.call, "starting", "echo")
        await fakes[2].reached("tools/list")
        tasks.cancel_scope.cancel()
    assert [len(fake.starts()) for fake in fakes] == [0, 1, 1]
    assert [fake.survivors() for fake in fakes] == [[], [], []]

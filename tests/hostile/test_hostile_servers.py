"""Servers that do their worst, behind a real ``toolcrib serve``: the others go on, and every call is answered."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from counts import count
from misbehaving import DEADLINE_S, LATE_S, calls, indexed, options_for

from fakes.menu import FakeServer
from serve.served import served

pytestmark = [pytest.mark.anyio, pytest.mark.hostile]


async def test_six_bad_servers_among_twenty_harm_nobody_else(tmp_path: Path, record_property):
    good, times = [FakeServer(tmp_path, f"good{number}") for number in range(14)], count("servers")
    faults: list[dict[str, Any]] = [
        {"hang_at": "spawn", "ignore_sigterm": True},
        {"exit_at": "list"},
        {"hang_at": "call"},
        {"tools": ["crash", "echo"], "results": {}},
        {"garbage": 3000},
        {"cursor_loop": "fresh"},
    ]
    bad = [FakeServer(tmp_path, f"bad{number}", tools=["echo", "crash"]) for number in range(6)]
    fakes = [*good, *bad]
    config = {
        "servers": options_for(*bad),
        "limits": {"list_pages": 200, "pending_calls": 6000, "pending_calls_per_principal": 6000},
    }
    await indexed(tmp_path, *fakes, **config)
    for fake, fault in zip(bad, faults, strict=True):
        fake.change(**fault)
    async with served(tmp_path, *fakes, **config) as crib:
        await crib.initialize()
        wanted = {f"good {n}": (f"good{n % 14}__echo", {"n": n}) for n in range(times)}
        wanted |= {f"bad {n} {again}": (f"bad{n}__crash", {}) for n in range(6) for again in range(3)}
        answers = await calls(crib, wanted)
        assert answers.keys() == wanted.keys()
        for key, (seconds, result) in answers.items():
            if key.startswith("good"):
                assert result["structuredContent"] == {"n": int(key.split()[1])}
            else:
                assert seconds < 2 * DEADLINE_S + LATE_S, f"{key} took {seconds:.1f} s"
                assert result["isError"]
                assert f"'bad{key.split()[1]}'" in result["content"][0]["text"]
        assert all(len(fake.calls()) in (times // 14, times // 14 + 1) for fake in good)
        assert all(len(fake.starts()) == 2 for fake in good)
        late = max(seconds for key, (seconds, _) in answers.items() if key.startswith("bad")) - DEADLINE_S
        record_property("count", len(answers))
        record_property(
            "worst", f"{len(wanted) - len(answers)} of {len(wanted)} calls unanswered; {late:.1f} s after the deadline"
        )
        crib.close_stdin()
        assert await crib.ended() == 0
        assert "Traceback" not in crib.said
    assert [fake.survivors() for fake in fakes] == [[]] * 20


async def test_ten_thousand_lines_of_garbage_fail_that_server_only(tmp_path: Path):
    noisy, fine = FakeServer(tmp_path, "noisy"), FakeServer(tmp_path, "fine")
    await indexed(tmp_path, noisy, fine, servers=options_for(noisy))
    noisy.change(garbage=10_000)
    async with served(tmp_path, noisy, fine, servers=options_for(noisy)) as crib:
        await crib.initialize()
        answers = await calls(crib, {"noisy": ("noisy__echo", {}), "fine": ("fine__echo", {"n": 1})})
        said = answers["noisy"][1]["content"][0]["text"]
        assert "lines in a row that are not MCP messages" in said
        assert "'this is not JSON 0'" in said
        assert answers["fine"][1]["structuredContent"] == {"n": 1}


async def test_a_server_that_changes_its_list_all_the_time_does_not_keep_us_from_the_others(tmp_path: Path):
    tools = ["grow", *[f"tool_{number}" for number in range(500)]]
    restless = FakeServer(tmp_path, "restless", tools=tools, list_changed_after="grow", more_tools=["grow"])
    fine = FakeServer(tmp_path, "fine")
    async with served(tmp_path, restless, fine) as crib:
        await crib.initialize()
        await calls(crib, {"first": ("restless__grow", {}), "warm": ("fine__echo", {})})
        wanted: dict[str, Any] = {f"grow {n}": ("restless__grow", {}) for n in range(300)}
        wanted |= {f"fine {n}": ("fine__echo", {"n": n}) for n in range(100)}
        answers = await calls(crib, wanted)
        assert all(not result.get("isError") for _, result in answers.values())
        assert len(restless.messages("tools/list")) < 100


async def test_servers_that_are_killed_at_random_moments_are_started_again(tmp_path: Path):
    fakes = [FakeServer(tmp_path, f"fake{number}") for number in range(4)]
    async with served(tmp_path, *fakes) as crib:
        await crib.initialize()
        outcomes: list[bool] = []
        for round_number in range(25):
            wanted: dict[str, Any] = {f"{round_number} {n}": (f"fake{n % 4}__echo", {"n": n}) for n in range(12)}
            victim = fakes[round_number % 4]
            for pid in victim.survivors():
                os.kill(pid, signal.SIGKILL)
            for key, (_, result) in (await calls(crib, wanted)).items():
                failed = bool(result.get("isError"))
                outcomes.append(failed)
                assert failed or result["structuredContent"] == {"n": int(key.split()[1])}
                assert not failed or "went away during the call" in result["content"][0]["text"]
        assert sum(outcomes) < len(outcomes) / 4
        sent = [params["arguments"]["n"] for fake in fakes for params in fake.calls()]
        assert len(sent) <= len(outcomes), "a call was repeated"

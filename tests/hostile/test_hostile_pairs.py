"""A tool that is denied and one that nobody has are told apart by nothing: not by the answer, a start or the time."""

import json
import math
import random
import time
from collections.abc import Sequence

import pytest
from counts import count

from fakes.menu import tool
from worlds import Client, MemoryServer, world

pytestmark = [pytest.mark.anyio, pytest.mark.hostile]

RUNS = 3
TOOLS = 200
DENIED, UNKNOWN = "plond", "grint"
"""Words that nothing else is called: names are suggested by meaning, so those that mean something differ by right."""
ALIKE = 0.01
"""Below this, times of two kinds are not alike (two-sample Kolmogorov-Smirnov test)."""


def probability(one: Sequence[float], other: Sequence[float]) -> float:
    """Return how probable it is that two samples that differ so much come from the same distribution.

    Asymptotic, with the correction of Stephens (1970) for small samples.
    """
    ordered = sorted([(value, 1 / len(one)) for value in one] + [(value, -1 / len(other)) for value in other])
    height = apart = 0.0
    for _, step in ordered:
        height += step
        apart = max(apart, abs(height))
    size = math.sqrt(len(one) * len(other) / (len(one) + len(other)))
    scaled = (size + 0.12 + 0.11 / size) * apart
    if scaled < 0.2:
        return 1.0
    return min(1.0, 2 * sum((-1) ** (k - 1) * math.exp(-2 * (k * scaled) ** 2) for k in range(1, 101)))


def test_times_that_are_alike_are_told_from_those_that_are_not():
    chance = random.Random(7)
    alike = [[chance.gauss(1, 0.1) for _ in range(2000)] for _ in range(2)]
    assert probability(*alike) > ALIKE
    assert probability(alike[0], [value * 1.03 for value in alike[1]]) < ALIKE


async def timed(client: Client, name: str) -> tuple[float, str]:
    """Return how long an answer took, and all of it but the name."""
    began = time.perf_counter()
    answer = await client.tool_call(name, {})
    return time.perf_counter() - began, json.dumps(answer).replace(name, "NAME")


async def test_a_denied_name_is_answered_as_where_nobody_has_the_tool(tmp_path):
    names = ("open", "seals", "shut", DENIED)
    policy = {"policy": {"deny": [f"vault__{name}" for name in names]}}
    answers: dict[str, list[str]] = {}
    for whose, tools in {"denied": [*names, "seal"], "nobody's": ["seal"]}.items():
        (tmp_path / whose).mkdir()
        servers = {"vault": MemoryServer([tool(name) for name in tools]), "zoo": [tool("feed")]}
        async with world(tmp_path / whose, servers, policy) as w, w.client() as client:
            answers[whose] = [(await timed(client, f"vault__{name}"))[1] for name in names]
    assert answers["denied"] == answers["nobody's"]
    assert len(set(answers["denied"])) > 1  # some suggest a tool


@pytest.mark.timeout(1800)
async def test_denied_and_unknown_are_told_apart_by_nothing(tmp_path, record_property):
    chance, alike, different, told, tried = random.Random(7), list[float](), 0, set[str](), 0
    vault = MemoryServer([tool(f"{DENIED}_{number:03}") for number in range(TOOLS)])
    servers = {"vault": vault, "zoo": [tool("feed")]}
    async with world(tmp_path, servers, {"policy": {"deny": [f"vault__{DENIED}_*"]}}) as w, w.client() as client:
        starts = vault.starts
        for word in (DENIED, UNKNOWN) * 20:  # so that the first of them are like the others
            await timed(client, f"vault__{word}_000")
        for _ in range(RUNS):
            taken: tuple[list[float], list[float]] = ([], [])
            for number in range(count("pairs")):
                names = f"vault__{DENIED}_{number % TOOLS:03}", f"vault__{UNKNOWN}_{number % TOOLS:03}"
                answers = [""] * 2
                for kind in chance.sample((0, 1), 2):
                    seconds, answers[kind] = await timed(client, names[kind])
                    taken[kind].append(seconds)
                different += answers[0] != answers[1]
                told.update(answers)
            alike.append(probability(*taken))
            tried += len(taken[0])
        record_property("count", tried)
        record_property("worst", f"{different} answers differ; p = {', '.join(f'{p:.2f}' for p in alike)}")
        record_property("goal met", min(alike) > ALIKE)
        assert different == 0
        assert len(told) == 1
        assert vault.starts == starts
    # One of a hundred runs is below by chance: where a difference is real, all three are.
    assert sorted(alike)[1] > ALIKE

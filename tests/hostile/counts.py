"""How many iterations each hostile test runs: few in CI, many with ``scripts/hostile --full``.

A test asks :func:`count` with its name in ``THREATS``. It records its worst result with ``record_property("worst", …)``
and the number of iterations with ``record_property("count", …)``. If it asserts less than the goal, because a machine
may be busy, it records whether the goal was met with ``record_property("goal met", …)``.
``scripts/hostile --full`` runs the tests at full count and writes docs/reliability.md.
"""

import os
from dataclasses import dataclass

from patience import FULL


@dataclass(frozen=True)
class Threat:
    """One kind of attack: what is tried, the goal, the tests, and their number of iterations.

    ``number`` is that of the threat, T1 to T30, which several names may share. ``few`` is the count in CI, ``full``
    the count of a full run. Without a ``unit``, the tests have a fixed set of cases.
    """

    number: str
    what: str
    goal: str
    tests: tuple[str, ...]
    few: int = 1
    full: int = 1
    unit: str = ""


def _hostile(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/hostile/test_hostile_{name}.py" for name in names)


THREATS = {
    "decisions": Threat(
        "T1",
        "Five principals, 200 tools, every door: a list, a search, a call, a call through `tool_call`",
        "0 decisions that are not the policy's",
        (*_hostile("decisions"), "tests/gate/test_gate_machine.py"),
        400,
        4000,
        "decisions",
    ),
    "activations": Threat(
        "T2",
        "200 clients at the same time, ids alike, each with tools of its own choice",
        "0 lists with what another has activated, 0 answers to another's call",
        _hostile("activations"),
        400,
        10_000,
        "calls",
    ),
    "patterns": Threat(
        "T3",
        "Patterns to search by that are made to be slow",
        "no other thread waits for 50 ms",
        _hostile("patterns"),
        1000,
        10_000,
        "patterns",
    ),
    "tenants": Threat(
        "T4",
        "Two tenants with one stateful server",
        "0 values of another",
        _hostile("tenants"),
        60,
        1000,
        "interleaved calls",
    ),
    "pairs": Threat(
        "T5",
        "A denied tool and one that nobody has, told apart by answer, start or time",
        "the same bytes, 0 starts, times alike (KS test, p > 0.01, 3 of 3)",
        _hostile("pairs", "first_listing"),
        60,
        2000,
        "pairs",
    ),
    "denials": Threat(
        "T5", "Lists in which names of denied tools stand in any surroundings", "none is left", _hostile("denials")
    ),
    "passthrough": Threat(
        "T6",
        "A token of ours in every request, in the head and in texts",
        "0 are passed on to a server",
        _hostile("passthrough"),
        60,
        500,
        "requests",
    ),
    "keys": Threat(
        "T7",
        "A name in odd keys, twice, or in other letters",
        "what runs is what was allowed, or nothing runs",
        _hostile("keys"),
        60,
        500,
        "requests",
    ),
    "names": Threat(
        "T8",
        "Names of servers and tools that look alike",
        "no two have the same name",
        _hostile("names"),
        5000,
        100_000,
        "pairs",
    ),
    "definitions": Threat(
        "T9",
        "A bit of a definition that is turned, and one that is only written otherwise",
        "all changes are noticed, and nothing else",
        _hostile("definitions", "rows"),
        500,
        10_000,
        "bits",
    ),
    "texts": Threat(
        "T10",
        "Descriptions with control, bidi, tag and zero-width characters",
        "0 are told in a list or an answer",
        _hostile("texts"),
        60,
        300,
        "descriptions",
    ),
    "schemas": Threat(
        "T11",
        "Schemas made to be slow or large",
        "none takes 50 ms of CPU, in the worker thread that takes it in or checks by it",
        _hostile("schemas"),
        100,
        1000,
        "schemas",
    ),
    "queries": Threat(
        "T12",
        "Queries of any kind among 5,000 tools",
        "0 failures, 99 % within 20 ms",
        _hostile("queries"),
        10_000,
        10_000,
        "queries",
    ),
    "skills": Threat(
        "T13",
        "Damaged files of skills",
        "0 failures, each within 100 ms of CPU",
        _hostile("skill_files"),
        2000,
        2000,
        "files",
    ),
    "redaction": Threat(
        "T3", "Texts made to be slow to redact", "time in proportion to their length", _hostile("redaction")
    ),
    "bodies": Threat(
        "T14",
        "Damaged JSON-RPC over HTTP",
        "0 failures, nothing told of the inside, the next answer within 100 ms",
        _hostile("bodies"),
        150,
        10_000,
        "bodies",
    ),
    "pipes": Threat("T14", "Damaged requests over stdio, and every way to end it", "0 failures", _hostile("clients")),
    "paths": Threat(
        "T15",
        "Paths, links and parts that are swapped while they are read",
        "0 bytes from outside",
        _hostile("paths", "skill_uris"),
        3000,
        50_000,
        "reads while parts are swapped",
    ),
    "trees": Threat(
        "T16",
        "Trees of 50,000 files, files of 10 GiB, folders without end",
        "within 10 s and 200 MiB",
        _hostile("trees"),
    ),
    "floods": Threat(
        "T17",
        "Servers that send 1 GiB without a newline, or notifications without end",
        "at most 64 MiB more, others are answered",
        _hostile("floods"),
    ),
    "servers": Threat(
        "T18",
        "Servers that hang, crash and change, beside fourteen that do not",
        "0 calls unanswered, 0 wrong answers of the others",
        _hostile("servers"),
        500,
        5000,
        "calls",
    ),
    "interleavings": Threat(
        "T19",
        "Servers that print between their messages",
        "each answer arrives",
        _hostile("interleavings"),
        100,
        1000,
        "interleavings",
    ),
    "orphans": Threat(
        "T20",
        "Servers that ignore the end of input and SIGTERM, or fork, behind a toolcrib that ends in any way",
        "0 outlive it by 6 s",
        _hostile("ends"),
        1,
        100,
        "ends",
    ),
    "spawns": Threat(
        "T21", "Requests that ask for a program to be started", "0 are", _hostile("spawns"), 100, 5000, "calls"
    ),
    "addresses": Threat(
        "T22",
        "Addresses of private networks in every notation, named by a server",
        "0 connections",
        _hostile("addresses"),
        60,
        300,
        "addresses",
    ),
    "edge": Threat(
        "T23",
        "Requests for another host, from another page, without a token, of another type or size; large heads",
        "0 reach anybody",
        (*_hostile("requests", "heads"), "tests/http/test_http_guards.py"),
        100,
        1000,
        "requests",
    ),
    "sockets": Threat(
        "T23",
        "200 sockets that send a byte now and then; more silent ones than there are descriptors",
        "a good client's p99 is within 200 ms",
        _hostile("sockets"),
        3,
        30,
        "seconds",
    ),
    "overload": Threat(
        "T24",
        "Ten times as many calls of one principal as it may have",
        "0 errors of others",
        _hostile("overload"),
        40,
        1000,
        "calls of another principal",
    ),
    "echoes": Threat(
        "T25",
        "Servers and authorization servers that send back every secret",
        "0 of 40 are told anywhere",
        _hostile("login_echoes"),
    ),
    "handles": Threat(
        "T2",
        "Handles of another: guessed, changed, kept, used again",
        "0 are good for anything",
        _hostile("handles"),
        60,
        1000,
        "tries",
    ),
    "renewals": Threat(
        "T26",
        "Processes that are killed while they renew a login",
        "what was used is never lost",
        _hostile("login_ends"),
        60,
        1000,
        "kills",
    ),
    "kills": Threat(
        "T26",
        "Two processes that are killed while they write",
        "0 damaged files, 0 half lists, 0 decisions lost",
        _hostile("kills"),
        20,
        1000,
        "kills",
    ),
    "damage": Threat(
        "T27",
        "Damaged files of the index",
        "up again within 2 s, 0 decisions lost",
        _hostile("damage"),
        40,
        1000,
        "files",
    ),
    "writes": Threat(
        "T28",
        "A disk that is full from some byte on, for every file",
        "0 requests fail, and it goes on by itself when there is room",
        _hostile("writes"),
        6,
        100,
        "sizes of the disk",
    ),
    "cache": Threat("T28", "Links and open folders in the place of the cache", "none is followed", _hostile("cache")),
    "clocks": Threat(
        "T29",
        "The wall clock is set ten years ahead and back",
        "0 things expire early or late",
        _hostile("clocks"),
        40,
        1000,
        "jumps",
    ),
    "soak": Threat(
        "T30",
        "50 clients, 20 servers of which 4 misbehave, reloads and kills",
        "0 unanswered; memory, descriptors and threads are back at their start",
        _hostile("soak"),
        6,
        1800,
        "seconds",
    ),
}
"""The threats by name."""


def count(name: str) -> int:
    """Return how many iterations a test runs: ``full`` in a full run, otherwise ``few``."""
    threat = THREATS[name]
    return threat.full if os.environ.get(FULL) else threat.few

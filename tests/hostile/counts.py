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
        "Five principals, 200 tools, every entry point: list, search, direct call, `tool_call`",
        "0 decisions differ from the policy",
        (*_hostile("decisions"), "tests/gate/test_gate_machine.py"),
        400,
        4000,
        "decisions",
    ),
    "activations": Threat(
        "T2",
        "200 concurrent clients with similar ids, each activating its own tools",
        "0 lists with another client's activations, 0 answers to another client's call",
        _hostile("activations"),
        400,
        10_000,
        "calls",
    ),
    "patterns": Threat(
        "T3",
        "Regular expressions built to be slow",
        "no other thread is blocked for 50 ms",
        _hostile("patterns"),
        1000,
        10_000,
        "patterns",
    ),
    "tenants": Threat(
        "T4",
        "Two tenants share one stateful server",
        "0 values of another tenant",
        _hostile("tenants"),
        60,
        1000,
        "interleaved calls",
    ),
    "pairs": Threat(
        "T5",
        "Distinguishing a denied tool from a nonexistent one by answer, process start or timing",
        "identical bytes, 0 starts, same distribution of times (KS test, p > 0.01, 3 of 3)",
        _hostile("pairs", "first_listing"),
        60,
        2000,
        "pairs",
    ),
    "denials": Threat(
        "T5", "Lists that mention denied tools in any context", "no mention is left", _hostile("denials")
    ),
    "passthrough": Threat(
        "T6",
        "toolcrib's own token in the headers and bodies of every request",
        "0 are forwarded to a server",
        _hostile("passthrough"),
        60,
        500,
        "requests",
    ),
    "keys": Threat(
        "T7",
        "Tool names in unexpected keys, duplicated, or in look-alike characters",
        "only the permitted tool runs, or nothing",
        _hostile("keys"),
        60,
        500,
        "requests",
    ),
    "names": Threat(
        "T8",
        "Confusable names of servers and tools",
        "no two share a public name",
        _hostile("names"),
        5000,
        100_000,
        "pairs",
    ),
    "definitions": Threat(
        "T9",
        "Definitions with one flipped bit, and with reordered keys",
        "every change is detected, a new order is not",
        _hostile("definitions", "rows"),
        500,
        10_000,
        "bits",
    ),
    "texts": Threat(
        "T10",
        "Descriptions with control, bidi, tag and zero-width characters",
        "0 appear in a list or an answer",
        _hostile("texts"),
        60,
        300,
        "descriptions",
    ),
    "schemas": Threat(
        "T11",
        "Schemas built to be slow or large",
        "the event loop waits for at most 50 ms of CPU while they are indexed and validated with",
        _hostile("schemas"),
        100,
        1000,
        "schemas",
    ),
    "queries": Threat(
        "T12",
        "Arbitrary queries among 5,000 tools",
        "0 failures, p99 within 20 ms",
        _hostile("queries"),
        10_000,
        10_000,
        "queries",
    ),
    "skills": Threat(
        "T13",
        "Malformed skill files",
        "0 failures, each within 100 ms of CPU",
        _hostile("skill_files"),
        2000,
        2000,
        "files",
    ),
    "redaction": Threat("T3", "Texts built to be slow to redact", "time linear in their length", _hostile("redaction")),
    "bodies": Threat(
        "T14",
        "Malformed JSON-RPC over HTTP",
        "0 failures, no internals disclosed, the next answer within 100 ms",
        _hostile("bodies"),
        150,
        10_000,
        "bodies",
    ),
    "pipes": Threat(
        "T14",
        "Malformed requests over stdio, and every way to end a session",
        "0 failures",
        _hostile("clients"),
        10,
        30,
        "times every way to end",
    ),
    "paths": Threat(
        "T15",
        "Path traversal, links, and path components swapped during reads",
        "0 bytes from outside the folder",
        _hostile("paths", "skill_uris"),
        3000,
        50_000,
        "reads while parts are swapped",
    ),
    "trees": Threat(
        "T16",
        "Trees of 50,000 files, files of 10 GiB, endlessly nested folders",
        "within 10 s and 200 MiB",
        _hostile("trees"),
    ),
    "floods": Threat(
        "T17",
        "Servers that send 1 GiB without a newline, or endless notifications",
        "memory grows by at most 64 MiB; other servers answer",
        _hostile("floods"),
    ),
    "servers": Threat(
        "T18",
        "Six servers that hang, crash and change, beside fourteen healthy ones",
        "0 calls unanswered, 0 wrong answers from healthy servers",
        _hostile("servers"),
        500,
        5000,
        "calls",
    ),
    "interleavings": Threat(
        "T19",
        "Servers that print other output between their messages",
        "every answer arrives",
        _hostile("interleavings"),
        100,
        1000,
        "interleavings",
    ),
    "orphans": Threat(
        "T20",
        "Servers that ignore EOF and SIGTERM, or fork, when toolcrib ends in any way",
        "0 outlive toolcrib by 6 s",
        _hostile("ends"),
        1,
        100,
        "ends",
    ),
    "spawns": Threat(
        "T21", "Requests that try to start a program", "0 programs are started", _hostile("spawns"), 100, 5000, "calls"
    ),
    "addresses": Threat(
        "T22",
        "Private network addresses in every notation, supplied by a server",
        "0 connections",
        _hostile("addresses"),
        60,
        300,
        "addresses",
    ),
    "edge": Threat(
        "T23",
        "Requests with a wrong host, origin, token, content type or size; large headers",
        "0 reach the application",
        (*_hostile("requests", "heads"), "tests/http/test_http_guards.py"),
        100,
        1000,
        "requests",
    ),
    "sockets": Threat(
        "T23",
        "200 slow sockets; more silent sockets than descriptors",
        "a healthy client's p99 is within 200 ms",
        _hostile("sockets"),
        3,
        30,
        "seconds",
    ),
    "overload": Threat(
        "T24",
        "One principal makes ten times its limit of calls",
        "0 errors for other principals",
        _hostile("overload"),
        40,
        1000,
        "calls of another principal",
    ),
    "echoes": Threat(
        "T25",
        "Servers and authorization servers that echo every secret",
        "0 of 40 are disclosed anywhere",
        _hostile("login_echoes"),
    ),
    "handles": Threat(
        "T2",
        "Another caller's handles: guessed, altered, kept, replayed",
        "0 are accepted",
        _hostile("handles"),
        60,
        1000,
        "tries",
    ),
    "questions": Threat(
        "T4",
        "Servers that ask, while clients of both eras come, give up and go, servers end and change their era, and the "
        "config is loaded again",
        "0 questions to another client, 0 without an answer or an end",
        _hostile("questions"),
        20,
        2000,
        "runs",
    ),
    "renewals": Threat(
        "T26",
        "Processes killed while they refresh a login",
        "a token that was used is never lost",
        _hostile("login_ends"),
        60,
        1000,
        "kills",
    ),
    "kills": Threat(
        "T26",
        "Two processes killed while they write",
        "0 damaged files, 0 partial lists, 0 decisions lost",
        _hostile("kills"),
        20,
        1000,
        "kills",
    ),
    "damage": Threat(
        "T27",
        "Damaged index files",
        "recovered within 2 s, 0 decisions lost",
        _hostile("damage"),
        40,
        1000,
        "files",
    ),
    "writes": Threat(
        "T28",
        "A disk that becomes full at any byte, for every file",
        "0 requests fail; writing resumes by itself once there is space",
        _hostile("writes"),
        6,
        100,
        "sizes of the disk",
    ),
    "cache": Threat(
        "T28",
        "Symbolic links and world-writable folders instead of the cache",
        "no link is followed",
        _hostile("cache"),
    ),
    "clocks": Threat(
        "T29",
        "The wall clock is set ten years ahead and back",
        "nothing expires early or late",
        _hostile("clocks"),
        40,
        1000,
        "jumps",
    ),
    "soak": Threat(
        "T30",
        "50 clients, 20 servers of which 4 misbehave, reloads and kills",
        "0 calls unanswered; memory, descriptors and threads return to their initial values",
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

"""How often each hostile test does what it does: few times in CI, often enough to be a figure by ``scripts/hostile``.

A test asks :func:`count` with its name in ``THREATS``, and says with ``record_property("worst", …)`` what the worst of
all was; ``scripts/hostile --full`` runs them at full count and writes docs/reliability.md.
"""

import os
from dataclasses import dataclass

FULL = "TOOLCRIB_HOSTILE_FULL"
"""The variable of the environment that asks for full counts."""


@dataclass(frozen=True)
class Threat:
    """One kind of attack: what is tried, the tests that try it, and how often in CI and in full.

    Where there are no counts, the tests do always the same.
    """

    what: str
    tests: tuple[str, ...]
    few: int = 1
    full: int = 1
    unit: str = "run"


THREATS = {
    "decisions": Threat("What is denied is denied at every door", ("tests/gate/test_gate_machine.py",)),
    "keys": Threat(
        "A name in odd keys, twice, or in other letters: what runs is what was allowed",
        ("tests/hostile/test_hostile_keys.py",),
        60,
        500,
        "requests",
    ),
    "denials": Threat(
        "Lists in which names of denied tools stand in any surroundings: none is left",
        ("tests/hostile/test_hostile_denials.py",),
    ),
    "redaction": Threat(
        "Texts made to be slow: what is done to a document takes time in proportion to its length",
        ("tests/hostile/test_hostile_redaction.py",),
    ),
    "echoes": Threat(
        "Servers and authorization servers that send back every secret: none is told anywhere",
        ("tests/hostile/test_hostile_login_echoes.py",),
    ),
    "renewals": Threat(
        "Processes that are killed while they renew a login: what was used is never lost",
        ("tests/hostile/test_hostile_login_ends.py",),
        60,
        1000,
        "kills",
    ),
    "bodies": Threat(
        "Damaged JSON-RPC over HTTP: it goes on, and tells nothing of its inside",
        ("tests/hostile/test_hostile_bodies.py",),
        150,
        10_000,
        "bodies",
    ),
    "pipes": Threat("Damaged requests over stdio, and every way to end it", ("tests/hostile/test_hostile_clients.py",)),
    "damage": Threat(
        "Damaged files of the index: each start repairs what it finds, and decisions stay",
        ("tests/hostile/test_hostile_damage.py",),
        40,
        1000,
        "files",
    ),
    "rows": Threat("Texts of tools that are edited in the index", ("tests/hostile/test_hostile_rows.py",)),
    "spawns": Threat(
        "Nothing that a client can say starts a program", ("tests/hostile/test_hostile_spawns.py",), 100, 5000, "calls"
    ),
    "queries": Threat(
        "Queries of any kind among 5,000 tools, and patterns",
        ("tests/hostile/test_hostile_queries.py",),
        10_000,
        10_000,
        "queries",
    ),
    "skills": Threat("Damaged files of skills", ("tests/hostile/test_hostile_skill_files.py",)),
    "paths": Threat(
        "Paths, links and parts that are swapped while they are read",
        ("tests/hostile/test_hostile_paths.py", "tests/hostile/test_hostile_skill_uris.py"),
    ),
    "servers": Threat("Servers that hang, flood, crash and change", ("tests/hostile/test_hostile_servers.py",)),
    "orphans": Threat("No server outlives toolcrib, however it ends", ("tests/hostile/test_hostile_ends.py",)),
    "edge": Threat(
        "HTTP requests that must reach nobody; slow and silent sockets; large heads",
        (
            "tests/http/test_http_guards.py",
            "tests/hostile/test_hostile_heads.py",
            "tests/hostile/test_hostile_sockets.py",
        ),
    ),
    "tenants": Threat(
        "Two tenants with one stateful server: their values never mix",
        ("tests/hostile/test_hostile_tenants.py",),
        60,
        1000,
        "interleaved calls",
    ),
    "clocks": Threat(
        "The wall clock is set ten years ahead and back: nothing expires early or late",
        ("tests/hostile/test_hostile_clocks.py",),
        40,
        1000,
        "jumps",
    ),
    "cache": Threat("Links and open folders in the place of the cache", ("tests/hostile/test_hostile_cache.py",)),
    "waits": Threat(
        "No wait and no start tells of a server that is hidden", ("tests/hostile/test_hostile_first_listing.py",)
    ),
}
"""By name, what is tried."""


def count(name: str) -> int:
    """Return how often a test does what it does, now."""
    threat = THREATS[name]
    return threat.full if os.environ.get(FULL) else threat.few

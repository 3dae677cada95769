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
    """One kind of attack: what is tried, the tests that try it, and how often in CI and in full."""

    what: str
    tests: tuple[str, ...]
    few: int
    full: int
    unit: str = ""


THREATS = {
    "decisions": Threat(
        "What is denied is denied at every door", ("tests/gate/test_gate_machine.py",), 100, 4000, "decisions"
    ),
    "queries": Threat(
        "Queries and patterns of any kind",
        ("tests/hostile/test_hostile_queries.py",),
        1000,
        10_000,
        "queries",
    ),
    "skills": Threat("Damaged files of skills", ("tests/hostile/test_hostile_skill_files.py",), 2000, 2000, "files"),
    "paths": Threat(
        "Paths, links and parts that are swapped while they are read",
        ("tests/hostile/test_hostile_paths.py", "tests/hostile/test_hostile_skill_uris.py"),
        500,
        50_000,
        "swaps",
    ),
    "servers": Threat(
        "Servers that hang, flood, crash and change", ("tests/hostile/test_hostile_servers.py",), 1, 1, "run"
    ),
    "orphans": Threat(
        "No server outlives toolcrib, however it ends", ("tests/hostile/test_hostile_ends.py",), 1, 1, "run"
    ),
    "edge": Threat(
        "HTTP requests that must reach nobody; slow and silent sockets",
        (
            "tests/http/test_http_guards.py",
            "tests/hostile/test_hostile_heads.py",
            "tests/hostile/test_hostile_sockets.py",
        ),
        1,
        1,
        "run",
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
    "cache": Threat(
        "Links and open folders in the place of the cache", ("tests/hostile/test_hostile_cache.py",), 1, 1, "run"
    ),
    "waits": Threat(
        "No wait and no start tells of a server that is hidden",
        ("tests/hostile/test_hostile_first_listing.py",),
        1,
        1,
        "run",
    ),
}
"""By name, what is tried."""


def count(name: str) -> int:
    """Return how often a test does what it does, now."""
    threat = THREATS[name]
    return threat.full if os.environ.get(FULL) else threat.few

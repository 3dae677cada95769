"""What passes through toolcrib with default settings is what passes directly, by several clients and servers (R346).

``benchmarks/matrix.py`` runs every cell; here is one client of each era by each transport, at each server.
"""

import os

import pytest

from e2e.npm import Npm
from matrix.cells import CLIENTS, SERVERS, TRANSPORTS, Cell, Client, Programs, Server, cells
from matrix.recorded import (
    GAINED,
    LOST,
    NEITHER,
    OTHER,
    PAGE,
    SAME,
    Recorded,
    changes,
    load,
    reasons,
    rendered,
    run_of,
    verdict,
)  # fmt: skip
from oauth.rig import HOW_TO_INSTALL_FASTMCP, find_fastmcp

KEY = ("Python SDK", "Python, legacy", "stdio", "form")
AT_ONCE = ("plain", "form", "url", "sampling", "roots", "pushed form", "logging", "progress", "cancellation")
"""Features that need no pause to be tried."""
TRIED = {"stdio": CLIENTS[0], "HTTP": CLIENTS[5]}


@pytest.mark.anyio
@pytest.mark.full(group="matrix")
@pytest.mark.parametrize(("transport", "client"), TRIED.items(), ids=[*TRIED])
@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.name)
async def test_a_feature_comes_to_what_is_recorded(npm: Npm, server: Server, transport: str, client: Client):
    programs = Programs(npm, find_fastmcp(os.environ))
    if server.command(programs, transport, 0) is None:
        pytest.skip(HOW_TO_INSTALL_FASTMCP)
    found = await cells(programs, server, transport, [client], AT_ONCE)
    recorded = load().verdicts
    assert [(cell, recorded[cell.key]) for cell in found if verdict(cell) != recorded[cell.key]] == []


def test_every_cell_is_recorded():
    wanted = {
        (server.name, client.name, transport, feature)
        for server in SERVERS
        for client in CLIENTS
        for transport in TRANSPORTS
        for feature in server.features
    }
    assert load().verdicts.keys() == wanted


def test_every_lost_feature_has_a_reason_and_every_reason_a_lost_feature():
    run, why = load(), reasons()
    lost = [key for key, word in run.verdicts.items() if word in (LOST, OTHER)]
    assert [key for key in lost if not any(reason.explains(key) for reason in why)] == []
    assert [reason for reason in why if not any(map(reason.explains, lost))] == []


def test_the_page_says_what_is_recorded():
    page = PAGE.read_text(encoding="utf-8")
    assert page == rendered(page, load(), reasons())


@pytest.mark.parametrize(
    ("direct", "through", "word"),
    [
        ("accept: L", "accept: L", SAME),
        ("accept: L", "accept: M", OTHER),
        ("accept: L", "error -32600: no", LOST),
        ("accept: L", "nothing in time", LOST),
        ("no connection: refused", "accept: L", GAINED),
        ("error -32600: no", "error: no", NEITHER),
        ("goes on", "goes on", NEITHER),
    ],
)
def test_a_cell_is_judged_by_both_lines(direct: str, through: str, word: str):
    assert verdict(Cell(*KEY, direct, through)) == word


def test_a_later_run_is_compared_by_versions_and_by_cells():
    before = Recorded("then", {"mcp": "2.3.0"}, {KEY: SAME}, {})
    after = run_of("now", {"mcp": "2.4.0"}, [Cell(*KEY, "accept: L", "error -32600: no")])
    assert changes(before, before) == []
    assert changes(before, after) == [
        "mcp: 2.3.0 -> 2.4.0",
        f"{', '.join(KEY)}: same -> lost (directly: 'accept: L'; through toolcrib: 'error -32600: no')",
    ]

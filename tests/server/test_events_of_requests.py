"""What is recorded of searches, calls and servers: exactly these keys, no denied name, no secret (R151 to R153)."""

import json
import re
import sys
from types import FrameType

import pytest
from mcp import MCPError

from fakes.menu import tool
from toolcrib.base.model import Caller
from worlds import ERAS, MemoryServer, settled, text, world

pytestmark = pytest.mark.anyio

COMMON = {"ts", "event", "session", "duration_ms"}
TOOLS = [tool("read_row", "Read a row."), tool("drop_table", "Drop a table.")]


def own(record) -> dict:
    """Return what is an event's own, without what all have."""
    assert record.keys() >= COMMON
    return {key: value for key, value in record.items() if key not in COMMON}


def in_file(w) -> list[dict]:
    return [json.loads(line) for line in w.settings.events_file.read_text().splitlines()]


@pytest.mark.parametrize("era", ERAS)
async def test_a_search_is_recorded(tmp_path, era):
    async with world(tmp_path, {"db": TOOLS}, listing="auto") as w:
        async with w.client(era) as client:
            await client.search("read", limit=1)
            [record] = w.happened("tool_search_query")
    assert in_file(w) == w.events
    assert own(record) == {
        "query": "read",
        "requested_search_type": "fts",
        "effective_search_type": "fts",
        "results_count": 1,
        "search": 1,
        "confidence": "high",
        "hits": ["db__read_row"],
    }
    assert record["session"].startswith("local-")
    assert record["duration_ms"] >= 0
    assert record["ts"] == "2027-01-15T08:00:00.000Z"


@pytest.mark.parametrize(("door", "source"), [("db__read_row", "direct"), ("tool_call", "tool_call")])
async def test_an_activation_and_its_call_are_recorded(tmp_path, door, source):
    async with world(tmp_path, {"db": MemoryServer(TOOLS, answers={"read_row": text("12345")})}) as w:
        async with w.client() as client:
            await client.call(door, {"name": "db.read_row"} if door == "tool_call" else {})
            [activated], [called] = w.happened("tool_activated"), w.happened("tool_call")
    assert own(activated) == {
        "tool_name": "db__read_row",
        "activation_scope": "run",
        "source": source,
        "reason": "first_use",
    }
    assert own(called) == {
        "tool_name": "db__read_row",
        "ok": True,
        "bytes": called["bytes"],
        "search": None,
        "rank": None,
    }
    assert 5 < called["bytes"] < 100
    assert called["duration_ms"] > 0
    assert called["session"] == activated["session"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_names_the_search_of_its_session_that_found_the_tool_last(tmp_path, era):
    async with world(tmp_path, {"db": TOOLS}, listing="auto") as w:
        async with w.client(era) as client, w.client(era, caller=Caller("ana")) as ana:
            await client.search("read a row")
            await client.search("drop or read a table")
            await client.tool_call("db.read_row")
            await client.call("db__drop_table")
            await ana.tool_call("db.read_row")
        found = w.happened("tool_search_query")
        called = [(record["tool_name"], record["search"], record["rank"]) for record in w.happened("tool_call")]
    assert [record["search"] for record in found] == [1, 2]
    hits = found[1]["hits"]
    assert sorted(hits) == ["db__drop_table", "db__read_row"]
    assert called == [
        ("db__read_row", 2, hits.index("db__read_row") + 1),
        ("db__drop_table", 2, hits.index("db__drop_table") + 1),
        ("db__read_row", None, None),
    ]


async def test_a_call_that_did_not_run_is_recorded_with_the_reason(tmp_path):
    needy = tool("read_row", "Read a row.", {"row": "integer"}, ["row"])
    servers = {"db": MemoryServer([needy, *TOOLS[1:]]), "dead": MemoryServer(TOOLS)}
    async with world(tmp_path, servers) as w, w.client() as client:
        await client.search("read row", server="db")
        await client.tool_call("db__read_row")
        await client.call("tool_call_read", {"name": "db__drop_table"})
        w["dead"].start_error = OSError("no such program")
        await w["dead"].hang_up()
        for door in (client.tool_call, client.call):
            await door("dead__read_row")
        recorded = [own(record) for record in w.happened("tool_call_not_run")]
        assert w.happened("tool_call") == []
    assert recorded == [
        {"tool_name": "db__read_row", "reason": "arguments", "search": 1, "rank": 1},
        {"tool_name": "db__drop_table", "reason": "not_read_only", "search": None, "rank": None},
        *(2 * [{"tool_name": "dead__read_row", "reason": "unavailable", "search": None, "rank": None}]),
    ]


async def test_a_denied_tool_is_no_hit_of_a_recorded_search_and_its_call_is_only_refused(tmp_path):
    async with world(tmp_path, {"db": TOOLS}, {"policy": {"deny": ["drop_*"]}}) as w, w.client() as client:
        await client.search("drop a table, read a row")
        await client.tool_call("db__drop_table")
        assert w.happened("tool_search_query")[0]["hits"] == ["db__read_row"]
        assert w.happened("tool_call_not_run") == []


@pytest.mark.parametrize("answer", [text("no", isError=True), MCPError(-32000, "no")])
async def test_a_call_that_failed_is_recorded_as_such(tmp_path, answer):
    async with world(tmp_path, {"db": MemoryServer(TOOLS, answers={"read_row": answer})}) as w, w.client() as client:
        await client.tool_call("read_row")
        assert [record["ok"] for record in w.happened("tool_call")] == [False]


RULES = {"deny": ["drop_table"], "visibility": [{"when": {"profile": "guest"}, "deny": ["db.read_*"]}]}
GUEST = Caller("g", profile="guest")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("db__drop_table", "policy"),
        ("db.drop_table", "policy"),
        ("drop_table", "policy"),
        ("db__read_row", "visibility"),
        ("db__nothing", "unknown"),
        ("nobody__drop_it", "unknown"),
        ("", "unknown"),
    ],
)
async def test_a_refusal_is_recorded_with_the_name_and_the_true_reason(tmp_path, name, reason):
    async with world(tmp_path, {"db": TOOLS}, {"policy": RULES}) as w, w.client(caller=GUEST) as client:
        await client.tool_call(name)
        with pytest.raises(MCPError):
            await client.call(name)
        recorded = [own(record) for record in w.happened("tool_activation_denied")]
        assert recorded == [{"tool_name": name, "reason": reason}] * 2


async def test_of_a_refused_name_personal_data_is_not_recorded(tmp_path):
    async with world(tmp_path, {"db": TOOLS}) as w, w.client() as client:
        await client.tool_call("mail anna@corp.io")
        [record] = w.happened("tool_activation_denied")
        assert record["tool_name"] == "mail [REDACTED_EMAIL]"


async def test_a_name_that_several_tools_have_is_refused_as_unknown_and_not_for_a_skill(tmp_path):
    async with world(tmp_path, {"db": [tool("read")], "ark": [tool("read")]}) as w, w.client() as client:
        assert (await client.tool_call("read"))["isError"]
        assert [record["reason"] for record in w.happened("tool_activation_denied")] == ["unknown"]


async def test_a_refusal_takes_the_same_steps_whatever_its_reason(tmp_path):
    names = {"db__drop_table": "policy", "db__read_lines": "visibility", "db__nothing_xy": "unknown"}
    steps: list[int] = []
    fewest: dict[str, int] = {}

    def step(frame: FrameType, event: str, _argument: object) -> None:
        is_ours = frame.f_globals["__name__"].startswith("toolcrib.")
        steps[-1] += is_ours and event in ("call", "c_call")

    async with world(tmp_path, {"db": [*TOOLS, tool("read_lines")]}, {"policy": RULES}) as w:
        async with w.client(caller=GUEST) as client:
            for name in ("db__nothing_ab", *(5 * [*names])):  # what is made once is made for the first of them
                await settled()
                steps.append(0)
                sys.setprofile(step)
                await client.tried(name)
                sys.setprofile(None)
                fewest[name] = min(steps[-1], fewest.get(name, steps[-1]))  # now and then another task gets its turn
        reasons = [record["reason"] for record in w.happened("tool_activation_denied")]
    assert reasons == ["unknown", *(5 * [*names.values()])]
    assert len({fewest[name] for name in names}) == 1, steps


async def test_a_tool_that_its_server_no_longer_has_is_recorded_as_refused(tmp_path):
    server = MemoryServer(TOOLS)
    async with world(tmp_path, {"db": server}) as w, w.client() as client:
        server.tools = []
        await client.tool_call("read_row")
        assert [own(record) for record in w.happened("tool_activation_denied")] == [
            {"tool_name": "db__read_row", "reason": "unknown"}
        ]


async def test_what_a_server_does_is_recorded(tmp_path):
    server = MemoryServer(TOOLS)
    async with world(tmp_path, {"db": server}) as w, w.client() as client:
        await client.call("db__read_row")
        states = [own(record) for record in w.happened("downstream_state")]
        spoken = {"protocol": "2026-07-28", "protocol_reason": "the newest"}
        unspoken = dict.fromkeys(spoken)
        assert states == [
            {"server": "db", "state": state, "reason": "", **(spoken if state == "ready" else unspoken)}
            for state in ("starting", "ready", "sleeping", "starting", "ready")
        ]
        assert {record["session"] for record in w.happened("downstream_state")} == {None}


async def test_a_server_that_fails_is_recorded_with_the_reason(tmp_path):
    server = MemoryServer(start_error=OSError("no such program"))
    async with world(tmp_path, {"db": server}) as w:
        assert own(w.happened("downstream_state")[-1]) == {
            "server": "db",
            "state": "failed",
            "reason": "no such program",
            "protocol": None,
            "protocol_reason": None,
        }


async def test_an_index_that_was_made_anew_is_recorded(tmp_path):
    async with world(tmp_path, {"db": TOOLS}) as w:
        damaged = w.catalog_file
    damaged.write_bytes(b"x" * 5000)
    async with world(tmp_path, {"db": TOOLS}) as w, w.client() as client:
        [record] = w.happened("index_rebuilt")
        assert own(record).keys() == {"file", "reason"}
        assert record["file"] == "tool_cache.db"
        assert await client.found("read row") == ["db__read_row"]


async def test_each_list_is_recorded_with_what_tells_whether_it_is_another_one(tmp_path):
    async with world(tmp_path, {"db": TOOLS}, listing="dynamic") as w, w.client() as client:
        for _ in range(2):
            await client.names()
        await client.tool_call("db.read_row")
        await client.names()
        first, second, third = w.happened("tools_listed")
    assert (first["tool_names"], third["tool_names"]) == ([], ["db__read_row"])
    assert third["count"] == first["count"] + 1
    assert first["digest"] == second["digest"] != third["digest"]


async def test_sessions_are_told_apart_and_named_after_who_asks(tmp_path):
    async with world(tmp_path, {"db": TOOLS}) as w:
        async with w.client() as one, w.client() as two, w.client(caller=Caller("ana")) as ana:
            for client in (one, two, ana, one):
                await client.search("read")
            labels = [record["session"] for record in w.happened("tool_search_query")]
    assert labels[0] == labels[3]
    assert len(set(labels)) == 3
    assert [label.rpartition("-")[0] for label in labels] == ["local", "local", "ana", "local"]


@pytest.mark.sampled
@pytest.mark.parametrize("era", ERAS)
async def test_all_events_of_a_session_have_one_label_with_the_name_of_the_client(tmp_path, era):
    async with world(tmp_path, {"db": TOOLS}, {"skills": {"directory": {"enabled": True}}}, listing="auto") as w:
        async with w.client(era) as client:
            await client.search("read")
            await client.tool_call("db.read_row")
            await client.call("skill_search", {"query": "review"})
            labels = {record["session"] for record in w.events if record["event"] != "downstream_state"}
    labels.discard(None)  # what no session asked for
    [label] = labels
    assert re.fullmatch(r"local-\d+\.\d+ \(mcp\)", label)


# -- no denied name, no secret -------------------------------------------------------------------

SPELLINGS = [
    "drop_table",
    "db__drop_table",
    "db.drop_table",
    "db/drop_table",
    "db:drop_table",
    "please drop_table now",
    "(drop_table), read",
    '"db.drop_table"',
    "drop_table,read_row",
    "read_row/drop_table",
    "tool=drop_table",
    "drop_table's",
    "drop_table|read_row",
    "run:drop_table;",
    "a\tdrop_table\nb",
]
QUALIFIED = [query for query in SPELLINGS if "db" in query]
DENYING = {"policy": {"deny": ["drop_*"]}}
DENYING_QUALIFIED = {"policy": {"deny": ["db.drop_*"]}}
NOT_ALLOWING = {"policy": {"allow": ["db.read*"]}}
HIDING = {"policy": {"visibility": [{"when": {"tenant_id": "red"}, "deny": ["db.drop_table"]}]}}


@pytest.mark.parametrize("config", [DENYING, DENYING_QUALIFIED, NOT_ALLOWING, HIDING])
async def test_a_denied_name_in_a_query_is_not_recorded(tmp_path, config):
    async with world(tmp_path, {"db": TOOLS}, config) as w, w.client(caller=Caller("r", tenant_id="red")) as client:
        for query in SPELLINGS if config is not NOT_ALLOWING else QUALIFIED:
            await client.search(query)
            recorded = w.happened("tool_search_query")[-1]["query"]
            assert "drop_table" not in recorded, query
            assert "[denied]" in recorded
            assert ("read" in recorded) is ("read" in query)
    recorded = w.settings.events_file.read_text()
    assert "tool_search_query" in recorded
    assert "drop_table" not in recorded


@pytest.mark.parametrize("config", [DENYING, HIDING])
async def test_a_name_that_is_permitted_or_of_nobody_is_recorded_as_it_is(tmp_path, config):
    async with world(tmp_path, {"db": TOOLS}, config) as w, w.client(caller=Caller("r", tenant_id="red")) as client:
        for query in ("read_row", "db.read_row, now", "table", "dropped"):
            await client.search(query)
            assert w.happened("tool_search_query")[-1]["query"] == query


async def test_a_caller_for_whom_a_name_is_not_denied_is_recorded_with_it(tmp_path):
    async with world(tmp_path, {"db": TOOLS}, HIDING) as w, w.client() as client:
        await client.search("drop_table")
        assert w.happened("tool_search_query")[0]["query"] == "drop_table"


async def test_personal_data_and_secrets_in_a_query_are_not_recorded(tmp_path):
    entry = {"command": "in-memory", "env": {"TOKEN": "s3cret-token-value"}}
    async with world(tmp_path, {"db": MemoryServer(TOOLS, entry=entry)}) as w, w.client() as client:
        await client.search("mail anna@corp.io with s3cret-token-value")
    recorded = w.settings.events_file.read_text()
    assert "anna@corp.io" not in recorded
    assert "s3cret-token-value" not in recorded
    assert "mail" in recorded


async def test_arguments_and_results_are_never_recorded(tmp_path):
    server = MemoryServer(TOOLS, answers={"read_row": text("RESULT-TEXT")})
    async with world(tmp_path, {"db": server}) as w, w.client() as client:
        await client.call("db__read_row", {"note": "ARGUMENT-TEXT"})
        await client.tool_call("read_row", {"note": "ARGUMENT-TEXT"})
    recorded = w.settings.events_file.read_text()
    assert "tool_call" in recorded
    assert "-TEXT" not in recorded


async def test_no_events_are_written_where_they_are_off(tmp_path):
    async with world(tmp_path, {"db": TOOLS}, {"events": {"level": "off"}}) as w, w.client() as client:
        await client.search("read")
        assert not w.settings.events_file.exists()
        assert w.events == []

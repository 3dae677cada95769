"""What some hosts show alone names the servers of whoever asks: the first line, and the first sentence of a tool."""

import pytest
from shelving import skills

from fakes.menu import tool
from toolcrib.base.model import Caller
from worlds import ERAS, MemoryServer, until, world

pytestmark = pytest.mark.anyio

SERVERS = {"git": [tool("log")], "github": [tool("create_issue"), tool("list_issues")], "slack": [tool("send")]}
FIRST_LINE_MAX = 240


async def told(w, era: str = "legacy", **client) -> tuple[str, str]:
    """Return the first line of the instructions, and the first sentence of ``tool_search``."""
    async with w.client(era, **client) as connected:
        [search] = [entry for entry in await connected.tools() if entry["name"] == "tool_search"]
        return (connected.instructions or "").split("\n")[0], search["description"].split(". ")[0]


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_both_name_the_servers_in_plain_words(tmp_path, era):
    async with world(tmp_path, SERVERS, listing="auto") as w:
        line, sentence = await told(w, era)
    assert line == (
        "toolcrib has the tools of these MCP servers (4 tools): git, github, slack. "
        "Find them with toolcrib's tool_search."
    )
    assert sentence == "Find tools of toolcrib's MCP servers: git, github, slack"


async def test_tools_are_counted_once_all_servers_have_been_listed(tmp_path):
    slow = MemoryServer([tool("send")], hangs_at="tools/list")
    async with world(tmp_path, {**SERVERS, "slow": slow}, wait=False) as w:
        await until(lambda: len(w.gateway.tools.fleet.listing_first) == 1)
        line, _ = await told(w)
    assert ": git, github, slack, slow." in line
    assert "tools)" not in line


async def test_the_definition_is_the_same_for_every_host_and_whatever_the_servers_have(tmp_path):
    found = set()
    for number, log in enumerate(([tool("log")], [tool("log"), tool("show")])):
        (tmp_path / str(number)).mkdir()
        async with world(tmp_path / str(number), {**SERVERS, "git": log}, listing="auto") as w:
            for era in ERAS:
                for host in ("copilot-cli", "claude-code", "somebody"):
                    async with w.client(era, name=host) as client:
                        found.add(str((await client.tools())[0]))
    assert len(found) == 1


async def test_as_many_servers_are_named_as_fit_and_the_rest_is_counted(tmp_path):
    many = {f"server-number-{number:02}": [tool("x")] for number in range(40)}
    async with world(tmp_path, many, skills()) as w:
        line, sentence = await told(w)
    assert "server-number-00, server-number-01" in line
    assert "server-number-00, server-number-01" in sentence
    assert line.endswith(" more. Find them with toolcrib's tool_search.")
    assert sentence.endswith(" more")
    assert len(line) <= FIRST_LINE_MAX
    assert len(sentence) < 150, "some hosts show no more of a description"


async def test_what_a_server_is_for_is_said_in_the_words_of_the_config_alone(tmp_path):
    config = {"servers": {"git": {"description": "history of this code"}, "slack": {"description": "chat " * 100}}}
    async with world(tmp_path, SERVERS, config) as w:
        line, _ = await told(w)
    assert "git (history of this code), github, slack (chat chat" in line
    assert len(line) <= FIRST_LINE_MAX
    assert line.endswith("Find them with toolcrib's tool_search.")


@pytest.mark.parametrize(("purpose", "shown"), [("x" * 40, "x" * 40), ("x" * 41, "x" * 39 + "…")])
async def test_of_what_a_server_is_for_40_characters_are_told(tmp_path, purpose, shown):
    async with world(tmp_path, SERVERS, {"servers": {"git": {"description": purpose}}}) as w:
        line, _ = await told(w)
    assert f"git ({shown}), github, slack." in line


async def test_every_name_goes_before_what_a_server_is_for(tmp_path):
    described = {key: {"description": f"what {key} is needed for"} for key in [*SERVERS, "weather", "calendar"]}
    servers = {**SERVERS, "weather": [tool("now")], "calendar": [tool("today")]}
    async with world(tmp_path, servers, {"servers": described}) as w:
        line, _ = await told(w)
    assert ": git, github, slack, weather, calendar." in line


@pytest.mark.parametrize(("length", "are_told"), [(36, True), (37, False)])
async def test_purposes_are_told_where_they_take_135_characters_with_the_names_and_no_more(tmp_path, length, are_told):
    described = {"git": {"description": "g" * 36}, "github": {"description": "h" * 36}}
    config = {"servers": {**described, "slack": {"description": "s" * length}}}
    async with world(tmp_path, SERVERS, config) as w:
        line, _ = await told(w)
    assert len(f"git ({'g' * 36}), github ({'h' * 36}), slack ({'s' * 36})") == 135
    assert ("ggg" in line, "hhh" in line, "sss" in line) == (are_told,) * 3


async def test_a_purpose_that_names_a_denied_tool_is_left_out(tmp_path):
    config = {
        "servers": {"github": {"description": "for create_issue"}, "git": {"description": "history"}},
        "policy": {"deny": ["create_issue"]},
    }
    async with world(tmp_path, SERVERS, config) as w:
        line, _ = await told(w)
    assert "(3 tools): git (history), github, slack." in line


@pytest.mark.parametrize(
    ("policy", "named"),
    [
        ({"deny": ["github.*"]}, "git, slack"),
        ({"deny": ["g*"]}, "slack"),
        ({"deny": ["*tool*", "send"]}, "git, github, slack"),
        ({"allow": ["github.create_issue"]}, "github"),
        ({"allow": ["github__*", "sl*"]}, "github, slack"),
        ({"allow": ["*create*"]}, "git, github, slack"),
        ({"allow": ["[h-s]lack/send"]}, "slack"),
    ],
)
async def test_servers_of_which_the_caller_may_use_nothing_are_not_named(tmp_path, policy, named):
    async with world(tmp_path, SERVERS, {"policy": policy}) as w:
        line, sentence = await told(w)
    assert f": {named}." in line
    assert sentence.endswith(f": {named}")


async def test_each_caller_is_told_of_their_own_servers(tmp_path):
    rules = [
        {"when": {"tenant_id": "red"}, "allow": ["git.*"]},
        {"when": {"tenant_id": "blue"}, "allow": ["slack.*"]},
        {"when": {"tenant_id": "grey"}, "deny": ["*"]},
    ]
    async with world(tmp_path, SERVERS, {**skills(), "policy": {"visibility": rules}}) as w:
        red, blue, grey = [await told(w, caller=Caller(who, tenant_id=who)) for who in ("red", "blue", "grey")]
    assert ("git" in red[0], "slack" in red[0], "slack" in red[1]) == (True, False, False)
    assert ("git" in blue[0], "slack" in blue[0], "git" in blue[1]) == (False, True, False)
    assert grey == (
        "toolcrib has skills for kinds of tasks: find them with toolcrib's skill_search.",
        "Find tools of toolcrib's MCP servers",
    )


async def test_without_any_server_the_first_line_is_about_skills(tmp_path):
    async with world(tmp_path, {}, skills()) as w:
        line, _ = await told(w)
    assert line == "toolcrib has skills for kinds of tasks: find them with toolcrib's skill_search."


async def test_with_one_tool_for_all_calls_nothing_else_is_told_of(tmp_path):
    async with world(tmp_path, SERVERS, {"gate": {"call_tools": "single"}}) as w, w.client() as client:
        said = (client.instructions or "") + str(await client.tools())
    assert "toolcrib's tool_call" in said
    assert "tool_call_read" not in said

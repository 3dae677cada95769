"""The form of our answers: text alone where a host shows it then, structured content besides for everybody else."""

import json

import jsonschema
import pytest
from shelving import put, repo, skills

from fakes.menu import tool
from toolcrib.server.builtin.registry import BUILTINS
from worlds import ERAS, SCHEMAS, text, world

pytestmark = pytest.mark.anyio

DB = {"db": [tool("read_row", "Read a row.", annotations={"readOnlyHint": True})]}
CALLS = {
    "tool_search": {"query": "read a row"},
    "skill_search": {"query": "fill a form"},
    "skill_get": {"names": ["pdf-forms"]},
    "skill_list": {},
    "skill_activate": {"names": ["pdf-forms", "nobody"]},
    "skill_deactivate": {"names": ["pdf-forms", "nobody"]},
    "skill_report_outcome": {"name": "pdf-forms", "success": True},
}
"""One call of each built-in that answers by itself."""


@pytest.fixture
def shelf(tmp_path):
    put(repo(tmp_path), "pdf-forms", "Fills a form of a PDF.")
    return tmp_path


@pytest.mark.parametrize("era", ERAS)
async def test_no_built_in_lists_a_schema_of_its_answers(shelf, era):
    async with world(shelf, DB, skills(), listing="auto") as w, w.client(era) as client:
        assert [entry["name"] for entry in await client.tools() if "outputSchema" in entry] == []


@pytest.mark.sampled
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", CALLS)
async def test_a_host_that_shows_text_where_it_stands_alone_gets_nothing_else(shelf, era, name):
    config = {**skills(outcomes=True), "tool_search": {"skill_scoped_patterns": ["other.*"]}}
    async with world(shelf, DB, config, listing="auto") as w:
        results = []
        for host in ("mcp", "copilot-cli"):
            async with w.client(era, name=host) as client:
                if name == "skill_report_outcome":  # there is none to report of what was not given
                    await client.call("skill_get", {"names": ["pdf-forms"], "force": True})
                results.append(await client.call(name, CALLS[name]))
        both, alone = results
    jsonschema.validate(both.pop("structuredContent"), SCHEMAS[name], jsonschema.Draft202012Validator)
    for result in (both, alone):
        result.pop("_meta", None)
    if name == "skill_get":  # its text says when it was loaded, and what this client had before
        assert "structuredContent" not in alone
    else:
        assert alone == both


async def test_the_config_says_who_else_gets_which_form(shelf):
    by_name = {"mine-*": {"structured": "never"}, "copilot-cli": {"structured": "always"}}
    config = {**skills(), "results": {"hosts": by_name}}
    async with world(shelf, DB, config) as w:
        forms = {}
        for client in ("mine-1", "copilot-cli", "opencode", "yours"):
            async with w.client(name=client) as connected:
                result = await connected.call("tool_search", {"query": "read"})
                forms[client] = "structuredContent" in result
    assert forms == {"mine-1": False, "copilot-cli": True, "opencode": False, "yours": True}


@pytest.mark.parametrize("structured", ["always", "never"])
async def test_one_form_for_everybody_can_be_configured(shelf, structured):
    config = {**skills(), "results": {"structured": structured}}
    async with world(shelf, DB, config) as w:
        for client in ("copilot-cli", "yours"):
            async with w.client(name=client) as connected:
                result = await connected.call("tool_search", {"query": "read"})
                assert ("structuredContent" in result) == (structured == "always")


@pytest.mark.parametrize("client", ["copilot-cli", "yours"])
async def test_a_result_of_a_server_passes_as_it_is_in_every_host(tmp_path, client):
    async with world(tmp_path, DB) as w, w.client(name=client) as connected:
        w["db"].answers["read_row"] = text("one", structuredContent={"n": 1})
        result = await connected.tool_call("db__read_row")
    assert (result["structuredContent"], result["content"][0]["text"]) == ({"n": 1}, "one")


def test_the_schemas_of_all_answers_are_published_and_valid():
    schemas = {each.name: each.answer_schema for each in BUILTINS if each.answer_schema}
    assert set(SCHEMAS) == set(schemas) == set(CALLS)
    for name, published in SCHEMAS.items():
        jsonschema.Draft202012Validator.check_schema(published)
        assert json.dumps(schemas[name])[1:-1] in json.dumps(published)

"""Which resources and prompts of servers a caller gets: by the policy for tools; nothing tells of the rest."""

import json
from contextlib import suppress

import pytest
from mcp import MCPError

from fakes.memory import MemoryServer
from fakes.menu import tool
from toolcrib.base.model import Caller
from worlds import ERAS, world

pytestmark = pytest.mark.anyio

BOTH = pytest.mark.parametrize("era", ERAS)


def server(resources=(), templates=(), prompts=(), tools=("get",)) -> MemoryServer:
    offers = {
        "resources": [{"uri": uri, "name": name} for uri, name in resources],
        "resourceTemplates": [{"uriTemplate": uri, "name": name} for uri, name in templates],
        "prompts": [{"name": name} for name in prompts],
        "completions": [],
    }
    return MemoryServer([tool(name) for name in tools], offers=offers)


async def offered(client) -> dict[str, list[str]]:
    resources = (await client.ask("resources/list"))["resources"][1:]
    templates = (await client.ask("resources/templates/list"))["resourceTemplates"]
    prompts = (await client.ask("prompts/list"))["prompts"]
    return {
        "resources": [each["uri"].removeprefix("toolcrib://servers/") for each in resources],
        "templates": [each["uriTemplate"].removeprefix("toolcrib://servers/") for each in templates],
        "prompts": [each["name"] for each in prompts],
    }


async def refusal(client, method: str, **params) -> tuple[int, str, object]:
    with pytest.raises(MCPError) as caught:
        await client.ask(method, params)
    error = caught.value.error
    return error.code, error.message, error.data


async def may_read(client, uri: str) -> bool:
    with suppress(MCPError):
        return "contents" in await client.ask("resources/read", {"uri": f"toolcrib://servers/{uri}"})
    return False


FILES = server(
    resources=[("file:///pub/a", "a"), ("file:///etc/passwd", "passwd"), ("x://1", "secret notes")],
    templates=[("file:///{+path}", "files"), ("admin://{id}", "admin")],
    prompts=["ask", "drop_all"],
)


@BOTH
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"deny": ["file:///etc/*"]}, (["file:///pub/a", "x://1"], 2, ["ask", "drop_all"])),
        ({"deny": ["files.file:///etc/*", "drop_*"]}, (["file:///pub/a", "x://1"], 2, ["ask"])),
        ({"deny": ["secret*", "admin"]}, (["file:///etc/passwd", "file:///pub/a"], 1, ["ask", "drop_all"])),
        ({"deny": ["toolcrib://servers/files/x:*"]}, (["file:///etc/passwd", "file:///pub/a"], 2, ["ask", "drop_all"])),
        ({"deny": ["files.*"]}, ([], 0, [])),
        ({"deny": ["*"]}, ([], 0, [])),
        ({"allow": []}, ([], 0, [])),
        ({"allow": ["files.a", "files__ask"]}, (["file:///pub/a"], 0, ["ask"])),
        ({"allow": ["files.file:///pub/*"]}, (["file:///pub/a"], 0, [])),
        ({"allow": ["a", "file:///pub/a", "ask"]}, ([], 0, [])),
        ({"allow": ["other.*"]}, ([], 0, [])),
    ],
)
async def test_a_deny_of_name_or_uri_wins_and_an_allow_of_either_is_enough(tmp_path, era, policy, expected):
    resources, templates, prompts = expected
    config = {"policy": {"allow": ["*", "files.*"], **policy}}
    async with world(tmp_path, {"files": FILES}, config, listing="auto") as w, w.client(era) as client:
        found = await offered(client)
        assert found["resources"] == [f"files/{uri}" for uri in sorted(resources)]
        assert len(found["templates"]) == templates
        assert found["prompts"] == [f"files__{name}" for name in prompts]
        for uri in ("file:///pub/a", "file:///etc/passwd", "x://1"):
            assert await may_read(client, f"files/{uri}") is (uri in resources), uri
        for name in ("ask", "drop_all"):
            if name not in prompts:
                said = await refusal(client, "prompts/get", name=f"files__{name}")
                assert said[:2] == (-32602, f"Unknown prompt: files__{name}")


@BOTH
async def test_denied_unknown_and_not_there_are_answered_alike(tmp_path, era):
    visibility = [{"when": {"tenant_id": "t"}, "deny": ["passwd"]}]
    config = {"policy": {"deny": ["secret*", "closed.*"], "visibility": visibility, "allow": ["*", "files.*"]}}
    config["context"] = {"tenant_id": "t"}
    servers = {"files": FILES, "closed": server(resources=[("c://1", "c")])}
    async with world(tmp_path, servers, config, listing="auto") as w, w.client(era) as client:
        answers = set()
        for uri in ("files/x://1", "files/file:///etc/passwd", "files/none://1", "closed/c://1", "nobody/c://1"):
            public = f"toolcrib://servers/{uri}"
            code, message, data = await refusal(client, "resources/read", uri=public)
            answers.add((code, message.replace(public, "URI"), json.dumps(data).replace(public, "URI")))
            assert (await refusal(client, "completion/complete", **completing(public)))[:2] == (code, message)
        assert answers == {(-32602, "Not found: URI", '{"uri": "URI"}')}
        for uri in ("x://1", "file:///etc/passwd", "c://1"):
            assert (await refusal(client, "resources/read", uri=uri))[1] == f"Not found: {uri}"


def completing(uri: str):
    return {"ref": {"type": "ref/resource", "uri": uri}, "argument": {"name": "x", "value": ""}}


@pytest.mark.parametrize(
    "uri",
    [
        "file:///pub/../etc/passwd",
        "file:///pub/%2e%2e/etc/passwd",
        "file:///pub/%252e%252e/etc/passwd",
        "FILE:///etc/passwd",
        "file:////etc//passwd",
        "file:///etc%2Fpasswd",
        "file:///pub\\..\\etc\\passwd",
        "file:///./etc/./passwd",
    ],
)
async def test_no_spelling_of_a_denied_uri_gets_around_the_policy(tmp_path, uri):
    files = server(resources=[("file:///etc/passwd", "passwd"), ("file:///pub/a", "a")])
    files.given[uri] = {"contents": []}
    for policy in ({"deny": ["file:///etc/*"]}, {"deny": ["passwd"]}, {"allow": ["files.file:///pub/*"]}):
        config = {"policy": {"allow": ["*", "files.*"], **policy}}
        async with world(tmp_path, {"files": files}, config) as w, w.client() as client:
            assert await may_read(client, "files/file:///pub/a")
            assert not await may_read(client, f"files/{uri}")


async def test_what_a_denied_template_may_expand_to_cannot_be_read(tmp_path):
    files = server(templates=[("admin://{id}/x", "admin"), ("open://{id}", "open")])
    for uri in ("admin://1/x", "admin://1/y", "open://1"):
        files.given[uri] = {"contents": []}
    config = {"policy": {"deny": ["admin"]}}
    async with world(tmp_path, {"files": files}, config) as w, w.client() as client:
        assert not await may_read(client, "files/admin://1/x")
        assert await may_read(client, "files/admin://1/y")
        assert await may_read(client, "files/open://1")
    config = {"policy": {"allow": ["files.get", "files.open"]}}
    async with world(tmp_path, {"files": files}, config) as w, w.client() as client:
        assert await may_read(client, "files/open://1")
        assert not await may_read(client, "files/admin://1/y")


async def test_a_server_of_which_no_tool_is_allowed_gives_nothing_unless_an_allow_names_it(tmp_path):
    servers = {"a": server([("x://1", "x")], tools=["drop"]), "b": server([("x://2", "x")])}
    for allow, expected in ((["*"], ["b/x://2"]), (["*", "a.*"], ["a/x://1", "b/x://2"])):
        config = {"policy": {"allow": allow, "deny": ["drop"]}}
        async with world(tmp_path, servers, config) as w, w.client() as client:
            assert (await offered(client))["resources"] == expected
            assert await may_read(client, "a/x://1") is (len(expected) == 2)


@BOTH
async def test_each_caller_gets_its_own_lists(tmp_path, era):
    visibility = [{"when": {"tenant_id": "t"}, "deny": ["secret*", "drop_*", "admin"]}]
    config = {"policy": {"visibility": visibility, "allow": ["*", "files.*"]}}
    async with world(tmp_path, {"files": FILES}, config, listing="auto", transport="http") as w:
        async with w.client(era, Caller("anna", "t")) as anna, w.client(era, Caller("bob", "u")) as bob:
            for_anna, for_bob = await offered(anna), await offered(bob)
            assert (len(for_anna["resources"]), len(for_bob["resources"])) == (2, 3)
            assert (len(for_anna["templates"]), len(for_bob["templates"])) == (1, 2)
            assert (for_anna["prompts"], for_bob["prompts"]) == (["files__ask"], ["files__ask", "files__drop_all"])
            assert not await may_read(anna, "files/x://1")
            assert await may_read(bob, "files/x://1")
            for heard in anna.heard:
                assert "drop_all" not in heard


async def test_what_a_server_says_of_a_uri_that_it_does_not_list_tells_nothing_about_denied_ones(tmp_path):
    files = server(resources=[("file:///pub/a", "a")])
    files.given["file:///pub/a"] = MCPError(-32002, "gone")
    config = {"policy": {"deny": ["*secret*"]}}
    async with world(tmp_path, {"files": files}, config) as w, w.client() as client:
        public = "toolcrib://servers/files/file:///"
        assert await refusal(client, "resources/read", uri=f"{public}pub/a") == (-32002, "gone", None)
        nowhere = await refusal(client, "resources/read", uri=f"{public}nowhere")
        denied = await refusal(client, "resources/read", uri=f"{public}secret")
        assert nowhere == (-32602, f"Not found: {public}nowhere", {"uri": f"{public}nowhere"})
        assert denied == (-32602, f"Not found: {public}secret", {"uri": f"{public}secret"})


@BOTH
async def test_names_of_denied_tools_are_taken_out_of_the_texts_of_what_is_listed(tmp_path, era):
    files = server(tools=["get", "drop_table"])
    about = "Use drop_table first, then get."
    files.offers["resources"] = [{"uri": "x://1", "name": "use drop_table", "description": about}]
    arguments = [{"name": "drop_table", "description": about}]
    files.offers["prompts"] = [{"name": "p", "description": about, "arguments": arguments}]
    config = {"policy": {"deny": ["drop_table"]}}
    async with world(tmp_path, {"files": files}, config, listing="auto") as w, w.client(era) as client:
        resource = (await client.ask("resources/list"))["resources"][-1]
        [prompt] = (await client.ask("prompts/list"))["prompts"]
        clean = "Use another tool first, then get."
        assert (resource["name"], resource["description"]) == ("use another tool", clean)
        assert (prompt["description"], prompt["arguments"]) == (clean, [{"name": "drop_table", "description": clean}])


async def test_a_refusal_is_told_to_the_owner_in_an_event(tmp_path):
    config = {"policy": {"deny": ["secret*"]}}
    async with world(tmp_path, {"files": FILES}, config) as w, w.client() as client:
        assert not await may_read(client, "files/x://1")
        assert await may_read(client, "files/file:///pub/a")
        await refusal(client, "prompts/get", name="files__none")
        denied, asked = w.happened("server_request_denied"), w.happened("server_request")
        assert [(each["method"], each["target"]) for each in denied] == [
            ("resources/read", "toolcrib://servers/files/x://1"),
            ("prompts/get", "files__none"),
        ]
        assert [(each["server"], each["method"], each["ok"]) for each in asked] == [("files", "resources/read", True)]

"""Resources, templates and completions of servers, as a client finds them through toolcrib."""

import anyio
import pytest
from mcp import MCPError

from fakes.memory import MODERN, MemoryServer
from fakes.menu import tool
from worlds import DEADLINE_S, ERAS, passing, until, world

pytestmark = pytest.mark.anyio

BOTH = pytest.mark.parametrize("era", ERAS)
DOWN = pytest.mark.parametrize("down", ["legacy", "modern"])


def resource(uri: str, **more):
    return {"uri": uri, "name": uri.rpartition("/")[2] or uri, **more}


def server(*resources, **options) -> MemoryServer:
    offers = {"resources": list(resources), "resourceTemplates": [], "prompts": [], "completions": []}
    return MemoryServer([tool("get")], offers=offers, **options)


async def uris(client) -> list[str]:
    listed = (await client.ask("resources/list"))["resources"]
    return [each["uri"] for each in listed if each["uri"] != "toolcrib://status"]


async def declared(client):
    """Return the capabilities that toolcrib declares to a client of this era."""
    if client.protocol_version < MODERN:
        return next(frame["result"]["capabilities"] for frame in client.frames if "capabilities" in frame["result"])
    return (await client.ask("server/discover"))["capabilities"]


async def read(client, uri: str):
    return (await client.ask("resources/read", {"uri": uri}))["contents"]


@pytest.mark.sampled
@BOTH
@DOWN
async def test_a_resource_of_a_server_is_listed_and_read_under_a_public_uri(tmp_path, era, down):
    docs = server(resource("docs://a", title="A", mimeType="text/plain"), eras=(down,))
    docs.given["docs://a"] = {"contents": [{"uri": "docs://a", "text": "hello", "x": 1}], "_meta": {"v/k": 2}}
    async with world(tmp_path, {"docs": docs}, listing="auto") as w, w.client(era) as client:
        listed = (await client.ask("resources/list"))["resources"]
        assert listed[-1] == {
            "uri": "toolcrib://servers/docs/docs://a",
            "name": "a",
            "title": "A",
            "mimeType": "text/plain",
        }
        result = await client.ask("resources/read", {"uri": listed[-1]["uri"]})
        assert result["contents"] == [{"uri": "toolcrib://servers/docs/docs://a", "text": "hello", "x": 1}]
        assert result["_meta"]["v/k"] == 2
        assert ("ttlMs" in result) is (era != "legacy")


@BOTH
async def test_a_uri_that_no_server_lists_is_asked_of_the_server_that_its_public_form_names(tmp_path, era):
    docs = server(resource("docs://a"))
    docs.given["docs://hidden"] = {"contents": [{"uri": "docs://hidden", "text": "x"}]}
    async with world(tmp_path, {"docs": docs}, listing="auto") as w, w.client(era) as client:
        [found] = await read(client, "toolcrib://servers/docs/docs://hidden")
        assert found["uri"] == "toolcrib://servers/docs/docs://hidden"
        assert w["docs"].starts == 2  # listed, put to sleep, woken


@BOTH
async def test_a_servers_own_uri_works_where_exactly_one_server_lists_it(tmp_path, era):
    servers = {"a": server(resource("ui://one"), resource("ui://both")), "b": server(resource("ui://both"))}
    async with world(tmp_path, servers, listing="auto") as w, w.client(era) as client:
        assert (await read(client, "ui://one"))[0]["uri"] == "ui://one"
        for uri in ("ui://both", "ui://none", "toolcrib://servers/c/ui://one", "toolcrib://servers/a/", "toolcrib://x"):
            with pytest.raises(MCPError) as caught:
                await read(client, uri)
            assert (caught.value.code, caught.value.message) == (-32602, f"Not found: {uri}")


@BOTH
async def test_templates_are_listed_with_the_same_prefix_and_expand_to_what_can_be_read(tmp_path, era):
    docs = server()
    docs.offers["resourceTemplates"] = [{"uriTemplate": "docs://{+path}", "name": "doc"}]
    docs.given["docs://x/y"] = {"contents": [{"uri": "docs://x/y", "text": "y"}]}
    async with world(tmp_path, {"my docs": docs}, listing="auto") as w, w.client(era) as client:
        [template] = (await client.ask("resources/templates/list"))["resourceTemplates"]
        assert template == {"uriTemplate": "toolcrib://servers/my%20docs/docs://{+path}", "name": "doc"}
        [found] = await read(client, template["uriTemplate"].replace("{+path}", "x/y"))
        assert found["text"] == "y"


@BOTH
async def test_links_and_embedded_resources_in_results_can_be_read_through_toolcrib(tmp_path, era):
    docs = server(resource("docs://a"))
    blocks = [
        {"type": "resource_link", "uri": "docs://a", "name": "a", "annotations": {"priority": 1}},
        {"type": "resource_link", "uri": "https://example.com/a", "name": "web"},
        {"type": "resource", "resource": {"uri": "docs://a", "text": "t"}, "_meta": {"k": 1}},
        {"type": "text", "text": "docs://a"},
    ]
    shown = [
        {**blocks[0], "uri": "toolcrib://servers/docs/docs://a"},
        blocks[1],
        {**blocks[2], "resource": {"uri": "toolcrib://servers/docs/docs://a", "text": "t"}},
        blocks[3],
    ]
    docs.answers["get"] = {"content": blocks, "structuredContent": {"uri": "docs://a"}}
    docs.offers["prompts"] = [{"name": "p"}]
    docs.given["p"] = {"messages": [{"role": "user", "content": block} for block in blocks]}
    async with world(tmp_path, {"docs": docs}, listing="auto") as w, w.client(era) as client:
        for result in (await client.call("docs__get"), await client.tool_call("docs__get")):
            assert result["content"] == shown
            assert result["structuredContent"] == {"uri": "docs://a"}
        got = await client.ask("prompts/get", {"name": "docs__p"})
        assert [message["content"] for message in got["messages"]] == shown
        assert (await read(client, shown[0]["uri"]))[0]["text"] == "text"


@BOTH
async def test_a_long_list_comes_in_pages_with_each_resource_once(tmp_path, era):
    docs = server(*(resource(f"docs://{number:04}") for number in range(600)))
    async with world(tmp_path, {"docs": docs}, listing="auto") as w, w.client(era) as client:
        pages, cursor = [], {}
        while cursor is not None:
            page = await client.ask("resources/list", cursor)
            pages.append([each["uri"] for each in page["resources"]])
            cursor = {"cursor": page["nextCursor"]} if "nextCursor" in page else None
        assert [len(page) for page in pages] == [251, 250, 100]
        assert [uri for page in pages for uri in page][1:] == [
            f"toolcrib://servers/docs/docs://{number:04}" for number in range(600)
        ]


async def test_a_page_is_bounded_in_bytes_too(tmp_path):
    docs = server(*(resource(f"docs://{number}", description="x" * 300_000) for number in range(5)))
    async with world(tmp_path, {"docs": docs}) as w, w.client() as client:
        first = await client.ask("resources/list")
        assert len(first["resources"]) == 1 + 3
        second = await client.ask("resources/list", {"cursor": first["nextCursor"]})
        assert len(second["resources"]) == 2


async def test_a_second_start_lists_without_starting_any_server(tmp_path):
    docs = server(resource("docs://a"))
    async with world(tmp_path, {"docs": docs}):
        pass
    async with world(tmp_path, {"docs": docs}) as w, w.client() as client:
        assert await uris(client) == ["toolcrib://servers/docs/docs://a"]
        assert docs.starts == 1


async def test_an_index_without_resources_has_the_server_listed_in_the_background(tmp_path):
    docs = server(resource("docs://a"))
    async with world(tmp_path, {"docs": docs}, {"gate": {"expose": {"resources": "off"}}}) as w, w.client() as client:
        assert await uris(client) == []
    async with world(tmp_path, {"docs": docs}, wait=False) as w, w.client() as client:
        assert await uris(client) == ["toolcrib://servers/docs/docs://a"]


@pytest.mark.sampled
@BOTH
@DOWN
async def test_a_change_of_a_servers_list_is_told_to_those_whose_list_changes(tmp_path, era, down):
    docs = server(resource("docs://a"), eras=(down,))
    async with world(tmp_path, {"docs": docs}, listing="auto") as w, w.client(era) as client:
        assert (await declared(client))["resources"] == {"subscribe": True, "listChanged": True}
        await read(client, "toolcrib://servers/docs/docs://a")
        async with client.listening():
            await docs.change_offers("resources", resource("docs://b"))
            await until(lambda: client.told("resources/list_changed") > 0)
        assert await uris(client) == ["toolcrib://servers/docs/docs://b"]
        assert not client.told("prompts/list_changed")
        assert not client.told("tools/list_changed")


# -- errors --------------------------------------------------------------------------------------


@BOTH
async def test_a_servers_error_is_passed_on_without_the_secrets_that_toolcrib_holds(tmp_path, era):
    docs = server(resource("docs://a"), entry={"command": "x", "env": {"TOKEN": "hunter2-hunter2"}})
    docs.given["docs://a"] = MCPError(-32050, "bad hunter2-hunter2", {"token": ["hunter2-hunter2"], "n": 1})
    async with world(tmp_path, {"docs": docs}, listing="auto") as w, w.client(era) as client:
        with pytest.raises(MCPError) as caught:
            await read(client, "toolcrib://servers/docs/docs://a")
    error = caught.value.error
    assert (error.code, error.message, error.data) == (-32050, "bad ***", {"token": ["***"], "n": 1})


@BOTH
async def test_a_server_that_hangs_or_cannot_be_started_is_told_by_name(tmp_path, era):
    servers = {"docs": server(resource("docs://a")), "down": server(resource("down://a"))}
    config = {"server_defaults": {"call_timeout_s": DEADLINE_S}}
    async with world(tmp_path, servers, config, listing="auto") as w, w.client(era) as client:
        w["docs"].hangs_at = "resources/read"
        async with passing(DEADLINE_S):
            with pytest.raises(MCPError, match=r"The server 'docs' did not answer 'resources/read' within 6 s"):
                await read(client, "toolcrib://servers/docs/docs://a")
        w["down"].start_error = OSError("no such program")
        with pytest.raises(MCPError, match="The server 'down' could not be started"):
            await read(client, "toolcrib://servers/down/down://a")
        assert await uris(client) == ["toolcrib://servers/docs/docs://a", "toolcrib://servers/down/down://a"]


# -- completions ---------------------------------------------------------------------------------


@pytest.mark.sampled
@BOTH
@DOWN
async def test_arguments_are_completed_by_the_server_under_its_own_names(tmp_path, era, down):
    docs = server(eras=(down,))
    docs.offers["prompts"] = [{"name": "p.1", "arguments": [{"name": "x"}]}]
    docs.offers["resourceTemplates"] = [{"uriTemplate": "docs://{id}", "name": "doc"}]
    async with world(tmp_path, {"docs": docs}, listing="auto") as w, w.client(era) as client:
        assert (await declared(client))["completions"] == {}
        [prompt] = (await client.ask("prompts/list"))["prompts"]
        for ref, own in (
            ({"type": "ref/prompt", "name": prompt["name"]}, '{"type": "ref/prompt", "name": "p.1"}'),
            (
                {"type": "ref/resource", "uri": "toolcrib://servers/docs/docs://{id}"},
                '{"type": "ref/resource", "uri": "docs://{id}"}',
            ),
        ):
            params = {"ref": ref, "argument": {"name": "x", "value": "v"}, "context": {"arguments": {"y": "z"}}}
            result = await client.ask("completion/complete", params)
            assert result["completion"] == {"values": [own, "v"]}
        sent = [each for each in docs.received if each.get("method") == "completion/complete"]
        assert [each["params"]["context"] for each in sent] == [{"arguments": {"y": "z"}}] * 2


async def test_a_server_without_completions_has_none_and_an_unknown_name_is_refused(tmp_path):
    docs = server()
    del docs.offers["completions"]
    docs.offers["prompts"] = [{"name": "p"}]
    argument = {"name": "x", "value": ""}
    async with world(tmp_path, {"docs": docs}) as w, w.client() as client:
        params = {"ref": {"type": "ref/prompt", "name": "docs__p"}, "argument": argument}
        assert (await client.ask("completion/complete", params))["completion"] == {"values": []}
        for ref in ({"type": "ref/prompt", "name": "docs__q"}, {"type": "ref/resource", "uri": "docs://{id}"}):
            with pytest.raises(MCPError) as caught:
                await client.ask("completion/complete", {"ref": ref, "argument": argument})
            assert caught.value.code == -32602
        assert "completion/complete" not in docs.methods()


async def test_more_reads_than_a_session_may_have_under_way_are_refused(tmp_path):
    docs = server(resource("docs://a"))
    config = {"limits": {"pending_calls": 1}, "server_defaults": {"call_timeout_s": 5}}
    async with world(tmp_path, {"docs": docs}, config) as w, w.client() as client:
        docs.hangs_at = "resources/read"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read, client, "toolcrib://servers/docs/docs://a")
            await until(lambda: "resources/read" in docs.methods())
            with pytest.raises(MCPError, match=r"limits\.pending_calls"):
                await read(client, "toolcrib://servers/docs/docs://a")
            tasks.cancel_scope.cancel()


@DOWN
async def test_a_resource_is_read_while_its_server_takes_long_to_list_its_tools_again(tmp_path, down):
    docs = server(resource("docs://a"), eras=(down,))
    docs.given["docs://a"] = {"contents": [{"uri": "docs://a", "text": "hello"}]}
    section = {"servers": {"docs": {"connect_timeout_s": 5}}}
    async with world(tmp_path, {"docs": docs}, section) as w, w.client() as client:
        uri = "toolcrib://servers/docs/docs://a"
        assert (await read(client, uri))[0]["text"] == "hello"
        docs.hangs_at = "tools/list"
        before = docs.methods().count("tools/list")
        await docs.change(tool("get", "Gets something else."))
        assert (await read(client, uri))[0]["text"] == "hello"
        await until(lambda: docs.methods().count("tools/list") > before)
        assert (await read(client, uri))[0]["text"] == "hello"

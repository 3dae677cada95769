"""Updates of single resources: they reach those who have subscribed and nobody else, in all pairings of eras."""

from contextlib import AsyncExitStack

import pytest
from mcp import MCPError

from fakes.memory import MODERN, MemoryServer
from fakes.menu import tool
from toolcrib.base.model import Caller
from worlds import DEADLINE_S, ERAS, passing, settled, time_passes, until, world

pytestmark = pytest.mark.anyio

BOTH = pytest.mark.parametrize("era", ERAS)
DOWN = pytest.mark.parametrize("down", ["legacy", "modern"])
A, B = "toolcrib://servers/docs/docs://a", "toolcrib://servers/docs/docs://b"


def server(**options) -> MemoryServer:
    resources = [{"uri": f"docs://{name}", "name": name} for name in "abc"]
    return MemoryServer([tool("get")], offers={"resources": resources}, **options)


def updates(client) -> list[str]:
    return [
        frame["params"]["uri"] for frame in client.frames if frame.get("method") == "notifications/resources/updated"
    ]


@pytest.mark.sampled
@BOTH
@DOWN
async def test_an_update_reaches_who_has_subscribed_under_the_public_uri(tmp_path, era, down):
    docs = server(eras=(down,))
    async with world(tmp_path, {"docs": docs}, listing="auto") as w, w.client(era) as one, w.client(era) as other:
        async with one.listening(A), other.listening(B):
            await until(lambda: sorted(docs.subscribed) == ["docs://a", "docs://b"])
            await docs.update("docs://a")
            await until(lambda: updates(one) == [A])
            await docs.update("docs://b")
            await until(lambda: updates(other) == [B])
            await docs.update("docs://c")
        await until(lambda: docs.subscribed == [])
        assert (updates(one), updates(other)) == ([A], [B])


@pytest.mark.sampled
@BOTH
@DOWN
async def test_a_subscription_is_held_once_and_let_go_with_the_last_who_wants_it(tmp_path, era, down):
    docs = server(eras=(down,))
    async with world(tmp_path, {"docs": docs}, listing="auto") as w:
        async with w.client(era) as one, one.listening(A):
            async with w.client(era) as other, other.listening(A):
                await docs.update("docs://a")
                await until(lambda: (updates(one), updates(other)) == ([A], [A]))
                assert docs.subscribed == ["docs://a"]
            await docs.update("docs://a")
            await until(lambda: updates(one) == [A, A])
            assert docs.subscribed == ["docs://a"]
        await until(lambda: docs.subscribed == [])


@DOWN
async def test_a_session_that_ends_lets_go_of_its_subscriptions(tmp_path, down):
    docs = server(eras=(down,))
    async with world(tmp_path, {"docs": docs}) as w:
        async with w.client() as client:
            assert await client.ask("resources/subscribe", {"uri": A}) == {}
            assert await client.ask("resources/subscribe", {"uri": A}) == {}
            assert docs.subscribed == ["docs://a"]
        await until(lambda: docs.subscribed == [])


@DOWN
async def test_a_server_with_a_subscription_is_not_idle_and_is_started_again_when_it_ends(tmp_path, down):
    docs = server(eras=(down,))
    config = {"server_defaults": {"idle_stop_s": DEADLINE_S}, "limits": {"backoff_max_s": 0.001}}
    async with world(tmp_path, {"docs": docs}, config, listing="auto") as w, w.client() as client:
        await client.ask("resources/subscribe", {"uri": A})
        await time_passes(2 * DEADLINE_S)
        assert docs.starts == 2
        docs.subscribed.clear()
        await docs.hang_up()
        await until(lambda: docs.subscribed == ["docs://a"])
        assert docs.starts == 3
        await until(lambda: updates(client) == [A])  # what happened meanwhile is not known
        await client.ask("resources/unsubscribe", {"uri": A})
        await time_passes(2 * DEADLINE_S)
        assert w.happened("downstream_state")[-1]["state"] == "sleeping"


@BOTH
async def test_an_update_of_a_part_is_told_as_one_of_what_was_subscribed_to(tmp_path, era):
    docs = server()
    async with world(tmp_path, {"docs": docs}, listing="auto") as w, w.client(era) as client, client.listening(A):
        await docs.update("docs://a/b")
        await until(lambda: updates(client) == [A])


async def test_updates_without_end_are_told_a_few_times(tmp_path):
    docs = server()
    async with world(tmp_path, {"docs": docs}) as w, w.client() as client, client.listening(A):
        for _ in range(2000):
            await docs.update("docs://a")
        await until(lambda: len(updates(client)) > 1)
        assert len(updates(client)) < 200


async def test_what_a_session_may_not_read_it_may_not_subscribe_to(tmp_path):
    docs = server()
    config = {"policy": {"deny": ["a"]}}
    async with world(tmp_path, {"docs": docs}, config, listing="auto") as w:
        async with w.client() as client:
            for uri in (A, "toolcrib://servers/none/x", "docs://a", "toolcrib://status"):
                with pytest.raises(MCPError) as caught:
                    await client.ask("resources/subscribe", {"uri": uri})
                assert (caught.value.code, caught.value.message) == (-32602, f"Not found: {uri}")
        async with w.client(MODERN) as client, client.listen(resource_subscriptions=[A, B]) as held:
            assert held.honored.resource_subscriptions == [B]
            await docs.update("docs://a")
            await docs.update("docs://b")
            await until(lambda: updates(client) == [B])
        assert docs.subscribed in ([], ["docs://b"])


async def test_a_refusal_of_the_server_is_passed_on_and_nothing_is_held(tmp_path):
    docs = server(eras=("legacy",))
    docs.hangs_at = "resources/subscribe"
    config = {"server_defaults": {"call_timeout_s": DEADLINE_S}}
    async with world(tmp_path, {"docs": docs}, config, listing="auto") as w:
        async with w.client() as client, passing(DEADLINE_S):
            with pytest.raises(MCPError, match="did not answer 'resources/subscribe'"):
                await client.ask("resources/subscribe", {"uri": A})
        async with w.client(MODERN) as client, passing(DEADLINE_S), client.listen(resource_subscriptions=[A]) as held:
            assert held.honored.resource_subscriptions is None


async def test_a_session_subscribes_to_so_many_and_no_more(tmp_path):
    docs = server()
    async with world(tmp_path, {"docs": docs}, {"limits": {"subscriptions": 2}}, listing="auto") as w:
        async with w.client() as client:
            for uri in (A, B):
                await client.ask("resources/subscribe", {"uri": uri})
            with pytest.raises(MCPError, match=r"limits\.subscriptions"):
                await client.ask("resources/subscribe", {"uri": A[:-1] + "c"})
            await client.ask("resources/unsubscribe", {"uri": A})
            await client.ask("resources/subscribe", {"uri": A[:-1] + "c"})
        async with w.client(MODERN) as client, client.listen(resource_subscriptions=[A, B, A[:-1] + "c"]) as held:
            assert held.honored.resource_subscriptions == [A, B]


async def test_with_a_process_for_each_principal_an_update_reaches_only_the_one_it_is_for(tmp_path):
    docs = server()
    config = {"server_defaults": {"isolation": "principal"}}
    async with AsyncExitStack() as stack:
        w = await stack.enter_async_context(world(tmp_path, {"docs": docs}, config, transport="http", listing="auto"))
        anna, bob = [await stack.enter_async_context(w.client(caller=Caller(name))) for name in ("anna", "bob")]
        for client in (anna, bob):
            await client.ask("resources/subscribe", {"uri": A})
        talks = list(docs._talks)
        assert len(talks) == 2
        await talks[0].update("docs://a")
        await until(lambda: len(updates(anna)) + len(updates(bob)) > 0)
        await settled()
        assert sorted([len(updates(anna)), len(updates(bob))]) == [0, 1]


async def test_a_constant_list_of_capabilities_says_what_is_told(tmp_path):
    for expose, resources, prompts in (
        ({}, {"subscribe": True, "listChanged": True}, {"listChanged": True}),
        ({"resources": "searchable", "prompts": "searchable"}, {"subscribe": True}, {}),
        ({"resources": "off"}, {}, {"listChanged": True}),
    ):
        config = {"gate": {"expose": expose}}
        async with world(tmp_path, {"docs": server()}, config, listing="auto") as w, w.client(MODERN) as client:
            told = (await client.ask("server/discover"))["capabilities"]
            assert (told["resources"], told["prompts"]) == (resources, prompts)


async def test_a_change_that_one_principals_process_tells_of_is_told_to_all(tmp_path):
    docs = server()
    config = {"server_defaults": {"isolation": "principal"}}
    async with world(tmp_path, {"docs": docs}, config, transport="http") as w:
        async with w.client(caller=Caller("anna")) as anna, w.client(caller=Caller("bob")) as bob:
            await anna.ask("resources/read", {"uri": A})
            await docs.change_offers("resources", {"uri": "docs://new", "name": "new"})
            for client in (anna, bob):
                await until(lambda client=client: client.told("resources/list_changed") > 0)
                listed = (await client.ask("resources/list"))["resources"]
                assert listed[-1]["uri"] == "toolcrib://servers/docs/docs://new"

"""What a server answers to a request that it refuses for want of a login, in the forms in which servers say that."""

from dataclasses import replace

import anyio
import pytest

from downstream.fleets import fleet_of, http_settings, until
from downstream.scripted_http import Answer, Request, error, healthy, result, scripted
from toolcrib.base.errors import LoginNeeded, StartFailed

pytestmark = pytest.mark.anyio

TOO_LITTLE = {"www-authenticate": 'Bearer error="insufficient_scope", scope="admin"'}
RUN = r"nothing ran\. Run `toolcrib login web` in a terminal\."


async def test_a_tool_that_a_login_does_not_reach_ends_no_other_calls():
    refused, others = anyio.Event(), list[str]()

    async def script(request: Request) -> Answer | None:
        if request.method == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "slow", "admin")]
            return result(request, {"tools": tools})
        match request.message.get("params", {}).get("name"):
            case "admin":
                return Answer(403, b"", TOO_LITTLE)
            case "slow":
                await refused.wait()
        return await healthy(request)

    async with scripted(script) as server, fleet_of(http_settings(server.url)) as it:

        async def other() -> None:
            others.append(await it.text("web", "slow"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other)
            await until(lambda: len(server.calls()) == 1)
            with pytest.raises(LoginNeeded, match=r"Run `toolcrib login web --scope admin` in a terminal\."):
                await it.call("web", "admin")
            assert await it.text("web", "echo") == "{}"
            refused.set()
        assert others == ["{}"]
        assert it.states_of("web") == ["starting", "ready"]


@pytest.mark.parametrize(
    "challenge",
    [
        'Bearer resource_metadata="https://host/.well-known/oauth-protected-resource"',
        'Basic realm="web", Bearer realm="web"',
        "Negotiate,bearer",
    ],
)
@pytest.mark.parametrize("has_body", [False, True], ids=["empty", "with an error of JSON-RPC"])
async def test_a_challenge_is_known_in_any_form(challenge: str, *, has_body: bool):
    async def script(request: Request) -> Answer | None:
        answer = error(request, -32001, "Unauthorized", 401) if has_body else Answer(401)
        return replace(answer, headers={"www-authenticate": challenge})

    async with scripted(script) as server, fleet_of(http_settings(server.url)) as it:
        with pytest.raises(LoginNeeded, match=RUN):
            await it.call("web", "echo")


async def test_what_is_no_challenge_for_a_token_wants_no_login():
    async def script(request: Request) -> Answer | None:
        return Answer(401, b"", {"www-authenticate": 'Basic realm="Bearer of bad news"'})

    async with scripted(script) as server, fleet_of(http_settings(server.url)) as it:
        with pytest.raises(StartFailed, match=r"Check the headers in its config entry\."):
            await it.call("web", "echo")
        assert it.states_of("web") == ["starting", "failed"]


async def test_a_scope_that_holds_a_secret_of_the_config_is_told_without_it():
    async def script(request: Request) -> Answer | None:
        return Answer(401, b"", {"www-authenticate": 'Bearer scope="read hunter2-hunter2"'})

    async with scripted(script) as server:
        settings = replace(http_settings(server.url), secrets=("hunter2-hunter2",))
        async with fleet_of(settings) as it:
            with pytest.raises(LoginNeeded, match=r"--scope 'read \*\*\*'") as caught:
                await it.call("web", "echo")
            failure = it.fleet["web"].status.failure
    assert "hunter2" not in f"{caught.value} {failure}"

"""A program of somebody else: every public name, used as a type checker in strict mode wants it."""

from collections.abc import Sequence

import toolcrib
from toolcrib import CallResult, Crib, CribSkills, SearchResult, SkillContent, SkillInfo, ToolHit, ToolInfo


def forecast(city: str, days: int = 1) -> str:
    """Tell the weather of the next days in a city."""
    return f"Rain in {city}, for {days} days."


def engine() -> SearchResult:
    search = toolcrib.ToolSearch([forecast, {"name": "add", "inputSchema": {"type": "object"}}])
    search.add([forecast], server="weather")
    search.remove("add")
    print(len(search), search.names)
    return search.search("weather in a city", limit=3)


async def best(crib: Crib, query: str) -> ToolHit | None:
    found: SearchResult = await crib.search(query, limit=3, search_type="fts")
    if found.confidence == "none":
        print(found.note)
        return None
    first, *_ = found
    print(first.name, first.server, first.description, first.signature, first.score, first.confidence, first.why)
    return first


async def call(crib: Crib, name: str) -> str:
    try:
        result: CallResult = await crib.call(name, {"city": "Oslo"}, read_only=False)
    except toolcrib.UnknownTool as error:
        return f"{error.name} is not there"
    except (toolcrib.BadRequest, toolcrib.NotConfirmed, toolcrib.Busy) as error:
        return str(error)
    except (toolcrib.LoginNeeded, toolcrib.CallTimeout, toolcrib.ConnectionLost, toolcrib.StartFailed) as error:
        return f"no answer: {error}"
    except (toolcrib.Unavailable, toolcrib.DownstreamError, toolcrib.ToolcribError) as error:
        return f"{type(error).__name__}: {error}"
    texts: list[str] = [str(block.get("text")) for block in result.content]
    return "failed" if result.is_error else result.text or "".join(texts)


async def names(crib: Crib) -> Sequence[str]:
    tools: tuple[ToolInfo, ...] = await crib.tools()
    return [tool.name for tool in tools if tool.read_only or tool.input_schema]


async def main() -> None:
    print(engine())
    config: dict[str, object] = {
        "mcpServers": {},
        "toolcrib": {"policy": {"deny": ["local.secret_*"]}, "skills": {"discover": []}},
    }
    try:
        async with toolcrib.open(config, tools=[forecast], cache=None) as crib:
            async with crib.client() as client, crib.as_("ann", tenant_id="acme").client(mode="legacy") as hers:
                print(await client.list_tools(), await hers.list_tools(), crib.server.name, crib.asgi())
            hit = await best(crib, "weather in a city")
            print(await names(crib), hit and await call(crib, hit.name))
            answered = await crib.answer(
                {"type": "tool_use", "id": "1", "name": "tool_search", "input": {"query": "rain"}}
            )
            await crib.allow("local__forecast")
            skills: CribSkills = crib.skills
            found: tuple[SkillInfo, ...] = await skills.search("log in")
            content: SkillContent = await skills.get(found[0].name, max_tokens=1000)
            print([skill.when for skill in await skills.list()], content.text, content.files)
            print(answered, await crib.as_deferred_tools("openai", hosted_search=True))
    except toolcrib.ConfigError as error:
        print([str(problem) for problem in error.problems])
    except (toolcrib.StoreError, toolcrib.StartRefused, toolcrib.UnknownSkill) as error:
        print(error)


print(toolcrib.__version__)

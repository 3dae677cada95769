"""Five principals, 200 tools and every door to them: what each of them sees and calls is what the policy says."""

import random
from fnmatch import fnmatchcase

import pytest
from counts import count

from fakes.menu import tool
from toolcrib.base.model import Caller
from worlds import ERAS, Client, world

pytestmark = [pytest.mark.anyio, pytest.mark.hostile]

DOORS = 4
SERVERS, TOOLS = [f"s{number}" for number in range(10)], [f"tool_{number}" for number in range(20)]
DENIED = {
    "ann": [],
    "bob": ["s1.*", "s2__*"],
    "cyn": ["*__tool_1", "*.tool_1?"],
    "dan": ["s?.tool_*"],
    "eve": ["tool_7", "s3__tool_3", "S4.*"],
}
POLICY = {"visibility": [{"when": {"tenant_id": who}, "deny": deny} for who, deny in DENIED.items() if deny]}
CONFIG = {"policy": POLICY, "tool_search": {"default_loading_mode": "always"}}


def is_permitted(who: str, server: str, name: str) -> bool:
    spellings = (f"{server}__{name}", f"{server}.{name}", name)
    return not any(fnmatchcase(spelling, glob) for glob in DENIED[who] for spelling in spellings)


async def told(client: Client, public: str, listed: set[str]) -> list[bool]:
    """Return what each door says: the list, a search, a call by its name, and one through ``tool_call``."""
    pattern = f"^{public}$"
    found = await client.found(pattern, search_type="regex", include_always_loaded=True)
    direct, through = await client.tried(public, {}), await client.tool_call(public, {})
    ran = isinstance(direct, dict) and not direct.get("isError")
    return [public in listed, found == [public], ran, not through.get("isError")]


@pytest.mark.timeout(1800)
async def test_every_door_decides_as_the_policy_says(tmp_path, record_property):
    servers = {server: [tool(name) for name in TOOLS] for server in SERVERS}
    names = [(server, name) for server in SERVERS for name in TOOLS]
    few = random.Random(7).sample(names, count("decisions") // DOORS // len(DENIED))
    wrong, decided = list[tuple[str, str, list[bool]]](), 0
    async with world(tmp_path, servers, CONFIG, listing="auto") as w:
        for number, who in enumerate(DENIED):
            async with w.client(ERAS[number % 2], Caller(who, tenant_id=who)) as client:
                listed = set(await client.names())
                for server, name in few:
                    said = await told(client, f"{server}__{name}", listed)
                    decided += len(said)
                    if set(said) != {is_permitted(who, server, name)}:
                        wrong.append((who, f"{server}__{name}", said))
    record_property("count", decided)
    record_property("worst", f"{len(wrong)} of {decided} decisions wrong")
    assert decided == count("decisions")
    assert wrong == []

"""The gate against a model: whatever is done in whichever order, lists and calls are as four sets say they are."""

from dataclasses import dataclass
from functools import partial

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from mcp import MCPError

from fakes.menu import tool
from gate.machines import Guest, WorldMachine
from worlds import BUILTINS, MemoryServer

SERVERS = ("db", "gh")
TOOLS = ("read", "write", "drop", "always_here")
NAMES = [f"{server}__{name}" for server in SERVERS for name in TOOLS]
DENIALS = ([], ["drop"], ["gh.*"], ["db.read", "gh__w*"])
SPELLINGS = ("{}__{}", "{}.{}", "{}/{}", "{}:{}")


@dataclass(eq=False)
class User(Guest):
    """A guest, and what it has activated; with a session id all share that."""

    active: set[str]
    is_remembered: bool


class GateMachine(WorldMachine):
    """Clients come, call, search and go, while the servers' lists change."""

    guests = WorldMachine.guests

    @initialize(
        listing=st.sampled_from(["dynamic", "stable"]),
        scope=st.sampled_from(["run", "session"]),
        deny=st.sampled_from(DENIALS),
    )
    def start(self, listing, scope, deny):
        self.growing, self.shared = listing == "dynamic", set() if scope == "session" else None
        self.offered = {server: set(TOOLS) for server in SERVERS}
        self.config = {
            "policy": {"deny": deny},
            "context": {"session_id": "s"},
            "tool_search": {"activation_scope": scope, "always_loaded_patterns": ["*.always_here"]},
            "gate": {"listing": listing},
        }
        self.denied = {name for name in NAMES if is_denied(name, deny)}
        servers = {key: MemoryServer([tool(name) for name in TOOLS]) for key in SERVERS}
        self.open(servers, self.config)

    # -- what happens ----------------------------------------------------------------------------

    @rule(target=guests, mode=st.sampled_from(["legacy", "auto"]))
    def connect(self, mode):
        client, close = self.connected(mode)
        is_remembered = client.protocol_version < "2026" or self.shared is not None
        return self.come(User(client, close, set() if self.shared is None else self.shared, is_remembered))

    @rule(guest=guests, name=st.sampled_from(NAMES))
    def call(self, guest, name):
        answer = self.portal.call(guest.client.tried, name)
        if isinstance(answer, MCPError):
            assert answer.message == f"Unknown tool: {name}"
            assert name not in self.permitted()
        else:
            self.used(guest, name)

    @rule(guest=guests, name=st.sampled_from(NAMES), spelling=st.sampled_from(SPELLINGS))
    def call_through_tool_call(self, guest, name, spelling):
        spelled = spelling.format(*name.split("__"))
        result = self.portal.call(guest.client.tool_call, spelled)
        if result.get("isError"):
            assert result["content"][0]["text"].startswith(f"Unknown tool: {spelled}")
            assert name not in self.permitted()
        else:
            self.used(guest, name)

    def used(self, guest, name):
        assert name in self.permitted()
        if guest.is_remembered:
            guest.active.add(name)

    @rule(guest=guests)
    def search(self, guest):
        everything = {"search_type": "regex", "include_always_loaded": True, "limit": 20}
        answer = self.portal.call(partial(guest.client.search, ".", **everything))
        found = {hit["name"]: hit.get("activated", False) for hit in answer["tools"]}
        assert found == {name: name in guest.active for name in self.permitted()}
        assert answer["total_deferred"] == sum("always" not in name for name in self.permitted())

    @precondition(lambda self: self.present)
    @rule(server=st.sampled_from(SERVERS), names=st.sets(st.sampled_from(TOOLS)))
    def change(self, server, names):
        self.offered[server] = names
        self.portal.call(self.world.change, server, *(tool(name) for name in sorted(names)))

    # -- what always holds -----------------------------------------------------------------------

    def permitted(self) -> set[str]:
        offered = {f"{server}__{name}" for server, names in self.offered.items() for name in names}
        return offered - self.denied

    @invariant()
    def each_list_is_as_the_model_says(self):
        for guest in self.present:
            shown = guest.active if self.growing else set()
            listed = [name for name in sorted(self.permitted()) if "always" in name or name in shown]
            assert self.portal.call(guest.client.names) == [*BUILTINS, *listed]

    def teardown(self):
        with self.stack:
            if not hasattr(self, "world"):
                return
            client = self.enter(self.world.client())
            callable_names = set()
            for name in NAMES:
                result = self.portal.call(client.tool_call, name)
                callable_names |= set() if result.get("isError") else {name}
            assert callable_names == self.permitted()


def is_denied(name: str, deny: list[str]) -> bool:
    return {
        (): False,
        ("drop",): name.endswith("__drop"),
        ("gh.*",): name.startswith("gh"),
        ("db.read", "gh__w*"): name in ("db__read", "gh__write"),
    }[tuple(deny)]


TestGate = GateMachine.TestCase
TestGate.settings = settings(max_examples=settings.default.max_examples // 3, stateful_step_count=12, deadline=None)

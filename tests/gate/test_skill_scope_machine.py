"""Active skills against a model: whatever is done in whichever order, what can be used is as a few sets say (R202)."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule
from mcp import MCPError
from shelving import put, repo, skills

from fakes.menu import tool
from worlds import Client, MemoryServer, world

TOOLS = ("diff", "log", "push")
NAMES = [f"git__{name}" for name in TOOLS]
SKILLS = {"review": {"git__log", "git__diff"}, "release": {"git__log", "git__push"}, "alone": {"git__diff"}}
EXCLUSIVE = "alone"
DENIALS = ([], ["log"])
SCOPED = {"all": set(NAMES), "some": {"git__log"}}
GLOBS = {"all": ["git.*"], "some": ["mcp__git__log"]}
LASTS_S = 100.0


@dataclass(eq=False)
class Scope:
    """Skills that are active together, in order. ``handle`` names it where nothing else does, until ``expires``."""

    active: list[str] = field(default_factory=list)
    handle: str = ""
    expires: float = 0.0

    def add(self, name: str) -> None:
        if name == EXCLUSIVE:
            self.active[:] = [name]
        elif name not in self.active:
            self.active.append(name)


@dataclass(eq=False)
class Guest:
    """A connected client with its scopes: one of a session or process, or those that it has handles of."""

    client: Client
    close: Callable[[], None]
    scopes: list[Scope]
    has_handles: bool
    used: set[str] = field(default_factory=set)


class ScopeMachine(RuleBasedStateMachine):
    """Clients come, load skills, let them go, call, wait and go, while the config and the server's list change."""

    guests = Bundle("guests")

    @initialize(
        transport=st.sampled_from(["stdio", "http"]),
        activation=st.sampled_from(["hint", "auto"]),
        growing=st.booleans(),
    )
    def start(self, transport, activation, growing):
        self.now, self.deny, self.scoping = 0.0, [], "all"
        self.activation, self.growing, self.is_http = activation, growing, transport == "http"
        self.offered = set(TOOLS)
        self.shared = Scope()
        self.present: list[Guest] = []
        self.stack = ExitStack()
        self.portal = self.stack.enter_context(start_blocking_portal("asyncio"))
        folder = Path(self.stack.enter_context(TemporaryDirectory()))
        for name, tools in SKILLS.items():
            put(repo(folder), name, tools=sorted(tools))
        self.server = MemoryServer([tool(name) for name in TOOLS])
        made = world(folder, {"git": self.server}, self.config(), transport=transport, clock=lambda: self.now)
        self.world = self.stack.enter_context(self.portal.wrap_async_context_manager(made))

    def config(self):
        return {
            **skills(tool_activation=self.activation),
            "policy": {"deny": self.deny},
            "tool_search": {"skill_scoped_patterns": GLOBS[self.scoping]},
            "skill_tools": {EXCLUSIVE: {"exclusive": True}},
            "gate": {"listing": "auto" if self.growing else "stable"},
            "limits": {"skill_handles_s": LASTS_S},
        }

    # -- what happens ----------------------------------------------------------------------------

    @rule(target=guests, mode=st.sampled_from(["legacy", "2026-07-28"]))
    def connect(self, mode):
        own = ExitStack()
        client = own.enter_context(self.portal.wrap_async_context_manager(self.world.client(mode)))
        self.stack.callback(own.close)
        is_modern = client.protocol_version > "2026"
        scopes = [] if is_modern and self.is_http else [self.shared if is_modern else Scope()]
        guest = Guest(client, own.close, scopes, has_handles=not scopes)
        self.present.append(guest)
        return guest

    @rule(guest=consumes(guests))
    def leave(self, guest):
        guest.close()
        self.present.remove(guest)

    @rule(guest=guests, names=st.lists(st.sampled_from(sorted(SKILLS)), min_size=1, max_size=3), data=st.data())
    def load(self, guest, names, data):
        scope = data.draw(st.sampled_from([None, *guest.scopes])) if guest.has_handles else guest.scopes[0]
        name = data.draw(st.sampled_from(["skill_get", "skill_activate"]))
        result = self.ask(guest, scope, name, {"names": names})
        if result is None:
            return
        if scope is None:
            scope = Scope(handle=result["content"][0]["text"].partition('"handle": "')[2].partition('"')[0])
            guest.scopes += [scope] if scope.handle else []
            scope.expires = self.now + LASTS_S
        for each in dict.fromkeys(names):
            scope.add(each)
        assert bool(scope.handle) == guest.has_handles or not self.opened(scope)

    @rule(guest=guests, name=st.sampled_from(sorted(SKILLS)), data=st.data())
    def let_go(self, guest, name, data):
        for scope in self.one_of(guest, data):
            if self.ask(guest, scope, "skill_deactivate", {"names": [name]}) is not None:
                scope.active[:] = [each for each in scope.active if each != name]

    @rule(guest=guests, name=st.sampled_from(NAMES), data=st.data())
    def call(self, guest, name, data):
        for scope in self.one_of(guest, data):
            result = self.ask(guest, scope, "tool_call", {"name": name})
            if result is not None:
                assert result.get("isError", False) == (name not in self.usable(scope))
                guest.used |= set() if result.get("isError") else {name}

    @rule(guest=guests, name=st.sampled_from(NAMES))
    def call_directly(self, guest, name):
        scope = Scope() if guest.has_handles else guest.scopes[0]
        is_usable = not isinstance(self.portal.call(guest.client.tried, name), MCPError)
        assert is_usable == (name in self.usable(scope))
        guest.used |= {name} if is_usable else set()

    @rule(guest=guests, data=st.data())
    def search(self, guest, data):
        for scope in self.one_of(guest, data):
            result = self.ask(guest, scope, "tool_search", {"query": "git", "search_type": "regex"})
            if result is not None:
                assert {hit["name"] for hit in result["structuredContent"]["tools"]} == self.usable(scope)

    @rule(seconds=st.sampled_from([1.0, 60.0, LASTS_S]))
    def wait(self, seconds):
        self.now += seconds

    @precondition(lambda self: self.present)
    @rule(names=st.sets(st.sampled_from(TOOLS)))
    def change(self, names):
        self.offered = names
        self.portal.call(self.world.change, "git", *(tool(name) for name in sorted(names)))

    @rule(deny=st.sampled_from(DENIALS), scoping=st.sampled_from(sorted(SCOPED)))
    def reload(self, deny, scoping):
        self.deny, self.scoping = deny, scoping
        self.portal.call(self.world.reload, self.config())
        self.portal.call(self.world.listed)

    # -- the model -------------------------------------------------------------------------------

    def one_of(self, guest, data):
        """Return a scope of the guest, if it has any."""
        return [data.draw(st.sampled_from(guest.scopes))] if guest.scopes else []

    def ask(self, guest, scope, name, arguments):
        """Call one of our tools in a scope; None where its handle is of no use any more, which has to be said."""
        handle = {"handle": scope.handle} if scope and scope.handle else {}
        result = self.portal.call(partial(guest.client.call, name, {**arguments, **handle}))
        if handle and scope.expires <= self.now:
            assert result["isError"]
            assert "handle" in result["content"][0]["text"]
            return None
        if handle:
            scope.expires = self.now + LASTS_S
        return result

    def permitted(self) -> set[str]:
        return {f"git__{name}" for name in self.offered - set(self.deny)}

    def opened(self, scope) -> set[str]:
        """Return the scoped tools that are open in a scope."""
        named = {name for skill in scope.active for name in SKILLS[skill]}
        return self.permitted() & SCOPED[self.scoping] & named

    def usable(self, scope) -> set[str]:
        """Return all that can be used in a scope."""
        return (self.permitted() - SCOPED[self.scoping]) | self.opened(scope)

    @invariant()
    def each_list_that_grows_is_as_the_model_says(self):
        for guest in getattr(self, "present", []):
            listed = {name for name in self.portal.call(guest.client.names) if "__" in name}
            if not self.growing or guest.client.protocol_version > "2026":
                assert listed == set()
                continue
            [scope] = guest.scopes
            named = {name for skill in scope.active for name in SKILLS[skill]}
            shown = guest.used | (named if self.activation == "auto" else set())
            assert listed == self.opened(scope) | (self.usable(scope) - SCOPED[self.scoping]) & shown

    def teardown(self):
        if hasattr(self, "stack"):
            self.stack.close()


TestScopeMachine = ScopeMachine.TestCase
TestScopeMachine.settings = settings(max_examples=12, stateful_step_count=12, deadline=None)


@pytest.mark.slow
class TestManyRuns(ScopeMachine.TestCase):
    """The same, many times."""

    settings = settings(max_examples=150, stateful_step_count=15, deadline=None)

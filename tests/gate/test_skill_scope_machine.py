"""Active skills against a model: whatever is done in whichever order, what can be used is as a few sets say (R202)."""

from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from mcp import MCPError
from shelving import put, repo, skills

from fakes.menu import tool
from gate.machines import Guest, WorldMachine
from worlds import JsonObject, MemoryServer

TOOLS = ("diff", "log", "push")
NAMES = [f"git__{name}" for name in TOOLS]
SKILLS = {"review": {"git__log", "git__diff"}, "release": {"git__log", "git__push"}, "alone": {"git__diff"}}
EXCLUSIVE = "alone"
DENIALS = ([], ["log"])
SCOPED = {"all": set(NAMES), "some": {"git__log"}}
GLOBS = {"all": ["git.*"], "some": ["mcp__git__log"]}
CONFIRMED_TOOLS = {"nothing": [], "something": ["git.push"]}
ASKED_SKILL = "release"
CONFIRMED_SKILLS = {"nothing": [], "something": [{"skill_name": ASKED_SKILL, "action": "confirm"}]}
ANSWERS = ("once", "this session", "always", "no")
LASTS_S = 100.0


@dataclass(eq=False)
class Person:
    """Whoever sits in front of a client, and what they answer next."""

    answer: str = "no"

    async def __call__(self, _context: Any, _params: Any) -> types.ElicitResult:
        if self.answer == "no":
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content={"answer": self.answer})


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
class Visitor(Guest):
    """A guest with its scopes: one of a session or process, or those that it has handles of.

    ``person`` answers what is asked about; None: the client can ask nobody. ``allowed`` is what they have allowed for
    the session; None where nothing is one.
    """

    scopes: list[Scope]
    has_handles: bool
    person: Person | None
    allowed: set[str] | None
    used: set[str] = field(default_factory=set)


class ScopeMachine(WorldMachine):
    """Clients come, load skills, let them go, call, say yes and no, wait and go, while config and tools change."""

    guests = WorldMachine.guests

    @initialize(
        transport=st.sampled_from(["stdio", "http"]),
        activation=st.sampled_from(["hint", "auto"]),
        growing=st.booleans(),
    )
    def start(self, transport, activation, growing):
        self.now, self.deny, self.scoping, self.confirms = 0.0, [], "all", "nothing"
        self.activation, self.growing, self.is_http = activation, growing, transport == "http"
        self.offered = set(TOOLS)
        self.shared, self.allowed_in_process, self.always = Scope(), set(), set()
        for name, tools in SKILLS.items():
            put(repo(self.folder), name, tools=sorted(tools))
        servers = {"git": MemoryServer([tool(name) for name in TOOLS])}
        self.open(servers, self.config(), transport=transport, clock=lambda: self.now)

    def config(self):
        return {
            **skills(tool_activation=self.activation, permissions=CONFIRMED_SKILLS[self.confirms]),
            "policy": {"deny": self.deny, "confirm": {"tools": CONFIRMED_TOOLS[self.confirms]}},
            "tool_search": {"skill_scoped_patterns": GLOBS[self.scoping]},
            "skill_tools": {EXCLUSIVE: {"exclusive": True}},
            "gate": {"listing": "auto" if self.growing else "stable"},
            "limits": {"skill_handles_s": LASTS_S},
        }

    # -- what happens ----------------------------------------------------------------------------

    @rule(target=guests, mode=st.sampled_from(["legacy", "2026-07-28"]), asks=st.booleans())
    def connect(self, mode, asks):
        person = Person() if asks else None
        client, close = self.connected(mode, **({"elicitation_callback": person} if asks else {}))
        is_modern = client.protocol_version > "2026"
        has_handles = is_modern and self.is_http
        scopes = [] if has_handles else [self.shared if is_modern else Scope()]
        allowed = None if has_handles else self.allowed_in_process if is_modern else set()
        return self.come(Visitor(client, close, scopes, has_handles, person, allowed))

    @rule(guest=guests, names=st.lists(st.sampled_from(sorted(SKILLS)), min_size=1, max_size=3), data=st.data())
    def load(self, guest, names, data):
        scope = data.draw(st.sampled_from([None, *guest.scopes])) if guest.has_handles else guest.scopes[0]
        name = data.draw(st.sampled_from(["skill_get", "skill_activate"]))
        asked = {ASKED_SKILL} & set(names) if self.confirms != "nothing" else set()
        says_yes = self.is_gone(scope) or self.will_agree(guest, asked, data)
        result = self.ask(guest, scope, name, {"names": names})
        if result is None:
            return
        assert result.get("isError", False) == (not says_yes)
        if not says_yes:
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
            runs = self.will_run(guest, scope, name, data)
            result = self.ask(guest, scope, "tool_call", {"name": name})
            if result is not None:
                assert result.get("isError", False) == (not runs)
                guest.used |= {name} if runs else set()

    @rule(guest=guests, name=st.sampled_from(NAMES), data=st.data())
    def call_directly(self, guest, name, data):
        scope = Scope() if guest.has_handles else guest.scopes[0]
        runs = self.will_run(guest, scope, name, data)
        try:
            result = self.called(guest, name, {})
        except MCPError:
            assert name not in self.usable(scope)
        else:
            assert name in self.usable(scope)
            assert result.get("isError", False) == (not runs)
        guest.used |= {name} if runs else set()

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

    @rule(
        deny=st.sampled_from(DENIALS),
        scoping=st.sampled_from(sorted(SCOPED)),
        confirms=st.sampled_from(sorted(CONFIRMED_TOOLS)),
    )
    def reload(self, deny, scoping, confirms):
        self.deny, self.scoping, self.confirms = deny, scoping, confirms
        self.portal.call(self.world.reload, self.config())
        self.portal.call(self.world.listed)

    # -- the model -------------------------------------------------------------------------------

    def one_of(self, guest, data):
        """Return a scope of the guest, if it has any."""
        return [data.draw(st.sampled_from(guest.scopes))] if guest.scopes else []

    def ask(self, guest, scope, name, arguments):
        """Call one of our tools in a scope; None where its handle is of no use any more, which has to be said."""
        handle = {"handle": scope.handle} if scope and scope.handle else {}
        result = self.called(guest, name, {**arguments, **handle})
        if self.is_gone(scope):
            assert result["isError"]
            assert "handle" in result["content"][0]["text"]
            return None
        if handle:
            scope.expires = self.now + LASTS_S
        return result

    def is_gone(self, scope) -> bool:
        """Return whether the handle of a scope is good no longer."""
        return bool(scope and scope.handle and scope.expires <= self.now)

    def called(self, guest, name, arguments) -> JsonObject:
        """Call a tool; who can be asked answers meanwhile."""
        if guest.person is None:
            return self.portal.call(guest.client.call, name, arguments)
        result = self.portal.call(guest.client.call_tool, name, arguments)
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)

    def will_agree(self, guest, asked, data) -> bool:
        """Draw what the person answers to a question about each of these, and return whether all of it is a yes."""
        unanswered = asked - self.always - (guest.allowed or set())
        if not unanswered:
            return True
        if guest.person is None:
            return False
        guest.person.answer = data.draw(st.sampled_from(ANSWERS))
        if guest.person.answer == "always":
            self.always |= unanswered
        if guest.person.answer == "this session" and guest.allowed is not None:
            guest.allowed |= unanswered
        if guest.person.answer == "this session":
            return guest.allowed is not None  # else it was not offered
        return guest.person.answer != "no"

    def will_run(self, guest, scope, name, data) -> bool:
        """Return whether a tool runs that is called now; what cannot be used is not asked about."""
        if self.is_gone(scope):
            return False
        asked = {"git__push"} & {name} if self.confirms != "nothing" else set()
        return name in self.usable(scope) and self.will_agree(guest, asked, data)

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
        for guest in self.present:
            listed = {name for name in self.portal.call(guest.client.names) if "__" in name}
            if not self.growing or guest.client.protocol_version > "2026":
                assert listed == set()
                continue
            [scope] = guest.scopes
            named = {name for skill in scope.active for name in SKILLS[skill]}
            shown = guest.used | (named if self.activation == "auto" else set())
            assert listed == self.opened(scope) | (self.usable(scope) - SCOPED[self.scoping]) & shown


TestScopeMachine = ScopeMachine.TestCase
TestScopeMachine.settings = settings(
    max_examples=settings.default.max_examples // 3, stateful_step_count=12, deadline=None
)


@pytest.mark.full(group="machines")
@pytest.mark.timeout(3600)
class TestManyRuns(ScopeMachine.TestCase):
    """The same, many times: three minutes of CPU time, and many more where others have the machine."""

    settings = settings(max_examples=1000, stateful_step_count=15, deadline=None)

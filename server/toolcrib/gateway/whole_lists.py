"""Decides who is listed all tools at once, because they are so few that finding them would take more tokens."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

import anyio.to_thread

from toolcrib.base.cache import Recent
from toolcrib.base.errors import StoreError
from toolcrib.base.model import Caller, Tool
from toolcrib.base.names import name_digest
from toolcrib.base.text import definition_tokens
from toolcrib.catalog.definitions import listed_definition
from toolcrib.catalog.index import ToolIndex
from toolcrib.catalog.snapshot import Catalog
from toolcrib.config.settings import Settings
from toolcrib.events.kinds import WholeListDecided
from toolcrib.policy.sessions import Session, WholeList

if TYPE_CHECKING:
    from toolcrib.gateway.composition import Generation

_CALLERS_MAX = 1000
_SKILLS_WAIT_S = 0.5
"""How long the first scan of skills may delay a decision, in seconds: a client is waiting for its first answer."""
_LEAST_TOKENS = 10
"""What the shortest definition takes: of more tools than fit at this price none is read."""


def caller_digest(caller: Caller) -> str:
    """Return what stands for a caller in the index."""
    return name_digest("\n".join(each or "" for each in caller))


def upper_bound(limit: int) -> int:
    """Return the tokens up to which a list stays whole that is whole already."""
    return limit + limit // 2


class ToolPrices:
    """What a model reads of each tool, in tokens. ``known`` has it by fingerprint, for tools looked at so far."""

    def __init__(self, settings: Settings, index: ToolIndex) -> None:
        self._examples, self._index = settings.toolcrib.tool_examples, index
        self._most = upper_bound(settings.toolcrib.gate.pass_through_tokens) // _LEAST_TOKENS
        self.known: dict[str, int] = {}

    def prepare(self, catalog: Catalog) -> None:
        """Look at the tools of a new catalog, unless they are too many to be listed whole. Blocks."""
        if len(catalog.tools) <= self._most:
            self._look_at(catalog.tools)

    def total(self, tools: Iterable[Tool]) -> int | None:
        """Return what all of these take together; None if they are too many to be looked at. Blocks.

        Raises:
            StoreError: the index cannot be read.

        """
        tools = list(tools)
        if len(tools) > self._most:
            return None
        self._look_at(tools)
        return sum(self.known.get(tool.fingerprint, 0) for tool in tools)

    def _look_at(self, tools: Iterable[Tool]) -> None:
        new = {tool.row: tool for tool in tools if tool.fingerprint not in self.known}
        for row, (definition, card) in self._index.shown(new).items() if new else ():
            listed = listed_definition(new[row], definition, card, self._examples)
            self.known[new[row].fingerprint] = definition_tokens(listed)


class WholeLists:
    """The decisions of one process; ``current`` returns the config in use, with what belongs to it.

    A whole list stays whole until its tools take half as many tokens again as the limit, from one start to the next
    too, so that a server whose list varies does not change what each prompt begins with. Tools that are not all known
    yet are found by search until the next start: a list that changes in the middle of a conversation invalidates the
    host's prompt cache (ADR 72).
    """

    def __init__(self, current: "Callable[[], Generation]") -> None:
        self._current = current
        self._sessionless = Recent[Caller, WholeList | None](_CALLERS_MAX)

    async def settle(self, session: Session) -> None:
        """Decide it for a session, unless that is done: before its first answer, and never again."""
        if session.is_list_settled:
            return
        # Requests without a session must not depend on what happens between them.
        if session.lasting or session.caller not in self._sessionless:
            decided = await self.decide(session)
            if not session.lasting:
                self._sessionless[session.caller] = decided
        else:
            decided = self._sessionless[session.caller]
        session.whole_list, session.is_list_settled = decided, True

    async def decide(self, session: Session) -> WholeList | None:
        """Return what a session that begins now is listed whole; None if its caller finds tools by search."""
        generation = self._current()
        limit = generation.settings.toolcrib.gate.pass_through_tokens
        if not limit or generation.tools.gate.lists_everything:
            return None
        try:
            tools = await anyio.to_thread.run_sync(partial(self._whole, generation, session, limit))
        except StoreError:  # the file may become readable again
            return None
        return None if tools is None else await self._listing(generation, session, tools)

    async def of_all(self, session: Session) -> WholeList:
        """Return what a session would be listed whole, however many tools there are; nothing is decided by that."""
        generation = self._current()
        tools = generation.offline.gate.permitted(session, generation.offline.indexer.current()).tools
        return await self._listing(generation, session, tools)

    async def _listing(self, generation: "Generation", session: Session, tools: Iterable[Tool]) -> WholeList:
        skills = generation.skills
        # In doubt they are listed: tools that are missing cost a model more than tokens.
        has_skills = skills is not None and (
            await skills.run_within(_SKILLS_WAIT_S, partial(skills.has_own, session)) is not False
        )
        return WholeList(frozenset(tool.public_name for tool in tools), has_skills)

    def _whole(self, generation: "Generation", session: Session, limit: int) -> tuple[Tool, ...] | None:
        """Return the tools of a session's caller if all are known, and few enough."""
        offline = generation.offline
        permissions = offline.gate.permissions(session)
        # A server that failed before may never be listed: what is not known of it must not matter for ever.
        unknown = set(offline.indexer.unlisted()) - offline.failures.read().keys()
        if any(map(permissions.permits_some_of, unknown)):
            return None
        caller = caller_digest(session.caller)
        was_whole = caller in offline.index.whole_lists()
        tools = offline.gate.permitted(session, offline.indexer.current()).tools
        tokens = offline.prices.total(tools)
        is_whole = tokens is not None and tokens <= (upper_bound(limit) if was_whole else limit)
        if is_whole != was_whole:
            offline.index.note_whole_list(caller, is_whole=is_whole)
            offline.events.emit(
                WholeListDecided(is_whole=is_whole, tools=len(tools), tokens=tokens, limit=limit), session=session.label
            )
        return tools if is_whole else None

"""Search among the tools that one caller may use, and what is shown of the hits."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import anyio.to_thread

from toolcrib.base.errors import BadRequest, StoreError
from toolcrib.base.model import SearchType, Tool
from toolcrib.base.text import QUERY_MAX, enumerated, one_line, truncate
from toolcrib.catalog.gate import Gate
from toolcrib.catalog.learning import Learning
from toolcrib.catalog.snapshot import Catalog
from toolcrib.catalog.tool_search import Briefs, SearchAnswer, Searcher, SearchRequest, Shown, found_tools, usage, whole
from toolcrib.catalog.views import CatalogView, CatalogViews
from toolcrib.config.settings import ServerSettings
from toolcrib.policy.sessions import Session
from toolcrib.search.documents import Found
from toolcrib.search.learned_words import NOTHING_LEARNT, Vocabulary

_PURPOSE_MAX = 40
"""Maximum length of the purpose of one server."""


class ServerPurposes:
    """Describes the available servers. Never in a downstream's words: these could instruct a model."""

    def __init__(self, servers: Mapping[str, ServerSettings], gate: Gate) -> None:
        self._servers, self._gate = servers, gate

    def describe(self, servers: Sequence[str], session: Session, catalog: Catalog, room: int) -> str:
        """Return servers with their purposes if they fit into ``room`` characters; else as many names as fit."""
        described = [self._with_purpose(key, session, catalog) for key in servers]
        return enumerated(described if len(", ".join(described)) <= room else servers, room)

    def _with_purpose(self, server: str, session: Session, catalog: Catalog) -> str:
        """Return a server with its purpose from the config, unless that names a tool that the caller may not use."""
        purpose = one_line(self._servers[server].options.description)
        if not purpose or self._gate.without_denied_names(session, purpose, catalog) != purpose:
            return server
        return f"{server} ({truncate(purpose, _PURPOSE_MAX)})"


Detail = Literal["signature", "schema"]
_NEAR_NAMES = 3

_log = logging.getLogger(__name__)


def refuse_blank(request: SearchRequest) -> None:
    """Reject a blank query.

    Raises:
        BadRequest: it is blank.

    """
    if not request.query.strip():
        raise BadRequest("'query' is blank. Say in a few words what the tool should do, e.g. 'create issue'.")


class ToolFinder:
    """Finds tools that a session's caller may use, and returns their texts as the caller may read them."""

    def __init__(self, searcher: Searcher, gate: Gate, views: CatalogViews, learning: Learning) -> None:
        self.searcher, self._gate, self._views, self._learning = searcher, gate, views, learning
        self._briefs = Briefs()

    def view(self, session: Session, catalog: Catalog) -> CatalogView:
        """Return the wording for the session's caller: without names of tools that the caller may not use."""
        return self._views.view(catalog, self._gate.permitted(session, catalog))

    async def find(
        self,
        session: Session,
        request: SearchRequest,
        catalog: Catalog,
        detail: Detail,
        status_of: Callable[[Tool], str | None],
    ) -> SearchAnswer:
        """Return the hits; ``status_of`` returns the state of a tool's server, if that matters.

        Raises:
            BadRequest: a blank query, or a regex that cannot be used.

        """
        refuse_blank(request)
        view = self.view(session, catalog)
        found, shown = await self._found(request, catalog, view, detail, self._learning.vocabulary(session))
        activated, owners = self._gate.activated(session, catalog), self._gate.owners(session, catalog)
        hits = found_tools(found, shown, activated, owners, status_of)
        return SearchAnswer(
            hits=hits,
            query=request.query[:QUERY_MAX],
            effective=request.search_type,
            total_deferred=view.permitted.deferred_count,
            confidence=found.confidence,
            usage=usage(hits, split=self._gate.splits_calls, listed=session.growing and session.client_profile.follows),
            note=found.note,
            evidence=found.strength,
        )

    def reuse_index_of(self, before: "ToolFinder") -> None:
        """Derive the next search index from that of another config's finder."""
        self.searcher.begin_with(before.searcher.known())

    def prepare(self, catalog: Catalog) -> None:
        """Prepare what the next search in a new catalog would wait for; if that fails, the search tries again."""
        try:
            self.searcher.prepare(catalog)
        except StoreError as error:
            _log.warning("the next search has to read what is new by itself: %s", error)

    async def near_names(self, session: Session, name: str, catalog: Catalog) -> str:
        """Return up to three permitted names similar to ``name``, as the end of an error text."""
        request = SearchRequest(name, SearchType.FTS, _NEAR_NAMES, include_always=True)
        found, _ = await self._found(request, catalog, self.view(session, catalog), None, NOTHING_LEARNT)
        names = ", ".join(match.document.public_name for match in found.matches)
        return f". Similar names: {names}" if names else ""

    async def _found(
        self, request: SearchRequest, catalog: Catalog, view: CatalogView, detail: Detail | None, learnt: Vocabulary
    ) -> tuple[Found[Tool], Mapping[int, Shown]]:
        """Search, and read what is shown of the hits; in a worker thread, unless switching would take longer."""

        def search() -> tuple[Found[Tool], Mapping[int, Shown]]:
            found = self.searcher.search(request, catalog, view.permitted, learnt)
            return found, self._shown(found, view, detail)

        quick = self.searcher.is_quick(request, catalog, view.permitted)
        return search() if quick else await anyio.to_thread.run_sync(search)

    def _shown(self, found: Found[Tool], view: CatalogView, detail: Detail | None) -> Mapping[int, Shown]:
        """Read the requested detail of the hits, by row; None: nothing."""
        rows = [match.document.row for match in found.matches] if detail else []
        return whole(view, rows) if detail == "schema" else self._briefs.read(view, rows)

"""Why a search found little, in one line: what could not be searched, and which servers there are instead.

Knows an answer, the servers and what a caller may know about them; never knows how anything was found.
"""

from functools import partial

from toolcrib.base.model import SearchType
from toolcrib.catalog.finding import Subjects
from toolcrib.catalog.gate import Gate
from toolcrib.catalog.snapshot import Catalog
from toolcrib.catalog.tool_search import SearchAnswer
from toolcrib.config.settings import Settings
from toolcrib.downstream.fleet import Fleet
from toolcrib.policy.sessions import Session
from toolcrib.tools.missing_servers import Asked, MissingServers

_SUBJECTS_ROOM = 240
"""Maximum length of the list of servers if nothing likely was found."""


class SearchNotes:
    """Creates the note of an answer."""

    def __init__(self, settings: Settings, gate: Gate, fleet: Fleet, missing: MissingServers) -> None:
        self._gate, self._fleet, self._missing = gate, fleet, missing
        self._subjects = Subjects(settings.servers, gate)

    def of(self, session: Session, answer: SearchAnswer, server: str | None, catalog: Catalog) -> str | None:
        """Return why little or nothing was found: the search's reason, what could not be searched, what exists."""
        there = self._there(session, answer, catalog) if server is None else ""
        if server is None and self._fleet.is_quiet and not self._missing.leaves_out:
            return " ".join(filter(None, (answer.note, there))) or None
        asked = Asked(
            query=answer.query,
            server=server,
            found={hit.tool.server for hit in answer.hits},
            is_nothing_known=not self._gate.permitted(session, catalog).tools,
        )
        clean = partial(self._gate.without_denied_names, session, catalog=catalog)
        servers = self._missing.note(asked, self._gate.permissions(session), self._fleet.now(), clean)
        if server is not None and servers and not answer.hits:
            return servers  # not that it has no such tool, which is unknown
        return " ".join(filter(None, (answer.note, servers or there))) or None

    def _there(self, session: Session, answer: SearchAnswer, catalog: Catalog) -> str:
        """Return which servers have tools for the caller, by subject, if no text match was likely."""
        if answer.confidence != "none" or answer.effective is not SearchType.FTS:
            return ""
        having = {tool.server for tool in self._gate.permitted(session, catalog).tools}
        servers = [key for key in self._gate.servers(session) if key in having]
        return f"There are tools of: {self._subjects.of(servers, session, catalog, _SUBJECTS_ROOM)}." if servers else ""

"""The descriptions of servers from the config, as one caller may read them.

Knows servers, their descriptions and how much room there is; never knows tools or how one is found.
"""

from collections.abc import Mapping, Sequence

from toolcrib.base.text import enumerated, one_line, truncate
from toolcrib.config.settings import ServerSettings
from toolcrib.policy.sessions import Session
from toolcrib.tools.gate import Gate
from toolcrib.tools.index.catalog import Catalog

_PURPOSE_MAX = 40
"""Maximum length of the purpose of one server."""


class Subjects:
    """Describes the available servers. Never in a downstream's words: these could instruct a model."""

    def __init__(self, servers: Mapping[str, ServerSettings], gate: Gate) -> None:
        self._servers, self._gate = servers, gate

    def of(self, servers: Sequence[str], session: Session, catalog: Catalog, room: int) -> str:
        """Return servers with their purposes if they fit into ``room`` characters; else as many names as fit."""
        described = [self._with_purpose(key, session, catalog) for key in servers]
        return enumerated(described if len(", ".join(described)) <= room else servers, room)

    def _with_purpose(self, server: str, session: Session, catalog: Catalog) -> str:
        """Return a server with its purpose from the config, unless that names a tool that the caller may not use."""
        purpose = one_line(self._servers[server].options.description)
        if not purpose or self._gate.without_denied_names(session, purpose, catalog) != purpose:
            return server
        return f"{server} ({truncate(purpose, _PURPOSE_MAX)})"

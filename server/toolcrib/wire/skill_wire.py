"""Skills on the wire, all of them: the tools, what else a server answers about skills, and the guidance for a model.

Knows which door leads to which use case; never knows how skills are found, read or published.
"""

import logging
from typing import Any

from mcp.server import Server

from toolcrib.access.sessions import Session
from toolcrib.config.settings import Settings
from toolcrib.errors import StoreError
from toolcrib.model import JsonObject
from toolcrib.skills.overviews import Overviews
from toolcrib.skills.use_cases import Library
from toolcrib.wire.sessions import Sessions
from toolcrib.wire.skill_answers import get_result, list_result, search_result
from toolcrib.wire.skill_methods import SkillMethods
from toolcrib.wire.skill_tools import SKILL_GET, SKILL_GUIDANCE, SKILL_SEARCH, SkillTools

_log = logging.getLogger(__name__)


class SkillWire:
    """Answers for skills, with a :class:`Library`."""

    def __init__(self, settings: Settings, library: Library, sessions: Sessions) -> None:
        self._library, self._tools = library, SkillTools(settings)
        self._overviews = Overviews(library)
        self._methods = SkillMethods(library, sessions, serves_files=settings.toolcrib.skills.serve_resources)
        self.definitions, self.names = self._tools.definitions, self._tools.names

    def register(self, server: Server[Any]) -> None:
        """Have ``server`` answer the methods about skills."""
        self._methods.register(server)

    async def call(self, session: Session, name: str, arguments: JsonObject) -> JsonObject:
        """Answer a call of one of the skill tools.

        Raises:
            BadRequest: the arguments do not fit, or cannot be served.

        """
        if name == SKILL_SEARCH:
            return search_result(await self._library.search(session, self._tools.search_query(arguments)))
        if name == SKILL_GET:
            request = self._tools.get_request(arguments)
            return get_result(await self._library.get(session, request), request)
        return list_result(await self._library.list_skills(session, self._tools.list_request(arguments)))

    async def guidance(self, session: Session, max_bytes: int) -> str:
        """Return what a model is told about skills on connecting, the directory of skills included (R122, R126)."""
        try:
            directory = await self._overviews.directory(session, max_bytes - len(SKILL_GUIDANCE.encode()) - 1)
        except StoreError as error:  # a client can connect without it
            _log.warning("the directory of skills is left out: %s %s", error, error.detail)
            directory = ""
        return "\n".join(filter(None, [SKILL_GUIDANCE, directory]))

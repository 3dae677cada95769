"""The methods of the extension for skills (SEP-2640): which skills are published, and what lies in their folders.

Knows the methods and the shape of their answers; never knows what is published, which is decided below.
"""

from typing import TYPE_CHECKING, Annotated, Any

import mcp_types as types
from mcp.server import Server
from pydantic import Field

from toolcrib.base.model import JsonObject
from toolcrib.base.paging import cursor_of, place_of
from toolcrib.jsonrpc.sdk import Context
from toolcrib.skills.resources import SkillResources
from toolcrib.skills.use_cases import SkillUseCases
from toolcrib.wire.sessions import Sessions

if TYPE_CHECKING:
    from toolcrib.skills.publishing import Child, Published

EXTENSION = "io.modelcontextprotocol/skills"

_CACHE: JsonObject = {"ttlMs": 0, "cacheScope": "private"}


class UriParams(types.RequestParams):
    """Parameters of ``skills/get``."""

    uri: Annotated[str, Field(max_length=8192)]


class UriPageParams(types.PaginatedRequestParams):
    """Parameters of ``resources/directory/read``."""

    uri: Annotated[str, Field(max_length=8192)]


class SkillsExtension:
    """Answers the methods of the extension for published skills."""

    def __init__(self, skill_use_cases: SkillUseCases, sessions: Sessions) -> None:
        self._resources, self._sessions = SkillResources(skill_use_cases), sessions

    def register(self, server: Server[Any]) -> None:
        """Register the handlers of these methods, and declare the extension."""
        server.extensions[EXTENSION] = {"directoryRead": True}
        server.add_request_handler("skills/list", types.PaginatedRequestParams, self._list_skills)
        server.add_request_handler("skills/get", UriParams, self._get_skill)
        server.add_request_handler("resources/directory/read", UriPageParams, self._read_directory)

    async def _list_skills(self, context: Context, params: types.PaginatedRequestParams | None) -> JsonObject:
        cursor = params.cursor if params else None
        after = "" if cursor is None else place_of(cursor, 1)[0]
        page, has_more = await self._resources.published(await self._sessions.of(context), after)
        more = {"nextCursor": cursor_of((page[-1].uri,))} if has_more else {}
        return {"skills": list(map(_entry, page)), **more, **_CACHE}

    async def _get_skill(self, context: Context, params: UriParams) -> JsonObject:
        published = await self._resources.published_skill(await self._sessions.of(context), params.uri)
        return {"skill": _entry(published), **_CACHE}

    async def _read_directory(self, context: Context, params: UriPageParams) -> JsonObject:
        session = await self._sessions.of(context)
        page, next_cursor = await self._resources.children(session, params.uri, params.cursor)
        more = {"nextCursor": next_cursor} if next_cursor else {}
        return {"resources": list(map(_child, page)), **more}


def _entry(published: "Published") -> JsonObject:
    files = published.files
    return {
        "uri": published.uri,
        "frontmatter": published.frontmatter,
        "resources": "dynamic"
        if files is None
        else [
            {"uri": published.uri_of(file.path), "digest": f"sha256:{file.digest}", "size": file.size} for file in files
        ],
    }


def _child(child: "Child") -> JsonObject:
    size = {} if child.size is None else {"size": child.size}
    return {"uri": child.uri, "name": child.name, "mimeType": child.mime_type, **size}

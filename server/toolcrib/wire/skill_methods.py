"""Skills beyond the tools: resources, prompts, and the methods of the extension for skills (SEP-2640).

Knows methods, cursors and error codes; never knows what is published, which the library decides.
"""

from base64 import b64encode
from typing import TYPE_CHECKING, Annotated, Any

import mcp_types as types
from mcp.server import Server
from mcp.shared.exceptions import MCPError
from pydantic import Field

from toolcrib.base.json_values import compact
from toolcrib.errors import BadRequest
from toolcrib.model import JsonObject
from toolcrib.skills.overviews import Overviews
from toolcrib.skills.requests import RelevantRequest
from toolcrib.skills.resources import SkillResources
from toolcrib.skills.use_cases import Library
from toolcrib.wire.sessions import Context, Sessions

if TYPE_CHECKING:
    from toolcrib.skills.publishing import Child, Content, Published

EXTENSION = "io.modelcontextprotocol/skills"
STATUS_URI = "toolcrib://status"
CATALOG_URI = "toolcrib://skills"
CATALOG_XML_URI = "toolcrib://skills.xml"

_CACHE: JsonObject = {"ttlMs": 0, "cacheScope": "private"}

_OWN_RESOURCES = (
    (STATUS_URI, "status", "Counts, errors and what this session has loaded", "application/json"),
    (CATALOG_URI, "skills", "All skills with their descriptions, as far as the bounds allow", "application/json"),
    (CATALOG_XML_URI, "skills.xml", "The same as a block for a system prompt", "application/xml"),
)

_PROMPTS = (
    types.Prompt(
        name="skills_for_task",
        title="Skills for a task",
        description="The skills that fit a task best, ready to be followed.",
        arguments=[
            types.PromptArgument(name="task", description="What is to be done", required=True),
            types.PromptArgument(name="top_k", description="Most skills"),
            types.PromptArgument(name="frame", description="Only skills with this tag"),
            types.PromptArgument(name="max_tokens", description="Budget for all of them, in tokens"),
        ],
    ),
    types.Prompt(
        name="skill",
        title="A skill",
        description="One skill, whole.",
        arguments=[types.PromptArgument(name="name", description="Its name, source/name or URI", required=True)],
    ),
)


class UriParams(types.RequestParams):
    """Parameters of ``skills/get``."""

    uri: Annotated[str, Field(max_length=8192)]


class UriPageParams(types.PaginatedRequestParams):
    """Parameters of ``resources/directory/read``."""

    uri: Annotated[str, Field(max_length=8192)]


class SkillMethods:
    """Answers the methods about skills with a :class:`Library`. ``serves_files``: skills are published at all."""

    def __init__(self, library: Library, sessions: Sessions, *, serves_files: bool) -> None:
        self._library, self._sessions, self._serves_files = library, sessions, serves_files
        self._resources, self._overviews = SkillResources(library), Overviews(library)

    def register(self, server: Server[Any]) -> None:
        """Have ``server`` answer these methods, and declare what goes with them."""
        server.add_request_handler("resources/list", types.PaginatedRequestParams, self._list_resources)
        server.add_request_handler("resources/templates/list", types.PaginatedRequestParams, self._list_templates)
        server.add_request_handler("resources/read", types.ReadResourceRequestParams, self._read_resource)
        server.add_request_handler("prompts/list", types.PaginatedRequestParams, self._list_prompts)
        server.add_request_handler("prompts/get", types.GetPromptRequestParams, self._get_prompt)
        if self._serves_files:
            server.extensions[EXTENSION] = {"directoryRead": True}
            server.add_request_handler("skills/list", types.PaginatedRequestParams, self._list_skills)
            server.add_request_handler("skills/get", UriParams, self._get_skill)
            server.add_request_handler("resources/directory/read", UriPageParams, self._read_directory)

    # -- resources -------------------------------------------------------------------------------

    async def _list_resources(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        cursor = params.cursor if params else None
        own = [
            types.Resource(uri=uri, name=name, description=description, mime_type=mime_type)
            for uri, name, description, mime_type in _OWN_RESOURCES
        ]
        if not self._serves_files:
            return types.ListResourcesResult(resources=own)
        page, next_cursor = await self._resources.published(self._sessions.of(context), cursor)
        skills = [_skill_resource(published) for published in page]
        return types.ListResourcesResult(resources=[*([] if cursor else own), *skills], next_cursor=next_cursor)

    async def _list_templates(
        self, _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=[])

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        session, uri = self._sessions.of(context), str(params.uri)
        if uri == STATUS_URI:
            contents = _text(uri, "application/json", compact(await self._overviews.status(session)))
        elif uri == CATALOG_URI:
            contents = _text(uri, "application/json", await self._overviews.full_catalog(session, "json"))
        elif uri == CATALOG_XML_URI:
            contents = _text(uri, "application/xml", await self._overviews.full_catalog(session, "xml"))
        elif self._serves_files:
            contents = _contents(await self._resources.read(session, uri))
        else:
            raise MCPError(code=types.INVALID_PARAMS, message=f"Not found: {uri}")
        return types.ReadResourceResult(contents=[contents])

    # -- the extension ---------------------------------------------------------------------------

    async def _list_skills(self, context: Context, params: types.PaginatedRequestParams | None) -> JsonObject:
        cursor = params.cursor if params else None
        page, next_cursor = await self._resources.published(self._sessions.of(context), cursor)
        more = {"nextCursor": next_cursor} if next_cursor else {}
        return {"skills": list(map(_entry, page)), **more, **_CACHE}

    async def _get_skill(self, context: Context, params: UriParams) -> JsonObject:
        published = await self._resources.published_skill(self._sessions.of(context), params.uri)
        return {"skill": _entry(published), **_CACHE}

    async def _read_directory(self, context: Context, params: UriPageParams) -> JsonObject:
        session = self._sessions.of(context)
        page, next_cursor = await self._resources.children(session, params.uri, params.cursor)
        more = {"nextCursor": next_cursor} if next_cursor else {}
        return {"resources": list(map(_child, page)), **more}

    # -- prompts ---------------------------------------------------------------------------------

    async def _list_prompts(
        self, _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=list(_PROMPTS))

    async def _get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        session, given = self._sessions.of(context), params.arguments or {}
        if params.name == "skills_for_task":
            top_k, max_tokens = _number(given, "top_k", 1, 10), _number(given, "max_tokens", 200, 6000)
            request = RelevantRequest(_required(given, "task"), top_k, max_tokens, given.get("frame"))
            text = (await self._library.relevant(session, request)).formatted
            text = text or "No skill fits this task; go on without one."
        elif params.name == "skill":
            text = await self._library.whole(session, _required(given, "name"))
        else:
            raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown prompt: {params.name}")
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(messages=[message])


def _required(given: dict[str, str], name: str) -> str:
    value = given.get(name, "").strip()
    if not value:
        raise BadRequest(f"The prompt needs the argument '{name}'.")
    return value


def _number(given: dict[str, str], name: str, least: int, most: int) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or not least <= int(text[:9]) <= most:
        raise BadRequest(f"'{name}' must be a number from {least} to {most}.")
    return int(text)


def _skill_resource(published: "Published") -> types.Resource:
    frontmatter = published.frontmatter
    size = next((file.size for file in published.files or () if file.path == "SKILL.md"), None)
    return types.Resource(
        uri=published.uri,
        name=str(frontmatter.get("name") or published.skill.name),
        description=str(frontmatter.get("description", "")),
        mime_type="text/markdown",
        size=size,
    )


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


def _contents(content: "Content") -> types.TextResourceContents | types.BlobResourceContents:
    text = content.text
    if text is None:
        blob = b64encode(content.data).decode()
        return types.BlobResourceContents(uri=content.uri, mime_type=content.mime_type, blob=blob)
    return _text(content.uri, content.mime_type, text)


def _text(uri: str, mime_type: str, text: str) -> types.TextResourceContents:
    return types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)

"""The methods besides tools that a config offers, and their contributors."""

from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import mcp_types as types
from mcp.server import Server
from pydantic import Field

from toolcrib.base.errors import BadRequest, UnknownPrompt, UnknownResource
from toolcrib.base.json_values import as_object, compact
from toolcrib.base.model import JsonObject, TaskType
from toolcrib.base.paging import cursor_of, place_of
from toolcrib.gateway.composition import Generation
from toolcrib.gateway.offers import OfferUseCases
from toolcrib.gateway.status import StatusReader
from toolcrib.jsonrpc.sdk import Context, ProtocolServer
from toolcrib.policy.requests import Request
from toolcrib.policy.sessions import Session
from toolcrib.server.envelopes import LIST_TTL_MS, cacheable
from toolcrib.server.sessions import ResumableRequests, Sessions
from toolcrib.server.tasks import TaskMethods
from toolcrib.skills.answers import RelevantRequest
from toolcrib.skills.overviews import CATALOG_PAGES, Overviews
from toolcrib.skills.resources import SkillResources
from toolcrib.skills.use_cases import SkillUseCases

if TYPE_CHECKING:
    from toolcrib.skills.publishing import Child, Published


class PromptProvider(Protocol):
    """Contributes prompts."""

    async def page(self, session: Session, after: str, /) -> tuple[list[JsonObject], str | None]:
        """Return the next page of prompts by name, after the name ``after``, and the last name if there are more."""
        ...

    async def get(self, request: Request) -> JsonObject | None:
        """Return the result of the prompt that a request names; None if there is no such prompt.

        Raises:
            BadRequest: an argument is missing or wrong.

        """
        ...


class PromptMethods:
    """Answers ``prompts/*`` with the prompts of each provider in turn; only the last one may have several pages."""

    def __init__(self, sessions: Sessions, providers: Sequence[PromptProvider]) -> None:
        self._sessions, self._providers = sessions, providers

    def register(self, server: ProtocolServer) -> None:
        """Register the handlers of these methods."""
        server.answer_verbatim("prompts/list", self._list)
        server.answer_verbatim("prompts/get", self._get)

    async def _list(self, context: Context, params: JsonObject) -> JsonObject:
        session, cursor = await self._sessions.resolve(context), params.get("cursor")
        # Only the last provider has several pages, so a cursor is one of its own.
        providers, after = (self._providers, "") if cursor is None else (self._providers[-1:], place_of(cursor, 1)[0])
        prompts: list[JsonObject] = []
        last = None
        for provider in providers:
            page, last = await provider.page(session, after)
            prompts += page
        more = {} if last is None else {"nextCursor": cursor_of((last,))}
        return cacheable({"prompts": prompts, **more}, LIST_TTL_MS)

    async def _get(self, context: Context, params: JsonObject) -> JsonObject:
        request = await self._sessions.request(context)
        for provider in self._providers:
            if (found := await provider.get(request)) is not None:
                return found
        raise UnknownPrompt(params["name"])


@dataclass(frozen=True, slots=True)
class FixedResource:
    """One resource of our own, with the same URI for everybody; ``read`` returns its text for a session.

    One that is not ``listed`` can be read by those who know its URI.
    """

    uri: str
    name: str
    description: str
    mime_type: str
    read: Callable[[Session], Awaitable[str]]
    listed: bool = True

    @property
    def as_listed(self) -> JsonObject:
        """Return its entry in ``resources/list``."""
        return as_json(
            types.Resource(uri=self.uri, name=self.name, description=self.description, mime_type=self.mime_type)
        )


class ResourceProvider(Protocol):
    """Contributes all resources whose URI begins with ``prefix``."""

    @property
    def prefix(self) -> str:
        """The prefix of its URIs."""
        ...

    async def page(self, session: Session, after: str) -> tuple[list[JsonObject], str | None]:
        """Return the next page of resources by URI, after the URI ``after``, and the last URI if there are more."""
        ...

    async def read(self, request: Request, uri: str) -> JsonObject:
        """Return the result of ``resources/read``.

        Raises:
            UnknownResource: there is no such resource for this caller.

        """
        ...


class TemplateProvider(Protocol):
    """Contributes resource templates, and all resources that no other provider has."""

    async def templates(self, session: Session, after: str) -> tuple[list[JsonObject], str | None]:
        """Return the next page of templates, those after the template ``after``, and the last one if there are more."""
        ...

    async def read(self, request: Request, uri: str) -> JsonObject:
        """Return the result of ``resources/read``; raises like :meth:`ResourceProvider.read`."""
        ...


class ResourceMethods:
    """Answers ``resources/*`` with our own resources first, then those of each provider.

    ``rest`` handles any other URI.
    """

    def __init__(
        self,
        sessions: Sessions,
        fixed: Sequence[FixedResource],
        providers: Sequence[ResourceProvider],
        rest: TemplateProvider,
    ) -> None:
        self._sessions, self._providers, self._rest = sessions, providers, rest
        self._fixed = {resource.uri: resource for resource in fixed}

    def register(self, server: ProtocolServer) -> None:
        """Register the handlers of these methods."""
        server.answer_verbatim("resources/list", self._list)
        server.answer_verbatim("resources/templates/list", self._list_templates)
        server.answer_verbatim("resources/read", self._read)

    async def _list(self, context: Context, params: JsonObject) -> JsonObject:
        session, cursor = await self._sessions.resolve(context), params.get("cursor")
        after = "" if cursor is None else place_of(cursor, 1)[0]
        listed = [resource.as_listed for resource in self._fixed.values() if resource.listed] if cursor is None else []
        for provider in self._from(after):
            page, last = await provider.page(session, after)
            listed += page
            if last is not None:
                return _page("resources", listed, last)
            after = ""
        return _page("resources", listed, None)

    def _from(self, after: str) -> Sequence[ResourceProvider]:
        """Return the provider that has the URI ``after``, and those that follow it; all for the empty string."""
        for place, provider in enumerate(self._providers):
            if not after or after.startswith(provider.prefix):
                return self._providers[place:]
        if after:
            # A reload may have removed its provider: an error is better than a list with a gap.
            raise BadRequest("'cursor' is not one that was given here. Leave it out to begin with the first page.")
        return ()

    async def _list_templates(self, context: Context, params: JsonObject) -> JsonObject:
        session, cursor = await self._sessions.resolve(context), params.get("cursor")
        after = "" if cursor is None else place_of(cursor, 1)[0]
        return _page("resourceTemplates", *await self._rest.templates(session, after))

    async def _read(self, context: Context, params: JsonObject) -> JsonObject:
        request, uri = await self._sessions.request(context), params["uri"]
        # First, so that no server can answer for an address of ours.
        if fixed := self._fixed.get(uri):
            return cacheable(text_contents(uri, fixed.mime_type, await fixed.read(request.session)))
        for provider in self._providers:
            if uri.startswith(provider.prefix):
                return cacheable(await provider.read(request, uri))
        return cacheable(await self._rest.read(request, uri))


def as_json(model: types.Resource | types.Prompt | types.GetPromptResult) -> JsonObject:
    """Return an SDK value as JSON."""
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


def text_contents(uri: str, mime_type: str, text: str) -> JsonObject:
    """Return the result of ``resources/read`` for a text."""
    return {"contents": [{"uri": uri, "mimeType": mime_type, "text": text}]}


def _page(key: str, items: list[JsonObject], last: str | None) -> JsonObject:
    more = {} if last is None else {"nextCursor": cursor_of((last,))}
    return cacheable({key: items, **more}, LIST_TTL_MS)


class ServerResources:
    """The resources of servers, as a :class:`ResourceProvider`, and their templates."""

    prefix = "toolcrib://servers/"

    def __init__(self, offers: OfferUseCases) -> None:
        self._offers = offers

    async def page(self, session: Session, after: str) -> tuple[list[JsonObject], str | None]:
        """Return the next resources by public URI."""
        return await self._offers.page(session, "resource", after)

    async def templates(self, session: Session, after: str) -> tuple[list[JsonObject], str | None]:
        """Return the next templates by public URI template."""
        return await self._offers.page(session, "template", after)

    async def read(self, request: Request, uri: str) -> JsonObject:
        """Return the contents of a resource as its server gives them.

        Raises:
            UnknownResource: there is no such resource for this caller.

        """
        return await self._offers.read(request, uri)


class ServerPrompts:
    """The prompts of servers, as a :class:`PromptProvider`."""

    def __init__(self, offers: OfferUseCases) -> None:
        self._offers = offers

    async def page(self, session: Session, after: str) -> tuple[list[JsonObject], str | None]:
        """Return the next prompts by public name."""
        return await self._offers.page(session, "prompt", after)

    async def get(self, request: Request) -> JsonObject | None:
        """Return the result of a prompt as its server gives it."""
        try:
            return await self._offers.get(request, request.params["name"])
        except UnknownPrompt:
            return None


class CompletionMethods:
    """Answers ``completion/complete`` for arguments of servers' prompts and templates, and of the prompts of skills."""

    def __init__(self, sessions: Sessions, offers: OfferUseCases, skills: SkillUseCases | None) -> None:
        self._sessions, self._offers, self._skills = sessions, offers, skills

    def register(self, server: ProtocolServer) -> None:
        """Register the handler of the method."""
        server.answer_verbatim("completion/complete", self._complete)

    async def _complete(self, context: Context, _params: JsonObject) -> JsonObject:
        request = await self._sessions.request(context)
        ref = as_object(request.params.get("ref"))
        if self._skills and ref.get("type") == "ref/prompt" and ref.get("name") in (_WHOLE.name, _FOR_TASK.name):
            return _completion(await self._of_skills(self._skills, request.session, str(ref["name"]), request.params))
        return await self._offers.complete(request)

    async def _of_skills(
        self, skills: SkillUseCases, session: Session, prompt: str, params: Mapping[str, Any]
    ) -> list[str]:
        argument = as_object(params.get("argument"))
        name, start = argument.get("name"), str(argument.get("value", ""))
        if prompt == _WHOLE.name and name == "name":
            return await skills.completions(session, start)
        if prompt == _FOR_TASK.name and name == "task_type":
            return [kind.value for kind in TaskType if kind.value.startswith(start)]
        return []


_COMPLETIONS_MAX = 100
"""Maximum number of values of one completion (2025-11-25 server/utilities/completion, "Completion Results")."""


def _completion(values: Sequence[str]) -> JsonObject:
    shown = list(values[:_COMPLETIONS_MAX])
    return {"completion": {"values": shown, "total": len(values), "hasMore": len(shown) < len(values)}}


_DIGITS_MAX = 9

_FOR_TASK = types.Prompt(
    name="skills_for_task",
    title="Skills for a task",
    description="Summaries of the skills that fit a task best.",
    arguments=[
        types.PromptArgument(name="task", description="The task", required=True),
        types.PromptArgument(name="top_k", description="Most skills"),
        types.PromptArgument(name="frame", description="Prefer skills of this frame, a tag"),
        types.PromptArgument(name="task_type", description="Prefer skills of this kind: browser, api, code or domain"),
        types.PromptArgument(name="max_tokens", description="Budget for all of them, in tokens"),
    ],
)
_WHOLE = types.Prompt(
    name="skill",
    title="A skill",
    description="One skill, whole.",
    arguments=[types.PromptArgument(name="name", description="Its name, source/name or URI", required=True)],
)


def catalog_resources(skill_use_cases: SkillUseCases) -> list[FixedResource]:
    """Return the catalog of all skills, in both of its forms (R173, R174)."""
    full_catalog = Overviews(skill_use_cases).full_catalog
    return [
        FixedResource(
            uri="toolcrib://skills",
            name="skills",
            description="All skills with their descriptions, as far as the bounds allow",
            mime_type="application/json",
            read=partial(full_catalog, form="json"),
        ),
        FixedResource(
            uri="toolcrib://skills.xml",
            name="skills.xml",
            description="The same as a block for a system prompt",
            mime_type="application/xml",
            read=partial(full_catalog, form="xml"),
        ),
    ]


class CatalogPages:
    """Further pages of the catalog, as a :class:`ResourceProvider` that lists none: each links to the next."""

    prefix = CATALOG_PAGES

    def __init__(self, skill_use_cases: SkillUseCases) -> None:
        self._overviews = Overviews(skill_use_cases)

    async def page(self, session: Session, after: str) -> tuple[list[JsonObject], str | None]:
        """Return nothing."""
        del session, after
        return [], None

    async def read(self, request: Request, uri: str) -> JsonObject:
        """Return a page of the catalog.

        Raises:
            UnknownResource: there is no such page.

        """
        page = uri.removeprefix(self.prefix)
        number = page.removesuffix(".xml")
        form = "json" if number == page else "xml"
        # int() also takes other digits and signs, by which one page would have many addresses.
        if not (number.isascii() and number.isdigit() and len(number) <= _DIGITS_MAX):
            raise UnknownResource(uri)
        text = await self._overviews.full_catalog(request.session, form, int(number))
        if not text:
            raise UnknownResource(uri)
        return text_contents(uri, f"application/{form}", text)


class SkillFiles:
    """The files of published skills, as a :class:`ResourceProvider`."""

    prefix = "skill://"

    def __init__(self, skill_use_cases: SkillUseCases, resumable: ResumableRequests) -> None:
        self._resources, self._resumable = SkillResources(skill_use_cases), resumable

    async def page(self, session: Session, after: str) -> tuple[list[JsonObject], str | None]:
        """Return the next page of skills' SKILL.md files by URI, and the last URI if there are more."""
        page, has_more = await self._resources.published(session, after)
        return [as_json(_resource(each)) for each in page], page[-1].uri if has_more else None

    async def read(self, request: Request, uri: str) -> JsonObject:
        """Return a file of a published skill.

        Raises:
            UnknownSkill: there is no such file for this caller.
            NotConfirmed: a person has to confirm first, and has not.

        """
        # A person may have to confirm first: a sessionless client then repeats the request with the answer.
        return await self._resumable.run(request, partial(self._read, uri))

    async def _read(self, uri: str, request: Request) -> JsonObject:
        content = await self._resources.read(request.session, uri, request)
        if content.text is None:
            blob = b64encode(content.data).decode()
            return {"contents": [{"uri": uri, "mimeType": content.mime_type, "blob": blob}]}
        return text_contents(uri, content.mime_type, content.text)


class SkillPrompts:
    """The prompts that return skills, as a :class:`PromptProvider` (R141, R193)."""

    def __init__(self, skill_use_cases: SkillUseCases, resumable: ResumableRequests) -> None:
        self._skill_use_cases, self._resumable = skill_use_cases, resumable

    async def page(self, _session: Session, _after: str, /) -> tuple[list[JsonObject], str | None]:
        """Return both prompts."""
        return [as_json(_FOR_TASK), as_json(_WHOLE)], None

    async def get(self, request: Request) -> JsonObject | None:
        """Return the skills for a task, or one skill.

        Raises:
            BadRequest: an argument is missing or wrong, or does not name exactly one skill.
            NotConfirmed: a person has to confirm first, and has not.

        """
        name, given = request.params["name"], as_object(request.params.get("arguments"))
        if name == _FOR_TASK.name:
            text = await self._for_task(request.session, given)
        elif name == _WHOLE.name:
            return await self._resumable.run(request, partial(self._whole, _required(given, "name")))
        else:
            return None
        return _message(text)

    async def _whole(self, name: str, request: Request) -> JsonObject:
        session = request.session
        active = session.skills.skills
        text = await self._skill_use_cases.whole(session, name, request)
        parts = self._skill_use_cases.dependencies
        if parts.gate.shows_otherwise(session, parts.indexer.current(), active):
            await request.notify_tools_changed()
        return _message(text)

    async def _for_task(self, session: Session, given: Mapping[str, str]) -> str:
        top_k, max_tokens = _number(given, "top_k", 1, 10), _number(given, "max_tokens", 200, 6000)
        kind = given.get("task_type")
        if kind is not None and kind not in tuple(TaskType):
            raise BadRequest(f"'task_type' must be one of {', '.join(TaskType)}.")
        task_type = TaskType(kind) if kind is not None else None
        request = RelevantRequest(_required(given, "task"), top_k, max_tokens, given.get("frame"), task_type)
        answer = await self._skill_use_cases.relevant(session, request)
        return answer.formatted or "No skill fits this task; continue without one."


def _message(text: str) -> JsonObject:
    message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
    return as_json(types.GetPromptResult(messages=[message]))


def _resource(published: "Published") -> types.Resource:
    frontmatter = published.frontmatter
    size = next((file.size for file in published.files or () if file.path == "SKILL.md"), None)
    return types.Resource(
        uri=published.uri,
        name=str(frontmatter.get("name") or published.skill.name),
        description=str(frontmatter.get("description", "")),
        mime_type="text/markdown",
        size=size,
    )


def _required(given: Mapping[str, str], name: str) -> str:
    value = given.get(name, "").strip()
    if not value:
        raise BadRequest(f"The prompt needs the argument '{name}'.")
    return value


def _number(given: Mapping[str, str], name: str, least: int, most: int) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    # The slice bounds int(), whose time grows with the square of the digits; a cut number is still too large.
    if not text.isascii() or not text.isdigit() or not least <= int(text[:9]) <= most:
        raise BadRequest(f"'{name}' must be a number from {least} to {most}.")
    return int(text)


EXTENSION = "io.modelcontextprotocol/skills"

# Files change without a notification, and what is published depends on the caller.
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
        page, has_more = await self._resources.published(await self._sessions.resolve(context), after)
        more = {"nextCursor": cursor_of((page[-1].uri,))} if has_more else {}
        return {"skills": list(map(_entry, page)), **more, **_CACHE}

    async def _get_skill(self, context: Context, params: UriParams) -> JsonObject:
        published = await self._resources.published_skill(await self._sessions.resolve(context), params.uri)
        return {"skill": _entry(published), **_CACHE}

    async def _read_directory(self, context: Context, params: UriPageParams) -> JsonObject:
        session = await self._sessions.resolve(context)
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


class Methods(Protocol):
    """Some methods of the protocol."""

    def register(self, server: ProtocolServer) -> None:
        """Register the handlers of these methods, and declare their capabilities."""
        ...


def methods_offered(generation: Generation, sessions: Sessions, resumable: ResumableRequests) -> list[Methods]:
    """Return the methods besides tools that a generation offers."""
    offers, skills = generation.offers, generation.skills
    # What lists nothing but its servers' tools lists nothing but their resources either.
    is_proxy = skills is None and not generation.settings.toolcrib.tool_search.enabled
    fixed = [_status_resource(generation.status, listed=not is_proxy)]
    resources = list[ResourceProvider]()
    prompts, methods = list[PromptProvider](), list[Methods]()
    if skills is not None:
        fixed += catalog_resources(skills)
        prompts.append(SkillPrompts(skills, resumable))
        if generation.settings.toolcrib.skills.serve_resources:
            resources.append(SkillFiles(skills, resumable))
            methods.append(SkillsExtension(skills, sessions))
        resources.append(CatalogPages(skills))
    of_servers = ServerResources(offers)
    # Last: it takes every address that is left.
    resources.append(of_servers)
    if "prompt" in offers.indexer.kinds:
        # Last, as the one provider with several pages; and no server can take the name of a prompt of ours.
        prompts.append(ServerPrompts(offers))
    if prompts:
        methods.append(PromptMethods(sessions, prompts))
    if offers.indexer.kinds or skills is not None:
        methods.append(CompletionMethods(sessions, offers, skills))
    if generation.settings.servers:  # only their tools run as tasks
        methods.append(TaskMethods(generation.tools, sessions))
    return [ResourceMethods(sessions, fixed, resources, of_servers), *methods]


def _status_resource(status: StatusReader, *, listed: bool) -> FixedResource:
    async def read(session: Session) -> str:
        return compact((await status.read(session)).as_json)

    return FixedResource(
        uri="toolcrib://status",
        name="status",
        description="Servers and their states, counts, errors, and what this session has loaded",
        mime_type="application/json",
        read=read,
        listed=listed,
    )

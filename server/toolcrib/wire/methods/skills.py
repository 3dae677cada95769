"""What skills contribute to resources and prompts: their files, their catalog, and prompts that return them.

Knows the names and shapes that clients see; never knows what is published or found, which is decided below.
"""

from base64 import b64encode
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import mcp_types as types

from toolcrib.base.errors import BadRequest, UnknownResource
from toolcrib.base.json_values import as_object
from toolcrib.base.model import JsonObject, TaskType
from toolcrib.jsonrpc.sdk import Context
from toolcrib.policy.sessions import Session
from toolcrib.skills.overviews import CATALOG_PAGES, Overviews
from toolcrib.skills.requests import RelevantRequest
from toolcrib.skills.resources import SkillResources
from toolcrib.skills.use_cases import SkillUseCases
from toolcrib.wire.carrying import CarriedRequests, Reach
from toolcrib.wire.methods.resources import FixedResource, as_json, text_contents
from toolcrib.wire.sessions import announce_tools

if TYPE_CHECKING:
    from toolcrib.skills.publishing import Published

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

    async def read(self, _context: Context, /, session: Session, uri: str) -> JsonObject:
        """Return a page of the catalog.

        Raises:
            UnknownResource: there is no such page.

        """
        page = uri.removeprefix(self.prefix)
        number = page.removesuffix(".xml")
        form = "json" if number == page else "xml"
        if not (number.isascii() and number.isdigit() and len(number) <= _DIGITS_MAX):
            raise UnknownResource(uri)
        text = await self._overviews.full_catalog(session, form, int(number))
        if not text:
            raise UnknownResource(uri)
        return text_contents(uri, f"application/{form}", text)


class SkillFiles:
    """The files of published skills, as a :class:`ResourceProvider`."""

    prefix = "skill://"

    def __init__(self, skill_use_cases: SkillUseCases, carried: CarriedRequests) -> None:
        self._resources, self._carried = SkillResources(skill_use_cases), carried

    async def page(self, session: Session, after: str) -> tuple[list[JsonObject], str | None]:
        """Return the next page of skills' SKILL.md files by URI, and the last URI if there are more."""
        page, has_more = await self._resources.published(session, after)
        return [as_json(_resource(each)) for each in page], page[-1].uri if has_more else None

    async def read(self, context: Context, /, session: Session, uri: str) -> JsonObject:
        """Return a file of a published skill.

        Raises:
            UnknownSkill: there is no such file for this caller.
            NotConfirmed: a person has to confirm first, and has not.

        """
        return await self._carried.carry(context, session, partial(self._read, session, uri))

    async def _read(self, session: Session, uri: str, reach: Reach) -> JsonObject:
        content = await self._resources.read(session, uri, reach.asker)
        if content.text is None:
            blob = b64encode(content.data).decode()
            return {"contents": [{"uri": uri, "mimeType": content.mime_type, "blob": blob}]}
        return text_contents(uri, content.mime_type, content.text)


class SkillPrompts:
    """The prompts that return skills, as a :class:`PromptProvider` (R141, R193)."""

    def __init__(self, skill_use_cases: SkillUseCases, carried: CarriedRequests) -> None:
        self._skill_use_cases, self._carried = skill_use_cases, carried

    async def page(self, _session: Session, _after: str, /) -> tuple[list[JsonObject], str | None]:
        """Return both prompts."""
        return [as_json(_FOR_TASK), as_json(_WHOLE)], None

    async def get(self, context: Context, /, session: Session, params: JsonObject) -> JsonObject | None:
        """Return the skills for a task, or one skill.

        Raises:
            BadRequest: an argument is missing or wrong, or does not name exactly one skill.
            NotConfirmed: a person has to confirm first, and has not.

        """
        name, given = params["name"], as_object(params.get("arguments"))
        if name == _FOR_TASK.name:
            text = await self._for_task(session, given)
        elif name == _WHOLE.name:
            return await self._carried.carry(
                context, session, partial(self._whole, context, session, _required(given, "name"))
            )
        else:
            return None
        return _message(text)

    async def _whole(self, context: Context, session: Session, name: str, reach: Reach) -> JsonObject:
        active = session.skills.skills
        text = await self._skill_use_cases.whole(session, name, reach.asker)
        parts = self._skill_use_cases.parts
        if parts.gate.shows_otherwise(session, parts.indexer.current(), active):
            await announce_tools(context)
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
    if not text.isascii() or not text.isdigit() or not least <= int(text[:9]) <= most:
        raise BadRequest(f"'{name}' must be a number from {least} to {most}.")
    return int(text)

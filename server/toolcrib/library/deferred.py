"""Tools in the formats of model APIs that search for tools: definitions that are loaded later, and answers to a model.

Both APIs let the application search: the model calls a search tool, and the answer brings the tools into its context
(Anthropic, "Tool search tool", custom implementation; OpenAI, "Tool search", client execution).
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

from toolcrib.base.errors import BadRequest, ToolcribError
from toolcrib.base.json_values import as_object
from toolcrib.base.model import JsonObject
from toolcrib.library.hits import ToolHit
from toolcrib.library.results import CallResult, SearchResult, ToolInfo

Api = Literal["anthropic", "openai"]

SEARCH = "tool_search"
"""The name of the search tool, where it needs one. No tool of a server has it: theirs begin with the server's name."""

_FOUND_MAX = 5
"""Maximum number of tools that one search brings into the model's context."""

_DESCRIPTION = (
    "Find tools by what they do. Ask for one capability in a few words, such as 'create an issue'. "
    "The tools that are found can be called from then on; if none fits, try other words."
)
_PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What the tool should do."}},
    "required": ["query"],
    "additionalProperties": False,
}
_REFUSED_ON_TOP = ("oneOf", "anyOf", "allOf", "not", "enum")
"""What both APIs refuse at the top of a schema, with the whole request. Calls are checked against the whole schema."""

_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")


class Tools(Protocol):
    """What answers a model."""

    async def search(self, query: str, *, limit: int) -> SearchResult:
        """Find tools."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any] | None) -> CallResult:
        """Call one."""
        ...


def deferred_tools(api: Api, tools: Iterable[ToolInfo], *, hosted_search: bool) -> list[JsonObject]:
    """Return what the parameter ``tools`` of a request takes: how to search, and the tools that are loaded later.

    Raises:
        BadRequest: an API that is not known.

    """
    if api == "anthropic":
        return [_anthropic_search(hosted_search), *(_anthropic_tool(tool) for tool in tools)]
    if api == "openai":
        # With a search of ours the definitions come with its answers: the model reads none before.
        return [_openai_search(hosted_search), *(_openai_tool(tool.definition) for tool in tools if hosted_search)]
    raise BadRequest(f"There is no format for {api!r}: give 'anthropic' or 'openai'.")


async def answer(tools: Tools, block: object) -> JsonObject:
    """Do what a block of a model's message asks for, and return the block that answers it in the same API.

    What goes wrong is told to the model.

    Raises:
        BadRequest: the block asks for no tool, or for a search that the API itself does.

    """
    request = _parse(block)
    try:
        if request.name is None:
            found = await tools.search(_query(request.arguments), limit=_FOUND_MAX)
            return request.found(found)
        return request.returned(await tools.call(request.name, _arguments(request.arguments)))
    except ToolcribError as error:
        return request.returned(CallResult(({"type": "text", "text": str(error)},), is_error=True))


@dataclass(frozen=True, slots=True)
class _Request:
    """What a block asks for: a call, or a search where ``name`` is None; and how its API is answered."""

    name: str | None
    arguments: object
    found: Callable[[SearchResult], JsonObject]
    returned: Callable[[CallResult], JsonObject]


def _parse(block: object) -> _Request:
    plain = as_object(block if isinstance(block, Mapping) else _dumped(block))
    name, kind = str(plain.get("name", "")), plain.get("type")
    if kind == "tool_use":
        reply = _Anthropic(plain.get("id"))
        return _Request(None if name == SEARCH else name, plain.get("input"), reply.found, reply.returned)
    reply = _OpenAi(plain.get("call_id"))
    if kind == "function_call":
        return _Request(name, plain.get("arguments"), reply.found, reply.returned)
    if kind == "tool_search_call" and plain.get("execution") == "client":
        return _Request(None, plain.get("arguments"), reply.found, reply.not_found)
    raise BadRequest(
        f"A block of the type {kind!r} is not for toolcrib to answer: give those of the types 'tool_use' (Anthropic), "
        "'function_call' and 'tool_search_call' with the execution 'client' (OpenAI)."
    )


def _dumped(block: object) -> object:
    """Return what a model of either SDK has, as JSON."""
    dump = cast("Callable[[], object] | None", getattr(block, "model_dump", None))
    return dump() if dump else {}


def _arguments(given: object) -> JsonObject:
    """Return the arguments that a model gave: an object, or JSON of one."""
    if isinstance(given, str):
        try:
            given = json.loads(given or "{}")
        except ValueError as error:
            raise BadRequest(f"The arguments are no JSON: {error}. Give one object.") from None
    if not isinstance(given, Mapping):
        raise BadRequest("The arguments are no JSON object: give one with the parameters as its keys.")
    return dict(cast("Mapping[str, Any]", given))


def _query(given: object) -> str:
    query = _arguments(given).get("query")
    if not isinstance(query, str):
        raise BadRequest("query: say in a few words what the tool should do.")
    return query


def _schema(definition: JsonObject) -> JsonObject:
    given = as_object(definition.get("inputSchema"))
    return {"properties": {}, **{key: given[key] for key in given if key not in _REFUSED_ON_TOP}, "type": "object"}


def _blocks(result: CallResult, image: Callable[[JsonObject], JsonObject], text: str) -> list[JsonObject]:
    """Return the content of a result in the blocks of an API; ``text`` is its type of one with text."""
    shown = [
        image(block)
        if block.get("type") == "image" and block.get("mimeType") in _IMAGES
        else {"type": text, "text": _words(block)}
        for block in result.content
    ]
    if not shown and result.structured is not None:
        shown = [{"type": text, "text": json.dumps(result.structured, ensure_ascii=False)}]
    # Both APIs refuse a block with an empty text.
    return [block for block in shown if block.get("text") != ""]


def _words(block: JsonObject) -> str:
    """Return what a block says; what a model cannot read is named."""
    resource = as_object(block.get("resource"))
    for said in (block.get("text"), resource.get("text"), resource.get("uri"), block.get("uri")):
        if isinstance(said, str):
            return said
    return f"({block.get('type')} of the type {block.get('mimeType', 'unknown')}, left out)"


# -- Anthropic -------------------------------------------------------------------------------------


def _anthropic_search(hosted: bool) -> JsonObject:  # noqa: FBT001 - a fact of the row
    if hosted:
        return {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
    return {"name": SEARCH, "description": _DESCRIPTION, "input_schema": _PARAMETERS}


def _anthropic_tool(tool: ToolInfo) -> JsonObject:
    return {
        "name": tool.name,
        "description": str(tool.definition.get("description") or ""),
        "input_schema": _schema(tool.definition),
        "defer_loading": True,
    }


@dataclass(frozen=True, slots=True)
class _Anthropic:
    id: object

    def found(self, result: SearchResult) -> JsonObject:
        content: Sequence[JsonObject] = [{"type": "tool_reference", "tool_name": hit.name} for hit in result]
        return self._answer(content or [{"type": "text", "text": result.note or "No tool fits. Try other words."}])

    def returned(self, result: CallResult) -> JsonObject:
        reply = self._answer(_blocks(result, self._image, "text"))
        return {**reply, "is_error": True} if result.is_error else reply

    def _answer(self, content: Sequence[JsonObject]) -> JsonObject:
        return {"type": "tool_result", "tool_use_id": self.id, "content": list(content)}

    @staticmethod
    def _image(block: JsonObject) -> JsonObject:
        source = {"type": "base64", "media_type": block["mimeType"], "data": block.get("data")}
        return {"type": "image", "source": source}


# -- OpenAI ----------------------------------------------------------------------------------------


def _openai_search(hosted: bool) -> JsonObject:  # noqa: FBT001 - a fact of the row
    client = {"execution": "client", "description": _DESCRIPTION, "parameters": _PARAMETERS}
    return {"type": "tool_search", **({} if hosted else client)}


def _openai_tool(definition: JsonObject) -> JsonObject:
    return {
        "type": "function",
        "name": definition["name"],
        "description": str(definition.get("description") or ""),
        "parameters": _schema(definition),
        "strict": False,
        "defer_loading": True,
    }


@dataclass(frozen=True, slots=True)
class _OpenAi:
    id: object

    def found(self, result: Iterable[ToolHit]) -> JsonObject:
        tools = [_openai_tool(hit.definition) for hit in result]
        answered = {"type": "tool_search_output", "call_id": self.id, "execution": "client", "status": "completed"}
        return {**answered, "tools": tools}

    def not_found(self, _failure: CallResult) -> JsonObject:
        """Answer a search that cannot be made; there is no place for the reason."""
        return self.found(())

    def returned(self, result: CallResult) -> JsonObject:
        return {
            "type": "function_call_output",
            "call_id": self.id,
            "output": _blocks(result, self._image, "input_text") or "",
        }

    @staticmethod
    def _image(block: JsonObject) -> JsonObject:
        return {"type": "input_image", "image_url": f"data:{block['mimeType']};base64,{block.get('data')}"}

"""What a built-in tool is: a name, the model of its arguments, a definition, and what a call of it does."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Self, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from toolcrib.base.errors import BadRequest
from toolcrib.base.json_values import json_type
from toolcrib.base.model import JsonObject, ScopeMode, SearchType, SkillOrigin, TaskType
from toolcrib.base.text import one_line, truncate
from toolcrib.catalog.arguments import MISFITS_MAX
from toolcrib.catalog.coercion import Reading, Readings, coerced, reading
from toolcrib.config.findings import reason_of
from toolcrib.gateway.composition import Generation
from toolcrib.policy.requests import Request
from toolcrib.policy.sessions import Session
from toolcrib.search.confidence import MEANINGS
from toolcrib.skills.use_cases import SkillUseCases

TEXT: JsonObject = {"type": "string"}
TEXTS: JsonObject = {"type": "array", "items": TEXT}
COUNT: JsonObject = {"type": "integer"}
FLAG: JsonObject = {"type": "boolean"}
SCORE: JsonObject = {"type": "number", "minimum": 0, "maximum": 1}
SEARCH_TYPE: JsonObject = {"type": "string", "enum": ["fts", "regex", "exact"]}
CONFIDENCE: JsonObject = {"type": "string", "enum": list(MEANINGS)}
TASK_TYPE: JsonObject = {"type": "string", "enum": [kind.value for kind in TaskType]}
ORIGIN: JsonObject = {"type": "string", "enum": [origin.value for origin in SkillOrigin]}
SCOPE: JsonObject = {"type": "string", "enum": list(get_args(ScopeMode))}
USABLE: JsonObject = {**FLAG, "description": "Only with all needed tools", "default": False}


def described(kind: str, description: str) -> JsonObject:
    """Return the schema of a parameter of a simple type."""
    return {"type": kind, "description": description}


def object_of(properties: JsonObject, required: list[str]) -> JsonObject:
    """Return the schema of an object."""
    return {"type": "object", "properties": properties, "required": required}


def list_of(item: JsonObject) -> JsonObject:
    """Return the schema of a list."""
    return {"type": "array", "items": item}


SearchTypeName = Literal["fts", "regex", "exact", "bm25"]
"""The values of the argument ``search_type``."""

SEARCH_TYPES: Mapping[SearchTypeName, SearchType] = {
    "fts": SearchType.FTS,
    "regex": SearchType.REGEX,
    "exact": SearchType.EXACT,
    "bm25": SearchType.FTS,
}
"""How a query is interpreted; ``bm25`` is an older name for ``fts`` (R48)."""

ALWAYS_LOAD: JsonObject = {"_meta": {"anthropic/alwaysLoad": True}}
"""Some hosts defer tools behind a search of their own; our few tools must stay visible."""

READ_ONLY: JsonObject = {"annotations": {"readOnlyHint": True, "openWorldHint": False}, **ALWAYS_LOAD}


class Arguments(BaseModel):
    """The arguments of a built-in: exactly its fields, each of its type."""

    # A model would take an ignored argument for an applied one, so unknown ones are refused. Built on first use: no
    # start waits for models of arguments.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


_ArgumentsT = TypeVar("_ArgumentsT", bound=Arguments)


_TYPES = {
    "string_type": "string",
    "int_type": "integer",
    "float_type": "number",
    "bool_type": "boolean",
    "tuple_type": "array",
}
"""The types of JSON Schema that pydantic's errors about types ask for."""

_VALUES = ("enum", "literal_error")
_TEXT_READ_MAX = 10_000
_KEY_SHOWN_MAX = 80


def read_as_meant(model: type[_ArgumentsT], given: JsonObject) -> _ArgumentsT:
    """Return the arguments of a built-in, read as those of servers are: ``"3"`` as 3, null as left out.

    Raises:
        BadRequest: they do not fit; the text names each wrong field, and the valid parameters.

    """
    if len(given) > len(model.model_fields) + MISFITS_MAX:
        # Of many unknown ones a few are told: each is an error that takes its time.
        unknown = [name for name in given if name not in model.model_fields]
        given = {name: given[name] for name in given.keys() - {*unknown[MISFITS_MAX:]}}
    arguments, wrong = coerced(given, partial(_errors, model), _readings)
    if not wrong:
        return model.model_validate(arguments)
    problems = "; ".join(map(_problem, wrong[:MISFITS_MAX]))
    raise BadRequest(f"The arguments do not fit: {problems}. Parameters: {', '.join(model.model_fields)}.")


def _errors(model: type[Arguments], given: JsonObject) -> Sequence[Mapping[str, Any]]:
    try:
        model.model_validate(given)
    except ValidationError as error:
        found = error.errors(include_url=False)
        # A list with a wrong item has too few right ones for pydantic.
        inside = {each["loc"][:-1] for each in found}
        return [each for each in found if each["type"] != "too_short" or each["loc"] not in inside]
    return ()


def _readings(errors: Sequence[Mapping[str, Any]], *, drops_nulls: bool) -> Readings:
    found: dict[tuple[str | int, ...], Reading] = {}
    for each in errors:
        value, wanted = each["input"], _TYPES.get(each["type"])
        if value is None and drops_nulls and (wanted or each["type"] in _VALUES) and isinstance(each["loc"][-1], str):
            found[each["loc"]] = ()
        elif wanted and not (isinstance(value, str) and len(value) > _TEXT_READ_MAX):  # read on the event loop
            read = reading(value, (wanted,))
            if read is not None:
                found[each["loc"]] = read
    return found


def _problem(error: Mapping[str, Any]) -> str:
    """Return what is wrong with a field in words of JSON: pydantic's own text repeats what was given."""
    place = ".".join(truncate(one_line(str(step)), _KEY_SHOWN_MAX) for step in error["loc"]) or "arguments"
    if error["type"] == "extra_forbidden":
        return f"{place}: is not known here"
    wanted, given = _TYPES.get(error["type"]), json_type(error["input"])
    if wanted is None:
        return f"{place}: {reason_of(error)}"
    if (wanted, given) == ("number", "integer"):  # pydantic refuses an integer that no double is
        return f"{place}: is too large"
    return f"{place}: must be {wanted}, not {given}"


class Answer(NamedTuple):
    """The answer of a built-in: a self-contained text, and the same as structured content for programs.

    ``meta`` is for the host alone: the ``_meta`` of the result.
    """

    text: str
    structured: JsonObject
    meta: JsonObject | None = None


class BuiltinTool(ABC, Generic[_ArgumentsT]):
    """One of our own tools. ``definition`` is its entry in ``tools/list`` apart from its name, for this config.

    ``answer_schema`` is the schema of its structured answers; None if a downstream server answers. It is published with
    the docs but not listed: a client that knows it would reject an answer that is text alone.
    """

    name: ClassVar[str]
    answer_schema: ClassVar[JsonObject | None] = None
    arguments: type[_ArgumentsT]
    definition: JsonObject

    def shown_to(self, session: Session) -> JsonObject | None:  # noqa: ARG002 - most are the same for everybody
        """Return the definition for the session's caller; None if the session does not list the tool."""
        return self.definition

    @classmethod
    @abstractmethod
    def offered_by(cls, generation: Generation) -> Self | None:
        """Return the tool if the config offers it."""

    @abstractmethod
    async def run(self, request: Request, given: _ArgumentsT, /) -> Answer | JsonObject:
        """Return an answer of ours, or the unchanged result of a downstream tool.

        ``given`` are the validated arguments.

        Raises:
            BadRequest: the arguments cannot be served; the text says what to change.

        """


class SkillTool(BuiltinTool[_ArgumentsT]):
    """A built-in that only needs skills, and is offered if skills are enabled."""

    def __init__(self, skill_use_cases: SkillUseCases) -> None:
        self._skill_use_cases = skill_use_cases

    @classmethod
    def offered_by(cls, generation: Generation) -> Self | None:
        """Return the tool if there are skills."""
        return cls(generation.skills) if generation.skills else None

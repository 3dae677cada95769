"""What a built-in tool is: a name, the model of its arguments, a definition, and what a call of it does."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Generic, Literal, NamedTuple, Self, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from toolcrib.base.errors import BadRequest
from toolcrib.base.model import JsonObject, ScopeMode, SearchType, SkillOrigin, TaskType
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


def misfit(model: type[Arguments], error: ValidationError) -> BadRequest:
    """Return the error for invalid arguments: its text names each wrong field, and the valid parameters."""
    # Not pydantic's own text, which repeats what was given and links to its documentation.
    problems = "; ".join(
        f"{'.'.join(map(str, problem['loc'])) or 'arguments'}: {problem['msg']}" for problem in error.errors()
    )
    return BadRequest(f"The arguments do not fit: {problems}. Parameters: {', '.join(model.model_fields)}.")


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

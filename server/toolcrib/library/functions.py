"""Makes a tool of a Python function: its definition from signature and docstring, its arguments from a call's JSON."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ArgsKwargs, PydanticCustomError, SchemaError

from toolcrib.base.errors import BadRequest
from toolcrib.base.model import JsonObject

_ERRORS_MAX = 5
"""Maximum number of wrong arguments that one error names."""

_Kind = inspect.Parameter

_GOOGLE_PARAMETERS = re.compile(r"(?:args|arguments|parameters|params|keyword args|keyword arguments):", re.IGNORECASE)
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_NUMPY_PARAMETERS = re.compile(r"(?:other )?parameters", re.IGNORECASE)
_NUMPY_LINE = re.compile(r"-{3,}")
_NUMPY_ENTRY = re.compile(r"\*{0,2}(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?")
_SPHINX_ENTRY = re.compile(r":(param|parameter|arg|argument|type|key|keyword)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)")


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """A Python function as a tool.

    ``definition`` is what ``tools/list`` would have: ``name``, ``description`` and ``inputSchema``. ``is_async``: a
    call returns an awaitable.
    """

    function: Callable[..., Any]
    definition: JsonObject = field(repr=False)
    is_async: bool
    _positional: tuple[str, ...] = field(repr=False)
    _arguments: TypeAdapter[Any] = field(repr=False)

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self.definition["name"]

    def bind(self, arguments: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the positional and keyword arguments for a call with these JSON values, as annotated.

        What is left out has the function's own default.

        Raises:
            BadRequest: a value does not fit; the text names each such argument, and what is wrong with it.

        """
        try:
            named: dict[str, Any] = self._arguments.validate_python(ArgsKwargs((), dict(arguments)))
        except ValidationError as error:
            raise BadRequest(_said_of(self.name, error)) from None
        return [named.pop(name) for name in self._positional], named


def function_tool(
    function: Callable[..., Any], *, name: str | None = None, description: str | None = None
) -> FunctionTool:
    """Return a function, a method or any other callable as a tool; it is not called.

    Its parameters become an object schema: annotations give the types, as pydantic reads them (``Annotated`` with
    ``Field`` too), and defaults the optional ones. The docstring describes the tool, and its parameters where it has a
    section for them in the form of Google, NumPy or Sphinx. ``name`` and ``description`` take the place of its own.

    Raises:
        BadRequest: it cannot be a tool; the text says why, and what to change.

    >>> def add(a: int, b: int = 1) -> int:
    ...     '''Add two numbers.
    ...
    ...     Args:
    ...         a: The first one.
    ...     '''
    ...     return a + b
    >>> tool = function_tool(add)
    >>> tool.definition["description"], tool.definition["inputSchema"]["properties"]["a"]
    ('Add two numbers.', {'type': 'integer', 'description': 'The first one.'})
    >>> tool.bind({"a": "2"})
    ([], {'a': 2, 'b': 1})

    """
    if not callable(function):
        raise BadRequest(
            f"{type(function).__name__} is no function, so it cannot be a tool: give functions. Only ToolSearch takes "
            "definitions, which nothing runs."
        )
    named = _named(function)
    shown = name or getattr(named, "__name__", "")
    if not shown or shown == "<lambda>":
        what = "A lambda" if shown else f"An object of the type {type(named).__name__}"
        raise BadRequest(
            f"{what} has no name of its own, so it cannot be a tool: set its __name__, or wrap it in a def."
        )
    try:
        signature = inspect.signature(function, eval_str=True)
    except (NameError, TypeError, ValueError, SyntaxError) as error:
        raise _unfit(shown, f"its signature cannot be read: {error}") from error
    text, described = _docstring(inspect.getdoc(named) or "") if _has_own_docstring(named) else ("", {})
    if _lacks_its_object(function, signature):
        raise _unfit(shown, "it is a method without its object; give that of one, such as Mailer().send")
    parameters = list(_parameters(shown, signature))
    adapter = _adapter(shown, parameters)
    definition = {"name": shown, "description": text if description is None else description}
    definition["inputSchema"] = _schema(shown, adapter, described)
    if not definition["description"]:
        del definition["description"]
    positional = tuple(each.name for each in signature.parameters.values() if each.kind is _Kind.POSITIONAL_ONLY)
    return FunctionTool(function, definition, _is_async(function), positional, adapter)


def _parameters(name: str, signature: inspect.Signature) -> Iterator[inspect.Parameter]:
    """Yield the parameters of a function as ones that are given by name: JSON objects have no order."""
    for parameter in signature.parameters.values():
        if parameter.kind is _Kind.VAR_POSITIONAL:
            raise _unfit(name, f"the values of *{parameter.name} have no names; make it one parameter with a list")
        kind = parameter.kind if parameter.kind is _Kind.VAR_KEYWORD else _Kind.KEYWORD_ONLY
        yield parameter.replace(kind=kind)


def _lacks_its_object(function: Callable[..., Any], signature: inspect.Signature) -> bool:
    """Return whether it is a method as its class has it, whose ``self`` no call can give."""
    *_, owner, _name = f".{getattr(function, '__qualname__', '')}".split(".")
    first = next(iter(signature.parameters.values()), None)
    is_self = first is not None and first.name == "self" and first.default is _Kind.empty
    return is_self and owner not in ("", "<locals>")


def _adapter(name: str, parameters: list[inspect.Parameter]) -> TypeAdapter[Any]:
    """Return what validates the arguments of a call, without making it."""

    def taken(**arguments: Any) -> dict[str, Any]:
        return arguments

    # pydantic reads both, and calls the function with what it has validated.
    cast("Any", taken).__signature__ = inspect.Signature(parameters)
    taken.__annotations__ = {each.name: each.annotation for each in parameters if each.annotation is not _Kind.empty}
    taken.__name__ = taken.__qualname__ = name
    try:
        return TypeAdapter[Any](cast("Any", taken))
    except PydanticSchemaGenerationError as error:
        raise _unfit(name, _without_schema(taken.__annotations__)) from error
    except (PydanticUserError, SchemaError, PydanticCustomError, TypeError) as error:
        raise _unfit(name, f"pydantic has no schema for it: {_first_line(error)}") from error


def _without_schema(annotations: Mapping[str, Any]) -> str:
    """Return which of these types pydantic has no schema for, and what to use; its own advice is for models."""
    for name, annotation in annotations.items():
        try:
            TypeAdapter(annotation)
        except PydanticSchemaGenerationError:
            shown = getattr(annotation, "__name__", annotation)
            return (
                f"pydantic has no schema for its parameter {name} ({shown}); give it a type that JSON has, a dataclass "
                "or a pydantic model, or bind it first, as functools.partial does"
            )
        except (PydanticUserError, SchemaError, PydanticCustomError, TypeError):
            continue
    return "pydantic has no schema for it"


class _PlainSchema(GenerateJsonSchema):
    """Schemas without what only repeats names, or Python values that JSON has not."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - as pydantic declares it

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        """Add no title made from a name: it says what the name says, to a model that pays for each word."""
        return False


def _schema(name: str, adapter: TypeAdapter[Any], described: Mapping[str, str]) -> JsonObject:
    try:
        schema = adapter.json_schema(schema_generator=_PlainSchema)
    except PydanticUserError as error:
        raise _unfit(name, f"a parameter has no JSON form: {_first_line(error)}") from error
    properties = schema.setdefault("properties", {})
    for key, value in properties.items():
        if key in described:
            value.setdefault("description", described[key])
    for key, value in schema.get("$defs", {}).items():
        if value.get("title") == key:
            del value["title"]
    return {"type": "object", **schema}


def _unfit(name: str, reason: str) -> BadRequest:
    return BadRequest(f"The function {name} cannot be a tool: {reason}.")


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0].rstrip(".")


def _said_of(name: str, error: ValidationError) -> str:
    """Return what is wrong with arguments, without their values, which may be secret."""
    every = error.errors(include_url=False, include_context=False, include_input=False)
    said = [f"{'.'.join(map(str, each['loc'])) or 'arguments'}: {each['msg']}" for each in every[:_ERRORS_MAX]]
    more = f"; and {len(every) - _ERRORS_MAX} more" if len(every) > _ERRORS_MAX else ""
    return f"Invalid arguments for {name}: {'; '.join(said)}{more}."


def _is_async(function: Callable[..., Any]) -> bool:
    # As the outermost callable is: a decorator may make a function that blocks of one that is async, and the reverse.
    while isinstance(function, partial):
        function = cast("partial[Any]", function).func
    call = getattr(type(function), "__call__", None)  # noqa: B004 - its kind is asked, not whether it is there
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _named(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what a function has its name and docstring from: for a ``partial`` without a name, what it is made of."""
    named: Any = function
    while isinstance(named, partial) and not hasattr(cast("Any", named), "__name__"):
        named = cast("Any", named).func
    return cast("Callable[..., Any]", named)


def _has_own_docstring(function: Callable[..., Any]) -> bool:
    """Return whether its docstring is about it: an object without one has that of its class."""
    return inspect.isroutine(function) or inspect.isclass(function)


def _docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return a docstring without what it says of parameters, and that by parameter."""
    kept: list[str] = []
    described: dict[str, list[str]] = {}
    lines = text.splitlines()
    place = 0
    while place < len(lines):
        line = lines[place]
        following = lines[place + 1].strip() if place + 1 < len(lines) else ""
        if entry := _SPHINX_ENTRY.match(line):
            end = _end_of(lines, place + 1, indent=1)
            if entry[1] != "type":
                described[entry[2]] = [entry[3], *lines[place + 1 : end]]
            place = end
        elif _GOOGLE_PARAMETERS.fullmatch(line.strip()) and not _indent(line) and _indent_after(lines, place) > 0:
            end = _end_of(lines, place + 1, indent=1)
            _take_entries(lines[place + 1 : end], _GOOGLE_ENTRY, described)
            place = end
        elif _NUMPY_PARAMETERS.fullmatch(line) and _NUMPY_LINE.fullmatch(following):
            end = _end_of_numpy(lines, place + 2)
            _take_entries(lines[place + 2 : end], _NUMPY_ENTRY, described)
            place = end
        else:
            kept.append(line)
            place += 1
    shown = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
    return shown, {name: " ".join(" ".join(said).split()) for name, said in described.items() if any(said)}


def _take_entries(lines: list[str], form: re.Pattern[str], described: dict[str, list[str]]) -> None:
    """Add the entries of a section: each begins at the least indentation, and goes on in deeper lines."""
    least = min((_indent(line) for line in lines if line.strip()), default=0)
    names: list[str] = []
    for line in lines:
        entry = form.fullmatch(line.strip()) if line.strip() and _indent(line) == least else None
        if entry:
            names = [each.strip() for each in entry[1].split(",")]
            for each in names:
                described[each] = [entry[2]] if form.groups > 1 else []
        elif names:
            for each in names:
                described[each].append(line)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _indent_after(lines: list[str], place: int) -> int:
    """Return the indentation of the next line with text."""
    return next((_indent(line) for line in lines[place + 1 :] if line.strip()), 0)


def _end_of(lines: list[str], start: int, *, indent: int) -> int:
    """Return where the lines that are indented at least so far end."""
    for place in range(start, len(lines)):
        if lines[place].strip() and _indent(lines[place]) < indent:
            return place
    return len(lines)


def _end_of_numpy(lines: list[str], start: int) -> int:
    """Return where the next section with a line under its title begins."""
    for place in range(start, len(lines) - 1):
        if lines[place].strip() and _NUMPY_LINE.fullmatch(lines[place + 1].strip()):
            return place
    return len(lines)

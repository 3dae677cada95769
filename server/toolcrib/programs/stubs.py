"""What the checker of programs knows: the tools that one program names, as declarations of Python."""

import json
import keyword
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.model import JsonObject
from toolcrib.programs.names import CALL, ERROR, PARALLEL, RESULT, SEARCH
from toolcrib.programs.source import AST, bound_name

_LITERALS_MAX = 40
"""Values of an enumeration that are declared; more would cost the checker more than they catch."""
_PARAMETERS_MAX = 100

_SIMPLE = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "object": "dict[str, Any]",
}

_HEAD: Final = f"""from typing import Any, Awaitable, Callable, Iterable, Literal
class {ERROR}(RuntimeError): ...
async def {PARALLEL}(calls: Iterable[Awaitable[Any]], /, *, errors: Literal["raise", "return"] = ...) -> list[Any]: ...
async def {SEARCH}(query: str, /, limit: int = ...) -> list[dict[str, Any]]: ...
async def {RESULT}(handle: str, /) -> str: ...
class _Ast:
    def literal_eval(self, node_or_string: str) -> Any: ...
{AST}: _Ast
def map(function: Callable[..., Any], /, *values: Any) -> Any: ...
def filter(function: Callable[..., Any] | None, values: Any, /) -> Any: ...
def hasattr(value: Any, name: str, /) -> bool: ...
def getattr(value: Any, name: str, default: Any = ..., /) -> Any: ...
def setattr(value: Any, name: str, new: Any, /) -> None: ...
def format(value: Any, spec: str = ..., /) -> str: ...
def callable(value: Any, /) -> bool: ...
class ConnectionError(OSError): ...
class FileExistsError(OSError): ...
class FileNotFoundError(OSError): ...
class IsADirectoryError(OSError): ...
class NotADirectoryError(OSError): ...
class PermissionError(OSError): ...
class ImportError(Exception): ...
class ModuleNotFoundError(ImportError): ...
class UnboundLocalError(NameError): ...
class UnicodeDecodeError(ValueError): ...
class UnicodeEncodeError(ValueError): ...
"""
"""What every program has, and builtins of a worker that its checker does not know."""


def declarations(
    tools: Mapping[str, JsonObject],
    kinds: Mapping[str, Collection[str]],
    literals: Iterable[str],
    *,
    finds_names: bool,
) -> str:
    """Return the declarations for one program, as a stub.

    ``tools`` are the input schemas of the tools that it imports, by the names in its imports, and ``kinds`` the JSON
    types of their results, none for any. ``literals`` are the names that it gives to ``call``. ``finds_names``: it
    calls other names too, which a search in it finds.
    """
    lines = [_HEAD]
    names = sorted(map(json.dumps, literals))
    accepted = "str" if finds_names or not names else f"Literal[{', '.join(names)}]"
    lines.append(f"async def {CALL}(name: {accepted}, arguments: dict[str, Any] = ..., /) -> Any: ...")
    lines += [
        f"async def {bound_name(name)}({_parameters(schema)}) -> {_type({'type': [*kinds.get(name, ())]})}: ..."
        for name, schema in tools.items()
    ]
    return "\n".join(lines) + "\n"


def _parameters(schema: JsonObject) -> str:
    properties = as_object(schema.get("properties"))
    required = as_list(schema.get("required"))
    # What only a combination of schemas says is left to the check at the call.
    is_plain = not {"anyOf", "oneOf", "allOf", "$ref", "if"} & schema.keys() and len(properties) <= _PARAMETERS_MAX
    declared: list[str] = []
    is_open = not is_plain or schema.get("additionalProperties", True) is not False
    for name, each in properties.items() if is_plain else ():
        if not (name.isascii() and name.isidentifier()) or keyword.iskeyword(name):
            is_open = True  # it is passed as f(**{"odd-name": 1})
            continue
        declared.append(f"{name}: {_type(as_object(each))}" + ("" if name in required else " = ..."))
    # A misspelt name is a mistake, even where the schema allows any: hardly a server takes unnamed arguments.
    if properties and is_plain and len(declared) == len(properties):
        is_open = False
    if not declared:
        return "**arguments: Any" if is_open else ""
    return f"*, {', '.join(declared)}" + (", **more: Any" if is_open else "")


def _type(schema: JsonObject) -> str:
    """Return the type of an argument, or of a result; what is nested is checked against the schema at the call."""
    values = as_list(schema.get("enum"))
    if "const" in schema:
        values = [schema["const"]]
    if values:
        is_short = len(values) <= _LITERALS_MAX and all(isinstance(each, str) for each in values)
        return f"Literal[{', '.join(sorted({json.dumps(each) for each in values}))}]" if is_short else "Any"
    kinds = schema.get("type")
    if isinstance(kinds, list):
        found = [_SIMPLE.get(str(kind), "list[Any]" if kind == "array" else "Any") for kind in as_list(kinds)]
        return " | ".join(dict.fromkeys(found)) or "Any"
    if kinds == "array":
        return f"list[{_item(as_object(schema.get('items')))}]"
    return _SIMPLE.get(kinds, "Any") if isinstance(kinds, str) else "Any"


def _item(schema: JsonObject) -> str:
    kind: Any = schema.get("type")
    return _SIMPLE[kind] if isinstance(kind, str) and kind in ("string", "integer", "number", "boolean") else "Any"

"""What a program gives to public methods, looked at where it comes in: whatever is wrong is one kind of error."""

import os
from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

from toolcrib.base.errors import BadRequest
from toolcrib.base.model import SearchType

SearchKind = Literal["fts", "regex", "exact"]
"""How a query is read: as words, as a pattern (RE2), or as a name."""

LIMIT_MAX = 50
"""Maximum number of hits of one search, as in the config (``tool_search.max_limit``)."""


def type_of(value: object) -> str:
    """Return what to call a value in an error: never the value itself, which may be secret."""
    return "None" if value is None else f"of the type {type(value).__name__}"


def search_of(query: object, search_type: object, limit: object) -> tuple[str, SearchType, int]:
    """Return how every search begins: query, type and limit.

    Raises:
        BadRequest: one of them cannot be used.

    """
    wanted = text_of(query, "query").strip()
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise BadRequest(f"'limit' is {type_of(limit)}; it has to be a whole number from 1 to {LIMIT_MAX}.")
    if not 1 <= limit <= LIMIT_MAX:
        raise BadRequest(f"'limit' is {limit}; it has to be from 1 to {LIMIT_MAX}.")
    known = ", ".join(repr(each.value) for each in SearchType)
    if not isinstance(search_type, str) or search_type not in {*SearchType}:
        raise BadRequest(f"'search_type' is {search_type!r}; it has to be one of {known}.")
    return wanted, SearchType(search_type), limit


def text_of(value: object, name: str) -> str:
    """Return a parameter that is a text.

    Raises:
        BadRequest: it is something else.

    """
    if not isinstance(value, str):
        raise BadRequest(f"'{name}' is {type_of(value)}; it has to be a str.")
    return value


def path_of(value: object) -> str | os.PathLike[str]:
    """Return a path of a file.

    Raises:
        BadRequest: it is something else.

    """
    if isinstance(value, str | os.PathLike):
        return cast("str | os.PathLike[str]", value)
    raise BadRequest(f"'path' is {type_of(value)}; it has to be the path of a file.")


def mapping_of(value: object, name: str, what: str) -> Mapping[str, Any]:
    """Return a parameter that is a dictionary by names; ``what`` it has to be.

    Raises:
        BadRequest: it is something else.

    """
    if isinstance(value, Mapping):
        names: list[object] = [*value]
        other = next((key for key in names if not isinstance(key, str)), "")
        if isinstance(other, str):
            return {str(key): value[key] for key in names}
        raise BadRequest(f"A key of '{name}' is {type_of(other)}; it has to be a str.")
    raise BadRequest(f"'{name}' is {type_of(value)}; it has to be {what}.")


def list_of(tools: object, name: str) -> list[Any]:
    """Return a parameter that has tools, one after the other.

    Raises:
        BadRequest: it is no list, such as one tool.

    """
    # A model is iterable too, by its fields.
    is_one = isinstance(tools, str | bytes | Mapping) or hasattr(tools, "model_dump")
    if is_one or not isinstance(tools, Iterable):
        found = type_of(cast("object", tools))
        raise BadRequest(f"'{name}' is {found}; it has to be a list of tools: put it into one, such as [add].")
    return [*cast("Iterable[Any]", tools)]

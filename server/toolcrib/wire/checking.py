"""Arguments of our own tools checked against their models, and the words in which a misfit is told.

Knows pydantic's models and errors; never knows what an argument means.
"""

from typing import Literal, TypeVar

from pydantic import BaseModel, ValidationError

from toolcrib.errors import BadRequest
from toolcrib.model import JsonObject, SearchType

_Model = TypeVar("_Model", bound=BaseModel)

SearchTypeName = Literal["fts", "regex", "exact", "bm25"]
"""What the argument ``search_type`` may be."""


def search_type_of(name: SearchTypeName) -> SearchType:
    """Return how a query is to be read; ``bm25`` is an older word for ``fts`` (R48)."""
    return SearchType.FTS if name == "bm25" else SearchType(name)


def described(kind: str, description: str) -> JsonObject:
    """Return the JSON Schema of a parameter of a simple type."""
    return {"type": kind, "description": description}


def checked(model: type[_Model], arguments: JsonObject) -> _Model:
    """Return the arguments as ``model`` reads them.

    Raises:
        BadRequest: they do not fit; the text names each field, and the parameters there are.

    """
    try:
        return model.model_validate(arguments)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc'])) or 'arguments'}: {problem['msg']}" for problem in error.errors()
        )
        known = ", ".join(model.model_fields)
        raise BadRequest(f"The arguments do not fit: {problems}. Parameters: {known}.") from None

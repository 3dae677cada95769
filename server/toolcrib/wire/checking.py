"""Arguments of our own tools checked against their models, and the words in which a misfit is told.

Knows pydantic's models and errors; never knows what an argument means.
"""

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from toolcrib.errors import BadRequest
from toolcrib.model import JsonObject

_Model = TypeVar("_Model", bound=BaseModel)


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

"""JSON Schemas of parameters and answers that several built-in tools share.

Knows types and their values; never knows which tool has which.
"""

from typing import get_args

from toolcrib.base.model import JsonObject, ScopeMode, SkillOrigin, TaskType

TEXT: JsonObject = {"type": "string"}
TEXTS: JsonObject = {"type": "array", "items": TEXT}
COUNT: JsonObject = {"type": "integer"}
FLAG: JsonObject = {"type": "boolean"}
SCORE: JsonObject = {"type": "number", "minimum": 0, "maximum": 1}
SEARCH_TYPE: JsonObject = {"type": "string", "enum": ["fts", "regex", "exact"]}
CONFIDENCE: JsonObject = {"type": "string", "enum": ["high", "low", "none"]}
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

"""The kinds of values that config sections are made of.

Knows types and bounds that several sections share; never knows a key.
"""

from typing import Annotated, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict

Str = Annotated[str, Strict()]
Bool = Annotated[bool, Strict()]
Count = Annotated[int, Strict(), Field(ge=1)]
Seconds = Annotated[float, Strict(), Field(gt=0)]
Strings = tuple[Str, ...]


def _as_list(value: object) -> object:
    return cast("object", value) if isinstance(value, list | tuple) else (value,)


OneOrMore = Annotated[Strings, BeforeValidator(_as_list, json_schema_input_type=Str | Strings)]
"""A list of texts, which may be written as a single text."""


class Section(BaseModel):
    """Base of all sections: unknown keys are errors, values are frozen, numbers are finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

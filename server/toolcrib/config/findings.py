"""What is wrong, left out or worth saying about a config file, and how pydantic's errors become sentences."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from toolcrib.base.errors import Problem
from toolcrib.base.text import one_line

_REASONS = {
    "missing": "is required",
    "string_type": "must be text",
    "string_unicode": "holds characters that are not Unicode text",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "too_short": "must have at least {min_length} items",
    "too_long": "must have at most {max_length} items",
}
"""Our words for pydantic's error types; the other types speak for themselves."""

_SUBJECTS = ("Input", "String")
"""What pydantic calls a value in its texts."""


_NAMED_MAX = 20
"""Names listed in one text."""


@dataclass(frozen=True, slots=True)
class Skipped(Problem):
    """Why the server ``key`` of a config is left out.

    ``public`` says it to callers, who do not own the config: it quotes nothing of it. Empty where that cannot be said.
    ``is_malformed``: nobody can make a server of the entry as it is written, whatever is set.
    """

    key: str = ""
    public: str = ""
    is_malformed: bool = False


@dataclass(slots=True)
class Findings:
    """All that was found: ``problems`` forbid a start, ``skipped`` are servers left out, ``notices`` are warnings."""

    problems: list[Problem] = field(default_factory=list[Problem])
    skipped: list[Skipped] = field(default_factory=list[Skipped])
    notices: list[Problem] = field(default_factory=list[Problem])


def join(path: str, *keys: str | int) -> str:
    """Return the dotted path of what stands under ``keys`` below ``path``: ``a.b[0]``."""
    for key in keys:
        name = f"[{key}]" if isinstance(key, int) else one_line(key) or '""'
        path = f"{path}{name}" if isinstance(key, int) or not path else f"{path}.{name}"
    return path


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint that names the known name nearest to ``name``, or all of them where none is near."""
    names = sorted({*known})
    near = _near(name, names)
    if near:
        return near
    return f"known: {', '.join(map(one_line, names[:_NAMED_MAX]))}" if names else ""


def _near(name: str, known: Iterable[str]) -> str:
    nearest = get_close_matches(name, sorted(known), n=1)
    return f"did you mean {one_line(nearest[0])}?" if nearest else ""


def near_keys(keys: Iterable[str], known: Iterable[str], meanings: Mapping[str, str]) -> str:
    """Return a hint about those of ``keys`` that are nearly a known one; ``meanings`` says it better of some."""
    names = set(known)
    unknown = [key for key in keys if key not in names]
    hints = ((key, meanings[key] if key in meanings else _near(key, names)) for key in unknown)
    return "; ".join(f"{one_line(key)}: {hint}" for key, hint in hints if hint)


def ignored_keys(
    path: str, keys: Iterable[str], known: Iterable[str], meanings: Mapping[str, str] = MappingProxyType({})
) -> list[Problem]:
    """Return a notice about the ``keys`` of an object that toolcrib does not read, if there are any.

    It is about a mistake where one of them is nearly a known key, or ``meanings`` says what to write instead.
    """
    names = set(known)
    ignored = [key for key in keys if key not in names]
    if not ignored:
        return []
    listed = ", ".join(one_line(key) for key in ignored[:_NAMED_MAX])
    more = f" and {len(ignored) - _NAMED_MAX} more" if len(ignored) > _NAMED_MAX else ""
    hint = near_keys(ignored, names, meanings)
    return [Problem(path, f"toolcrib does not read {listed}{more}", hint, is_mistake=bool(hint))]


def validation_problems(error: ValidationError, model: type[BaseModel], path: str) -> list[Problem]:
    """Return what pydantic found wrong with the value at ``path``, in our words and without the value."""
    problems: list[Problem] = []
    for item in error.errors(include_url=False, include_input=False):
        # pydantic marks an error about a key of a dict by this pseudo-element.
        where = tuple(key for key in item["loc"] if key != "[key]")
        if item["type"] == "extra_forbidden":
            known = _model_at(model, where[:-1]).model_fields
            problems.append(Problem(join(path, *where), "is not a known key", did_you_mean(str(where[-1]), known)))
        else:
            problems.append(Problem(join(path, *where), reason_of(item)))
    return problems


def reason_of(item: Mapping[str, Any]) -> str:
    """Return what one of pydantic's errors says is wrong with a value, without types of Python."""
    # Never pydantic's own rendering of all: it quotes the value, which may be a secret.
    if item["type"] in _REASONS:
        return _REASONS[item["type"]].format(**item.get("ctx", {}))
    subject, should, rest = item["msg"].partition(" should ")
    return f"must {rest}" if should and subject in _SUBJECTS else item["msg"]


def _model_at(model: type[BaseModel], where: tuple[str | int, ...]) -> type[BaseModel]:
    for key in where:
        if key in model.model_fields:
            model = _model_in(model.model_fields[str(key)].annotation) or model
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model that an annotation such as ``dict[str, tuple[Model, ...]]`` is about, if any."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)

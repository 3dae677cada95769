"""The findings of the worker's type checker that are certain mistakes, worded for whoever wrote the program."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.model import JsonObject
from toolcrib.base.text import one_line, truncate
from toolcrib.programs.dialect import Finding
from toolcrib.programs.names import CALL
from toolcrib.programs.source import Source

_QUOTED = re.compile(r"`([^`]*)`")
_OF_OURS = re.compile(r"function `(?:tool_(\w+)|(call|parallel|search|result))`")
_OURS_TAKEN = re.compile(r"`def (?:call|parallel|search|result)\(")
"""What is said where a program gives one of our names to a value of its own, which it may."""
_AS_OTHER = re.compile(r"Object of type `str` has no attribute `(\w+)`|.* on (?:an )?object of type `str`", re.DOTALL)
"""What is said where a text is used as if it were a dict or a list."""
_NOTE_MAX = 160
_NOTES_MAX = 3


@dataclass(frozen=True, slots=True)
class _Diagnostic:
    """One diagnostic of the checker; ``names`` are what it quotes."""

    rule: str
    line: int
    message: str

    @property
    def names(self) -> list[str]:
        return _QUOTED.findall(self.message)


def judged(
    rendered: str, source: Source, schemas: Mapping[str, JsonObject], texts: AbstractSet[str]
) -> tuple[list[Finding], list[str]]:
    """Return what must not run of what the checker says, and the rest as notes to show beside a failure.

    ``rendered`` is its JSON; ``schemas`` are the input schemas of the imported tools, by the names in imports, and
    ``texts`` those of them that return texts.
    """
    findings: list[Finding] = []
    notes: list[str] = []
    said = _parsed(rendered)
    positional = {each.line for each in said if each.rule == "too-many-positional-arguments"}
    for each in said:
        if each.rule == "missing-argument" and each.line in positional:
            continue  # it is there, without its name
        finding = _of_text(each, source, texts) or _refusal(each, source, schemas)
        if finding is not None:
            findings.append(finding)
        elif not (_is_of_spread(each, source) or _OURS_TAKEN.search(each.message)):
            notes.append(truncate(one_line(f"line {each.line}: {each.message}"), _NOTE_MAX))
    return findings, list(dict.fromkeys(notes))[:_NOTES_MAX]


def _parsed(rendered: str) -> list[_Diagnostic]:
    try:
        said: Any = json.loads(rendered)
    except ValueError:
        return []
    found: list[_Diagnostic] = []
    for each in map(as_object, as_list(said)):
        line = as_object(each.get("location")).get("row")
        found.append(_Diagnostic(str(each.get("code")), line if isinstance(line, int) else 0, str(each.get("message"))))
    return found


def _of_text(said: _Diagnostic, source: Source, texts: AbstractSet[str]) -> Finding | None:
    """Return a finding if what a tool is declared to return as a text is used as something else."""
    match = _AS_OTHER.fullmatch(said.message)
    if match is None:
        return None
    for use in source.uses:
        is_said = use.is_key if match[1] is None else match[1] == use.member
        if is_said and said.line in use.lines and use.tools <= texts:
            return Finding(said.line, f"this is a str, which has no {use.member}: {_instead_of(use.member)}")
    return None


def _instead_of(member: str) -> str:
    if member in ("text", "content", "stdout", "output"):
        return "it is the text itself"
    return "read it first, with json.loads if it is JSON"


def _refusal(said: _Diagnostic, source: Source, schemas: Mapping[str, JsonObject]) -> Finding | None:
    """Return a finding if what the checker says is a mistake for sure.

    What it infers of values alone is none: most of what it would refuse so, of programs that models write, runs.
    """
    if said.rule == "unused-awaitable" or "`CoroutineType[" in said.message:
        return Finding(said.line, "await is missing: a tool is called with await server__tool(...)")
    word = _WORDINGS.get(said.rule)
    return word(said, source, schemas) if word else None


def _unknown_name(said: _Diagnostic, source: Source, _schemas: Mapping[str, JsonObject]) -> Finding | None:
    name = said.names[0] if said.names else ""
    near = get_close_matches(name, [*source.imported, CALL], 1)
    hint = f": did you mean {near[0]}?" if near else ""
    if not hint and "__" in name:
        hint = f": import it with from tools import {name}"
    return Finding(said.line, f"the name {name} is not defined{hint}")


def _no_member(said: _Diagnostic, _source: Source, _schemas: Mapping[str, JsonObject]) -> Finding | None:
    # Of values a guess, of modules a fact.
    return Finding(said.line, f"{said.message} here") if said.message.startswith("Module `") else None


def _argument(said: _Diagnostic, source: Source, schemas: Mapping[str, JsonObject]) -> Finding | None:
    ours = _OF_OURS.search(said.message)
    if ours is None or _is_of_spread(said, source):
        return None
    if said.rule == "invalid-argument-type" and _may_fit(*said.names[1:]):
        return None
    name = ours[1] or ours[2]
    parameters = list(as_object(schemas.get(name, {}).get("properties")))
    return Finding(said.line, _ARGUMENT_WORDINGS[said.rule](said, name, parameters))


def _unknown_argument(said: _Diagnostic, tool: str, parameters: Sequence[str]) -> str:
    given = said.names[0]
    near = get_close_matches(given, parameters, 1)
    return f"{tool} has no argument {given}" + (
        f": did you mean {near[0]}?" if near else f"; it has {', '.join(parameters[:12])}"
    )


def _missing_argument(said: _Diagnostic, tool: str, _parameters: Sequence[str]) -> str:
    return f"{tool} needs {' and '.join(said.names[:-1])}"


def _wrong_argument(said: _Diagnostic, tool: str, _parameters: Sequence[str]) -> str:
    expected, found = (*said.names[1:], "", "")[:2]
    return f"{tool} takes {expected}, not {found}"


def _positional(_said: _Diagnostic, tool: str, parameters: Sequence[str]) -> str:
    return f"{tool} takes arguments by name: {tool}({', '.join(f'{each}=…' for each in parameters[:6])})"


def _may_fit(expected: str = "", found: str = "", *_more: str) -> bool:
    """Return whether an argument may be right all the same, when the call is made."""
    # One of several types; a text, which is read as what is asked for when the call is made; a whole number.
    return "|" in found or not found.startswith(_CERTAIN) or (found == "float" and expected == "int")


def _is_of_spread(said: _Diagnostic, source: Source) -> bool:
    return said.line in source.spread and said.rule in _ARGUMENT_WORDINGS


_CERTAIN = ("int", "float", "bool", "None", "Literal[", "list[", "dict[", "CoroutineType[")

_ARGUMENT_WORDINGS: Mapping[str, Callable[[_Diagnostic, str, Sequence[str]], str]] = {
    "unknown-argument": _unknown_argument,
    "missing-argument": _missing_argument,
    "invalid-argument-type": _wrong_argument,
    "too-many-positional-arguments": _positional,
}

_WORDINGS: Mapping[str, Callable[[_Diagnostic, Source, Mapping[str, JsonObject]], Finding | None]] = {
    "unresolved-reference": _unknown_name,
    "unresolved-attribute": _no_member,
    "unresolved-import": lambda said, _source, _schemas: Finding(said.line, f"{said.message} here"),
    "invalid-syntax": lambda said, _source, _schemas: Finding(said.line, f"this is not Python: {said.message}"),
    **dict.fromkeys(_ARGUMENT_WORDINGS, _argument),
}
"""The rules of the checker that refuse a program, and how each is worded."""

"""Splits a Markdown file into frontmatter and body; the frontmatter is parsed as YAML, or repaired if that fails."""

import json
import re
from dataclasses import dataclass, field, replace
from typing import Any, cast

from toolcrib.base.json_values import ObjectWithRepeats, levels
from toolcrib.base.model import JsonObject, SkillProblem
from toolcrib.base.text import sanitize
from toolcrib.base.yaml import YamlError, parse_yaml

FRONTMATTER_MAX = 32 * 1024
"""Maximum length of a frontmatter in characters."""

MENDED = frozenset(("frontmatter-late", "frontmatter-unclosed", "yaml-quoted", "yaml-scanned", "field-repeated"))
"""Codes of problems because of which other programs find different fields in the same file, or none."""

_BOM = "\ufeff"
_NAMED_MAX = 5

_OPENING = re.compile(r"((?:[ \t]*\n)*)---[ \t]*(?:\n|\Z)")
_CLOSING = re.compile(r"^---[ \t]*$", re.MULTILINE)
# A line that may belong to the fields at the top: a field, an indented line, or a list item.
_LEADING = re.compile(r"[\w\"'.-]+[ \t]*:(?:[ \t]|\Z)|[ \t]+\S|-[ \t]")
_ENTRY = re.compile(r"([ \t]*(?:-[ \t]+)?[\w\"'.-]+[ \t]*:[ \t]+|[ \t]*-[ \t]+)(\S.*)\Z")
_BLOCK_HEAD = re.compile(r"[|>][-+0-9]{0,2}[ \t]*(?:#.*)?\Z")
_QUOTED = re.compile(r"(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*')[ \t]*(?:#.*)?\Z")
# What YAML does not allow at the start of an unquoted value (YAML 1.2.2, 7.3.3).
_NO_PLAIN_START = re.compile(r"[`@%&*!|>,\]}]|[-?:](?:[ \t]|\Z)")
# Inside an unquoted value YAML takes this for the start of a mapping.
_COLON = re.compile(r":(?:[ \t]|\Z)")
_FIELD = re.compile(r"[\"']?([A-Za-z_][\w.-]*)[\"']?[ \t]*:(?:[ \t]+(.*))?\Z")


class UnreadableText(ValueError):
    """A file that is not text; ``code`` is stable, ``line`` counts from 1, 0 means the whole file."""

    def __init__(self, code: str, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.line = line


@dataclass(frozen=True, slots=True)
class Front:
    """A file split in two. ``yaml`` is None if there is no frontmatter; the first line of each part counts from 1."""

    yaml: str | None
    yaml_line: int
    body: str
    body_line: int
    problems: tuple[SkillProblem, ...]


@dataclass(frozen=True, slots=True)
class Fields:
    """The content of a frontmatter. ``values`` is None if it cannot be read; there is one error then."""

    values: JsonObject | None
    body: str
    body_line: int
    problems: tuple[SkillProblem, ...]


def decode(raw: bytes, max_bytes: int) -> str:
    """Return the text of a file.

    Raises:
        UnreadableText: too large, empty, not UTF-8, or with a NUL.

    """
    if len(raw) > max_bytes:
        raise UnreadableText("file-too-large", f"is larger than {max_bytes:,} bytes; shorten it or split it into files")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UnreadableText(
            "file-not-utf8", f"is not UTF-8 text at byte {error.start + 1:,}; save it as UTF-8", line
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise UnreadableText("file-with-nul", "holds a NUL character; save it as UTF-8 text", line)
    if not text.strip(_BOM + " \t\r\n"):
        raise UnreadableText("file-empty", "is empty")
    return text


def split(text: str, *, path: str) -> Front:
    """Return the frontmatter and the body of a text. From here on every line ends in a single newline."""
    problems: list[SkillProblem] = []
    if text.startswith(_BOM):
        problems.append(SkillProblem(path, 1, "info", "file-with-bom", "begins with a byte order mark"))
        text = text.lstrip(_BOM)
    if "\r" in text:
        problems.append(SkillProblem(path, 1, "info", "file-with-crlf", "has lines that end in a carriage return"))
        # The patterns here, and line counting, recognize newlines only.
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    opening = _OPENING.match(text)
    if opening is None:
        return Front(None, 0, text, 1, tuple(problems))
    first = opening[1].count("\n") + 2
    if opening[1]:
        reason = "blank lines stand before the frontmatter; begin the file with ---"
        problems.append(SkillProblem(path, 1, "warning", "frontmatter-late", reason))
    closing = _CLOSING.search(text, opening.end())
    if closing is None:
        return _unclosed(text[opening.end() :], first, path, problems)
    yaml = text[opening.end() : closing.start()]
    body = text[closing.end() + 1 :]
    return Front(yaml, first, body, first + yaml.count("\n") + 1, tuple(problems))


def _unclosed(rest: str, first: int, path: str, problems: list[SkillProblem]) -> Front:
    """Return the lines that look like YAML as the frontmatter, and everything else as the body."""
    yaml, body = _leading(rest)
    reason = "the frontmatter has no closing ---; the lines that look like its fields are used"
    problems.append(SkillProblem(path, first - 1, "warning", "frontmatter-unclosed", reason))
    return Front(yaml, first, body, first + yaml.count("\n"), tuple(problems))


def _leading(text: str) -> tuple[str, str]:
    lines = text.split("\n")
    end = next((number for number, line in enumerate(lines) if not _LEADING.match(line)), len(lines))
    return "".join(line + "\n" for line in lines[:end]), "\n".join(lines[end:])


def read_frontmatter(text: str, *, path: str) -> Fields:
    """Return the fields and the body of a text; ``path`` is the path in problems.

    Invalid YAML is repaired in up to three steps, each reported as a warning: values that need quotes are quoted; the
    frontmatter is ended after its last field; the fields are parsed line by line.
    """
    front = split(text, path=path)
    if front.yaml is None:
        reason = "has no frontmatter; begin the file with a block between --- lines that has name and description"
        return _unreadable(front, SkillProblem(path, 1, "error", "frontmatter-missing", reason))
    if len(front.yaml) > FRONTMATTER_MAX:
        reason = f"the frontmatter is longer than {FRONTMATTER_MAX:,} characters; move text below its closing ---"
        return _unreadable(front, SkillProblem(path, front.yaml_line, "error", "frontmatter-too-large", reason))
    try:
        return _fields(front, _parse(front.yaml, front.yaml_line), path)
    except YamlError as error:
        return _mended(front, error, path)


def _unreadable(front: Front, problem: SkillProblem) -> Fields:
    return Fields(None, front.body, front.body_line, (*front.problems, problem))


def _parse(yaml: str, line: int) -> Any:
    # The newlines align the parser's line numbers with the file. Hosts use the core schema of YAML 1.2, and compare
    # their result with ours (SEP-2640).
    return parse_yaml("\n" * (line - 1) + yaml, core=True)


def _fields(front: Front, value: Any, path: str, *more: SkillProblem) -> Fields:
    if not isinstance(value, dict):
        reason = "the frontmatter is not a list of fields such as 'name: my-skill'"
        return _unreadable(front, SkillProblem(path, front.yaml_line, "error", "frontmatter-not-fields", reason))
    repeated = [
        key for level in levels(value) for each in level if isinstance(each, ObjectWithRepeats) for key in each.repeated
    ]
    if repeated:
        names = ", ".join(sanitize(key[:64]) for key in repeated[:_NAMED_MAX])
        reason = f"given more than once: {names}; the last one counts"
        more = (*more, SkillProblem(path, front.yaml_line, "warning", "field-repeated", reason))
    return Fields(cast("JsonObject", value), front.body, front.body_line, (*front.problems, *more))


def _mended(front: Front, error: YamlError, path: str) -> Fields:
    reason = f"the frontmatter {error}"

    def warning(code: str, remedy: str) -> SkillProblem:
        return SkillProblem(path, error.line, "warning", code, f"{reason}; {remedy}")

    # The mildest repair first: each further one changes more of what the author wrote.
    for cut, told in (
        (front, warning("yaml-quoted", "values were read as if quoted")),
        (_ended(front), warning("frontmatter-unclosed", "it was assumed to end where its fields end")),
    ):
        try:
            return _fields(cut, _parse(_with_quotes(cut.yaml or ""), cut.yaml_line), path, told)
        except YamlError:
            continue
    scanned = _scan(front.yaml or "")
    if not scanned:
        return _unreadable(front, SkillProblem(path, error.line, "error", "frontmatter-unreadable", reason))
    return _fields(front, scanned, path, warning("yaml-scanned", "its fields were read line by line"))


def _ended(front: Front) -> Front:
    """Return the file with its frontmatter ended earlier, if the closing line looks like a rule in the body."""
    head, tail = _leading(front.yaml or "")
    # Only if a blank line or a heading follows the fields can the closing --- be a rule in the body.
    if not head or tail[:1] not in ("\n", "#"):
        return front
    return replace(front, yaml=head, body=f"{tail}---\n{front.body}", body_line=front.yaml_line + head.count("\n"))


# -- quoting values that YAML would misread ------------------------------------------------------


def _with_quotes(yaml: str) -> str:
    """Return ``yaml`` with values quoted that YAML would misread, and without tabs and hidden characters."""
    lines = [_without_tabs(line) for line in sanitize(yaml).split("\n")]
    made: list[str] = []
    at = 0
    while at < len(lines):
        entry = _ENTRY.match(lines[at])
        if entry is None:
            made.append(lines[at])
            at += 1
            continue
        end = _deeper(lines, at)
        if _BLOCK_HEAD.match(entry[2]):
            made += lines[at:end]
        else:
            # YAML also folds an unquoted value into one line.
            value = " ".join([entry[2].rstrip(), *(line.strip() for line in lines[at + 1 : end])])
            made.append(entry[1] + (json.dumps(value, ensure_ascii=False) if _needs_quotes(value) else value))
        at = end
    return "\n".join(made)


def _without_tabs(line: str) -> str:
    # YAML forbids tabs in indentation.
    return line.replace("\t", "  ")


def _deeper(lines: list[str], at: int) -> int:
    """Return the line after those that continue the value at this line: blank ones, and more deeply indented ones."""
    own, end = _indent(lines[at]), at + 1
    for number in range(at + 1, len(lines)):
        if lines[number].strip():
            if _indent(lines[number]) <= own:
                break
            end = number + 1
    return end


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _needs_quotes(value: str) -> bool:
    first = value[0]
    if first in "\"'":
        return not _QUOTED.match(value)
    if first in "[{":
        return not _is_one_flow(value)
    return bool(_NO_PLAIN_START.match(value) or _COLON.search(value))


def _is_one_flow(value: str) -> bool:
    """Return whether the opening bracket is closed by the last one: "[Draft] Takes notes" is text."""
    depth = 0
    for number, char in enumerate(value):
        depth += (char in "[{") - (char in "]}")
        if depth == 0:
            return number == len(value) - 1
    return False


# -- line by line --------------------------------------------------------------------------------


@dataclass(slots=True)
class _Found:
    first: str
    more: list[str] = field(default_factory=list[str])

    def value(self) -> Any:
        """Return a list if every line has a dash, else one text."""
        if not self.first and self.more and all(line.startswith("- ") for line in self.more):
            return [_unquoted(line[2:].strip()) for line in self.more]
        parts = self.more if _BLOCK_HEAD.match(self.first) else [self.first, *self.more]
        text = _unquoted(" ".join(filter(None, parts)))
        return {"true": True, "false": False}.get(text, text)


def _scan(yaml: str) -> JsonObject:
    """Return the fields that begin a line, each with the lines up to the next field."""
    found: dict[str, _Found] = {}
    last: _Found | None = None
    for line in sanitize(yaml).split("\n"):
        named = _FIELD.match(line)
        if named:
            last = found[named[1]] = _Found((named[2] or "").strip())
        elif last is not None and line.strip():
            last.more.append(line.strip())
    return {name: each.value() for name, each in found.items()}


def _unquoted(text: str) -> str:
    return text.strip("\"'") if text[:1] in ("'", '"') else text

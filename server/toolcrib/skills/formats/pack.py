"""Reads the files of packs, and writes a pack's skill as the ``SKILL.md`` that it is published as (C8)."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, cast

from toolcrib.base.json_values import DEPTH_MAX, ObjectWithRepeats, as_list, json_type, levels, object_of
from toolcrib.base.markdown import ITEMS, STEPS_MAX, Kind, outline, plain_title
from toolcrib.base.model import JsonObject, SkillProblem, SkillText, TaskType
from toolcrib.base.text import one_line, sanitize, truncate
from toolcrib.base.yaml import YamlError, parse_yaml
from toolcrib.skills.formats.agent_skill import DESCRIPTION_MAX, TEXT_MAX_BYTES, Reading
from toolcrib.skills.formats.fields import facts
from toolcrib.skills.formats.frontmatter import UnreadableText, decode, read_frontmatter
from toolcrib.skills.identity import PACK_FILES, content_hash, slug

PackFormat = Literal["md", "yaml", "json", "jsonl"]

_JSON_SPACE = " \t\r\n"
"""JSON's whitespace (RFC 8259, section 2); other spaces make a line that is not JSON, which is reported."""

LINES_MAX = 10_000
"""Maximum number of lines read of one JSON Lines file."""
NAME_MAX = 200
"""Maximum length of a skill's name in characters."""
PROBLEMS_MAX = 100
"""Maximum number of reported problems per file, most severe first."""

_LEVELS = ("error", "warning", "info")
_LISTS = ("tags", "preconditions", "failure_modes")
_FIELD_MISSING = {"trigger": "trigger-missing", "steps": "steps-missing"}
"""The problem reported if one of the two fields is missing."""
_TOO_DEEP = "nested too deeply"


class PackFile(NamedTuple):
    """The content of one pack file: its skills, problems, and the line of each skill by name (0: the whole file)."""

    skills: list[SkillText]
    problems: list[SkillProblem]
    lines: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Entry:
    """One unvalidated skill of a file. ``line`` counts from 1; 0: the whole file is this skill."""

    values: JsonObject
    body: str = ""
    line: int = 0


def pack_format(path: str) -> PackFormat | None:
    """Return the format of a pack file by its name (R109); None if the name does not tell."""
    for format_, endings in PACK_FILES.items():
        if path.lower().endswith(endings):
            return cast("PackFormat", format_)
    return None


def read_pack_file(
    raw: bytes,
    *,
    path: str,
    pack: str,
    format: PackFormat | None = None,  # noqa: A002 - the config's word
    max_bytes: int = TEXT_MAX_BYTES,
) -> PackFile:
    """Return the skills of one file and all its problems; ``path`` is the path in problems (R108-R118).

    A skill needs a trigger and steps, unless it has a description with ``capabilities`` or ``workDirection``, as skills
    of another program have. The default name is ``pack.PACK.FILE``, in JSON Lines with the line number, which is stable
    across runs (R111). An error excludes one skill, never the others. ``format`` None: by the file's name.
    """
    try:
        text = decode(raw, max_bytes)
    except UnreadableText as error:
        return PackFile([], [SkillProblem(path, error.line, "error", error.code, str(error))], {})
    reader = _Reader(path, pack)
    reader.read(text.removeprefix("\ufeff"), format or pack_format(path))
    return PackFile(list(reader.skills.values()), reader.told(), reader.lines)


class _Reader:
    """Parses one file into skills by name, and collects its problems."""

    def __init__(self, path: str, pack: str) -> None:
        self.skills: dict[str, SkillText] = {}
        self._path = path
        self._stem = f"pack.{pack}.{slug(_stem(path))}"
        self.lines: dict[str, int] = {}
        self._problems: list[SkillProblem] = []

    def told(self) -> list[SkillProblem]:
        """Return the problems, most severe first; if they are too many, the last one says how many more there are."""
        every = sorted(self._problems, key=lambda problem: _LEVELS.index(problem.level))
        if len(every) <= PROBLEMS_MAX:
            return every
        left = every[PROBLEMS_MAX - 1 :]
        more = SkillProblem(
            self._path, 0, left[0].level, "more-problems", f"has {len(left):,} more problems like these"
        )
        return [*every[: PROBLEMS_MAX - 1], more]

    def read(self, text: str, kind: PackFormat | None) -> None:
        """Parse the whole text of the file."""
        if kind == "md":
            self._read_markdown(text)
        elif kind == "jsonl":
            # Not splitlines(): a JSON string may contain U+2028 and other characters that it would split at.
            self._read_lines(text.split("\n"))
        elif kind is not None:
            self._read_document(text, 0, is_yaml=kind == "yaml")
        else:
            endings = ", ".join(f"*{ending}" for known in PACK_FILES.values() for ending in known)
            self._report("error", "no-format", f"has an unknown suffix; known are {endings}")

    def _read_markdown(self, text: str) -> None:
        fields = read_frontmatter(text, path=self._path)
        self._problems += fields.problems
        if fields.values is not None:
            self._add(_Entry(fields.values, fields.body))

    def _read_lines(self, lines: list[str]) -> None:
        for number, line in enumerate(lines[:LINES_MAX], 1):
            if line.strip(_JSON_SPACE):
                self._read_document(line, number, is_yaml=False)
        if len(lines) > LINES_MAX and any(line.strip(_JSON_SPACE) for line in lines[LINES_MAX:]):
            self._report(
                "error", "too-many-lines", f"has more than {LINES_MAX:,} lines; the rest is not read", LINES_MAX
            )

    def _read_document(self, text: str, line: int, *, is_yaml: bool) -> None:
        """Parse one YAML or JSON object that is a skill."""
        try:
            value = parse_yaml(text, core=True) if is_yaml else _parse_json(text)
        except YamlError as error:
            self._report("error", "yaml-error", str(error), error.line)
        except json.JSONDecodeError as error:
            where = f"is not JSON: {error.msg} at column {error.colno}"
            self._report("error", "json-error", where, line or error.lineno)
        except ValueError as error:
            self._report("error", "json-error", f"is not JSON: {error}", line)
        else:
            if isinstance(value, dict):
                self._add(_Entry(cast("JsonObject", value), line=line))
            else:
                hint = "; for several skills in one file, write one object per line in *.skill.jsonl"
                self._report("error", "not-an-object", f"is not one object of a skill's fields{hint}", line)

    def _add(self, entry: _Entry) -> None:
        """Add the skill of ``entry``, or report everything that excludes it."""
        body_steps = _steps_of(entry.body)
        name = entry.values.get("name") or (f"{self._stem}-{entry.line}" if entry.line else self._stem)
        defects = [*_name_defects(name), *_trigger_defects(entry.values), *_steps_defects(entry.values, body_steps)]
        if _is_described(entry.values):
            missing = {_FIELD_MISSING[field] for field in _FIELD_MISSING if field not in entry.values}
            defects = [defect for defect in defects if defect[0] not in missing]
        if not defects and name in self.skills:
            defects = [("name-twice", f"name '{name}' is that of line {self.lines[name]}; a pack has each name once")]
        for code, message in defects:
            self._report("error", code, message, entry.line)
        if defects:
            return
        reading = Reading(entry.values, self._path)
        text = reading.text(sanitize(entry.body).strip("\n"), name)
        # Parsing falls back to headings, which are not steps in a pack. The hash covers the steps, so it is recomputed.
        if not entry.values.get("steps"):
            text = replace(text, steps=body_steps)
            text = replace(text, content_hash=content_hash(text))
        self.skills[name] = text
        self.lines[name] = entry.line
        self._problems += (replace(problem, line=entry.line) for problem in reading.problems)
        self._remark(entry, text)

    def _remark(self, entry: _Entry, text: SkillText) -> None:
        """Report minor problems: repeated fields, fields of a wrong type, missing recommended ones."""
        values = entry.values
        # In Markdown, the frontmatter reader has already reported repeated fields.
        if isinstance(values, ObjectWithRepeats) and not entry.body:
            names = truncate(one_line(", ".join(values.repeated)), NAME_MAX)
            self._report("warning", "field-repeated", f"given more than once: {names}; the last one counts", entry.line)
        for key in _LISTS:
            if not _is_text_or_texts(values.get(key, [])):
                self._report("warning", "field-invalid", f"{key} must be a list of texts", entry.line)
        missing = ", ".join(key for key, value in _recommended(text) if not value and key not in values)
        if missing:
            self._report("info", "recommended-missing", f"is found and used better with {missing}", entry.line)

    def _report(self, level: Literal["error", "warning", "info"], code: str, message: str, line: int = 0) -> None:
        self._problems.append(SkillProblem(self._path, line, level, code, message))


def _parse_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: not JSON, or nested too deeply.

    """
    try:
        # Python's decoder accepts NaN and Infinity, which JSON does not allow.
        value = json.loads(text, object_pairs_hook=object_of, parse_constant=_refuse)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    # What the decoder accepts may still be too deep for recursive code.
    if any(depth > DEPTH_MAX for depth, _ in enumerate(levels(value), 1)):
        raise ValueError(_TOO_DEEP)
    return value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number")


def _recommended(text: SkillText) -> tuple[tuple[str, object], ...]:
    """Return the recommended fields (R115); preconditions are not among them, because many skills need none."""
    known_type = text.task_type is not TaskType.UNKNOWN
    return ("title", text.title), ("task_type", known_type), ("tags", text.tags), ("failure_modes", text.failure_modes)


def _stem(path: str) -> str:
    """Return the name of a file without its folders and without the suffix of its format."""
    name = path.rpartition("/")[2]
    known = (ending for endings in PACK_FILES.values() for ending in endings if name.lower().endswith(ending))
    # Without a known suffix the slice would be [:-0], which is empty.
    return name[: -len(next(known, "")) or None]


def _steps_of(body: str) -> tuple[str, ...]:
    """Return the list items under ``## Steps``, else every numbered item; headings alone are not steps."""
    blocks = outline(body)
    listed = [block.title for block in blocks.section(("steps",)) if block.kind in ITEMS]
    found = listed or [block.title for block in blocks.blocks if block.kind is Kind.STEP]
    return tuple(filter(None, found))[:STEPS_MAX]


def _name_defects(name: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(name, str) or not 0 < len(name) <= NAME_MAX or one_line(name) != name:
        yield "name-invalid", f"name must be one line of text, at most {NAME_MAX} characters; leave it out to get one"


def _is_described(values: JsonObject) -> bool:
    """Return whether the skill has the form that describes capabilities instead of a trigger and steps (R256)."""
    has_form = any(values.get(name) for name in ("workDirection", "capabilities"))
    return has_form and _is_said(values.get("description"))


def _trigger_defects(values: JsonObject) -> Iterator[tuple[str, str]]:
    trigger = values.get("trigger")
    if not isinstance(trigger, str) or not one_line(trigger):
        yield "trigger-missing", "has no trigger: say in one text when to use the skill, in words that a user would say"


def _steps_defects(values: JsonObject, body_steps: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    steps = values.get("steps") or list(body_steps)
    if not isinstance(steps, list) or not steps:
        yield "steps-missing", "has no steps: list them as texts in 'steps', or in Markdown as a numbered list"
        return
    every = cast("list[Any]", steps)
    wrong = next((number for number, step in enumerate(every, 1) if not _is_said(step)), 0)
    if wrong:
        kind = json_type(every[wrong - 1])
        said = "is blank" if kind == "string" else f"is of type {kind}; a text that has a colon needs quotes in YAML"
        yield "steps-missing", f"steps must be texts, and number {wrong} {said}"
    elif len(every) > STEPS_MAX:
        yield "steps-too-many", f"has {len(every):,} steps; at most {STEPS_MAX} are read, so make several skills of it"


def _is_said(value: Any) -> bool:
    return isinstance(value, str) and bool(one_line(value))


def _is_text_or_texts(value: Any) -> bool:
    return value is None or isinstance(value, str) or (isinstance(value, list) and all(map(_is_said, as_list(value))))


def skill_markdown(text: SkillText, slug: str) -> str:
    """Return the whole file, valid in the Agent Skills format in a folder named ``slug``.

    The skill's own name is under ``metadata``. Tools that it merely notes are omitted: which may be named depends on
    the reader.
    """
    fields = [
        f"name: {_quoted(slug)}",
        f"description: {_quoted(_description(text))}",
        "metadata:",
        f"  toolcrib-name: {_quoted(text.name)}",
    ]
    body = "\n\n".join(filter(None, [skill_body(text), "\n".join(facts(text.frontmatter))]))
    return "\n".join(["---", *fields, "---", "", body, ""])


def skill_body(text: SkillText) -> str:
    """Return the content of a skill as Markdown: its own body, and the parts that the body does not contain."""
    body = text.body.strip()
    parts = [f"# {one_line(text.title)}"] if text.title and not body.startswith("# ") else []
    parts += [body] if body else []
    for heading, items, marker in (
        ("Preconditions", text.preconditions, "-"),
        ("Steps", text.steps, "{}."),
        ("Failure modes", text.failure_modes, "-"),
    ):
        if items and not _says(body, items):
            lines = [f"{marker.format(number)} {one_line(item)}" for number, item in enumerate(items, 1)]
            parts += [f"## {heading}", "\n".join(lines)]
    return "\n\n".join(parts)


def _description(text: SkillText) -> str:
    """Return the purpose of the skill and when to use it, on one line."""
    # SKILL.md has no field for a trigger: the description covers both purpose and trigger.
    trigger, about = one_line(text.trigger), one_line(text.description or text.title)
    if trigger in about or not about:
        return truncate(about or trigger, DESCRIPTION_MAX)
    return truncate(f"{about}{'' if about[-1] in '.!?:' else '.'} {trigger}", DESCRIPTION_MAX)


def _quoted(text: str) -> str:
    """Return one line of text as a JSON string, which is a YAML scalar that its content cannot terminate."""
    return json.dumps(one_line(text), ensure_ascii=False)


def _says(body: str, items: Iterable[str]) -> bool:
    said = {block.title or plain_title(block.text) for block in outline(body).blocks}
    return said.issuperset(map(plain_title, items))

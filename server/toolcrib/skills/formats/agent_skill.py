"""One SKILL.md read leniently, and the rules of the Agent Skills format that it breaks."""

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Literal, cast

from toolcrib.base.json_values import as_list, as_object, json_type
from toolcrib.base.markdown import ITEMS, Block, Kind, Outline, outline, plain_title
from toolcrib.base.model import JsonObject, SkillProblem, SkillText, TaskType, ToolNote
from toolcrib.base.text import estimate_tokens, one_line, sanitize, truncate
from toolcrib.skills.formats.fields import (
    CAPABILITIES,
    REQUIRED_TOOLS,
    TOOL,
    line_of,
    lines_of,
    stated_lines,
    tool_notes,
)
from toolcrib.skills.formats.frontmatter import Fields, UnreadableText, decode, read_frontmatter
from toolcrib.skills.identity import content_hash, slug
from toolcrib.skills.sources.files import SKILL_FILE

TEXT_MAX_BYTES = 1024 * 1024
NAME_MAX = 64
DESCRIPTION_MAX = 1024
COMPATIBILITY_MAX = 500
"""Maximum lengths of a name, a description and a compatibility note in the Agent Skills specification."""

FIELDS = frozenset(("name", "description", "license", "compatibility", "metadata", "allowed-tools"))
"""The fields of the Agent Skills format."""

PRECONDITIONS = frozenset(
    (
        *("prerequisites", "prerequisite", "preconditions", "requirements", "before you start"),
        *("before you begin", "before starting", "required inputs"),
    )
)
"""Usual headings of the section on preconditions."""

FAILURE_MODES = frozenset(
    (
        *("failure modes", "pitfalls", "common pitfalls", "common pitfalls to avoid", "gotchas"),
        *("common mistakes", "common mistakes to avoid", "troubleshooting", "common issues", "common errors"),
        *("common problems", "known issues", "anti patterns", "antipatterns", "anti patterns to avoid"),
        *("common anti patterns", "red flags", "error handling", "limitations", "warnings"),
    )
)
"""Usual headings of the section on failure modes."""

_NAME_KEPT = 200
_LISTED_MAX = 50
_SHOWN = 64
_LINES_ADVISED = 500
_TOKENS_ADVISED = 5000
"""Maximum lines and tokens of a body that the specification recommends."""

# The specification's text says a-z; its reference validator also accepts letters of other scripts.
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*\Z")
_WORDS = re.compile(r"[^\s,]+")
_PLAIN_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_-]*\Z")
_MARKUP = re.compile(r"<[A-Za-z/][^<>]*>")


def read_agent_skill(
    raw: bytes, *, folder_name: str, path: str, max_bytes: int = TEXT_MAX_BYTES
) -> tuple[SkillText | None, list[SkillProblem]]:
    """Return the content of a SKILL.md and all its problems; ``path`` is the path in the problems.

    Everything readable is read, and each deviation from the format is a warning (C14). If the file contains no skill
    there is exactly one error, which says why; otherwise there is none (R168).
    """
    try:
        fields = read_frontmatter(decode(raw, max_bytes), path=path)
    except UnreadableText as error:
        return None, [SkillProblem(path, error.line, "error", error.code, str(error))]
    if fields.values is None:
        return None, list(fields.problems)
    found = [*fields.problems, *_deviations(fields, folder_name, path)]
    reading = Reading(fields.values, path)
    if not reading.description:
        reason = "has no description; say in its frontmatter what the skill does and when to use it"
        return None, [*found, SkillProblem(path, 1, "error", "description-missing", reason)]
    text = reading.text(sanitize(fields.body).strip("\n"), folder_name)
    return text, [*found, *reading.problems]


def written_anew(text: SkillText) -> str:
    """Return a SKILL.md with the frontmatter and the body of a skill, and nothing else."""
    fields = [
        f"{key if _PLAIN_KEY.match(key) else json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in text.frontmatter.items()
    ]
    return "\n".join(["---", *fields, "---", "", text.body, ""])


def conformance(text: SkillText, folder_name: str, path: str = SKILL_FILE) -> list[SkillProblem]:
    """Return every rule of the Agent Skills format that ``text`` breaks, each an error (R165).

    Recommendations do not count. Fields outside the format are an ``info``: other programs ignore them.
    """
    return list(_conformance(text.frontmatter, folder_name, path))


# -- what the format says ------------------------------------------------------------------------


def _deviations(fields: Fields, folder_name: str, path: str) -> Iterator[SkillProblem]:
    """Yield broken rules as warnings, for a lenient reader, and recommendations that were not followed."""
    for problem in _conformance(fields.values or {}, folder_name, path):
        # A lenient reader also needs a description: read_agent_skill reports its absence as an error.
        if problem.code != "description-missing":
            yield replace(problem, level="warning") if problem.level == "error" else problem
    if path.rpartition("/")[2] != SKILL_FILE:
        yield SkillProblem(path, 0, "warning", "file-name", f"is not called {SKILL_FILE}; many programs do not find it")
    lines, tokens = fields.body.count("\n"), estimate_tokens(fields.body)
    if lines > _LINES_ADVISED or tokens > _TOKENS_ADVISED:
        reason = f"the body has {lines:,} lines and about {tokens:,} tokens; move detail into files beside it"
        yield SkillProblem(path, fields.body_line, "info", "body-long", reason)


def _conformance(values: JsonObject, folder_name: str, path: str) -> Iterator[SkillProblem]:
    def broken(code: str, message: str, level: Literal["error", "warning", "info"] = "error") -> SkillProblem:
        return SkillProblem(path, 0, level, code, message)

    yield from (broken(*finding) for finding in _name_findings(values.get("name"), folder_name))
    yield from (broken(*finding) for finding in _description_findings(values.get("description")))
    yield from (broken(*finding) for finding in _optional_findings(values))
    description, tools = values.get("description"), values.get("allowed-tools")
    if isinstance(description, str) and _MARKUP.search(description):
        yield broken("description-markup", "description has tags in angle brackets; say it in plain words", "info")
    if isinstance(tools, str) and "," in TOOL.sub("", tools):
        yield broken("allowed-tools-commas", "allowed-tools is separated by spaces, without commas", "warning")
    unknown = [_shown(key) for key in values if key not in FIELDS]
    if unknown:
        listed = ", ".join(unknown[:_LISTED_MAX])
        yield broken("field-unknown", f"fields that the Agent Skills format does not have: {listed}", "info")


def _name_findings(name: Any, folder_name: str) -> Iterator[tuple[str, str]]:
    if name is None or name == "":
        yield "name-missing", f"name is missing; write 'name: {slug(folder_name)}'"
        return
    if not isinstance(name, str):
        yield "name-not-text", f"name is of type {json_type(name)}; put it in quotes"
        return
    if len(name) > NAME_MAX:
        yield "name-too-long", f"name has {len(name):,} characters; {NAME_MAX} are allowed"
    if not _NAME.match(name):
        reason = "may hold lower-case letters a-z, digits and single hyphens between them"
        yield "name-pattern", f"name '{_shown(name)}' {reason}; write '{slug(name)}'"
    # The reference validator compares names and folders after NFKC normalization.
    if unicodedata.normalize("NFKC", name) != unicodedata.normalize("NFKC", folder_name):
        yield "name-not-folder", f"name '{_shown(name)}' differs from its folder '{_shown(folder_name)}'; rename one"


def _description_findings(description: Any) -> Iterator[tuple[str, str]]:
    if description is None or (isinstance(description, str) and not description.strip()):
        yield "description-missing", "description is missing; say what the skill does and when to use it"
    elif not isinstance(description, str):
        yield "description-not-text", f"description is of type {json_type(description)}; put it in quotes"
    elif len(description) > DESCRIPTION_MAX:
        yield (
            "description-too-long",
            f"description has {len(description):,} characters; {DESCRIPTION_MAX:,} are allowed",
        )


def _optional_findings(values: JsonObject) -> Iterator[tuple[str, str]]:
    for name in ("license", "compatibility", "allowed-tools"):
        if name in values and not isinstance(values[name], str):
            yield f"{name}-not-text", f"{name} is of type {json_type(values[name])}; it must be text"
    compatibility = values.get("compatibility")
    if isinstance(compatibility, str) and not 0 < len(compatibility) <= COMPATIBILITY_MAX:
        yield "compatibility-length", f"compatibility must have 1 to {COMPATIBILITY_MAX} characters"
    metadata = values.get("metadata")
    if "metadata" in values and not isinstance(metadata, dict):
        yield "metadata-not-fields", f"metadata is of type {json_type(metadata)}; it must be a list of fields"
    other = [_shown(key) for key, value in as_object(metadata).items() if not isinstance(value, str)]
    if other:
        yield (
            "metadata-not-text",
            f"metadata has values that are not text; put them in quotes: {', '.join(other[:_LISTED_MAX])}",
        )
    try:
        # YAML has infinities and NaN; the frontmatter is sent to hosts as JSON (SEP-2640), which has neither.
        json.dumps(values, allow_nan=False)
    except ValueError:
        yield "frontmatter-not-json", "the frontmatter holds .inf or .nan, which JSON cannot say; put it in quotes"


def _shown(value: str) -> str:
    return truncate(one_line(value), _SHOWN)


# -- what a file says ----------------------------------------------------------------------------


class Reading:
    """The fields of one frontmatter. Fields that are not consumed go to ``extra`` (R117).

    Many authors put fields of their own under ``metadata``, as the format intends (R190, R250).
    """

    def __init__(self, values: JsonObject, path: str) -> None:
        self._frontmatter = dict(values)
        self._values = dict(values)
        self._metadata = dict(as_object(values.get("metadata")))
        self._path = path
        self.problems: list[SkillProblem] = []
        self.name = line_of(self._values.pop("name", None))[:_NAME_KEPT]
        self.description = line_of(self._values.pop("description", None))

    def text(self, body: str, folder_name: str) -> SkillText:
        """Return the whole skill, with ``body`` as its text."""
        blocks = outline(body)
        explicit = line_of(self._take("trigger", "triggers", "when_to_use", "when-to-use"))
        text = SkillText(
            name=self.name or one_line(folder_name)[:_NAME_KEPT] or slug(folder_name),
            title=line_of(self._take("title", "displayName", "display-name", "display_name")) or blocks.title,
            description=self.description,
            trigger=explicit or self.description,
            task_type=self._task_type(),
            tags=self._tags(),
            steps=lines_of(self._take("steps")) or blocks.steps,
            preconditions=lines_of(self._take("preconditions", "prerequisites")) or _listed(blocks, PRECONDITIONS),
            failure_modes=lines_of(self._take("failure_modes", "failure-modes")) or _listed(blocks, FAILURE_MODES),
            tools=self._tools(),
            requires=self._requires(),
            body=body,
            frontmatter=self._frontmatter,
            is_hidden=_is_true(self._take("disable-model-invocation", "disable_model_invocation")),
            extra=self._extra(),
            content_hash="",
        )
        return replace(text, content_hash=content_hash(text))

    def _holder(self, name: str) -> JsonObject | None:
        # An empty field counts as absent, so that another spelling of it, or metadata, can provide the value.
        holders = (self._values, self._metadata)
        return next((holder for holder in holders if holder.get(name) not in (None, "", [])), None)

    def _take(self, *names: str) -> Any:
        """Return the first nonempty field of these names, and consume it; None if there is none."""
        for name in names:
            holder = self._holder(name)
            if holder is not None:
                return holder.pop(name)
        return None

    def _peek(self, name: str) -> Any:
        return (self._holder(name) or {}).get(name)

    def _task_type(self) -> TaskType:
        # Only a known type is consumed; any other value stays visible in extra.
        said = line_of(self._peek("task_type"))
        if said.lower() in tuple(TaskType):
            self._take("task_type")
            return TaskType(said.lower())
        if said:
            self._note("task-type-unknown", f"task_type '{_shown(said)}' is not one of {', '.join(TaskType)}")
        return TaskType.UNKNOWN

    def _tags(self) -> tuple[str, ...]:
        every = [tag for name in ("tags", "category", "domain", "frames") for tag in _parts(self._take(name))]
        # Declared capabilities are searched like tags, and reported as written (R256).
        return tuple(dict.fromkeys((*every, *stated_lines(self._frontmatter, *CAPABILITIES))))

    def _tools(self) -> tuple[ToolNote, ...]:
        fields = (("tools",), REQUIRED_TOOLS, ("allowed-tools", "allowed_tools"))
        return tuple(dict.fromkeys(note for names in fields for note in tool_notes(self._take(*names))))

    def _requires(self) -> tuple[str, ...]:
        """Return names of environment variables; other values in ``requires`` are not such conditions (C24)."""
        said = self._peek("requires")
        names = _WORDS.findall(said) if isinstance(said, str) else as_list(said)
        if names and all(isinstance(name, str) and _VARIABLE.match(name) for name in names):
            self._take("requires")
            return tuple(dict.fromkeys(names))
        if said is not None:
            self._note("requires-not-variables", "requires lists more than environment variables, so it is only shown")
        return ()

    def _extra(self) -> JsonObject:
        left = dict(self._values)
        if isinstance(left.get("metadata"), dict):
            left["metadata"] = self._metadata
            if not self._metadata:
                del left["metadata"]
        return _safe(left)

    def _note(self, code: str, message: str) -> None:
        self.problems.append(SkillProblem(self._path, 0, "info", code, message))


def _parts(value: Any) -> Iterable[str]:
    """Return the items of a list, or of a comma-separated text."""
    return filter(None, map(str.strip, line_of(value).split(","))) if isinstance(value, str) else lines_of(value)


def _is_true(value: Any) -> bool:
    return value is True or (isinstance(value, str) and value.strip().lower() == "true")


def _listed(blocks: Outline, names: frozenset[str]) -> tuple[str, ...]:
    """Return the items of a section: of its list, else its headings, else its rows, else its paragraphs."""
    section = blocks.section(names)
    for kinds in (ITEMS, (Kind.HEADING,), (Kind.TABLE,), (Kind.PARAGRAPH,)):
        found = [line for block in section if block.kind in kinds for line in _titles(block)]
        if found:
            return tuple(found[:_LISTED_MAX])
    return ()


def _titles(block: Block) -> list[str]:
    if block.kind is Kind.TABLE:
        # The first two rows of a table are its header and the delimiter row.
        rows = [
            [cell.strip() for cell in row.strip(" \t|").split("|")] for row in block.text.split("\n")[2:_LISTED_MAX]
        ]
        return [plain_title(": ".join(filter(None, row))) for row in rows]
    return list(filter(None, [block.title or plain_title(block.text)]))


def _safe(value: Any) -> Any:
    """Return a JSON value that is safe to send and show: without hidden characters, infinities and NaN."""
    if isinstance(value, dict):
        return {sanitize(key): _safe(member) for key, member in cast("JsonObject", value).items()}
    if isinstance(value, list):
        return [_safe(item) for item in cast("list[Any]", value)]
    if isinstance(value, str):
        return sanitize(value)
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value

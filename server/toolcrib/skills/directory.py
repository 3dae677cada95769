"""The lists that tell a model which skills there are: a short directory, and the full catalog.

Knows names, triggers and bounds; never knows what a skill says beyond them (R226), nor who may see which.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Literal

from toolcrib.base.json_values import compact
from toolcrib.base.text import one_line, truncate
from toolcrib.config.skills_schema import SkillsDirectoryConfig
from toolcrib.model import TaskType

_OPEN, _CLOSE = "<skill_directory>", "</skill_directory>"
_TITLE_MAX = 80
_NAME_MAX = 128
"""Characters of a name in a list; a longer one would take the room of many others, and only search finds it."""
_TRIGGERS = (120, 80, 60, 40, 24, 0)
"""Characters of a trigger, tried from the left until every entry of the directory fits."""
_DESCRIPTIONS = (1024, 600, 400, 300, 200, 150, 100, 60, 30, 0)
"""The same for the descriptions of the catalog."""
_USAGE = (
    "Each skill is a set of instructions for one kind of task. Before a task that a description fits, load the skill "
    "with skill_get by its name (or its uri where two share a name), then follow it."
)
_MORE = "Not all skills are listed: use skill_search to find the others."


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """One skill as the directory sees it. ``last_used`` is in seconds, None for never."""

    name: str
    title: str
    trigger: str
    task_type: TaskType
    is_pinned: bool
    use_count: int
    last_used: float | None


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One skill of the full catalog, already redacted."""

    name: str
    description: str
    uri: str
    source: str


def skill_directory(
    entries: Sequence[DirectoryEntry], section: SkillsDirectoryConfig, clean: Callable[[str], str] = str
) -> tuple[str, int]:
    """Return the ``<skill_directory>`` block and how many skills it names; both are nothing without entries.

    ``clean`` makes a text fit for the reader; it takes a while, so only what may be shown goes through it.
    Pinned skills come first, then the ones used last or most, then by name (R123, R124). The bounds on entries and
    on bytes always hold (R122). Triggers are shortened for all alike before a skill is left out, titles last.
    """
    named = (entry for entry in entries if len(entry.name) <= _NAME_MAX)
    first = sorted(named, key=_selection(section))[: section.max_entries]
    chosen = [
        replace(
            each,
            name=one_line(clean(each.name)),
            title=one_line(clean(each.title)),
            trigger=one_line(clean(each.trigger)),
        )
        for each in first
    ]

    def rendered(count: int, width: int) -> str:
        head = "Skills that skill_get loads by name"
        if count < len(entries):
            head += f" ({count} of {len(entries)}; skill_search finds the others)"
        return "\n".join([_OPEN, f"{head}:", *(_line(each, section, width) for each in chosen[:count]), _CLOSE])

    return _largest(rendered, len(chosen), _TRIGGERS, section.max_bytes)


def _selection(section: SkillsDirectoryConfig) -> Callable[[DirectoryEntry], tuple[bool, float, str]]:
    if section.selection_strategy == "pinned_then_top":
        return lambda entry: (not entry.is_pinned, 0 if entry.is_pinned else -entry.use_count, entry.name)
    return lambda entry: (not entry.is_pinned, 0 if entry.is_pinned else -(entry.last_used or 0), entry.name)


def _line(entry: DirectoryEntry, section: SkillsDirectoryConfig, width: int) -> str:
    """Return one line of the directory; the name always stands in it, since skill_get takes nothing else."""
    fields = section.include_fields
    line = f"- {entry.name}"
    if "task_type" in fields and entry.task_type is not TaskType.UNKNOWN:
        line += f" [{entry.task_type}]"
    if "title" in fields and entry.title and width:
        line += f' — "{truncate(entry.title, _TITLE_MAX)}"'
    if "trigger" in fields and entry.trigger and width:
        line += f": {truncate(entry.trigger, width)}"
    return escape(line, quote=False)


def catalog_block(
    entries: Sequence[CatalogEntry], total: int, max_bytes: int, form: Literal["xml", "json"] = "xml"
) -> tuple[str, int]:
    """Return the first ``entries`` of a catalog of ``total`` skills as text, and how many it holds (R173, R174).

    The bound on bytes always holds; descriptions are shortened for all alike before a skill is left out. A catalog
    that leaves skills out says so and names skill_search. Bounds too small for anything: no text.
    """
    render = _catalog_xml if form == "xml" else _catalog_json
    chosen = [entry for entry in entries if len(entry.name) <= _NAME_MAX]

    def rendered(count: int, width: int) -> str:
        return render(chosen[:count], width, total - count)

    return _largest(rendered, len(chosen), _DESCRIPTIONS, max_bytes)


def _catalog_xml(entries: Sequence[CatalogEntry], width: int, left_out: int) -> str:
    usage = f"{_USAGE} {_MORE}" if left_out else _USAGE
    lines = [
        f'<skill name="{_attribute(entry.name)}" source="{_attribute(entry.source)}" uri="{_attribute(entry.uri)}">'
        f"{escape(truncate(one_line(entry.description), width), quote=False) if width else ''}</skill>"
        for entry in entries
    ]
    return "\n".join(
        [
            "<skills_context>",
            f"<skills_usage>{usage}</skills_usage>",
            f'<skills_catalog truncated="{str(left_out > 0).lower()}">',
            *lines,
            "</skills_catalog>",
            "</skills_context>",
        ]
    )


def _catalog_json(entries: Sequence[CatalogEntry], width: int, left_out: int) -> str:
    skills = [
        {
            "name": one_line(entry.name),
            "description": truncate(one_line(entry.description), width) if width else "",
            "uri": one_line(entry.uri),
            "source": one_line(entry.source),
        }
        for entry in entries
    ]
    note = {"note": _MORE} if left_out else {}
    catalog = {"skills": skills, "truncated": left_out > 0, **note}
    return compact(catalog)


def _attribute(text: str) -> str:
    return escape(one_line(text))


def _largest(rendered: Callable[[int, int], str], count: int, widths: Sequence[int], max_bytes: int) -> tuple[str, int]:
    """Return what ``rendered(count, width)`` gives for the greatest width at which all ``count`` entries fit.

    Where even the smallest width is too much, for as many entries as fit at that one.
    """

    def fits(text: str) -> bool:
        return len(text.encode()) <= max_bytes

    if not count:
        return "", 0
    for width in widths:
        if fits(text := rendered(count, width)):
            return text, count
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(rendered(middle, widths[-1])) else (low, middle)
    return (rendered(low, widths[-1]), low) if low else ("", 0)

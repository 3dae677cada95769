"""The lists that tell a model which skills there are: a short directory, and the full catalog.

Knows names, triggers and bounds; never knows what a skill says beyond them (R226), nor who may see which.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import zip_longest
from typing import Literal

from toolcrib.base.json_values import compact
from toolcrib.base.model import TaskType
from toolcrib.base.text import one_line, truncate
from toolcrib.config.schema import SkillsDirectoryConfig

_OPEN, _CLOSE = "<skill_directory>", "</skill_directory>"
_TITLE_MAX = 80
_NAME_MAX = 128
"""Maximum length of a name in a list; a longer one would displace many others, and is only found by search."""
_TRIGGERS = (120, 80, 60, 40)
"""Maximum lengths of a trigger, tried from the left until every entry of the directory fits."""
_DESCRIPTIONS = (1024, 600, 400, 300, 200, 150, 100, 60)
"""The same for the descriptions of the catalog, which are never omitted."""
_USAGE = (
    "Each skill is a set of instructions for one kind of task. Before a task that a description fits, load the skill "
    "with skill_get by its name (or its uri where two share a name), then follow it."
)
_MORE = "Not all skills are listed: use skill_search to find the others."
_NEXT = "The next are in {}."


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """One skill as seen by the directory. ``last_used`` is in seconds since the epoch, None for never.

    ``clean`` redacts a text for the reader; it is slow, so it is only applied to what may be shown.
    """

    name: str
    title: str
    trigger: str
    task_type: TaskType
    is_pinned: bool
    use_count: int
    last_used: float | None
    source: str = ""
    clean: Callable[[str], str] = str


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One skill of the full catalog, already redacted."""

    name: str
    description: str
    uri: str
    source: str


def skill_directory(entries: Sequence[DirectoryEntry], section: SkillsDirectoryConfig) -> tuple[str, int]:
    """Return the ``<skill_directory>`` block and how many skills it names; empty and 0 without entries.

    Pinned skills come first, then the most recently or most often used, then the first of each source, the second of
    each, and so on (R123, R124). The limits on entries and bytes always hold (R122). Triggers are shortened equally for
    all; then the last entries lose them, then their titles, and are only then omitted.
    """
    named = [entry for entry in entries if len(entry.name) <= _NAME_MAX]
    chosen = [
        replace(
            each,
            name=one_line(each.clean(each.name)),
            title=one_line(each.clean(each.title)),
            trigger=one_line(each.clean(each.trigger)),
        )
        for each in _selected(named, section)[: section.max_entries]
    ]

    def rendered(count: int, titles: int, triggers: int, width: int) -> str:
        head = "Skills that skill_get loads by name"
        if count < len(entries):
            head += f" ({count} of {len(entries)}; skill_search finds the others)"
        lines = (
            _line(each, section, has_title=place < titles, width=width if place < triggers else 0)
            for place, each in enumerate(chosen[:count])
        )
        return "\n".join([_OPEN, f"{head}:", *lines, _CLOSE])

    def fits(text: str) -> bool:
        return len(text.encode()) <= section.max_bytes

    every, narrow = len(chosen), _TRIGGERS[-1]
    if not chosen:
        return "", 0
    for width in _TRIGGERS:
        if fits(text := rendered(every, every, every, width)):
            return text, every
    triggers = _greatest(lambda some: rendered(every, every, some, narrow), every, fits)
    if triggers is not None:
        return rendered(every, every, triggers, narrow), every
    titles = _greatest(lambda some: rendered(every, some, 0, narrow), every, fits)
    if titles is not None:
        return rendered(every, titles, 0, narrow), every
    count = _greatest(lambda some: rendered(some, 0, 0, narrow), every, fits)
    return (rendered(count, 0, 0, narrow), count) if count else ("", 0)


def _selected(entries: Sequence[DirectoryEntry], section: SkillsDirectoryConfig) -> list[DirectoryEntry]:
    """Return the entries in order of precedence."""

    def use(entry: DirectoryEntry) -> float:
        return entry.use_count if section.selection_strategy == "pinned_then_top" else entry.last_used or 0

    pinned = sorted((entry for entry in entries if entry.is_pinned), key=lambda entry: entry.name)
    others = [entry for entry in entries if not entry.is_pinned]
    used = sorted(filter(use, others), key=lambda entry: (-use(entry), entry.name))
    by_source: dict[str, list[DirectoryEntry]] = {}
    for entry in others:
        if not use(entry):
            by_source.setdefault(entry.source, []).append(entry)
    # Round-robin over sources: a folder with many skills does not crowd out the others.
    in_turns = (entry for turn in zip_longest(*by_source.values()) for entry in turn if entry is not None)
    return [*pinned, *used, *in_turns]


def _line(entry: DirectoryEntry, section: SkillsDirectoryConfig, *, has_title: bool, width: int) -> str:
    """Return one line of the directory; it always has the name, since skill_get accepts nothing else."""
    fields = section.include_fields
    line = f"- {entry.name}"
    if "task_type" in fields and entry.task_type is not TaskType.UNKNOWN:
        line += f" [{entry.task_type}]"
    if "title" in fields and entry.title and has_title:
        line += f' — "{truncate(entry.title, _TITLE_MAX)}"'
    if "trigger" in fields and entry.trigger and width:
        line += f": {truncate(entry.trigger, width)}"
    return escape(line, quote=False)


def catalog_block(
    entries: Sequence[CatalogEntry],
    total: int,
    max_bytes: int,
    form: Literal["xml", "json"] = "xml",
    next_uri: Callable[[int], str] | None = None,
) -> tuple[str, int]:
    """Return the first ``entries`` of a catalog of ``total`` skills as text, and how many it contains (R173, R174).

    The bound on bytes always holds. Descriptions are shortened equally for all but never omitted: instead, skills move
    to the next page, whose URI ``next_uri`` returns for the number of skills before it. An incomplete catalog says so
    and names skill_search. If the bounds are too small for anything, the text is empty.
    """
    render = _catalog_xml if form == "xml" else _catalog_json
    chosen = [entry for entry in entries if len(entry.name) <= _NAME_MAX]

    def rendered(count: int, width: int) -> str:
        more = f"{_MORE} {_NEXT.format(next_uri(count))}" if next_uri else _MORE
        return render(chosen[:count], width, more if count < total else "")

    return _largest(rendered, len(chosen), _DESCRIPTIONS, max_bytes)


def _catalog_xml(entries: Sequence[CatalogEntry], width: int, more: str) -> str:
    usage = f"{_USAGE} {more}".rstrip()
    lines = [
        f'<skill name="{_attribute(entry.name)}" source="{_attribute(entry.source)}" uri="{_attribute(entry.uri)}">'
        f"{escape(truncate(one_line(entry.description), width), quote=False)}</skill>"
        for entry in entries
    ]
    return "\n".join(
        [
            "<skills_context>",
            f"<skills_usage>{usage}</skills_usage>",
            f'<skills_catalog truncated="{str(bool(more)).lower()}">',
            *lines,
            "</skills_catalog>",
            "</skills_context>",
        ]
    )


def _catalog_json(entries: Sequence[CatalogEntry], width: int, more: str) -> str:
    skills = [
        {
            "name": one_line(entry.name),
            "description": truncate(one_line(entry.description), width),
            "uri": one_line(entry.uri),
            "source": one_line(entry.source),
        }
        for entry in entries
    ]
    note = {"note": more} if more else {}
    catalog = {"skills": skills, "truncated": bool(more), **note}
    return compact(catalog)


def _attribute(text: str) -> str:
    return escape(one_line(text))


def _largest(rendered: Callable[[int, int], str], count: int, widths: Sequence[int], max_bytes: int) -> tuple[str, int]:
    """Return ``rendered(count, width)`` for the greatest width at which all ``count`` entries fit.

    If even the smallest width is too much, for as many entries as fit at that width.
    """

    def fits(text: str) -> bool:
        return len(text.encode()) <= max_bytes

    if not count:
        return "", 0
    for width in widths:
        if fits(text := rendered(count, width)):
            return text, count
    some = _greatest(lambda some: rendered(some, widths[-1]), count - 1, fits)
    return (rendered(some, widths[-1]), some) if some else ("", 0)


def _greatest(text_of: Callable[[int], str], most: int, fits: Callable[[str], bool]) -> int | None:
    """Return the greatest number up to ``most`` whose text fits; None if not even that of 0 does."""
    low, high = -1, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(text_of(middle)) else (low, middle)
    return low if low >= 0 else None

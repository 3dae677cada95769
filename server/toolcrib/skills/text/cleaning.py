"""Cleans skill texts for one caller: no personal data, no names of tools that the caller may not use."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from toolcrib.base.cache import Recent
from toolcrib.base.document_redaction import redact_document
from toolcrib.base.json_values import as_list
from toolcrib.base.model import JsonObject, Skill, SkillText, ToolNote
from toolcrib.base.text import sanitize
from toolcrib.catalog.denied_names import NameMasker
from toolcrib.skills.formats.agent_skill import read_agent_skill, written_anew
from toolcrib.skills.formats.fields import LISTS_OF_TOOLS, tool_notes
from toolcrib.skills.sources.files import SKILL_FILE

_LINE_MAX, _LINES_MAX = 1_000, 4_000
"""Texts of at most so many characters, such as names and descriptions, are cleaned once; so many of them are cached."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A skill's redacted text, and the permitted tools it mentions that are not listed from the start."""

    text: SkillText
    mentioned: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Fit:
    """Redacts the fields of one skill, including names that were removed from its lists of tools."""

    cleaner: "Cleaner"
    lost: frozenset[str]

    def text(self, text: str) -> str:
        """Return one field."""
        return self.cleaner.text(text, self.lost)

    def texts(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Return a field that is a list."""
        return tuple(map(self.text, texts))


class Cleaner:
    """Redacts for one caller: ``redact_pii`` of the config, and the names that the caller may not see (R146, R149)."""

    def __init__(self, masker: NameMasker, *, redact: bool) -> None:
        self.masker = masker
        self._redact: Callable[[str], str] = redact_document if redact else str
        self.changes_nothing = masker.hides_nothing and not redact
        """Whether no text is ever changed."""
        self._lines = Recent[tuple[str, tuple[str, ...]], str](_LINES_MAX)

    @property
    def changes_no_names(self) -> bool:
        """Return whether no tool is denied to the caller."""
        return self.masker.hides_nothing

    def tool_names(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those of ``names``, a list of tools, that the caller may know of."""
        return self.masker.clean_names(names)

    def names_a_tool(self, name: str) -> bool:
        """Return whether the caller has a tool with this spelling."""
        return self.masker.tool(name) is not None

    def lost(self, names: Iterable[str]) -> frozenset[str]:
        """Return those of ``names``, a skill's lists of tools, to be removed: denied to the caller or nonexistent."""
        return self.masker.lost(tuple(names))

    def about(self, skill: Skill, text: str) -> str:
        """Return a text of a skill on its own, such as its name, redacted as it is inside the whole skill."""
        if len(text) > _LINE_MAX:
            return self.text(text, self.lost(skill.tools))
        # A masker never changes: a new catalog, or other permissions, come with a cleaner of their own.
        return self._lines.get((text, skill.tools), lambda: self.text(text, self.lost(skill.tools)))

    def verbatim(self, skill: Skill, text: str) -> str:
        """Return a file's text without personal data and removed names, otherwise byte for byte."""
        lost = self.lost(skill.tools)
        cleaned = self._without_names(self._redact(text), lost)
        # A published file keeps its hidden characters, unless one of them is inside such a name.
        plain = sanitize(cleaned)
        if plain == cleaned or (named := self._without_names(plain, lost)) == plain:
            return cleaned
        return named  # hidden characters were inside a name

    def text(self, text: str, lost: frozenset[str] = frozenset()) -> str:
        """Return a text for a model: redacted, and without hidden characters."""
        # Hidden characters are removed first, so that none can split a key or a name and so prevent its detection.
        return self._without_names(self._redact(sanitize(text)), lost)

    def skill(self, text: SkillText) -> Cleaned:
        """Return a whole skill with every field redacted."""
        # What is removed from the list is removed from the text too: a name that stayed there would reveal that no such
        # tool is denied.
        fit = _Fit(self, self.lost(note.tool for note in text.tools))
        body, mentioned = self.masker.clean(self._redact(sanitize(text.body)))
        body = self.masker.without_names(body, fit.lost)
        steps = fit.texts(text.steps)
        cleaned = replace(
            text,
            name=fit.text(text.name),
            title=fit.text(text.title),
            description=fit.text(text.description),
            trigger=fit.text(text.trigger),
            tags=fit.texts(text.tags),
            steps=steps,
            preconditions=fit.texts(text.preconditions),
            failure_modes=fit.texts(text.failure_modes),
            tools=tuple(ToolNote(note.tool, fit.text(note.note)) for note in text.tools if note.tool not in fit.lost),
            body=body,
            frontmatter=self._frontmatter(text.frontmatter, fit.lost),
            extra=self.value(text.extra, fit.lost),
        )
        # Steps and notes may come from the frontmatter, so the body does not have all mentions.
        _, in_steps = self.masker.clean("\n".join((*steps, *(note.tool for note in cleaned.tools))))
        return Cleaned(cleaned, tuple(dict.fromkeys((*mentioned, *in_steps))))

    def confirmed_file(self, raw: bytes, max_bytes: int) -> str | None:
        """Return a redacted SKILL.md of only what a confirmation of the skill is for; None if none can be written.

        It is written anew: a comment, a repeated key or a hidden character is in no content hash.
        """
        read, _ = read_agent_skill(raw, folder_name="", path=SKILL_FILE, max_bytes=max_bytes)
        if read is None:
            return None
        cleaned = self.skill(read).text
        written = written_anew(cleaned)
        again, _ = read_agent_skill(written.encode("utf-8", "surrogatepass"), folder_name="", path=SKILL_FILE)
        is_same = again and (again.description, again.frontmatter) == (cleaned.description, cleaned.frontmatter)
        return written if is_same else None

    def _without_names(self, text: str, lost: frozenset[str]) -> str:
        return self.masker.without_names(self.masker.clean(text)[0], lost)

    def _frontmatter(self, frontmatter: JsonObject, lost: frozenset[str]) -> JsonObject:
        cleaned = self.value(frontmatter, lost)
        # A denied name is removed from a list of tools entirely: a placeholder would reveal its presence.
        for key in LISTS_OF_TOOLS & frontmatter.keys():
            cleaned[key] = self.list_of_tools(frontmatter[key], lost)
        return cleaned

    def list_of_tools(self, value: Any, lost: frozenset[str] = frozenset()) -> Any:
        """Return a field that lists tools as written, without those that the caller may not know of.

        Notes beside the others lose the names of those ``lost`` from all lists of the skill.
        """
        if isinstance(value, str):
            notes = list(tool_notes(value))
            kept = [note for note in notes if self.tool_names([note.tool])]
            spelled = (f"{note.tool}({self.text(note.note, lost)})" if note.note else note.tool for note in kept)
            return value if len(kept) == len(notes) else " ".join(spelled)
        names = ([note.tool for note in tool_notes([item])] for item in as_list(value))
        return [
            self.value(item, lost)
            for item, own in zip(as_list(value), names, strict=True)
            if len(self.tool_names(own)) == len(own)
        ]

    def value(self, value: Any, lost: frozenset[str] = frozenset()) -> Any:
        """Return a JSON value with every text in it redacted, member names too."""
        if isinstance(value, str):
            return self.text(value, lost)
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            return {self.text(key, lost): self.value(member, lost) for key, member in members.items()}
        if isinstance(value, list):
            return [self.value(item, lost) for item in cast("list[Any]", value)]
        return value

"""Skill texts made fit for one caller: no personal data, no names of tools that the caller may not use.

Knows which fields of a skill hold text; never knows budgets, files or who the caller is.
"""

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast
from weakref import WeakKeyDictionary

from toolcrib.base.recent import Recent
from toolcrib.base.text import sanitize
from toolcrib.model import SkillText, ToolNote
from toolcrib.redaction.documents import redact_document
from toolcrib.tools.mentions import ToolMentions

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class ByCleaner(Generic[_Key, _Value]):
    """What was made with cleaners: of each the ``most`` recent values, and nothing of one that is gone."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._recent: WeakKeyDictionary[Cleaner, Recent[_Key, _Value]] = WeakKeyDictionary()

    def __getitem__(self, cleaner: "Cleaner") -> Recent[_Key, _Value]:
        with suppress(KeyError):
            return self._recent[cleaner]
        return self._recent.setdefault(cleaner, Recent(self._most))


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A skill's text as it may be shown, and the allowed tools it mentions that are not listed from the start."""

    text: SkillText
    mentioned: tuple[str, ...]


class Cleaner:
    """Cleans for one caller: ``redact_pii`` of the config, and the names that the caller may not see (R146, R149)."""

    def __init__(self, mentions: ToolMentions, *, redact: bool) -> None:
        self._mentions = mentions
        self._redact: Callable[[str], str] = redact_document if redact else str
        self.changes_nothing = mentions.hides_nothing and not redact
        """Whether no text is ever changed."""

    def is_for(self, mentions: ToolMentions) -> bool:
        """Return whether these are the names by which texts are cleaned."""
        return self._mentions is mentions

    def tool_names(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those of ``names`` that are not denied to the caller."""
        return self._mentions.clean_names(names)

    def verbatim(self, text: str) -> str:
        """Return a file's text without what must not be told, and otherwise byte for byte."""
        return self._mentions.clean(self._redact(text))[0]

    def text(self, text: str) -> str:
        """Return a text for a model: cleaned, and without characters that hide something."""
        return sanitize(self.verbatim(text))

    def skill(self, text: SkillText) -> Cleaned:
        """Return a whole skill, every field of it cleaned."""
        body, mentioned = self._mentions.clean(self._redact(text.body))
        steps = tuple(map(self.text, text.steps))
        allowed = self.tool_names([note.tool for note in text.tools])
        cleaned = replace(
            text,
            name=self.text(text.name),
            title=self.text(text.title),
            description=self.text(text.description),
            trigger=self.text(text.trigger),
            tags=tuple(map(self.text, text.tags)),
            steps=steps,
            preconditions=tuple(map(self.text, text.preconditions)),
            failure_modes=tuple(map(self.text, text.failure_modes)),
            tools=tuple(ToolNote(note.tool, self.text(note.note)) for note in text.tools if note.tool in allowed),
            body=sanitize(body),
            frontmatter=self.value(text.frontmatter),
            extra=self.value(text.extra),
        )
        _, in_steps = self._mentions.clean("\n".join((*steps, *(note.tool for note in cleaned.tools))))
        return Cleaned(cleaned, tuple(dict.fromkeys((*mentioned, *in_steps))))

    def value(self, value: Any) -> Any:
        """Return a JSON value with every text in it cleaned, names of members too."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            return {self.text(key): self.value(member) for key, member in members.items()}
        if isinstance(value, list):
            return [self.value(item) for item in cast("list[Any]", value)]
        return value

"""Synonyms in everyday software work: what one person creates, another adds.

Knows the file of groups of words; never knows what is searched or how much a synonym counts.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files

_PACKAGE, _FILE = "toolcrib.search", "synonyms.txt"
_NO_GROUP = ("#", "[")
"""The prefixes of comments and headings; a heading names the domain of the groups below it for human readers."""

Synonyms = Mapping[str, Sequence[str]]
"""The stems of synonyms, by stem."""


def read_synonyms(stem: Callable[[str], str]) -> Synonyms:
    """Return the synonym table shipped with the package, as stems. Reads a file."""
    text = files(_PACKAGE).joinpath(_FILE).read_text(encoding="utf-8")
    return synonyms((line for line in text.splitlines() if not line.startswith(_NO_GROUP)), stem)


def synonyms(groups: Iterable[str], stem: Callable[[str], str]) -> Synonyms:
    """Return a table of stems from groups of synonyms, one text per group."""
    found: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for group in groups:
        stems = [stem(word) for word in group.split()]
        for each in stems:
            found[each] |= dict.fromkeys(other for other in stems if other != each)
    return {each: tuple(others) for each, others in found.items()}

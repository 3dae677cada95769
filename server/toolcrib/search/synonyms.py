"""Words of everyday software work that mean much the same: what one person creates, another adds.

Knows the file of groups of words; never knows what is searched or how much a synonym counts.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files

_PACKAGE, _FILE = "toolcrib.search", "synonyms.txt"
_NO_GROUP = ("#", "[")
"""What lines of comment begin with, and headings, which name the domain of the groups below them for a reader."""

Synonyms = Mapping[str, Sequence[str]]
"""For a stem the stems that may stand for it."""


def read_synonyms(stem: Callable[[str], str]) -> Synonyms:
    """Return the table that ships with the package, in stems. Reads a file."""
    text = files(_PACKAGE).joinpath(_FILE).read_text(encoding="utf-8")
    return synonyms((line for line in text.splitlines() if not line.startswith(_NO_GROUP)), stem)


def synonyms(groups: Iterable[str], stem: Callable[[str], str]) -> Synonyms:
    """Return groups of words, each a text, as a table of stems."""
    found: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for group in groups:
        stems = [stem(word) for word in group.split()]
        for each in stems:
            found[each] |= dict.fromkeys(other for other in stems if other != each)
    return {each: tuple(others) for each, others in found.items()}

"""The tools that an unknown name probably means: by spelling alone, never by what they do."""

from collections.abc import Iterable

from toolcrib.base.model import Tool
from toolcrib.base.names import SEPARATOR, host_spellings
from toolcrib.base.text import spelling_key, words

_NEAR_MAX = 3
_NAME_MAX = 256
"""Number of characters of an unknown name that are compared: a caller may send one of any length."""
_LETTERS_PER_SLIP = 4
_LETTERS_MIN = 3
"""Number of letters from which a name may have one slip."""
_SHARED_MIN = 2
"""Number of words that names share at least where the order of words differs, or one has more of them."""
_IN_OTHER_WORDS = 100
"""What the distance of such names is beyond that of any slip."""
_OTHER_SERVER = 50
"""How much farther a tool is if another server is named before its name: beyond slips, nearer than other words."""


def near_tools(written: str, tools: Iterable[Tool]) -> list[str]:
    """Return the public names of up to three tools whose names are near, nearest first.

    ``written`` may have the name of a server before that of the tool, even another server's.
    """
    written = host_spellings(written)[-1]
    asked, after_server = _UnknownName(written), SEPARATOR.split(written, maxsplit=1)[1:]
    of_any_server = _UnknownName(after_server[-1]) if after_server else None

    def distance(tool: Tool) -> int | None:
        own = asked.distance(tool.name, tool.server)
        other = None if of_any_server is None else of_any_server.distance(tool.name)
        return own if other is None else min(other + _OTHER_SERVER, other + _OTHER_SERVER if own is None else own)

    return _nearest((distance(tool), tool.public_name) for tool in tools)


class _UnknownName:
    """An unknown name, compared with existing ones by spelling. Case and separators do not count."""

    def __init__(self, written: str) -> None:
        self._key, self._words = spelling_key(written[:_NAME_MAX]), _words(written[:_NAME_MAX])

    def distance(self, name: str, owner: str = "") -> int | None:
        """Return how far an existing name is from this one; None if it is not near.

        Near are names of few slips (a letter added, left out, changed, or swapped with the next), and names of which
        one has all words of the other. ``owner`` may be written before the name, and allows no further slips; if it is,
        names with half of the words are near too.
        """
        key = spelling_key(name)
        most = _most_slips(key)
        slips = _slips(self._key, key, most)
        if slips is None and owner:
            slips = _slips(self._key, spelling_key(owner) + key, most)
        return self._in_other_words(name, owner) if slips is None else slips

    def _in_other_words(self, name: str, owner: str) -> int | None:
        named = _words(name)
        shared = named & self._words
        if not shared:
            return None
        rest = self._words - _words(owner)
        for asked in (self._words, rest) if len(shared) >= _SHARED_MIN else ():
            few, many = sorted((asked, named), key=len)
            if few <= many and len(few) >= _SHARED_MIN and len(many) <= 2 * len(few):
                return _IN_OTHER_WORDS + _letters(many - few)
        # Of the tools of the one server that is named, those with half of the words are nearest.
        is_of_owner = owner and self._key.startswith(spelling_key(owner))
        if is_of_owner and 2 * len(named & rest) >= max(len(named), len(rest)):
            return 2 * _IN_OTHER_WORDS + _letters(named ^ rest)
        return None


def _nearest(distances: Iterable[tuple[int | None, str]]) -> list[str]:
    """Return the names that have a distance, at most three: the nearest first, then by name."""
    near = sorted((distance, name) for distance, name in distances if distance is not None)
    return [name for _distance, name in near[:_NEAR_MAX]]


def _words(name: str) -> frozenset[str]:
    """Return the words of a name, plural or not."""
    return frozenset(word.removesuffix("s") for word in words(name))


def _letters(every: Iterable[str]) -> int:
    return sum(map(len, every))


def _most_slips(key: str) -> int:
    return max(len(key) // _LETTERS_PER_SLIP, len(key) >= _LETTERS_MIN)


def _slips(one: str, other: str, most: int) -> int | None:
    """Return the optimal string alignment distance of two words; None if it is above ``most``.

    G. Navarro, "A guided tour to approximate string matching", ACM Computing Surveys 33 (2001), section 3.1.
    """
    # A slip changes at most two of the letters that occur, by which most words are told apart at once.
    if abs(len(one) - len(other)) > most or len(set(one).symmetric_difference(other)) > 2 * most:
        return None
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        current = [row]
        for column, another in enumerate(other, 1):
            least = min(last[column] + 1, current[-1] + 1, last[column - 1] + (letter != another))
            if row > 1 < column and letter == other[column - 2] and one[row - 2] == another:
                least = min(least, before[column - 2] + 1)
            current.append(least)
        if min(current) > most:
            return None
        before, last = last, current
    return last[-1] if last[-1] <= most else None

"""Names of tools inside texts: those that a caller may not use are removed, those that may be missing are listed."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from toolcrib.base.cache import Recent
from toolcrib.base.model import LoadingMode, Tool
from toolcrib.base.names import SEPARATOR, SEPARATORS, bare_name, host_spellings, joined_key, qualified_spellings
from toolcrib.base.text import unjoined
from toolcrib.catalog.snapshot import Catalog
from toolcrib.policy.rules import Permissions

if TYPE_CHECKING:
    from toolcrib.catalog.name_detection import Place

DENIED = "[denied]"
MENTIONED_MAX = 5
"""Maximum number of tools named in one hint."""

_NAME = re.compile(r"[\w-]+(?:[.:/][\w-]+)*")
_ESCAPED = re.compile(r"\\([_-])")
_MADE_OF_WORDS = re.compile(r"_|[a-z0-9][A-Z]")
_HYPHEN = re.compile(r"(-)")
_OF_A_HOST = re.compile(r"[A-Z]|[^*]*\*")
"""How hosts spell their own tools, and tool patterns, in a skill's list: ``Read``, ``Bash(git:*)``, ``db__*``."""

_GONE = "\0"
"""Replaces a name removed from a word; no word contains this character."""

_PARTS_MAX = 4
"""Maximum number of parts of a name: a server, and a tool whose own name contains separators."""
_REMEMBERED_MAX = 10_000
_UNKNOWN_MAX = 1000
"""Number of cached sets of unknown names, each of one or more skills."""
_REMEMBERED_LENGTH_MAX = 200
"""Longer words are mostly data: they would fill the cache and hardly recur."""


class DeniedNames:
    """The names of tools that callers with the same permissions may not use, indexed or not.

    The one limit: an unqualified name is known only once its server has listed it.
    """

    def __init__(self, permissions: Permissions, catalog: Catalog, servers: Sequence[str]) -> None:
        self._permissions, self._catalog, self._servers = permissions, catalog, servers
        self._rows = catalog.permitted(permissions).rows
        # All spellings except the first, which is the public name: a server and a separator.
        self._starts = tuple(start for key in servers for start in qualified_spellings(key, "", "")[1:])

    def __contains__(self, name: str) -> bool:
        """Return whether ``name`` is, or could be, that of a tool hidden from the caller."""
        known = self._known(name)
        if known:
            return any(tool.row not in self._rows for tool in known)
        return self._permissions.denies_name(name) or self._is_kept_back(name)

    def hides(self, name: str) -> bool:
        """Return whether ``name`` is that of a hidden tool, and not of one that the caller may use.

        Unlike an event, a document is read by the caller, who knows the names of permitted tools anyway. And a policy
        that denies everything must not turn every word of a document into a name.
        """
        known = self._catalog.spelled(name)
        if known:
            return not any(tool.row in self._rows for tool in known)
        # As it is written first: that another tool joins the same words in another way permits no denied name.
        return self._permissions.names_denied(name) or self._is_kept_back(name) or self._is_joined(name)

    def is_value(self, value: str) -> bool:
        """Return whether a value that a schema allows is a name of a hidden tool, of several words or public.

        A glob with wildcards does not make a value a name: there has to be such a tool.
        """
        value = unjoined(value)
        known = self._catalog.spelled(value)
        if known:
            return not any(tool.row in self._rows for tool in known)
        if self._catalog.withholds(value) or (SEPARATORS[0] in value and self._belongs_to_denied(value)):
            return True
        return self._is_joined(value)

    def _is_joined(self, name: str) -> bool:
        """Return whether a hidden tool has a name of the same words, and no permitted one has."""
        known = self._catalog.joined(name)
        if known:
            return not any(tool.row in self._rows for tool in known)
        return self._permissions.names_denied_exactly(name) or self._catalog.withholds_joined(name)

    def _known(self, name: str) -> tuple[Tool, ...]:
        """Return the tools of this name; if there are none, those of the same words joined in another way."""
        return self._catalog.spelled(name) or self._catalog.joined(name)

    def _is_kept_back(self, name: str) -> bool:
        return self._catalog.withholds(name) or self._belongs_to_denied(name)

    def _belongs_to_denied(self, name: str) -> bool:
        # Nearly every word ends here: one test for all servers.
        if not name.startswith(self._starts):
            return False
        tools = ((server, bare_name(name, server)) for server in self._servers)
        return any(tool and not self._permissions.permits(server, tool, name) for server, tool in tools)

    def mask(self, text: str) -> str:
        """Return ``text`` with ``[denied]`` for each of these names: for a record that only the owner reads."""

        def mask(found: re.Match[str]) -> str:
            if found[0] in self:
                return DENIED
            return "".join(DENIED if part in self else part for part in SEPARATOR.split(found[0]))

        return _NAME.sub(mask, text)


@dataclass(frozen=True, slots=True)
class _Reading:
    """The result for one word: the remaining text, and the public names of the tools it names."""

    text: str
    named: tuple[str, ...] = ()


class _Names:
    """Recognizes tool names in one catalog, for callers with the same permissions."""

    def __init__(self, permissions: Permissions, catalog: Catalog, denied: DeniedNames, own: Collection[str]) -> None:
        self._catalog, self._denied, self._hides_nothing = catalog, denied, permissions.unrestricted
        self._own = own
        self._permitted = catalog.permitted(permissions)

    def look(self, name: str, in_code: bool) -> _Reading | None:  # noqa: FBT001 - lru_cache keeps it by place
        """Return the result for ``name`` if it is that of a tool, denied or permitted."""
        from toolcrib.catalog.name_detection import is_several_words  # noqa: PLC0415 - no start waits for its patterns

        several = is_several_words(name)
        if not name or name in self._own or not (in_code or several):
            return None
        if not self._hides_nothing and self._denied.hides(name):
            return _Reading(_GONE)
        if self._catalog.find(name, self._permitted) is None:
            return None
        return _Reading(name, self.deferred(name) if several else ())

    def may_be_listed(self, name: str) -> bool:
        """Return whether an entry of a list of tools is one of the caller's, one of ours, or spelled like a host's."""
        parts = SEPARATOR.split(name)
        spellings = ("".join(parts[start:]) for start in range(0, len(parts), 2))
        return bool(
            name in self._own
            or _OF_A_HOST.match(name)
            or any(self._catalog.find(each, self._permitted) for each in spellings)
        )

    def deferred(self, name: str) -> tuple[str, ...]:
        """Return the public name of the one permitted tool called ``name`` if it is not listed from the start."""
        tool = self._catalog.find(name, self._permitted)
        return (tool.public_name,) if tool is not None and tool.loading_mode is LoadingMode.DEFERRED else ()


class _Unknown:
    """Recognizes unknown names, in every spelling: in place of :class:`_Names`."""

    def __init__(self, names: Iterable[str]) -> None:
        parts = [SEPARATOR.split(host_spellings(name)[-1])[::2] for name in names]
        self._spelled = {mark.join(each) for each in parts for mark in ("__", ".", "/", ":")}
        self._spelled.update(each[-1] for each in parts)
        self._joined = {joined_key(name) for each in parts for name in ("__".join(each), each[-1])} - {""}

    def look(self, name: str, in_code: bool) -> _Reading | None:  # noqa: FBT001 - lru_cache keeps it by place
        """Return the removal of ``name`` if it is one of these."""
        if name not in self._spelled and joined_key(name) not in self._joined:
            return None
        from toolcrib.catalog.name_detection import is_several_words  # noqa: PLC0415 - as above

        return _Reading(_GONE) if in_code or is_several_words(name) else None


class _Words:
    """Reads single words of documents, and caches ``remembered`` of the names in them."""

    def __init__(self, names: _Names | _Unknown, remembered: int) -> None:
        self._names = names
        self._known = lru_cache(remembered)(names.look)

    def read(self, word: str, in_code: bool) -> _Reading:  # noqa: FBT001 - lru_cache keeps it by place
        """Read a word that may be or contain names: of its parts, the longest run that is a name counts."""
        plain = unjoined(_ESCAPED.sub(r"\1", word))
        parts = SEPARATOR.split(plain)
        readings: list[_Reading] = []
        at = 0
        while at < len(parts):
            # Parts and separators alternate, hence steps of two. The longest run comes first: in db.drop_table the
            # whole is the name, not "db".
            for end in range(min(at + 2 * _PARTS_MAX - 1, len(parts)), at, -2):
                reading = self._look_inside("".join(parts[at:end]), in_code=in_code)
                if reading is not None:
                    break
            else:
                end, reading = at + 1, self._read_compound(parts[at], in_code=in_code)
            readings += [reading, *map(_Reading, parts[end : end + 1])]
            at = end + 1
        # If nothing was removed, the word is returned with its escapes.
        whole = _joined(readings)
        return whole if whole.text != plain else _Reading(word, whole.named)

    def _read_compound(self, part: str, *, in_code: bool) -> _Reading:
        """Read names between hyphens, as in ``a list_rows-like tool``; plain words there are words."""
        if "-" not in part or not _MADE_OF_WORDS.search(part):
            return _Reading(part)
        return _joined(
            (self._look(piece, in_code=in_code) if _MADE_OF_WORDS.search(piece) else None) or _Reading(piece)
            for piece in _HYPHEN.split(part)
        )

    def _look_inside(self, name: str, *, in_code: bool) -> _Reading | None:
        """Look up ``name`` as it is, then without surrounding dashes and emphasis marks."""
        reading = self._look(name, in_code=in_code)
        core = name.strip("_-")
        if reading is None and core != name:
            inside = self._look(core, in_code=in_code)
            return inside and _Reading(name.replace(core, inside.text, 1), inside.named)
        return reading

    def _look(self, name: str, *, in_code: bool) -> _Reading | None:
        look = self._known if len(name) <= _REMEMBERED_LENGTH_MAX else self._names.look
        return look(name, in_code)


class NameMasker:
    """Reads texts of one catalog for callers with equal permissions; caches the results for words.

    ``own`` are the names of our own tools, which no policy applies to.
    """

    def __init__(
        self, permissions: Permissions, catalog: Catalog, servers: Sequence[str], own: Collection[str]
    ) -> None:
        self.permissions, self.catalog = permissions, catalog
        self.denied = DeniedNames(permissions, catalog, servers)
        self.hides_nothing = permissions.unrestricted
        self._has_deferred = catalog.permitted(permissions).deferred_count > 0
        # One refers to the other, and none refers back: a catalog that is no longer current is freed at once with all
        # of them.
        self._names = _Names(permissions, catalog, self.denied, own)
        self._words = _Words(self._names, _REMEMBERED_MAX)
        self._remembered = lru_cache(_REMEMBERED_MAX)(self._words.read)
        self._deferred = lru_cache(_REMEMBERED_MAX)(self._names.deferred)
        self._lost = Recent[tuple[str, ...], frozenset[str]](_REMEMBERED_MAX)

    def clean(self, text: str) -> tuple[str, tuple[str, ...]]:
        """Return ``text`` without the names of hidden tools, and which permitted tools it names (R149).

        "another tool" replaces a denied name, qualified or not, whether the tool is indexed or only mentioned in the
        policy, and however its words are joined: ``drop_all``, ``drop-all``, ``dropAll``. A single plain word, and
        several words apart, count as a name in code marks, or if the text calls them a tool; the host of a URL never
        does. The second value: public names of permitted tools that a list may lack, the first five; a single
        plain word only counts alone in code marks, or every ``get`` in a program would be a mention. Idempotent. Takes
        linear time.
        """
        if self.hides_nothing and not self._has_deferred:
            return text, ()
        reading = _whatever_joins(text, self._cleaned)
        return reading.text, reading.named

    def _cleaned(self, text: str) -> _Reading:
        from toolcrib.catalog.name_detection import places  # noqa: PLC0415 - as above

        named: dict[str, None] = {}
        left: list[tuple[Place, str]] = []
        for place in places(text):
            word = text[place.start : place.end]
            reading = self._read(word, in_code=place.kind != "prose")
            # A crafted text has a hundred thousand places; only the first few of its tools are told.
            if len(named) < MENTIONED_MAX:
                named.update(dict.fromkeys(self._deferred(word) if place.kind == "alone" else reading.named))
            if reading.text != word:
                left.append((place, reading.text))
        return _Reading(_replaced(text, left), tuple(named)[:MENTIONED_MAX])

    def clean_names(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return those of ``names``, the entries of a skill's list of tools, that the reader may know of.

        If anything is denied to the caller, unknown names are removed like denied ones, or the difference would be
        observable. Names spelled like a host's own tools stay.
        """
        if self.hides_nothing:
            return tuple(names)
        return tuple(name for name in names if self._is_whole(name) and self._names.may_be_listed(name))

    def lost(self, names: tuple[str, ...]) -> frozenset[str]:
        """Return those of ``names`` that :meth:`clean_names` removes."""
        if self.hides_nothing or not names:
            return frozenset()
        return self._lost.get(names, lambda: frozenset(names).difference(self.clean_names(names)))

    def tool(self, spelling: str) -> Tool | None:
        """Return the one permitted tool that ``spelling`` refers to, also in hosts' spellings."""
        permitted = self.catalog.permitted(self.permissions)
        found = (self.catalog.find(each, permitted) for each in host_spellings(spelling))
        return next(filter(None, found), None)

    def without_names(self, text: str, names: frozenset[str]) -> str:
        """Return ``text`` with "another tool" for these names, in every spelling: as if such tools were denied."""
        if not names:
            return text
        from toolcrib.catalog.name_detection import places  # noqa: PLC0415 - as above

        read = _unknown(names).read

        def cleaned(text: str) -> _Reading:
            left = ((each, read(text[each.start : each.end], each.kind != "prose").text) for each in places(text))
            return _Reading(_replaced(text, left))

        return _whatever_joins(text, cleaned).text

    def without(self, candidate: str, lost: frozenset[str] = frozenset()) -> str:
        """Return what is left of a candidate, in the form of ``places.candidates``, without denied names; or all of it.

        ``lost`` are unknown names, which are removed like denied ones.
        """
        word = candidate.removeprefix("`")
        left = self._read(word, in_code=word != candidate).text
        if lost:
            left = _unknown(lost).read(left, word != candidate).text
        return candidate if left == word else left.replace(_GONE, " ")

    def _is_whole(self, name: str) -> bool:
        from toolcrib.catalog.name_detection import candidates  # noqa: PLC0415 - as above

        return all(self.without(candidate) == candidate for _, candidate in candidates(f"`{name}`"))

    def _read(self, word: str, *, in_code: bool) -> _Reading:
        read = self._remembered if len(word) <= _REMEMBERED_LENGTH_MAX else self._words.read
        return read(word, in_code)


@lru_cache(_UNKNOWN_MAX)
def _unknown(names: frozenset[str]) -> _Words:
    # Looking a name up is about as fast as a cache, and a cache of words for each of the sets would take gigabytes.
    return _Words(_Unknown(names), remembered=0)


def hint(names: Iterable[str]) -> str:
    """Return the line that says what to do if a tool named in a document is not listed (R150)."""
    named = ", ".join(names)
    if not named:
        return ""
    return f"If a tool named here is not listed, call it with toolcrib's tool_call, find it with tool_search: {named}"


def _replaced(text: str, left: Iterable[tuple["Place", str]]) -> str:
    """Return a text with what is left of the words at some places, in order; plain words replace removed names."""
    from toolcrib.catalog.name_detection import instead_of  # noqa: PLC0415 - as above

    pieces: list[str] = []
    at = 0
    for place, word in left:
        # Inside of a phrase that was removed, its words are gone too.
        if word != text[place.start : place.end] and place.start >= at:
            pieces += [text[at : place.start], word.replace(_GONE, instead_of(text, place))]
            at = place.end
    return "".join([*pieces, text[at:]])


def _whatever_joins(text: str, read: Callable[[str], _Reading]) -> _Reading:
    """Return the reading of a text; of the text without joiners, if one of them is inside of a name that it removes."""
    reading, plain = read(text), unjoined(text)
    if plain == text:
        return reading
    as_plain = read(plain)
    return reading if unjoined(reading.text) == as_plain.text else as_plain


def _joined(readings: Iterable[_Reading]) -> _Reading:
    every = list(readings)
    return _Reading("".join([each.text for each in every]), tuple(name for each in every for name in each.named))

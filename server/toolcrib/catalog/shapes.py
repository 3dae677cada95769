"""What texts hold that are JSON: the names and the kinds that were seen in them, and never a value (ADR 95)."""

import json
import math
import re
from collections import Counter
from collections.abc import Container, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, ClassVar, Self, cast

from toolcrib.base.json_values import as_object, compact, json_type
from toolcrib.base.model import JsonObject
from toolcrib.base.text import characters_of
from toolcrib.catalog.outputs import MORE, SHOWN_TOKENS, TEXT, VARIES, spelled

_SEVERAL = 2
"""Of so many objects or texts on, what most have in common is known."""
_FADES_ABOVE = 64
"""So many values at one place count in full. Beyond them all count half, so that what has changed is known soon."""

_NAME = re.compile(r"[@$_]?[^\W\d][\w-]{0,38}")
"""What may be the name of a member. What may be data is none: an address, a path, a date, a sentence."""
_DIGITS_MAX, _ALIKE_MIN = 3, 3
_CONTAINERS = frozenset(("object", "array"))
_NAMES_MAX = (40, 20)
"""Names at one place, in an object and in one inside it; deeper ones are not shown."""
_NESTED_MAX, _PLACES_MAX = 3, 2000
_COUNT_MAX = 10**6
_BEGINS = ("{", "[")
_BESIDES = " or other text"


class Seen:
    """What was seen at one place of texts: how many values, of which JSON types, and what was in them.

    ``members`` are those of objects, by name. Those whose names are data, as far as can be told, have none here:
    ``values`` are theirs, all together, as ``items`` are those of arrays.
    """

    __slots__ = ("count", "items", "kinds", "members", "values")

    items_read: ClassVar = 200
    """So many members of one object, and items of one array, are read."""
    fades_above: ClassVar[float] = _FADES_ABOVE
    hardly_ever: ClassVar = 0.05
    """A share of all values; of types that fewer have nothing is said."""

    def __init__(self) -> None:
        self.count = 0
        self.kinds = Counter[str]()
        self.members: dict[str, Self] = {}
        self.items: Self | None = None
        self.values: Self | None = None

    # -- what is seen ------------------------------------------------------------------------------

    def add(self, value: Any, depth: int = 0, nested: int = 0) -> Self:
        """Count one more value at this place, and return it; ``depth`` objects and ``nested`` arrays are around it."""
        self.count += 1
        self.kinds[json_type(value)] += 1
        match value:
            case dict() if depth < len(_NAMES_MAX):
                self._add_members(cast("JsonObject", value), depth, nested)
            case list() if nested < _NESTED_MAX:
                self.items = self.items or type(self)()
                for item in islice(cast("list[Any]", value), self.items_read):
                    self.items.add(item, depth, nested + 1).fade_beyond()
            case _:
                pass
        return self

    def _add_members(self, fields: JsonObject, depth: int, nested: int) -> None:
        for name, value in islice(fields.items(), self.items_read):
            if name in self.members or (self.may_show(name) and self._has_room(_NAMES_MAX[depth], fields)):
                self.members.setdefault(name, type(self)()).add(value, depth + 1, nested)
            else:
                self.values = (self.values or type(self)()).add(value, depth + 1, nested)
                self.values.fade_beyond()

    def _has_room(self, most: int, fields: JsonObject) -> bool:
        """Return whether there is room for one more member: for it one goes that came once, and not with these."""
        if len(self.members) < most:
            return True
        gone = next((name for name, member in self.members.items() if member.count == 1 and name not in fields), None)
        if gone is None:
            return False
        self.values = (self.values or type(self)()).join(self.members.pop(gone))
        return True

    @staticmethod
    def may_show(name: str) -> bool:
        """Return whether a name may be that of a member, which others may be told."""
        return _NAME.fullmatch(name) is not None and sum(map(str.isdigit, name)) <= _DIGITS_MAX

    def fade_beyond(self) -> None:
        """Count what was seen half, once it is much, so that what has changed since is known soon."""
        if self.count > self.fades_above:
            self.fade()

    def fade(self) -> None:
        """Count what was seen half; what was seen once is forgotten."""
        self.count //= 2
        self.kinds = Counter({kind: count // 2 for kind, count in self.kinds.items() if count > 1})
        for each in (*self.members.values(), self.items, self.values):
            if each is not None:
                each.fade()
        self.members = {name: member for name, member in self.members.items() if member.count}

    def join(self, other: Self) -> Self:
        """Add what was seen at another place, and return this one."""
        self.count += other.count
        self.kinds += other.kinds
        for name, member in other.members.items():
            self.members.setdefault(name, type(self)()).join(member)
        if other.items is not None:
            self.items = (self.items or type(self)()).join(other.items)
        if other.values is not None:
            self.values = (self.values or type(self)()).join(other.values)
        return self

    def places(self) -> int:
        """Return how many places are counted, this one and all in it."""
        inside = (*self.members.values(), self.items, self.values)
        return 1 + sum(each.places() for each in inside if each is not None)

    # -- what is known -----------------------------------------------------------------------------

    def schema(self) -> JsonObject:
        """Return what is known of the place, as a JSON Schema."""
        types, can_be_null = self.types(), self.kinds["null"] > self.count * self.hardly_ever
        if types & _CONTAINERS and len(types) > 1:
            return {VARIES: True}
        if not types & _CONTAINERS:
            return {"type": [*sorted(types), *(["null"] if can_be_null else [])]}
        schema = self._of_objects() if "object" in types else self._of_arrays()
        return {"anyOf": [schema, {"type": "null"}]} if can_be_null else schema

    def types(self) -> set[str]:
        """Return the JSON types, but for null, which may be anywhere, and for those that hardly ever come."""
        least = self.count * self.hardly_ever
        types = {kind for kind, count in self.kinds.items() if kind != "null" and count > least}
        if "number" in types:
            types.discard("integer")
        if "object" in types and not (self.items and self.items.count):
            types.discard("array")  # some languages write an empty object so
        return types

    def _of_arrays(self) -> JsonObject:
        items = self.items
        return {"type": "array", "items": items.schema() if items and items.count else {}}

    def _of_objects(self) -> JsonObject:
        members, others = self.told_apart()
        if not members and len(others.types()) == 1:
            return {"type": "object", "additionalProperties": others.schema()}
        return {
            "type": "object",
            "properties": {name: member.schema() for name, member in members.items()},
            "required": [name for name, member in members.items() if member.count >= self.kinds["object"]],
            **({MORE: True} if others.count else {}),
        }

    def told_apart(self) -> tuple[Mapping[str, Self], Self]:
        """Return the members whose names are no data, and what all others hold together.

        The former were in most of the objects, and these were two at least. There are none where objects are keyed by
        data. They are if most names are rare and what is below them is of one type; or if below each of several names
        is an object, and all of these have the same names.
        """
        count = self.kinds["object"]
        if count < _SEVERAL:
            return {}, self.values or type(self)()
        common = {name: member for name, member in self.members.items() if 2 * member.count > count}
        is_sparse = len(self.members) > 2 * len(common)
        if (is_sparse and len(self._together().types()) == 1) or self._are_alike(common):
            return {}, self._together()
        return common, self._together(common)

    def _are_alike(self, members: "Mapping[str, Seen]") -> bool:
        """Return whether below each of several members is an object, and all of these have the same names."""
        names = {frozenset(member.members if member.types() == {"object"} else ()) for member in members.values()}
        return len(members) >= _ALIKE_MIN and len(names) == 1 and names != {frozenset[str]()}

    def _together(self, besides: Container[str] = ()) -> Self:
        """Return what all members hold, but for some, as if they were one."""
        together = type(self)()
        for each in (self.values, *(member for name, member in self.members.items() if name not in besides)):
            if each is not None:
                together.join(each)
        return together

    # -- what is stored ----------------------------------------------------------------------------

    def as_json(self) -> JsonObject:
        """Return what is known, for :meth:`from_json`: without any name that may be data."""
        members, others = self.told_apart()
        return {
            "count": self.count,
            "kinds": dict(self.kinds),
            "members": {name: member.as_json() for name, member in members.items()},
            **({"items": self.items.as_json()} if self.items else {}),
            **({"values": others.as_json()} if others.count else {}),
        }

    @classmethod
    def from_json(cls, stored: Any, depth: int = 0) -> Self:
        """Return what :meth:`as_json` has written; of what somebody else has written, what can be read."""
        fields, seen = as_object(stored), cls()
        if depth > len(_NAMES_MAX) + _NESTED_MAX:
            return seen
        seen.count = _counted(fields.get("count"))
        seen.kinds = Counter({kind: _counted(count) for kind, count in as_object(fields.get("kinds")).items()})
        members = islice(as_object(fields.get("members")).items(), _NAMES_MAX[0])
        seen.members = {name: cls.from_json(each, depth + 1) for name, each in members if cls.may_show(name)}
        seen.items = cls.from_json(fields["items"], depth + 1) if "items" in fields else None
        seen.values = cls.from_json(fields["values"], depth + 1) if "values" in fields else None
        return seen


def _counted(stored: Any) -> int:
    return min(max(stored, 0), _COUNT_MAX) if isinstance(stored, int) else 0


class _SeenOnce(Seen):
    """What was seen in one text, for those whose text it is: every name is told."""

    __slots__ = ()

    items_read = 10_000
    fades_above = math.inf
    hardly_ever = 0.0

    @staticmethod
    def may_show(name: str) -> bool:
        return bool(name)

    def told_apart(self) -> tuple[Mapping[str, Self], Self]:
        return self.members, self.values or type(self)()


def _json_in(text: str) -> Any:
    """Return the object or array that a text is; raises ValueError: it is neither, or cannot be read."""
    if text.lstrip()[:1] not in _BEGINS:
        raise ValueError(text[:1])
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(text[:1]) from None


def names_in(text: str, most: int) -> str:
    """Return what one JSON text holds, with all names of members where ``most`` characters have room.

    Raises:
        ValueError: it is neither an object nor an array, or too deep to be read.

    """
    return spelled(_SeenOnce().add(_json_in(text)).schema(), most)


class TextShape:
    """What the texts of one tool hold, by those that were seen: each the result of a call with other arguments."""

    def __init__(self, stored: str = "") -> None:
        fields: JsonObject = {}
        with suppress(ValueError, RecursionError):  # somebody else has written it
            fields = as_object(json.loads(stored))
        self._seen = Seen.from_json(fields.get("seen"))
        self._other = _counted(fields.get("other"))

    def add(self, text: str) -> None:
        """Take in one more text. Takes time in proportion to its size."""
        try:
            self._seen.add(_json_in(text))
        except ValueError:
            self._other += 1
        if self._seen.count + self._other > _FADES_ABOVE:
            self._seen.fade()
            self._other = (self._other + 1) // 2  # not to none: a program has to reckon with it
        # As large as this it is of no help, and what comes once only is most of it.
        while self._seen.count and self._seen.places() > _PLACES_MAX:
            self._seen.fade()

    @property
    def shown(self) -> str:
        """What is said of a text, as ``str: JSON {sha, author}[]``; only ``str`` where too little is known of it."""
        count, items = self._seen.count, self._seen.items
        # What is in one text alone is known only where it is so in several items.
        is_known = count >= _SEVERAL or (items is not None and items.count >= _SEVERAL)
        if self._other >= count or not is_known:
            return TEXT.shown
        start, end = f"{TEXT.shown}: JSON ", _BESIDES if self._other else ""
        return f"{start}{spelled(self._seen.schema(), characters_of(SHOWN_TOKENS) - len(start) - len(end))}{end}"

    def as_json(self) -> str:
        """Return it as it is stored."""
        return compact({"seen": self._seen.as_json(), "other": self._other})

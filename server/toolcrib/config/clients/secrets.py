"""The secrets in an entry of ``mcpServers``, and the entry with variables instead of them.

Knows where secrets are; never knows what is done with them. Never shows one: it names places.
"""

import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.model import JsonObject
from toolcrib.config.expansion import DOLLAR, VARIABLE, variable_name
from toolcrib.config.private_values import is_private_name, private_arguments, private_in

_CHANCE = 5
_SCHEME = re.compile(r"(?:Bearer|Basic|Token)\s+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret in an entry: the keys to the text that it stands in, the part that is secret, a name for a variable."""

    place: tuple[str | int, ...]
    value: str
    name: str

    @property
    def shown(self) -> str:
        """Where it stands, for people: ``env.TOKEN``, ``args[2]``."""
        return "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in self.place).lstrip(".")


def secrets_in(entry: JsonObject, server: str, inlined: Sequence[str] = ()) -> list[Secret]:
    """Return the secrets that stand in an entry of the server; ``inlined`` texts are secrets wherever they stand."""
    return [secret for secret in _secrets(entry, server, inlined) if VARIABLE.sub("", secret.value).strip()]


def _secrets(entry: JsonObject, server: str, inlined: Sequence[str]) -> Iterator[Secret]:
    for name, value in as_object(entry.get("env")).items():
        for secret in in_value(name, value, inlined):
            yield Secret(("env", name), secret, variable_name(name))
    for name, value in as_object(entry.get("headers")).items():
        for secret in in_value(name, value, inlined):
            yield Secret(("headers", name), secret, variable_name(f"{server}_TOKEN"))
    args = [each for each in as_list(entry.get("args")) if isinstance(each, str)]
    for place, secret in private_arguments(args):
        yield Secret(("args", place), secret, variable_name(f"{server}_SECRET"))
    for place, argument in enumerate(args):
        for secret in inlined_in(argument, inlined):
            yield Secret(("args", place), secret, variable_name(f"{server}_SECRET"))
    url = entry.get("url")
    if isinstance(url, str):
        for secret in dict.fromkeys((*private_in(url), *inlined_in(url, inlined))):
            yield Secret(("url",), secret, variable_name(f"{server}_KEY"))


def in_value(name: str, value: Any, inlined: Sequence[str]) -> Iterator[str]:
    """Yield what is secret in the value of a variable or a header; ``inlined`` texts are, wherever they stand."""
    if not isinstance(value, str) or not value:
        return
    if is_private_name(name) or name.lower() == "cookie":
        scheme = _SCHEME.match(value)
        yield value[scheme.end() :] if scheme else value
        return
    yield from dict.fromkeys((*private_in(value), *inlined_in(value, inlined)))


def inlined_in(value: str, inlined: Sequence[str]) -> Iterator[str]:
    """Yield those of the ``inlined`` texts that stand in a value, but for such as may stand there by chance."""
    yield from (text for text in inlined if len(text) > _CHANCE and text in value)


def moved(entry: JsonObject, secrets: Sequence[Secret], taken: dict[str, str]) -> JsonObject:
    """Return the entry with each secret as a variable; ``taken`` gets the variables and what they have to be.

    A name that another secret has already gets a number.
    """
    made = copy.deepcopy(entry)
    for secret in secrets:
        value = secret.value.replace(DOLLAR, "$")
        name = _free_name(secret, value, taken)
        taken[name] = value
        holder: Any = made
        for key in secret.place[:-1]:
            holder = holder[key]
        last = secret.place[-1]
        holder[last] = holder[last].replace(secret.value, f"${{{name}}}")
    return made


def _free_name(secret: Secret, value: str, taken: dict[str, str]) -> str:
    name, number = secret.name, 2
    while taken.get(name, value) != value:
        name, number = f"{secret.name}_{number}", number + 1
    return name


def unique(secrets: Sequence[Secret]) -> list[Secret]:
    """Return secrets without repeats, longer ones first, so that one inside another is not taken apart."""
    once = {(secret.place, secret.value): secret for secret in secrets}
    return sorted(once.values(), key=lambda secret: -len(secret.value))

"""The secrets in an entry of ``mcpServers``, and the entry with variables instead of them.

Never shows one: it names places.
"""

import copy
import re
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.model import JsonObject
from toolcrib.base.redaction import BEARER, KEY, MASK
from toolcrib.config.variables import DOLLAR, VARIABLE, variable_name

_NAME = re.compile(
    r"(?:\A|[-_.])(?:api[-_]?keys?|keys?|token|secrets?|passw(?:or)?d|passphrase|pwd|auth|authorization|bearer|"
    r"credentials?|pat|dsn|connection[-_]?string)\Z",
    re.IGNORECASE,
)
"""How an option, a variable or a header ends that carries a secret."""
_ASSIGNED = re.compile(r"\A-{0,2}([A-Za-z_][\w.-]*)=(.+)\Z", re.DOTALL)
_OPTION = re.compile(r"\A--?([A-Za-z_][\w.-]*)\Z")
_HEADER = re.compile(r"\A([A-Za-z][\w-]*):\s*(.+)\Z", re.DOTALL)


def is_private_name(name: str) -> bool:
    """Return whether an option, a variable or a header that is called so carries a secret."""
    return _NAME.search(name) is not None


def private_in(text: str) -> Iterator[str]:
    """Yield the secrets in a text, whatever its name: keys, tokens behind ``Bearer``, passwords in URLs."""
    yield from _keys_and_tokens(text)
    if "://" in text:
        try:
            parts = urlsplit(text)
        except ValueError:
            return
        # The user alone may be a token, as in https://TOKEN@host.
        yield from filter(None, parts.netloc.rpartition("@")[0].split(":", 1))
        yield from (value for name, value in _query(parts) if value and (is_private_name(name) or KEY.search(value)))


def _keys_and_tokens(text: str) -> Iterator[str]:
    yield from (found[0] for found in KEY.finditer(text))
    yield from (found[2] for found in BEARER.finditer(text))


def _query(parts: SplitResult) -> Iterator[tuple[str, str]]:
    for pair in parts.query.split("&"):
        name, _, value = pair.partition("=")
        yield name, value


def private_arguments(arguments: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the secrets in the arguments of a program, each with the place of the argument that it stands in.

    ``--api-key=…``, ``--token …``, ``KEY=…`` (as after ``-e``), ``Authorization: …`` (as after ``--header``), URLs with
    a password or a query, and what looks like a key wherever it stands.
    """
    named = False
    for place, argument in enumerate(arguments):
        assigned, option = _ASSIGNED.match(argument), _OPTION.match(argument)
        # "--token VALUE": the option before names it.
        if named and not option:
            yield place, argument
        elif assigned and _NAME.search(assigned[1]):
            yield place, assigned[2]
        else:
            yield from ((place, secret) for secret in _unnamed(argument))
        named = option is not None and _NAME.search(option[1]) is not None


def private_variables(arguments: Sequence[str]) -> set[str]:
    """Return the names of variables that stand for secrets in arguments.

    A program that fills in variables itself, such as mcp-remote, has its secrets in those that its arguments name.
    """
    texts = (secret.replace(DOLLAR, "$") for _, secret in private_arguments(arguments))
    return {name for text in texts for name in VARIABLE.findall(text)}


def masked(arguments: Sequence[str]) -> list[str]:
    """Return arguments to be shown: the secrets in them are replaced, however short."""
    shown = list(arguments)
    for place, secret in private_arguments(arguments):
        shown[place] = shown[place].replace(secret, MASK)
    return shown


def private_headers(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of headers, and their last words: the part after ``Bearer``."""
    for value in headers.values():
        yield value
        yield value.rpartition(" ")[2]


def private_parts(url: SplitResult) -> Iterator[str]:
    """Yield the user, the password and the values of the query, as they stand and decoded."""
    for part in url.netloc.rpartition("@")[0].split(":", 1):
        yield part
        yield unquote(part)
    for pair in url.query.split("&"):
        yield pair.partition("=")[2]
    yield from (value for _, value in parse_qsl(url.query))


def _unnamed(argument: str) -> Iterator[str]:
    """Yield the secrets in an argument without a telling name."""
    header = _HEADER.match(argument)
    if header and _NAME.search(header[1]):
        yield from filter(None, private_headers({header[1]: header[2]}))
    yield from _keys_and_tokens(argument)
    if "://" in argument:
        try:
            yield from filter(None, private_parts(urlsplit(argument)))
        except ValueError:  # no URL after all
            yield argument


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
    # What is text to toolcrib may be a variable to the program that gets it.
    found = ((secret, secret.value.replace(DOLLAR, "$")) for secret in _secrets(entry, server, inlined))
    return [secret for secret, text in found if VARIABLE.sub("", text).strip()]


def _secrets(entry: JsonObject, server: str, inlined: Sequence[str]) -> Iterator[Secret]:
    args = [each if isinstance(each, str) else "" for each in as_list(entry.get("args"))]
    referred = private_variables(args)
    for name, value in as_object(entry.get("env")).items():
        found = [value] if name in referred and isinstance(value, str) else secrets_in_value(name, value, inlined)
        for secret in found:
            yield Secret(("env", name), secret, variable_name(name))
    for name, value in as_object(entry.get("headers")).items():
        for secret in secrets_in_value(name, value, inlined):
            yield Secret(("headers", name), secret, variable_name(f"{server}_TOKEN"))
    for place, secret in private_arguments(args):
        yield Secret(("args", place), secret, variable_name(f"{server}_SECRET"))
    for place, argument in enumerate(args):
        for secret in inlined_texts_in(argument, inlined):
            yield Secret(("args", place), secret, variable_name(f"{server}_SECRET"))
    url = entry.get("url")
    if isinstance(url, str):
        for secret in dict.fromkeys((*private_in(url), *inlined_texts_in(url, inlined))):
            yield Secret(("url",), secret, variable_name(f"{server}_KEY"))


def secrets_in_value(name: str, value: Any, inlined: Sequence[str]) -> Iterator[str]:
    """Yield the secrets in the value of a variable or a header; ``inlined`` texts are secrets anywhere."""
    if not isinstance(value, str) or not value:
        return
    if is_private_name(name) or name.lower() == "cookie":
        scheme = _SCHEME.match(value)
        yield value[scheme.end() :] if scheme else value
        return
    yield from dict.fromkeys((*private_in(value), *inlined_texts_in(value, inlined)))


def inlined_texts_in(value: str, inlined: Sequence[str]) -> Iterator[str]:
    """Yield those of the ``inlined`` texts that stand in a value, but for such as may stand there by chance."""
    yield from (text for text in inlined if len(text) > _CHANCE and text in value)


def moved(entry: JsonObject, secrets: Sequence[Secret], taken: MutableMapping[str, str]) -> JsonObject:
    """Return the entry with each secret as a variable; ``taken`` gets the variables and what they have to be.

    A name that another secret has already gets a number.
    """
    made = copy.deepcopy(entry)
    for secret in secrets:
        # The text is written for our own expansion; a variable's value is not expanded again.
        value = secret.value.replace(DOLLAR, "$")
        name = _free_name(secret, value, taken)
        taken[name] = value
        holder: Any = made
        for key in secret.place[:-1]:
            holder = holder[key]
        last = secret.place[-1]
        holder[last] = holder[last].replace(secret.value, f"${{{name}}}")
    return made


def _free_name(secret: Secret, value: str, taken: Mapping[str, str]) -> str:
    name, number = secret.name, 2
    while taken.get(name, value) != value:
        name, number = f"{secret.name}_{number}", number + 1
    return name


def unique(secrets: Sequence[Secret]) -> list[Secret]:
    """Return secrets without repeats, longer ones first, so that one inside another is not taken apart."""
    # The same text may be found by its name and by its form.
    once = {(secret.place, secret.value): secret for secret in secrets}
    # Replacing "abc" first would leave half of "abcdef" in the text.
    return sorted(once.values(), key=lambda secret: -len(secret.value))

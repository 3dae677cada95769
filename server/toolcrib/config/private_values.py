"""Values in an entry of ``mcpServers`` that may be secret: variables, headers, parts of URLs, and arguments.

Knows where people put secrets, and the names of options that carry them; never knows what is done about them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from toolcrib.base.redaction import BEARER, KEY, MASK

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
    """Yield what is secret in a text, whatever it is called: keys, tokens behind ``Bearer``, passwords in URLs."""
    yield from _keys_and_tokens(text)
    if "://" in text:
        try:
            parts = urlsplit(text)
        except ValueError:
            return
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
        if named and not option:
            yield place, argument
        elif assigned and _NAME.search(assigned[1]):
            yield place, assigned[2]
        else:
            yield from ((place, secret) for secret in _unnamed(argument))
        named = option is not None and _NAME.search(option[1]) is not None


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
    """Yield what is secret in an argument that no name tells of."""
    header = _HEADER.match(argument)
    if header and _NAME.search(header[1]):
        yield from filter(None, private_headers({header[1]: header[2]}))
    yield from _keys_and_tokens(argument)
    if "://" in argument:
        try:
            yield from filter(None, private_parts(urlsplit(argument)))
        except ValueError:  # no URL after all
            yield argument

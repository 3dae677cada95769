"""A server's challenge to a request that requires a login, and the parts of it that are passed on."""

import re
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

import httpx2

from toolcrib.base.text import truncate

_HEADER = "www-authenticate"
_HEADER_MAX = 4096
_SCOPE = re.compile(r"""\bscope=(?:"([^"]*)"|([^\s,"]+))""")
_SCOPE_TEXT = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+(?: [\x21\x23-\x5b\x5d-\x7e]+)*\Z")
_SCOPE_MAX = 500
_METADATA = re.compile(r"""\bresource_metadata=(?:"([^"]+)"|([^\s,"]+))""")
_TOO_LITTLE = re.compile(r"""\berror=(?:"insufficient_scope"|insufficient_scope\b)""")


@dataclass(frozen=True, slots=True)
class Challenge:
    """A refusal that requests a login: its status, its header ``WWW-Authenticate``, and the URL it came from.

    ``peer`` is the network address, empty if unknown.
    """

    status: int
    header: str = ""
    peer: str = ""

    @property
    def scope(self) -> str:
        """The requested scope, space-separated; empty if there is none, or none that could be requested."""
        found = _SCOPE.search(self.header)
        scope = (found[1] or found[2] or "") if found else ""
        return scope if len(scope) <= _SCOPE_MAX and _SCOPE_TEXT.match(scope) else ""

    @property
    def wants_more(self) -> bool:
        """Whether the existing login has insufficient scope (RFC 6750, section 3.1)."""
        return self.status == HTTPStatus.FORBIDDEN

    def asking_for(self, scopes: tuple[str, ...]) -> "Challenge":
        """Return the challenge as if the server had requested these scopes; unchanged if there are none.

        A challenge for insufficient scope stays one.
        """
        if not scopes:
            return self
        # Each once: a scope may be both configured and requested.
        wanted = dict.fromkeys([*scopes, *(self.scope.split() if self.wants_more else ())])
        found = _METADATA.search(self.header)
        metadata = (found[1] or found[2]) if found else ""
        fields = [
            *(['error="insufficient_scope"'] if self.wants_more else ()),
            *([f'resource_metadata="{metadata}"'] if metadata else ()),
            f'scope="{" ".join(wanted)}"',
        ]
        return replace(self, header=f"Bearer {', '.join(fields)}")

    def response(self, request: httpx2.Request) -> httpx2.Response:
        """Return the response itself, as one to ``request``."""
        headers = {_HEADER: self.header} if self.header else {}
        return httpx2.Response(self.status, headers=headers, content=b"", request=request)


def challenge_of(response: httpx2.Response) -> Challenge | None:
    """Return the challenge in a response; None if it does not request a login."""
    header = response.headers.get(_HEADER, "")
    match response.status_code:
        case HTTPStatus.UNAUTHORIZED:
            pass
        case HTTPStatus.FORBIDDEN if _TOO_LITTLE.search(header):
            pass
        case _:
            return None
    return Challenge(response.status_code, truncate(header, _HEADER_MAX), _peer(response))


def _peer(response: httpx2.Response) -> str:
    stream = response.extensions.get("network_stream")
    address: Any = stream.get_extra_info("server_addr") if stream is not None else None
    return str(address[0]) if address else ""

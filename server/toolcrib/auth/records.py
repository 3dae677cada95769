"""The stored form of one login, as JSON: tokens, the client's registration, expiry, issuer and account."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from toolcrib.base.json_values import as_object
from toolcrib.base.model import JsonObject

_VERSION = 1
_SECRET = ("access_token", "refresh_token", "client_secret", "registration_access_token")
"""The secret members of tokens and of a registration."""


@dataclass(frozen=True, slots=True)
class Record:
    """The stored login of one entry of ``mcpServers`` at one server.

    ``server`` is its URL without potentially secret parts, ``issuer`` the issuer of the tokens, ``account`` their
    account, if known. ``expires_at`` is when the access token expires, in wall-clock seconds, because it outlives the
    process; None if unknown. ``tokens`` and ``client`` are as the provider sent them. ``is_in_keyring``: the secrets
    are in the system's keyring. ``problem`` says why nothing is known although something is stored.
    """

    entry: str
    server: str
    issuer: str = ""
    account: str = ""
    scope: str = ""
    expires_at: float | None = None
    saved_at: float = 0.0
    has_tokens: bool = False
    can_renew: bool = False
    is_in_keyring: bool = False
    problem: str = ""
    tokens: JsonObject | None = field(default=None, repr=False)
    client: JsonObject | None = field(default=None, repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the texts that must not be disclosed anywhere."""
        return tuple(_texts(self.tokens)) + tuple(_texts(self.client))


_FACTS = ("entry", "server", "issuer", "account", "scope", "expires_at", "saved_at", "has_tokens", "can_renew")
_TYPES = {"expires_at": (int, float, type(None)), "saved_at": (int, float), "has_tokens": bool, "can_renew": bool}


def encoded(record: Record, *, with_secrets: bool) -> str:
    """Serialize a record; without the secrets it says that they are in the keyring."""
    facts = {name: getattr(record, name) for name in _FACTS}
    secrets = {"tokens": record.tokens, "client": record.client} if with_secrets else {"keyring": True}
    return json.dumps({"version": _VERSION, **facts, **secrets})


def decoded(text: str | bytes) -> Record:
    """Parse a serialized record.

    Raises:
        ValueError: it is invalid.

    """
    try:
        value = as_object(json.loads(text))
    except RecursionError as error:
        raise ValueError from error
    facts: dict[str, Any] = {name: value.get(name) for name in _FACTS}
    if value.get("version") != _VERSION or not all(_is_fact(name, fact) for name, fact in facts.items()):
        raise ValueError
    tokens, client = value.get("tokens"), value.get("client")
    if not all(each is None or isinstance(each, dict) for each in (tokens, client)):
        raise ValueError
    return Record(**facts, is_in_keyring=value.get("keyring") is True, tokens=tokens, client=client)


def _is_fact(name: str, value: Any) -> bool:
    # json.loads accepts NaN, which no comparison of times survives.
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return isinstance(value, _TYPES.get(name, str))


def _texts(value: JsonObject | None) -> Iterator[str]:
    for name in _SECRET:
        text = (value or {}).get(name)
        if isinstance(text, str) and text:
            yield text


def login_json(record: Record) -> JsonObject | None:
    """Return the public facts of a login as a JSON object; None if there is none."""
    if not record.has_tokens:
        return None
    until = None if record.expires_at is None else datetime.fromtimestamp(record.expires_at).astimezone()
    return {
        "as": record.account or None,
        "by": record.issuer or None,
        "scope": record.scope or None,
        "until": until and until.isoformat(timespec="seconds"),
        "renews": record.can_renew,
    }


def login_text(login: JsonObject) -> str:
    """Return the facts of a valid login as the end of a sentence that begins with ``logged in``."""
    who = f" as {login['as']}" if login["as"] else ""
    by = f" by {login['by']}" if login["by"] else ""
    until = f", until {login['until'][:16].replace('T', ' ')}" if login["until"] else ""
    return f"{who}{by}{until}{', refreshed automatically' if login['renews'] else ''}"

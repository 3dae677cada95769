"""The shape of ``auth`` of a server: every key, its type, its bounds and its default.

Knows names and ranges only; never knows how a login is made.
The text under each key is its row in docs/configuration.md.
"""

from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, Strict, model_validator
from pydantic_core import PydanticCustomError

from toolcrib.config.values import Section, Str, Strings

_Text = Annotated[str, Strict(), Field(min_length=1)]

_ADDRESSES = ("issuer", "client_metadata_url")


class AuthSection(Section):
    """How toolcrib logs in to an HTTP server; without it, the challenge of the server is used."""

    type: Literal["oauth", "client_credentials", "none"] = "oauth"
    """`oauth`: a person logs in with `toolcrib login`; `client_credentials`: a machine logs in; `none`: no login."""
    client_id: _Text | None = None
    """The client registered with the authorization server; null: toolcrib registers itself if it can."""
    client_secret: _Text | None = Field(default=None, repr=False)
    """Its secret; write `${VARIABLE}`."""
    private_key: _Text | None = Field(default=None, repr=False)
    """For `client_credentials`, instead of a secret: the PEM key that signs for it (`private_key_jwt`)."""
    issuer: Str | None = None
    """The authorization server of `client_id`, the only one to get its secret; null: the one that the server names."""
    scopes: Strings = ()
    """The scopes to request; empty: those that the server requires."""
    client_metadata_url: Str | None = None
    """The https URL of a client ID metadata document, if the authorization server supports one."""
    redirect_port: Annotated[int, Strict(), Field(ge=1, le=65535)] | None = None
    """The port of 127.0.0.1 for the redirect of a login; null: any free one."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """Refuse what nobody could log in with."""
        if self.type == "client_credentials" and not (self.client_id and (self.client_secret or self.private_key)):
            raise _wrong("client_credentials needs client_id, and client_secret or private_key")
        if self.private_key and (self.type != "client_credentials" or self.client_secret):
            raise _wrong("private_key is for client_credentials, in place of client_secret")
        if self.client_secret and not self.client_id:
            raise _wrong("client_secret needs client_id")
        for name in _ADDRESSES:
            address = getattr(self, name)
            if address is not None and not _is_address(address):
                raise _wrong(f"{name} must be an https address, or http on this machine")
        if self.client_metadata_url and urlsplit(self.client_metadata_url).path in ("", "/"):
            raise _wrong("client_metadata_url must be an https address with a path")
        return self


def _wrong(text: str) -> PydanticCustomError:
    return PydanticCustomError("auth", text)  # type: ignore[arg-type]


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.hostname) and (
        parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1"))
    )

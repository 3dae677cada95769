"""The shape of ``toolcrib.http``: every key, its type, its bounds and its default.

Knows names and ranges only; never knows sockets or who a token stands for.
The text under each key is its row in docs/configuration.md.
"""

from typing import Annotated

from pydantic import Field, Strict, field_validator
from pydantic_core import PydanticCustomError

from toolcrib.config.values import Count, Seconds, Section, Str, Strings


class TokenSection(Section):
    """One bearer token and the caller it identifies."""

    token: Annotated[str, Strict(), Field(min_length=8, repr=False)]
    """The secret, of visible ASCII characters; write `${VARIABLE}`."""
    subject: Annotated[str, Strict(), Field(min_length=1)]
    """The caller's name."""
    tenant_id: Str | None = None
    """The caller's tenant."""
    project_id: Str | None = None
    """The caller's project."""
    profile: Str | None = None
    """The caller's profile."""

    @field_validator("token")
    @classmethod
    def _can_be_sent(cls, token: str) -> str:
        # Eight spaces are no secret, and no client can send them.
        if not all("!" <= character <= "~" for character in token):
            raise PydanticCustomError("blank_token", "must be of visible ASCII characters, without spaces")
        return token

    @field_validator("subject")
    @classmethod
    def _names_somebody(cls, subject: str) -> str:
        if not subject.strip():
            raise PydanticCustomError("blank_subject", "must not be blank")
        return subject


class HttpSection(Section):
    """Serving over streamable HTTP."""

    host: Str = "127.0.0.1"
    """The address to listen on; beyond loopback only with tokens."""
    port: Annotated[int, Strict(), Field(ge=0, le=65535)] = 8765
    """The port to listen on; 0: any free one."""
    path: Annotated[str, Strict(), Field(pattern=r"^/[A-Za-z0-9_./-]*$")] = "/mcp"
    """The path of the endpoint."""
    allowed_hosts: Strings = ()
    """Additional accepted values of the header `Host`."""
    allowed_origins: Strings = ()
    """Accepted values of the header `Origin`."""
    session_idle_s: Seconds = 1800
    """Seconds without a request after which a session ends."""
    absence_s: Seconds = 30
    """Seconds without an open request after which a session's calls are cancelled."""
    max_sessions: Count = 1000
    """Maximum number of sessions."""
    max_sessions_per_subject: Count | None = None
    """Maximum number of sessions per token subject; a new one ends the longest idle. Null: half of `max_sessions` with
    several subjects."""
    max_connections: Count = 512
    """Maximum number of connections, at most half of the process's descriptor limit; silent ones are closed first."""
    head_timeout_s: Seconds = 10
    """Seconds in which the head of a request must arrive."""
    body_timeout_s: Seconds = 30
    """Seconds in which the body of a request must arrive."""
    tokens: tuple[TokenSection, ...] = ()
    """Who may connect; empty: anyone on this machine."""

    @property
    def sessions_of_one(self) -> int:
        """Most sessions of one subject at a time."""
        shared = len({entry.subject for entry in self.tokens}) > 1
        return self.max_sessions_per_subject or (max(1, self.max_sessions // 2) if shared else self.max_sessions)

    @field_validator("tokens")
    @classmethod
    def _each_token_once(cls, tokens: tuple[TokenSection, ...]) -> tuple[TokenSection, ...]:
        if len({entry.token for entry in tokens}) < len(tokens):
            raise PydanticCustomError("repeated_token", "must not hold the same token twice")
        return tokens

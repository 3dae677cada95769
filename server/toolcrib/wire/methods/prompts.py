"""``prompts/*``: lists and gets what others contribute.

Knows the methods; never knows what a prompt says.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import mcp_types as types
from mcp import MCPError
from mcp.server import Server

from toolcrib.access.sessions import Session
from toolcrib.streams.sdk import Context
from toolcrib.wire.sessions import Sessions


class PromptProvider(Protocol):
    """Contributes some prompts."""

    async def prompts(self, session: Session, /) -> Sequence[types.Prompt]:
        """Return its prompts."""
        ...

    async def get(self, session: Session, name: str, given: Mapping[str, str]) -> types.GetPromptResult | None:
        """Return what a prompt comes to with the arguments ``given``; None where it has no such prompt.

        Raises:
            BadRequest: an argument is missing or wrong.

        """
        ...


class PromptMethods:
    """Answers ``prompts/*`` with the prompts of each provider in turn."""

    def __init__(self, sessions: Sessions, providers: Sequence[PromptProvider]) -> None:
        self._sessions, self._providers = sessions, providers

    def register(self, server: Server[Any]) -> None:
        """Have ``server`` answer these methods."""
        server.add_request_handler("prompts/list", types.PaginatedRequestParams, self._list)
        server.add_request_handler("prompts/get", types.GetPromptRequestParams, self._get)

    async def _list(self, context: Context, _params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        session = await self._sessions.of(context)
        prompts = [prompt for provider in self._providers for prompt in await provider.prompts(session)]
        return types.ListPromptsResult(prompts=prompts)

    async def _get(self, context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        session = await self._sessions.of(context)
        for provider in self._providers:
            if (found := await provider.get(session, params.name, params.arguments or {})) is not None:
                return found
        raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown prompt: {params.name}")

"""Activates and deactivates skills without returning their texts (R210).

Knows the request and the order of its steps; never knows which tools an active skill makes available.
"""

from functools import partial

import anyio.to_thread

from toolcrib.policy.asking import Asker
from toolcrib.policy.sessions import Session
from toolcrib.skills.confirming import Confirmed
from toolcrib.skills.requests import GetAnswer, GetRequest
from toolcrib.skills.use_cases import SkillUseCases


class SkillActivation:
    """Activates and deactivates skills, using the skill use cases."""

    def __init__(self, skill_use_cases: SkillUseCases) -> None:
        self._cases = skill_use_cases

    async def activate(self, session: Session, request: GetRequest, asker: Asker) -> GetAnswer:
        """Activate skills without returning their texts, and return information about their tools.

        Raises:
            NotConfirmed, MustAsk: a person has to confirm first, as for the text.

        """
        answer = await self._cases.confirmed.given(session, asker, partial(self._activated, session, request))
        await self._cases.binding.activate(session, answer.skills)
        return answer

    def _activated(self, session: Session, request: GetRequest, confirmed: Confirmed) -> GetAnswer:
        wanted, cleaner = self._cases.wanted(session, request)
        self._cases.confirmed.refuse_unconfirmed(wanted.skills, confirmed)
        return self._cases.loader.without_texts(wanted, request.max_tokens, cleaner, session)

    async def deactivate(self, session: Session, names: tuple[str, ...]) -> list[str]:
        """Deactivate skills; return those of ``names`` that match no active skill."""
        # The first caller waits until the modules are loaded, in a thread.
        binding = await anyio.to_thread.run_sync(lambda: self._cases.binding)
        return await binding.let_go(session, names)

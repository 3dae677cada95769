"""Skills that are activated and let go without their texts (R210).

Knows what is asked and in which order; never knows what an active skill opens.
"""

from functools import partial

import anyio.to_thread

from toolcrib.access.sessions import Session
from toolcrib.downstream.askers import Asker
from toolcrib.skills.confirming import Confirmed
from toolcrib.skills.requests import GetAnswer, GetRequest
from toolcrib.skills.use_cases import SkillUseCases


class SkillActivation:
    """Switches skills on and off over the use cases."""

    def __init__(self, skill_use_cases: SkillUseCases) -> None:
        self._cases = skill_use_cases

    async def activate(self, session: Session, request: GetRequest, asker: Asker) -> GetAnswer:
        """Have skills active without their texts, and return what is told of their tools.

        Raises:
            NotConfirmed, MustAsk: somebody has to say yes first, as for the text.

        """
        answer = await self._cases.confirmed.given(session, asker, partial(self._activated, session, request))
        await self._cases.binding.activate(session, answer.skills)
        return answer

    def _activated(self, session: Session, request: GetRequest, confirmed: Confirmed) -> GetAnswer:
        wanted, cleaner = self._cases.wanted(session, request)
        self._cases.confirmed.refuse_unconfirmed(wanted.skills, confirmed)
        return self._cases.loader.without_texts(wanted, request.max_tokens, cleaner, session)

    async def deactivate(self, session: Session, names: tuple[str, ...]) -> list[str]:
        """Have skills active no longer; return those of ``names`` that are not those of active skills."""
        # Whoever asks for this first waits until its modules are loaded, in a thread.
        binding = await anyio.to_thread.run_sync(lambda: self._cases.binding)
        return await binding.let_go(session, names)

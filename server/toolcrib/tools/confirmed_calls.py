"""Calls that require a person's approval: which they are, and the text of the question.

Knows the rules of the config, a tool's definition and a call's arguments; never knows how a question is asked.
"""

from collections.abc import Callable
from functools import partial

import anyio.to_thread

from toolcrib.base.json_values import as_object, compact
from toolcrib.base.model import JsonObject, Tool
from toolcrib.base.redaction import KEY_RULES, rewritten
from toolcrib.base.text import one_line, truncate
from toolcrib.catalog.wording import Wording
from toolcrib.config.settings import Settings
from toolcrib.policy.asking import Asker
from toolcrib.policy.confirmations import Confirmations, Subject
from toolcrib.policy.rules import ConfirmRules, effects_of
from toolcrib.policy.sessions import Session
from toolcrib.policy.state import Approval

_DESCRIPTION_MAX = 400
_ARGUMENTS_MAX = 2000


class ConfirmedCalls:
    """Obtains confirmation of calls under ``policy.confirm``; ``wording_of`` returns a session's wording."""

    def __init__(
        self, settings: Settings, confirmations: Confirmations, wording_of: Callable[[Session], Wording]
    ) -> None:
        section = settings.toolcrib.policy.confirm
        self._rules, self._confirmations = ConfirmRules(section), confirmations
        self._asks_nobody = not section.tools and not section.effects
        self._clean, self._wording_of = settings.redactor.clean, wording_of

    async def settle(self, session: Session, asker: Asker, tool: Tool, arguments: JsonObject) -> None:
        """Return if the tool may be called with these arguments.

        Raises:
            NotConfirmed: a person has to confirm first, and has not.
            MustAsk: they can be asked, but not while this request is under way.

        """
        if self._asks_nobody:
            return
        is_named = self._rules.names(tool)
        if not is_named and not self._rules.may_concern_effects(tool):
            return
        read = await anyio.to_thread.run_sync(self._wording_of(session).described, [tool.row])
        definition = read[tool.row][0] if tool.row in read else {}
        if not is_named and not self._rules.concern_effects(tool, as_object(definition.get("annotations"))):
            return
        subject = Subject(
            Approval(session.caller.principal, "tool", tool.public_name, tool.fingerprint),
            "It did not run.",
            partial(anyio.to_thread.run_sync, partial(self._question, tool, definition, arguments)),
        )
        await self._confirmations.require(session, asker, subject)

    def _question(self, tool: Tool, definition: JsonObject, arguments: JsonObject) -> str:
        """Return the question to the person, one fact per line, so that no text of a server can imitate another one."""
        said = truncate(one_line(str(definition.get("description") or "nothing")), _DESCRIPTION_MAX)
        effects = sorted(effects_of(tool.side_effects, as_object(definition.get("annotations"))))
        given = one_line(rewritten(self._clean(compact(arguments)), KEY_RULES))
        if len(given) > _ARGUMENTS_MAX:
            given = f"{given[:_ARGUMENTS_MAX]} … ({len(given) - _ARGUMENTS_MAX} more characters, not shown)"
        return "\n".join(
            (
                f"May the tool {tool.public_name} run?",
                f"Server: {tool.server}",
                f"It says of itself: {said}",
                f"It may: {', '.join(map(_worded, effects)) or 'read only'}",
                f"Arguments: {given}",
            )
        )


def _worded(effect: str) -> str:
    return {"destructive": "destroy", "external": "reach the outside", "write": "write"}[effect]

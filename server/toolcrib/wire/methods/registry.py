"""The methods beside tools that a config offers, and who contributes to them.

Knows which part contributes what; never knows how a method is answered.
"""

from typing import Any, Protocol

from mcp.server import Server

from toolcrib.access.sessions import Session
from toolcrib.base.json_values import compact
from toolcrib.skills.use_cases import SkillUseCases
from toolcrib.status import StatusParts, status_of
from toolcrib.wire.methods.prompts import PromptMethods
from toolcrib.wire.methods.resources import FixedResource, ResourceMethods
from toolcrib.wire.methods.skills import SkillFiles, SkillPrompts, catalog_resources
from toolcrib.wire.methods.skills_extension import SkillsExtension
from toolcrib.wire.sessions import Sessions


class Methods(Protocol):
    """Some methods of the protocol."""

    def register(self, server: Server[Any]) -> None:
        """Have ``server`` answer these methods, and declare what goes with them."""
        ...


def methods_offered(sessions: Sessions, status: StatusParts, skill_use_cases: SkillUseCases | None) -> list[Methods]:
    """Return the methods that there are; ``skill_use_cases`` is None where skills are switched off."""
    fixed = [_status_resource(status)]
    if skill_use_cases is None:
        return [ResourceMethods(sessions, fixed, ())]
    fixed += catalog_resources(skill_use_cases)
    prompts = PromptMethods(sessions, [SkillPrompts(skill_use_cases)])
    if not status.settings.toolcrib.skills.serve_resources:
        return [ResourceMethods(sessions, fixed, ()), prompts]
    return [
        ResourceMethods(sessions, fixed, [SkillFiles(skill_use_cases)]),
        prompts,
        SkillsExtension(skill_use_cases, sessions),
    ]


def _status_resource(parts: StatusParts) -> FixedResource:
    async def read(session: Session) -> str:
        return compact((await status_of(parts, session)).as_json)

    return FixedResource(
        uri="toolcrib://status",
        name="status",
        description="Servers and their states, counts, errors, and what this session has loaded",
        mime_type="application/json",
        read=read,
    )

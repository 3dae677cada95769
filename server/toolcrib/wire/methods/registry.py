"""The methods besides tools that a config offers, and their contributors.

Knows which part contributes what; never knows how a method is answered.
"""

from typing import Protocol

from toolcrib.base.json_values import compact
from toolcrib.gateway.offers import OfferUseCases
from toolcrib.gateway.status import StatusParts, status_of
from toolcrib.jsonrpc.sdk import ProtocolServer
from toolcrib.policy.sessions import Session
from toolcrib.skills.use_cases import SkillUseCases
from toolcrib.wire.carrying import CarriedRequests
from toolcrib.wire.methods.prompts import PromptMethods, PromptProvider
from toolcrib.wire.methods.resources import FixedResource, ResourceMethods, ResourceProvider
from toolcrib.wire.methods.servers import CompletionMethods, ServerPrompts, ServerResources
from toolcrib.wire.methods.skills import CatalogPages, SkillFiles, SkillPrompts, catalog_resources
from toolcrib.wire.methods.skills_extension import SkillsExtension
from toolcrib.wire.sessions import Sessions


class Methods(Protocol):
    """Some methods of the protocol."""

    def register(self, server: ProtocolServer) -> None:
        """Register the handlers of these methods, and declare their capabilities."""
        ...


def methods_offered(
    sessions: Sessions,
    status: StatusParts,
    skill_use_cases: SkillUseCases | None,
    offers: OfferUseCases,
    carried: CarriedRequests,
) -> list[Methods]:
    """Return the available methods; ``skill_use_cases`` is None if skills are disabled."""
    section = status.settings.toolcrib
    fixed, resources = [_status_resource(status)], list[ResourceProvider]()
    prompts, methods = list[PromptProvider](), list[Methods]()
    if skill_use_cases is not None:
        fixed += catalog_resources(skill_use_cases)
        prompts.append(SkillPrompts(skill_use_cases, carried))
        if section.skills.serve_resources:
            resources.append(SkillFiles(skill_use_cases, carried))
            methods.append(SkillsExtension(skill_use_cases, sessions))
        resources.append(CatalogPages(skill_use_cases))
    of_servers = ServerResources(offers)
    resources.append(of_servers)
    if "prompt" in offers.indexer.kinds:
        prompts.append(ServerPrompts(offers))
    if prompts:
        methods.append(PromptMethods(sessions, prompts))
    if offers.indexer.kinds:
        methods.append(CompletionMethods(sessions, offers))
    return [ResourceMethods(sessions, fixed, resources, of_servers), *methods]


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

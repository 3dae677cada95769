"""Who is asking, and in which session: what every use case is handed with a question.

Knows callers and what belongs to one session; never knows the transport or era that a session came by.
"""

from dataclasses import dataclass, field

from toolcrib.access.activations import Activations
from toolcrib.config.settings import Settings
from toolcrib.model import Caller


@dataclass(slots=True, eq=False)
class Session:
    """Who is asking, and through which activation scope.

    ``label`` names it in events. ``growing`` says whether its list shows what it activated: the dynamic gate.
    ``pass_through`` is settled when it lists for the first time. ``sent_skills`` is what it was given of skills:
    (id, content hash, format) with the largest budget in tokens, and the largest share that it had of one.
    """

    label: str
    caller: Caller
    activations: Activations
    growing: bool
    pass_through: bool | None = field(default=None)
    sent_skills: dict[tuple[str, str, str], tuple[int, int]] = field(
        default_factory=dict[tuple[str, str, str], tuple[int, int]]
    )


def local_caller(settings: Settings) -> Caller:
    """Return the person at this machine, who needs no token."""
    context = settings.toolcrib.context
    return Caller("local", context.tenant_id, context.project_id, context.profile)

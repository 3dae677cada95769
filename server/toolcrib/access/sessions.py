"""Who is asking, and in which session; every use case gets one of these with its request.

Knows callers and the state of one session; never knows the session's transport or era.
"""

from dataclasses import dataclass, field
from typing import Any

from toolcrib.access.activations import Activations, NoActivations, RunActivations, StoredActivations
from toolcrib.access.active_skills import ActiveSkills
from toolcrib.access.hosts import UNASKED, Served
from toolcrib.access.policy import Permissions, Policy
from toolcrib.access.state.approvals import Approval
from toolcrib.access.trails import Trail
from toolcrib.base.cache import Recent
from toolcrib.base.model import Caller, JsonObject, Skill
from toolcrib.config.settings import Settings

SentKey = tuple[str, str, str]
"""The id of a skill, the hash of its text, and the format that it was given in."""

_SENT_MAX = _CONFIRMED_MAX = 1000


class SentSkills(Recent[SentKey, tuple[int, int]]):
    """What a session was given of skills: the largest budget in tokens, and the largest share that it had of one.

    ``unreported`` are the skills, by id and as they were given last, of which no outcome was reported since.
    """

    def __init__(self) -> None:
        super().__init__(_SENT_MAX)
        self.unreported = Recent[str, Skill](_SENT_MAX)


def confirmed() -> Recent[Approval, None]:
    """Return room for what a person has allowed in a session, with nothing in it."""
    return Recent(_CONFIRMED_MAX)


@dataclass(slots=True, eq=False)
class Session:
    """Who is asking, and through which activation scope.

    ``label`` names it in events. ``growing`` says whether its list shows what it activated: the dynamic gate.
    ``client`` is the name that its client gives itself, ``served`` how such a client is served.
    ``lasting``: the next request of its client is of the same session; it is not in the sessionless era.
    ``capabilities`` are what its client says it can do, ``log_level`` the least important log messages it asked for.
    ``reads_more``: its list shows ``read_more``, because the rest of a result was kept for it.
    ``permissions`` are worked out when they are first asked for, and kept with the policy that they are of.
    ``pass_through`` is settled when it lists for the first time. ``sent_skills`` is what it was given of skills.
    ``trail`` is what it has done so far. ``confirmed`` is what its person has allowed as long as it
    lasts; None where nothing tells which the next request of the same session is. ``skills`` are active in its scope.
    """

    label: str
    caller: Caller
    activations: Activations
    growing: bool
    client: str = ""
    served: Served = UNASKED
    lasting: bool = False
    capabilities: JsonObject = field(default_factory=dict[str, Any])
    log_level: str | None = None
    reads_more: bool = False
    permissions: tuple[Policy, Permissions] | None = None
    pass_through: bool | None = field(default=None)
    sent_skills: SentSkills = field(default_factory=SentSkills)
    trail: Trail = field(default_factory=Trail)
    confirmed: Recent[Approval, None] | None = None
    skills: ActiveSkills = field(default_factory=ActiveSkills)

    def begun_anew(self) -> "Session | None":
        """Return the session as if nothing had been done in it; None where it goes on with what was kept of another."""
        if isinstance(self.activations, StoredActivations):
            return None
        activations = RunActivations() if self.lasting else NoActivations()
        anew = Session(self.label, self.caller, activations, self.growing, self.client, self.served, self.lasting)
        anew.capabilities = self.capabilities
        return anew


def local_caller(settings: Settings) -> Caller:
    """Return the person at this machine, who needs no token."""
    context = settings.toolcrib.context
    return Caller("local", context.tenant_id, context.project_id, context.profile)

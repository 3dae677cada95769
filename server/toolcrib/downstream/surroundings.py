"""The environment of a downstream: bounds, transport, and the receivers of its lists.

Knows who is notified of what; never knows the lifecycle of a server.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from toolcrib.auth.logins import Logins
from toolcrib.config.schema import LimitsSection
from toolcrib.config.settings import ServerSettings
from toolcrib.downstream.live_list import LiveTools, TakeIn
from toolcrib.downstream.live_offers import OfferSink
from toolcrib.downstream.parking import Parking
from toolcrib.downstream.scopes import Front
from toolcrib.downstream.states import Status
from toolcrib.downstream.transport import Connector


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a downstream needs from the program around it.

    ``listed`` gets a server's raw tool list and era, and is awaited before the server counts as ready; ``compared``
    gets those of connections that are not everybody's, and returns whether they are what is indexed. ``front`` says
    whose a connection is; ``parking`` has the calls of all servers that wait for answers.
    ``jitter`` returns a random number in [0, 1). ``offers`` gets what servers have besides tools. Without ``logins``,
    nobody is logged in anywhere.
    """

    limits: LimitsSection
    connector: Connector
    listed: TakeIn
    state_changed: Callable[[str, Status], None]
    jitter: Callable[[], float]
    compared: Callable[[ServerSettings, list[Any]], Awaitable[tuple[LiveTools, bool]]]
    front: Front
    parking: Parking
    offers: OfferSink = field(default_factory=OfferSink)
    logins: Logins | None = None

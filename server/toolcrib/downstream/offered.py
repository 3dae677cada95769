"""What was read of a server's resources, templates and prompts: raw items, a list for each kind.

Knows the lists and whether they are whole; never knows the connection that they were read from.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.base.model import OfferKind


@dataclass(frozen=True, slots=True)
class RawList:
    """The raw items of one list. ``cut`` says why it has no more of them; empty where it is whole."""

    items: list[Any] = field(default_factory=list[Any])
    cut: str = ""


@dataclass(frozen=True, slots=True)
class Offered:
    """What was read of a server's offers. A kind is missing whose list could not be read, or was not asked for.

    ``subscribes`` and ``completes`` say whether it declares subscriptions to resources, and completions.
    """

    lists: Mapping[OfferKind, RawList]
    subscribes: bool
    completes: bool

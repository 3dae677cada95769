"""What each session and each principal has under way: so many calls and bytes, and no more wait behind them.

Knows numbers and sizes; never knows what is called.
"""

from collections.abc import Generator, Hashable
from contextlib import contextmanager
from dataclasses import dataclass

from toolcrib.access.sessions import Session
from toolcrib.base.json_values import weight
from toolcrib.config.schema import LimitsSection
from toolcrib.errors import Busy
from toolcrib.model import JsonObject


@dataclass(slots=True)
class _Load:
    calls: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class _Bound:
    """The most of one kind of owner; ``keys`` are the limits that say so."""

    whose: str
    calls: int
    size: int
    keys: tuple[str, str]


class PendingCalls:
    """Counts the calls under way; refuses those that are too many or too much."""

    def __init__(self, limits: LimitsSection) -> None:
        self._loads: dict[Hashable, _Load] = {}
        self._most = max(limits.pending_bytes, limits.pending_bytes_per_principal)
        self._of_session = _Bound(
            "this session", limits.pending_calls, limits.pending_bytes, ("pending_calls", "pending_bytes")
        )
        self._of_principal = _Bound(
            "this caller",
            limits.pending_calls_per_principal,
            limits.pending_bytes_per_principal,
            ("pending_calls_per_principal", "pending_bytes_per_principal"),
        )

    @contextmanager
    def taken(self, session: Session, arguments: JsonObject) -> Generator[None]:
        """Count one call while it is under way.

        Raises:
            Busy: its session or its principal has too much under way; nothing ran.

        """
        size = weight(arguments, self._most)
        owners = ((self._of_session, (session.caller, session.label)), (self._of_principal, session.caller.principal))
        for bound, owner in owners:
            _refuse_more(bound, self._loads.get(owner, _Load()), size)
        for _, owner in owners:
            load = self._loads.setdefault(owner, _Load())
            load.calls, load.size = load.calls + 1, load.size + size
        try:
            yield
        finally:
            for _, owner in owners:
                load = self._loads[owner]
                load.calls, load.size = load.calls - 1, load.size - size
                if not load.calls:
                    del self._loads[owner]


def _refuse_more(bound: _Bound, load: _Load, size: int) -> None:
    calls_key, size_key = bound.keys
    if load.calls >= bound.calls:
        raise Busy(
            f"toolcrib is busy: {bound.whose} has {load.calls} calls under way (limits.{calls_key}). Nothing ran. "
            "Wait for some of them to end, then repeat the call."
        )
    # One alone is bounded by limits.request_max_bytes.
    if load.calls and load.size + size > bound.size:
        raise Busy(
            f"toolcrib is busy: the calls that {bound.whose} has under way take {load.size} bytes, and this one {size} "
            f"more (limits.{size_key}). Nothing ran. Wait for some of them to end, then repeat the call."
        )

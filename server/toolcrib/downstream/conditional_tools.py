"""Tools that a server lists only to clients which it can ask something: found by a second look at its list (ADR 65)."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import anyio
from anyio.abc import TaskGroup

from toolcrib.base.errors import StartFailed
from toolcrib.base.json_values import as_object, compact
from toolcrib.base.model import JsonObject
from toolcrib.config.settings import ServerSettings
from toolcrib.downstream.connection import Greeting, LiveTools
from toolcrib.downstream.isolation import Scope
from toolcrib.downstream.lifecycle import Downstream, DownstreamDependencies
from toolcrib.downstream.offers import OfferSink
from toolcrib.downstream.states import RawList, Status

_LOOK_S = 5.0
"""How long the second look may take: whoever waits for the list waits for it too."""


class ConditionalTools:
    """The tools that only some clients of a server are listed. ``tasks`` will own the connections to look at them."""

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._names: dict[str, frozenset[str]] = {}

    def names(self, key: str) -> frozenset[str]:
        """Return those of a server, by its own names, as of its last list."""
        return self._names.get(key, frozenset())

    def forget(self, key: str) -> None:
        """Forget those of a server that was changed or removed."""
        self._names.pop(key, None)

    async def take_in(
        self,
        dependencies: DownstreamDependencies,
        settings: ServerSettings,
        raw: RawList,
        greeting: Greeting,
        *,
        declared: JsonObject,
        before: LiveTools,
        is_brief: bool,
    ) -> LiveTools:
        """Take in a list of a client that cannot be asked, with what one that declares ``declared`` is listed besides.

        ``raw`` is that list, ``before`` what the last one came to: without a second look if they are the same and it
        ``is_brief``. Returns the tools in ``raw``.
        """
        if raw.is_passing:
            return await dependencies.ingest(settings, raw, greeting)  # what it lacks is not conditional
        key = settings.key
        is_same = bool(before) and key in self._names and (await dependencies.compare(settings, raw.items))[0] == before
        if is_same and is_brief:
            return before
        more = await self._list_for(dependencies, settings, declared)
        if more is None and is_same:
            return before  # tools do not come and go with a bad moment: what is indexed stays
        names = set(map(_name_of, raw.items))
        conditional = [tool for tool in more or () if _name_of(tool) not in names]
        tools = await dependencies.ingest(settings, replace(raw, items=[*raw.items, *conditional]), greeting)
        self.forget(key)
        if more is not None:
            self._names[key] = frozenset(map(_name_of, conditional))
        return {name: fingerprint for name, fingerprint in tools.items() if name in names}

    async def _list_for(
        self, dependencies: DownstreamDependencies, settings: ServerSettings, declared: JsonObject
    ) -> list[Any] | None:
        """Return the list that a server has for a client with these capabilities; None if there is none in time."""
        found: list[list[Any]] = []

        async def take(_settings: ServerSettings, raw: RawList, _greeting: Greeting) -> LiveTools:
            if not raw.is_passing:
                found.append(raw.items)
            return {}

        unseen = replace(dependencies, ingest=take, state_changed=_ignore, offers=OfferSink())
        scope = Scope(capabilities=compact(declared), prefers="legacy")
        second = Downstream(settings, "legacy", unseen, self._tasks, scope)
        # What it meets is no fault of the list that was read by the first.
        with anyio.move_on_after(_LOOK_S), suppress(StartFailed):
            await second.connection(wanted=False)
        second.stop()
        return found[0] if found else None


def _ignore(_server: str, _status: Status) -> None:
    """Ignore the states of a connection that nobody calls through."""


def _name_of(tool: Any) -> str:
    return str(as_object(tool).get("name"))

"""Servers that a query may mean but that cannot be searched now: failed, not listed yet, or not in use."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from toolcrib.base.errors import LoginNeeded, Unavailable
from toolcrib.base.names import may_belong_to
from toolcrib.base.text import one_line, query_terms, truncate, words
from toolcrib.config.settings import Settings
from toolcrib.downstream.states import Arriving, ServersNow
from toolcrib.policy.rules import Permissions
from toolcrib.search.english import stem

_SHOWN_MAX = 3
_NAMED_MAX = 10
_FAILURE_MAX = 400
"""Maximum length of a failure in a note: a server's last output may be long."""

_ASK_AGAIN_MAX_S = 30
_TURN_S = 2
"""After how many seconds a queued server is expected to start."""

# Words of nearly every server's name or description: they single none out.
_ANY_SERVER = frozenset({"mcp", "server", "tool", "api"})
_UNUSED = "is not in use (`toolcrib config check` says why)"

Clean = Callable[[str], str]
"""Removes from a text what its reader may not know."""


@dataclass(frozen=True, slots=True)
class _LeftOut:
    key: str
    reason: str
    stems: frozenset[str]


class MissingServers:
    """The servers of a config that cannot be searched at the moment."""

    def __init__(self, settings: Settings) -> None:
        self._stems = {key: _stems(settings, key) for key in settings.servers}
        self.leaves_out = bool(settings.skipped)
        self._left_out = [
            _LeftOut(why.key, truncate(why.public, _FAILURE_MAX) or _UNUSED, _stems(settings, why.key))
            for why in settings.skipped
        ]

    def meant(self, query: str) -> set[str]:
        """Return the servers that ``query`` seems to mean: their name or description contains a word of it."""
        asked = _terms(query)
        return {key for key, stems in self._stems.items() if asked & stems}

    def note(
        self,
        query: str,
        found: Collection[str],
        permissions: Permissions,
        now: ServersNow,
        clean: Clean,
        *,
        any_of_them: bool = False,
    ) -> str:
        """Return what was not searched, as far as the caller could be permitted any of it; empty if nothing.

        While servers are being listed for the first time: how many are and are not, which, and when to try again.
        Failed ones are named; those that seem to be meant, with the reason and remedy, redacted by ``clean``. Servers
        disabled in the config are mentioned only if they seem to be meant, or ``any_of_them`` may be, because the
        caller has no tools yet. ``found`` are the servers with hits.
        """
        said = self._of_servers(query, found, permissions, now, clean)
        return " ".join(filter(None, (*said, self.left_out(query, permissions, any_of_them=any_of_them))))

    def note_of(self, key: str, permissions: Permissions, now: ServersNow, clean: Clean) -> str:
        """Return the note about the only server to be searched; empty for one that is not permitted."""
        if not permissions.permits_some_of(key):
            return ""
        if key in now.statuses:
            return _never_listed(key, now, clean) or _failed(key, now, clean)
        unused = next((each for each in self._left_out if each.key == key), None)
        return f"Server {one_line(key)} {unused.reason}." if unused else ""

    def incomplete(
        self, meant: Collection[str], found: Collection[str], permissions: Permissions, reasons: Mapping[str, str]
    ) -> str:
        """Return which servers may have more tools than are known, of those that are ``meant``, and why.

        ``reasons`` are those of all servers, ``found`` the servers with hits.
        """
        told = [key for key in reasons if key in meant and (key in found or permissions.permits_some_of(key))]
        return " ".join(f"Server {key} may have more tools: {reasons[key]}." for key in told[:_SHOWN_MAX])

    def left_out(self, query: str, permissions: Permissions, *, any_of_them: bool = False) -> str:
        """Return which disabled servers ``query``, or ``any_of_them``, may mean; empty if none."""
        terms = _terms(query)
        meant = [
            f"{one_line(each.key)} {each.reason}"
            for each in self._left_out
            if (any_of_them or terms & each.stems) and permissions.permits_some_of(each.key)
        ]
        return f"Not searched: server {'; server '.join(meant[:_SHOWN_MAX])}." if meant else ""

    def refusal(self, name: str, permissions: Permissions, now: ServersNow, clean: Clean) -> Unavailable | None:
        """Return why ``name`` cannot be called if its server was never listed; None for any other.

        The answer is the same for every name of that server: whether the tool exists, or is denied, is unknown or not
        disclosed.
        """
        named = (key for key in self._stems if may_belong_to(name, key))
        for key in named:
            if permissions.permits_some_of(key) and (text := _never_listed(key, now, clean)):
                kind = LoginNeeded if now.needs_login(key) else Unavailable
                return kind(key, f"{text} Nothing ran.")
        return None

    def _of_servers(
        self, query: str, found: Collection[str], permissions: Permissions, now: ServersNow, clean: Clean
    ) -> Iterable[str]:
        # A caller with hits of a server knows of it, whatever the policy says about its other tools.
        usable = [key for key in now.statuses if key in found or permissions.permits_some_of(key)]
        meant = self.meant(query) | set(found)
        arriving = {key: now.arriving[key] for key in usable if key in now.arriving}
        if arriving:
            listed = sum(key not in now.unlisted for key in usable)
            yield f"{listed} of {len(usable)} servers are listed. {_progress(arriving, meant)}"
        failed = [key for key in usable if now.has_failed(key)]
        told = [key for key in failed if key in meant][:_SHOWN_MAX]
        yield from (_failed(key, now, clean) for key in told)
        if others := [key for key in failed if key not in told]:
            yield f"Failed to start: {_names(others)}; a search with server={others[0]!r} says why."


def _progress(arriving: Mapping[str, Arriving], meant: Collection[str]) -> str:
    """Return how many servers are being listed, which, their progress, and when to try again."""
    # Those that the query means come first: by them is decided when to ask again.
    first = sorted(arriving, key=lambda key: (key not in meant, arriving[key].seconds is None))
    named = _names([f"{key} ({arriving[key]})" for key in first])
    awaited = [arriving[key] for key in first if key in meant] or list(arriving.values())
    return f"Not listed yet, {len(arriving)}: {named}. Ask again in {_ask_again_s(awaited)} s."


def _ask_again_s(awaited: Iterable[Arriving]) -> int:
    """Return when there may be more results: what has taken some time is expected to take as long again."""
    soonest = min(_TURN_S if each.seconds is None else each.seconds for each in awaited)
    return max(1, min(_ASK_AGAIN_MAX_S, math.ceil(soonest)))


def _never_listed(key: str, now: ServersNow, clean: Clean) -> str:
    """Return why a server's tools are unknown; empty if they are known."""
    if arriving := now.arriving.get(key):
        return f"Server {key} is not listed yet ({arriving}). Ask again in {_ask_again_s([arriving])} s."
    return _failed(key, now, clean) if key in now.unlisted else ""


def _failed(key: str, now: ServersNow, clean: Clean) -> str:
    failure = now.statuses[key].failure if now.has_failed(key) else None
    if failure is None:
        return ""
    if failure.needs_login:
        return f"Server {key} requires a login by a person. {failure.remedy}"
    return f"Server {key} has failed: {truncate(clean(str(failure)), _FAILURE_MAX)}"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return f"{', '.join(names[:_NAMED_MAX])}{more}"


def _terms(query: str) -> set[str]:
    return set(_telling(query_terms(query)))


def _stems(settings: Settings, key: str) -> frozenset[str]:
    options = settings.toolcrib.servers.get(key)
    text = f"{key} {options.description if options else ''}"
    return frozenset(_telling(query_terms(" ".join(words(text)))))


def _telling(terms: Iterable[str]) -> Iterable[str]:
    """Yield the stems of terms that can identify a server: of ``memory2`` the number cannot."""
    return (each for each in map(stem, terms) if each not in _ANY_SERVER and not each.isdecimal())

"""``toolcrib tokens``: what tools cost a model in tokens, with toolcrib and without, and what sessions have saved."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from toolcrib.base.json_values import as_list
from toolcrib.base.model import BUILTIN_NAMES, JsonObject
from toolcrib.base.text import definition_tokens, estimate_tokens
from toolcrib.cli.in_process import first_seen, with_index
from toolcrib.cli.output import ConfigOption, JsonOption, counted, load_settings, print_answer, print_text

if TYPE_CHECKING:
    from pathlib import Path

    from toolcrib.cli.in_process import Indexed
    from toolcrib.config.settings import Settings
    from toolcrib.policy.sessions import Session

UNIT = "tokens, estimated at four characters each"
HIT = 55
"""Tokens of one hit of a search, as a model reads it: ``benchmarks/surface.py`` measures them."""

_HITS = 8
"""Hits of a search that names no limit."""
_GROWTH, _ROUND = 120, 100
"""Room that a proposed limit leaves, in percent of today's tokens, and what it is a multiple of."""
_BAR = 28
_SHOWN_MAX = 10
_OF_NOBODY = (None, "command-line")


@dataclass(frozen=True, slots=True)
class Prices:
    """The price of definitions in tokens: of each tool of each server, and of what toolcrib shows at first.

    ``own`` are toolcrib's own tools, ``instructions`` what it tells on connecting, ``always`` other tools that are
    listed from the start. ``unlisted`` are servers whose tools are not known. ``whole`` is what a model would read if
    all were listed because they are few; None where that is so already, or cannot save anything.
    """

    servers: Mapping[str, Mapping[str, int]]
    own: Mapping[str, int]
    instructions: int
    always: Mapping[str, int]
    unlisted: Sequence[str] = ()
    whole: int | None = None

    @property
    def everything(self) -> int:
        """What all tools would take, listed at once."""
        return sum(sum(tools.values()) for tools in self.servers.values())

    @property
    def search(self) -> int:
        """What one search adds, at most, unless it asks for more."""
        return HIT * min(_HITS, sum(map(len, self.servers.values())))

    @property
    def may_be_few(self) -> bool:
        """Whether the tools alone take less than finding one of them does: there is no use of a tool without a search.

        Not while some are unknown.
        """
        return "tool_search" in self.own and not self.unlisted and 0 < self.everything < self.counter + self.search

    @property
    def whole_limit(self) -> int | None:
        """The ``gate.pass_through_tokens`` that would save tokens, with some room to grow; None if none would."""
        if self.whole is None or self.whole >= self.counter + self.search:
            return None
        return -(-self.everything * _GROWTH // (100 * _ROUND)) * _ROUND

    @property
    def proposal(self) -> str:
        """What a person whose tools are few is told, with what both ways take; empty if nothing would be saved."""
        if self.whole_limit is None:
            return ""
        return (
            f"Your tools are so few that listing all of them takes less: {self.whole:,} tokens, instead of "
            f"{self.counter:,} and up to {self.search:,} with each search."
        )

    @property
    def counter(self) -> int:
        """What toolcrib takes before anything is used."""
        return sum(self.own.values()) + self.instructions + sum(self.always.values())

    def of_list(self, names: Iterable[str], others: int) -> int:
        """Return what toolcrib takes with a list of these tools besides its own; of ``others`` no name is known."""
        known = {name: price for tools in self.servers.values() for name, price in tools.items()}
        # Tools that are gone since are priced as the average tool.
        mean = round(self.everything / len(known)) if known else 0
        listed = sum(known.get(name, mean) for name in names) + others * mean
        return sum(self.own.values()) + self.instructions + listed


@dataclass(slots=True)
class Recorded:
    """One session by its events: when it began, what it did, and the lists that it was sent.

    ``programs_saved`` is what its programs saved, in tokens.
    """

    label: str
    began: str
    searches: int = 0
    hits: int = 0
    calls: int = 0
    programs: int = 0
    programs_saved: int = 0
    used: list[str] = field(default_factory=list[str])
    digests: list[str] = field(default_factory=list[str])
    listed: Sequence[str] | None = None
    count: int = 0

    def note(self, event: JsonObject) -> None:
        """Take in one event of the session."""
        match event["event"]:
            case "tool_search_query":
                self.searches += 1
                self.hits += int(event.get("results_count") or 0)
            case "tool_call":
                self.calls += 1
            case "program_run":
                self.programs += 1
                self.programs_saved += int(event.get("tokens_saved") or 0)
            case "tool_activated":
                self.used.append(str(event.get("tool_name")))
            case "tools_listed":
                self.digests.append(str(event.get("digest")))
                self.listed, self.count = as_list(event.get("tool_names")), int(event.get("count") or 0)
            case _:
                pass

    @property
    def changes(self) -> int:
        """How often the list was another one than the one before it."""
        return sum(before != after for before, after in zip(self.digests, self.digests[1:], strict=False))

    def price(self, prices: Prices) -> int:
        """Return what stands in the session's context at its end: the list and the hits of its searches."""
        names = self.used if self.listed is None else self.listed
        # Events name only some tools of a long list, and count the rest.
        others = max(0, self.count - len(prices.own) - len(names))
        return prices.of_list(names, others) + self.hits * HIT


def tokens(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Say what your tools cost a model's context, with toolcrib and without; starts no server."""
    from toolcrib.events.reading import recorded

    settings = load_settings(config)
    prices = prices_now(config, settings)
    sessions = sessions_in(recorded(settings.events_file))
    lines = (*_price_lines(prices), "", *_session_lines(prices, sessions))
    answer = {**_prices_json(prices), **_sessions_json(prices, sessions), "events": str(settings.events_file)}
    print_answer(answer, lines, as_json=as_json)
    for key in () if as_json else prices.unlisted:
        print_text(f"{key}: never listed, so not counted; `toolcrib index refresh` lists it", error=True)


def prices_now(config: "Path | None", settings: "Settings") -> Prices:
    """Return what reading tools takes, as far as they are known.

    Raises:
        ToolcribError: there is no server in the config, or an index cannot be read.

    """
    prices = with_index(config, _prices, command="tokens")
    instructions, listed = first_seen(settings)
    prices = replace(
        prices,
        own={each["name"]: definition_tokens(each) for each in listed if each["name"] in BUILTIN_NAMES},
        instructions=estimate_tokens(instructions),
        always={each["name"]: definition_tokens(each) for each in listed if each["name"] not in BUILTIN_NAMES},
    )
    if not prices.may_be_few:
        return prices
    # With skills of one's own, their tools stay beside such a list, and may make it the longer one.
    instructions, listed = first_seen(settings, whole=True)
    return replace(prices, whole=sum(map(definition_tokens, listed)) + estimate_tokens(instructions))


def sessions_in(events: Iterable[JsonObject]) -> list[Recorded]:
    """Return the sessions of clients that events tell of, the oldest first."""
    sessions: dict[str, Recorded] = {}
    for event in events:
        label = event.get("session")
        # Commands of a person are no sessions of a model.
        if label in _OF_NOBODY or not isinstance(label, str):
            continue
        sessions.setdefault(label, Recorded(label, event["ts"])).note(event)
    return [each for each in sessions.values() if each.digests or each.searches or each.calls or each.programs]


async def _prices(indexed: "Indexed", session: "Session") -> Prices:
    import anyio.to_thread

    tools = indexed.gate.permitted(session, indexed.catalog).tools
    view = indexed.finder.view(session, indexed.catalog)
    listed = partial(view.listed, tools, indexed.settings.toolcrib.tool_examples, {})
    definitions = {each["name"]: definition_tokens(each) for each in await anyio.to_thread.run_sync(listed)}
    servers: dict[str, dict[str, int]] = {}
    for tool in tools:
        if tool.public_name in definitions:
            servers.setdefault(tool.server, {})[tool.public_name] = definitions[tool.public_name]
    return Prices(servers, {}, 0, {}, indexed.unlisted)


# -- for people ----------------------------------------------------------------------------------


def _price_lines(prices: Prices) -> Iterator[str]:
    rows = sorted(
        ((key, sum(tools.values()), len(tools)) for key, tools in prices.servers.items()),
        key=lambda row: (-row[1], row[0]),
    )
    most = max([prices.counter, *(row[1] for row in rows)])
    width = max(len("toolcrib"), len("all listed"), *(len(row[0]) for row in rows), 0)
    yield f"What a model reads about tools, in {UNIT}:"
    for key, total, count in rows:
        yield f"  {key:<{width}}  {_bar(total, most)}  {total:>9,}  {counted(count, 'tool')}"
    every = sum(row[2] for row in rows)
    yield f"  {'all listed':<{width}}  {' ' * _BAR}  {prices.everything:>9,}  {counted(every, 'tool')}"
    parts = f"{len(prices.own)} of its own {sum(prices.own.values()):,}, instructions {prices.instructions:,}"
    always = f", {len(prices.always)} always listed {sum(prices.always.values()):,}" if prices.always else ""
    yield f"  {'toolcrib':<{width}}  {_bar(prices.counter, most)}  {prices.counter:>9,}  {parts}{always}"
    yield f"  {'':<{width}}  {' ' * _BAR}  {_saved(prices.everything, prices.counter)} before anything is used"
    if prices.proposal:
        yield f"{prices.proposal} To list them, set toolcrib.gate.pass_through_tokens: {prices.whole_limit}."


def _session_lines(prices: Prices, sessions: Sequence[Recorded]) -> Iterator[str]:
    if not sessions:
        yield "No session is recorded yet."
        return
    yield f"{counted(len(sessions), 'recorded session')}, each at its end; a search hit counts as {HIT} tokens:"
    for each in sessions[-_SHOWN_MAX:]:
        did = f"{counted(each.searches, 'search', 'searches')}, {counted(each.calls, 'call')}"
        did += f", {_programs(each.programs, each.programs_saved)}" if each.programs else ""
        saved = _saved(prices.everything, each.price(prices))
        yield f"  {each.began[:16].replace('T', ' ')}  {each.label}: {did}; {saved}; {_changed(each.changes)}"
    if len(sessions) > _SHOWN_MAX:
        yield f"  and {len(sessions) - _SHOWN_MAX} before them; --json shows all"
    if programs := sum(each.programs for each in sessions):
        yield f"Besides, {_programs(programs, sum(each.programs_saved for each in sessions))}."
    changes = sum(each.changes for each in sessions)
    mean = _saved(prices.everything, round(sum(each.price(prices) for each in sessions) / len(sessions)))
    yield f"On average {mean} in each request; lists changed {changes / len(sessions):.1f} times a session."
    if changes:
        yield "Each change invalidates the host's prompt cache; `gate: {listing: stable}` keeps the list constant."


def _bar(part: int, most: int) -> str:
    # A share that is not zero is visible, however small.
    filled = 0 if most == 0 else max(1, round(_BAR * part / most)) if part else 0
    return "█" * filled + " " * (_BAR - filled)


def _saved(whole: int, part: int) -> str:
    if part > whole:
        return f"{part - whole:,} more than all of them listed"
    return f"{whole - part:,} saved ({1 - part / whole:.0%})" if whole else "nothing saved"


def _programs(count: int, tokens: int) -> str:
    from toolcrib.events.reading import saved_text

    return f"{counted(count, 'program')} ({saved_text(tokens)})"


def _changed(times: int) -> str:
    return "its list stayed the same" if times == 0 else f"its list changed {counted(times, 'time')}"


# -- for programs --------------------------------------------------------------------------------


def _prices_json(prices: Prices) -> JsonObject:
    return {
        "unit": UNIT,
        "servers": [
            {"server": key, "tokens": sum(tools.values()), "tools": dict(tools)}
            for key, tools in prices.servers.items()
        ],
        "unlisted": list(prices.unlisted),
        "all_listed": prices.everything,
        "toolcrib": {
            "tokens": prices.counter,
            "own": dict(prices.own),
            "instructions": prices.instructions,
            "always": dict(prices.always),
        },
        "saved": prices.everything - prices.counter,
        "search": prices.search,
        "listed_whole": prices.whole,
        "pass_through_tokens": prices.whole_limit,
    }


def _sessions_json(prices: Prices, sessions: Sequence[Recorded]) -> JsonObject:
    return {
        "sessions": [
            {
                "session": each.label,
                "began": each.began,
                "searches": each.searches,
                "calls": each.calls,
                "programs": each.programs,
                "programs_saved": each.programs_saved,
                "tools_used": each.used,
                "tokens": each.price(prices),
                "saved": prices.everything - each.price(prices),
                "lists": len(each.digests),
                "list_changes": each.changes,
            }
            for each in sessions
        ]
    }

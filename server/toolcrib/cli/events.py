"""``toolcrib events``: selects recorded events and shows what agents did."""

import json
import os
import re
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Annotated

import typer

from toolcrib.base.errors import ToolcribError
from toolcrib.base.json_values import as_list
from toolcrib.base.model import JsonObject
from toolcrib.base.names import may_belong_to
from toolcrib.base.text import one_line
from toolcrib.cli.completion import ServerOption
from toolcrib.cli.output import ConfigOption, JsonOption, counted, load_settings, print_json, print_lines, print_text
from toolcrib.events.reading import EventFormatter, command_of, has_failed, time_of

_SHOWN, _SHOWN_MAX = 100, 100_000
_AGE = re.compile(r"(\d+)\s*([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events are asked for: of sessions whose label has ``session``, about ``tool``, failures only, from when.

    ``agents``: only what was done for clients. ``server``: only what is about it, or a tool of it.
    """

    session: str | None
    tool: str | None
    failed: bool
    agents: bool
    server: str | None
    since: datetime | None

    def takes(self, event: JsonObject) -> bool:
        """Return whether an event is one of them."""
        return (
            (self.session is None or self.session.lower() in str(event.get("session") or "").lower())
            and (self.tool is None or self._is_about(event, self.tool))
            and (self.server is None or self._is_of(event, self.server))
            and (not self.failed or has_failed(event))
            and not (self.agents and command_of(event))
            and (self.since is None or ((at := time_of(event)) is not None and at >= self.since))
        )

    def _is_of(self, event: JsonObject, server: str) -> bool:
        names = [event.get("tool_name"), *as_list(event.get("hits"))]
        mine = any(isinstance(name, str) and may_belong_to(name, server) for name in names)
        return mine or event.get("server") == server

    def _is_about(self, event: JsonObject, tool: str) -> bool:
        names = [event.get("tool_name"), *as_list(event.get("hits"))]
        return any(isinstance(name, str) and fnmatchcase(name, tool) for name in names)


def events(  # noqa: PLR0913, PLR0917 - one parameter an option
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep watching for new events, until ^C.")] = False,
    session: Annotated[
        str | None, typer.Option("--session", metavar="TEXT", help="Only sessions with this text in their label.")
    ] = None,
    tool: Annotated[
        str | None,
        typer.Option("--tool", metavar="GLOB", help="Only calls of matching tools, and searches that found them."),
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only what failed or was refused.")] = False,
    agents: Annotated[bool, typer.Option("--agents", help="Only what clients did, without your own commands.")] = False,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only since then: 30s, 10m, 2h, 1d, or a date.")
    ] = None,
    server: ServerOption = None,
    lines: Annotated[
        int, typer.Option("--limit", "--lines", "-n", min=1, max=_SHOWN_MAX, help="At most this many.")
    ] = _SHOWN,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what agents did: searches, their hits, and the calls that followed."""
    from toolcrib.events.reading import followed, recorded

    settings = load_settings(config)
    path = settings.events_file
    wanted = EventFilter(
        session, tool, failed=failed, agents=agents, server=server, since=_moment(since, datetime.now().astimezone())
    )
    if settings.toolcrib.events.level == "off":
        print_text("no events are written: toolcrib.events.level is off", error=True)
    elif not path.exists():
        print_text(f"nothing was written to {path} yet", error=True)
    elif not os.access(path, os.R_OK):
        raise ToolcribError(f"{path} cannot be read.")
    if follow:
        _follow(followed(path, time.sleep), wanted, as_json=as_json)
    else:
        _show_last(recorded(path), wanted, lines, as_json=as_json, is_any=path.exists())


def _follow(found: Iterator[JsonObject], wanted: EventFilter, *, as_json: bool) -> None:
    """Show what there is and what comes, until a person has seen enough."""
    narration = EventFormatter()
    try:
        for event in found:
            line = narration.line(event)
            if wanted.takes(event) and (as_json or line):
                print_text(json.dumps(event) if as_json else line)
                # Into a pipe, Python would hold lines back until there are enough of them.
                sys.stdout.flush()
    except KeyboardInterrupt:
        return


def _show_last(found: Iterator[JsonObject], wanted: EventFilter, lines: int, *, as_json: bool, is_any: bool) -> None:
    if as_json:
        print_json(list(deque((event for event in found if wanted.takes(event)), lines)))
        return
    narration = EventFormatter()
    # Every event is narrated, also those that are not shown: a line may refer to the events before it.
    count, last = 0, deque[str](maxlen=lines)
    for event in found:
        line, is_wanted = narration.line(event), wanted.takes(event)
        count += is_wanted
        if line and is_wanted:
            last.append(line)
    print_lines(last)
    if not last and is_any:
        among = f"among {counted(count, 'event')} is no search and no call; --json shows the rest"
        print_text(among if count else "no event is as you ask for", error=True)


def _moment(text: str | None, now: datetime) -> datetime | None:
    """Return the moment that a person means: so long ago, or a date with or without a time, here."""
    if text is None:
        return None
    if age := _AGE.fullmatch(text.strip()):
        return now - timedelta(**{_UNITS[age[2]]: int(age[1])})
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise typer.BadParameter(
            f"{one_line(text)!r} is not valid: write 30s, 10m, 2h, 1d, 2026-11-22, 2026-11-22T09:30"
        ) from None
    # Without a zone, a person means the one of this machine.
    return moment if moment.tzinfo else moment.astimezone()

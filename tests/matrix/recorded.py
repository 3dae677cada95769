"""What the last whole run of the matrix came to, why features are lost, and the page that says so.

``recorded.json`` is written by ``benchmarks/matrix.py --record``: the versions of what was tried, and a verdict for
each cell, with both lines of text where they differ. ``reasons.toml`` is written by hand. The page has both.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from matrix.cells import CLIENTS, SERVERS, TRANSPORTS, Cell

JsonObject = dict[str, Any]
Key = tuple[str, str, str, str]
"""A server, a client, a transport and a feature."""

PAGE = Path(__file__).parents[2] / "docs" / "pass-through.md"
RECORDED, REASONS = Path(__file__).with_name("recorded.json"), Path(__file__).with_name("reasons.toml")
BEGIN, END = "<!-- begin {}, written by benchmarks/matrix.py -->", "<!-- end {} -->"

SAME, NEITHER, LOST, GAINED, OTHER = "same", "neither", "lost", "gained", "other"
"""The same answer; an answer neither directly nor through toolcrib; only directly; only through; two answers."""


def verdict(cell: Cell) -> str:
    """Return in one word how a cell comes out."""
    match cell.works_directly, cell.works_through:
        case True, True:
            return SAME if cell.is_same else OTHER
        case True, False:
            return LOST
        case False, True:
            return GAINED
        case _:
            return NEITHER


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run: when it was, with which versions, and each verdict. ``lines`` are the texts of what is lost or other."""

    when: str
    versions: Mapping[str, str]
    verdicts: Mapping[Key, str]
    lines: Mapping[Key, tuple[str, str]]


def run_of(when: str, versions: Mapping[str, str], cells: Sequence[Cell]) -> Recorded:
    """Return a run as it is recorded."""
    verdicts = {cell.key: verdict(cell) for cell in cells}
    lines = {cell.key: (cell.direct, cell.through) for cell in cells if verdicts[cell.key] in (LOST, OTHER)}
    return Recorded(when, versions, verdicts, lines)


def load() -> Recorded:
    """Return the run that is recorded."""
    found = json.loads(RECORDED.read_text(encoding="utf-8"))
    verdicts = {
        (server, client, transport, feature): word
        for server, clients in found["verdicts"].items()
        for client, transports in clients.items()
        for transport, features in transports.items()
        for feature, word in features.items()
    }
    lines = {tuple(each["cell"]): (each["direct"], each["through"]) for each in found["lines"]}
    return Recorded(found["when"], found["versions"], verdicts, lines)


def record(run: Recorded) -> None:
    """Write a run down, beside the cells of earlier ones that it has not tried, and what the page says of it."""
    if RECORDED.exists():
        before = load()
        lines = {key: texts for key, texts in before.lines.items() if key not in run.verdicts}
        run = replace(run, verdicts={**before.verdicts, **run.verdicts}, lines={**lines, **run.lines})
    verdicts: JsonObject = {}
    for (server, client, transport, feature), word in run.verdicts.items():
        verdicts.setdefault(server, {}).setdefault(client, {}).setdefault(transport, {})[feature] = word
    texts = [{"cell": key, "direct": direct, "through": through} for key, (direct, through) in run.lines.items()]
    found = {"when": run.when, "versions": run.versions, "verdicts": verdicts, "lines": texts}
    RECORDED.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8"), run, reasons()), encoding="utf-8")


def changes(before: Recorded, after: Recorded) -> list[str]:
    """Return what a run came to other than the one before, in lines for a person: versions first."""
    names = sorted({*before.versions, *after.versions})
    said = [
        f"{name}: {before.versions.get(name, 'none')} -> {after.versions.get(name, 'none')}"
        for name in names
        if before.versions.get(name) != after.versions.get(name)
    ]
    for key, word in after.verdicts.items():
        if (was := before.verdicts.get(key, "not tried")) != word:
            direct, through = after.lines.get(key, ("", ""))
            more = f" (directly: {direct!r}; through toolcrib: {through!r})" if direct or through else ""
            said.append(f"{', '.join(key)}: {was} -> {word}{more}")
    return said


@dataclass(frozen=True, slots=True)
class Reason:
    """Why features are lost or other. An empty list stands for all servers, clients or transports."""

    features: Sequence[str]
    why: str
    servers: Sequence[str] = ()
    clients: Sequence[str] = ()
    transports: Sequence[str] = ()

    def explains(self, key: Key) -> bool:
        server, client, transport, feature = key
        asked = ((self.servers, server), (self.clients, client), (self.transports, transport))
        return feature in self.features and all(not wanted or got in wanted for wanted, got in asked)


def reasons() -> list[Reason]:
    """Return the reasons that are given."""
    return [Reason(**reason) for reason in tomllib.loads(REASONS.read_text(encoding="utf-8"))["reason"]]


def rendered(page: str, run: Recorded, why: Sequence[Reason]) -> str:
    """Return the page with its generated parts written anew."""
    for name, lines in {"versions": _versions(run), "tables": _tables(run), "reasons": _reasons(why)}.items():
        begin, end = BEGIN.format(name), END.format(name)
        before, rest = page.split(begin)
        page = f"{before}{begin}\n\n" + "\n".join(lines) + f"\n\n{end}{rest.split(end)[1]}"
    return page


def _versions(run: Recorded) -> Iterator[str]:
    yield f"Recorded {run.when}, with " + ", ".join(f"{name} {version}" for name, version in run.versions.items()) + "."


def _tables(run: Recorded) -> Iterator[str]:
    names = [client.name for client in CLIENTS]
    for number, server in enumerate(SERVERS):
        yield from ([] if number == 0 else [""])
        yield f"### {server.name}"
        yield ""
        yield f"| feature | {' | '.join(names)} |"
        yield "|---" * (1 + len(names)) + "|"
        for feature in server.features:
            cells = [
                _cell([run.verdicts.get((server.name, name, each, feature), "") for each in TRANSPORTS])
                for name in names
            ]
            yield f"| {feature} | {' | '.join(cells)} |"


def _cell(words: Sequence[str]) -> str:
    """Return one word for both transports if they agree, else one for each."""
    return (
        words[0]
        if len(set(words)) == 1
        else ", ".join(f"{each}: {word}" for each, word in zip(TRANSPORTS, words, strict=True))
    )


def _reasons(why: Sequence[Reason]) -> Iterator[str]:
    yield "| feature | server | client | transport | why |"
    yield "|---|---|---|---|---|"
    for reason in why:
        where = ("; ".join(names) or "any" for names in (reason.servers, reason.clients, reason.transports))
        yield f"| {', '.join(reason.features)} | {' | '.join(where)} | {reason.why} |"

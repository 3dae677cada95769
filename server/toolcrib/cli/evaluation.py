"""``toolcrib eval``: runs a person's own queries, each with its expected tools, on the person's tools."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolcrib.base.errors import BadRequest
from toolcrib.base.model import JsonObject, SearchType
from toolcrib.base.text import one_line, truncate
from toolcrib.cli.in_process import with_index
from toolcrib.cli.output import ConfigOption, JsonOption, counted, fail_if, print_answer, print_json, print_text, table
from toolcrib.cli.screen import Column, Table

if TYPE_CHECKING:
    from toolcrib.catalog.evaluation import Evaluation, Judged
    from toolcrib.cli.in_process import Indexed
    from toolcrib.config.settings import Settings
    from toolcrib.events.history import FollowedQuery
    from toolcrib.policy.sessions import Session

_AT = 5
"""The depth of the recall that ``--min-recall`` is about."""
_SHOWN_MAX = 50
_QUERY_MAX = 60
_REDACTED = ("[REDACTED_", "[denied]", "***")
"""Marks of what events do not say: secrets, addresses of persons, and tools that the caller could not use."""
_FILE_MAX = 16 * 1024 * 1024
"""Bytes of a file of queries."""


def evaluate(
    file: Annotated[
        Path | None, typer.Argument(help='JSON lines: {"query": "open a ticket", "tools": ["desk__open"]}.')
    ] = None,
    from_history: Annotated[
        bool,
        typer.Option(
            "--from-history",
            help="Write such a file of your searches and the calls that followed; without FILE, print it.",
        ),
    ] = False,
    min_recall: Annotated[
        float | None, typer.Option(min=0, max=1, help="The recall at 5 below which the exit code is 1.")
    ] = None,
    min_ndcg: Annotated[
        float | None, typer.Option(min=0, max=1, help="The nDCG at 10 below which the exit code is 1.")
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run your own queries on your own tools, and report how many find the expected tools; starts no server."""
    if from_history:
        _write_history(file, config, as_json=as_json)
        return
    if file is None:
        raise typer.BadParameter("requires a file; --from-history writes one", param_hint="FILE")

    async def run(indexed: "Indexed", session: "Session") -> "tuple[Evaluation, list[str]]":
        from anyio.to_thread import run_sync

        return await run_sync(_evaluate_file, file, indexed, session), indexed.unlisted

    evaluation, unlisted = with_index(config, run, command="eval")
    print_answer({**_evaluation_json(evaluation), "unlisted": unlisted}, _texts(evaluation), as_json=as_json)
    for key in unlisted:
        print_text(f"{key}: was never listed, so its tools were not searched", error=True)
    wanted = ((min_recall, evaluation.recall(_AT)), (min_ndcg, evaluation.ndcg))
    # Figures without a server's tools would pass a script that compares them.
    fail_if(unlisted or any(least is not None and (share or 0) < least for least, share in wanted))


def _evaluate_file(file: Path, indexed: "Indexed", session: "Session") -> "Evaluation":
    """Read the file, and try what it asks.

    Raises:
        BadRequest: it cannot be read or used.

    """
    from toolcrib.catalog.evaluation import DEPTH, Ranking, evaluated, read_cases
    from toolcrib.catalog.tool_search import SearchRequest

    permitted = indexed.gate.permitted(session, indexed.catalog)
    find = partial(indexed.finder.searcher.search, catalog=indexed.catalog, permitted=permitted)

    def public_name(spelling: str) -> str | None:
        # Whatever this caller may not use does not exist for them, in a query's expected tools too.
        tool = indexed.catalog.find(spelling, permitted)
        return None if tool is None else tool.public_name

    def search(query: str) -> Ranking:
        found = find(SearchRequest(query, SearchType.FTS, DEPTH, include_always=True))
        return Ranking(tuple(match.document.public_name for match in found.matches), found.confidence)

    try:
        return evaluated(read_cases(_text(file), public_name), search)
    except BadRequest as error:
        raise BadRequest(f"{file}: {error}") from None


# -- what was searched for -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _History:
    """Queries with the tools that were called for them, and how many were left out for one of two reasons."""

    cases: "Sequence[FollowedQuery]"
    secret: int
    gone: int


def _write_history(file: Path | None, config: Path | None, *, as_json: bool) -> None:
    """Write a file of queries from recorded events, or print it.

    Raises:
        BadRequest: there is nothing to write, or the file exists or cannot be written; the text says why.

    """

    async def run(indexed: "Indexed", session: "Session") -> tuple[_History, "Settings"]:
        from anyio.to_thread import run_sync

        return await run_sync(_history, indexed, session), indexed.settings

    found, settings = with_index(config, run, command="eval")
    if not found.cases:
        raise BadRequest(_why_no_history(settings, found))
    lines = "".join(f"{json.dumps(_case_json(each), ensure_ascii=False)}\n" for each in found.cases)
    if file is not None:
        _write_new(file, lines)
    told = [counted(len(found.cases), "query", "queries") + (f" written to {file}" if file else "")]
    if found.secret:
        told.append(f"{found.secret} left out, since they contain something that was redacted")
    if found.gone:
        told.append(f"{found.gone} left out, since their tools are no longer there")
    if as_json:
        about = {"queries": len(found.cases), "redacted": found.secret, "gone": found.gone}
        print_json({**about, "file": str(file) if file else None, "cases": [_case_json(each) for each in found.cases]})
        return
    if file is None:
        print_text(lines.removesuffix("\n"))
    # What is printed may be piped into a file.
    print_text("; ".join(told), error=file is None)


def _history(indexed: "Indexed", session: "Session") -> _History:
    from toolcrib.events.history import FollowedQuery, followed_queries
    from toolcrib.events.reading import recorded

    file, redactor = indexed.settings.events_file, indexed.settings.redactor
    known = {tool.public_name for tool in indexed.gate.allowed(session, indexed.catalog).tools}
    cases: list[FollowedQuery] = []
    secret = gone = 0
    try:
        found = followed_queries(recorded(file))
    except OSError as error:
        raise BadRequest(f"{file} cannot be read: {error.strerror or error}") from None
    for each in found:
        # Events are redacted as they are written, but a secret may be known only now.
        if any(mark in each.query for mark in _REDACTED) or redactor.redact(each.query) != each.query:
            secret += 1
        elif tools := tuple(name for name in each.tools if name in known):
            cases.append(FollowedQuery(each.query, tools))
        else:
            gone += 1
    return _History(cases, secret, gone)


def _why_no_history(settings: "Settings", found: _History) -> str:
    events = settings.events_file
    if settings.toolcrib.events.level not in ("debug", "info"):
        level = settings.toolcrib.events.level
        return f'No searches are recorded: toolcrib.events.level is {level}. Set it to "info", and use your tools.'
    if found.secret or found.gone:
        return f"No query of {events} can be used: {found.secret} were redacted, the tools of {found.gone} are gone."
    return f"No search that a call followed is recorded in {events} yet. Use your tools through toolcrib first."


def _case_json(case: "FollowedQuery") -> JsonObject:
    return {"query": case.query, "tools": list(case.tools)}


def _write_new(file: Path, text: str) -> None:
    try:
        # What a person asked is nobody else's business.
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise BadRequest(f"{file} exists; name another file, or delete it.") from None
    except OSError as error:
        raise BadRequest(f"{file} cannot be written: {error.strerror or error}") from None


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            # One byte more tells a file of the maximum size from a larger one.
            data = opened.read(_FILE_MAX + 1)
        if len(data) > _FILE_MAX:
            raise BadRequest(f"it is larger than {_FILE_MAX >> 20} MiB")
        return data.decode()
    except OSError as error:
        raise BadRequest(f"it cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise BadRequest("it is not UTF-8") from None


# -- for people ----------------------------------------------------------------------------------


def _texts(evaluation: "Evaluation") -> Iterable[str | Table]:
    """Yield a table of the queries whose first hit is not right, and the figures."""
    missed = [each for each in evaluation.answerable if each.rank != 1]
    # The worst first: those that were not found at all.
    rows = [_row(each) for each in sorted(missed, key=lambda each: (-(each.rank or len(missed) + 100), each.case.line))]
    if rows:
        yield table(("LINE", "PLACE", Column("QUERY", words=True), "FIRST HIT INSTEAD"), rows[:_SHOWN_MAX])
        if len(rows) > _SHOWN_MAX:
            yield f"and {len(rows) - _SHOWN_MAX} more; --json shows all"
        yield ""
    answerable, unanswerable = len(evaluation.answerable), len(evaluation.unanswerable)
    if answerable:
        shares = ", ".join(f"{share:.3f} at {depth}" for depth, share in _recalls(evaluation).items())
        yield f"{counted(answerable, 'query', 'queries')}: recall {shares}; nDCG {evaluation.ndcg or 0:.3f} at 10"
        yield f'confidence "high": {evaluation.high_if_answerable or 0:.1%} of them'
    if unanswerable:
        high = evaluation.high_if_unanswerable or 0
        yield f'{counted(unanswerable, "query", "queries")} that no tool serves: confidence "high" for {high:.1%}'
    if evaluation.first_right_if_high is not None:
        yield f'first hit right if confidence is "high": {evaluation.first_right_if_high:.1%}'


def _row(judged: "Judged") -> tuple[str, ...]:
    case, names = judged.case, judged.ranking.names
    place = "none" if judged.rank is None else str(judged.rank)
    return str(case.line), place, truncate(one_line(case.query), _QUERY_MAX), names[0] if names else "nothing"


# -- for programs --------------------------------------------------------------------------------


def _evaluation_json(evaluation: "Evaluation") -> JsonObject:
    return {
        "queries": len(evaluation.answerable) + len(evaluation.unanswerable),
        "unanswerable": len(evaluation.unanswerable),
        "recall": {str(depth): share for depth, share in _recalls(evaluation).items()},
        "ndcg": evaluation.ndcg,
        "first_right_if_high": evaluation.first_right_if_high,
        "high_if_answerable": evaluation.high_if_answerable,
        "high_if_unanswerable": evaluation.high_if_unanswerable,
        "cases": [
            {
                "line": each.case.line,
                "query": each.case.query,
                "tools": each.case.tools,
                "found": each.ranking.names,
                "confidence": each.ranking.confidence,
                "rank": each.rank,
            }
            for each in sorted((*evaluation.answerable, *evaluation.unanswerable), key=lambda each: each.case.line)
        ],
    }


def _recalls(evaluation: "Evaluation") -> dict[int, float | None]:
    from toolcrib.catalog.evaluation import DEPTHS

    return {depth: evaluation.recall(depth) for depth in DEPTHS}

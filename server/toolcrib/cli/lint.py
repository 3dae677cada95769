"""``toolcrib lint``: which tools are hard for an agent to find, and what to add."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from toolcrib.base.model import JsonObject
from toolcrib.base.text import one_line, truncate
from toolcrib.catalog.lint import TOOLS_LOOKED_AT, Described, Finding, Level, Report, Search, find_faults, proposed
from toolcrib.cli.completion import server_names
from toolcrib.cli.in_process import with_tools
from toolcrib.cli.output import ConfigOption, JsonOption, counted, fail_if, print_answer, print_text
from toolcrib.cli.waiting import WaitingLine

if TYPE_CHECKING:
    from toolcrib.gateway.tools import ToolUseCases
    from toolcrib.policy.sessions import Session

_LEVELS = tuple(Level)
_SHOWN_MAX = 10
"""How many findings with one code are shown of one server."""

_NAME_MAX = 64


def lint(
    server: Annotated[
        str | None,
        typer.Option(
            "--server", "-s", help="Only this server's tools, searched among all tools.", autocompletion=server_names
        ),
    ] = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="Propose entries for the config that would mend it, and change nothing.")
    ] = False,
    level: Annotated[Level, typer.Option(help="The lowest level for which the exit code is 1.")] = Level.ERROR,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Report which tools are hard to find, and what to add."""
    from anyio.to_thread import run_sync

    async def examine(tool_use_cases: "ToolUseCases", session: "Session") -> tuple[Report, list[str]]:
        catalog, search = await _catalog(tool_use_cases, session)
        unlisted = [key for key in tool_use_cases.indexer.unlisted() if server in (None, key)]
        # In a thread: hundreds of searches run in it, while servers may still be starting.
        return await run_sync(find_faults, catalog, search, server), unlisted

    report, unlisted = with_tools(config, examine, WaitingLine(quiet=as_json), server, command="lint")
    entries = proposed(report.findings) if fix else {}
    answer = {**_report_json(report), "unlisted": unlisted, **({"proposed": entries} if fix else {})}
    print_answer(answer, (*_texts(report), *_proposal(entries)), as_json=as_json)
    for key in unlisted:
        print_text(f"{key}: could not be listed, so its tools were not checked", error=True)
    # The levels are in order, the worst first.
    failing = _LEVELS[: _LEVELS.index(level) + 1]
    fail_if(unlisted or any(finding.rule.level in failing for finding in report.findings))


async def _catalog(tool_use_cases: "ToolUseCases", session: "Session") -> tuple[list[Described], Search]:
    from toolcrib.catalog.tool_search import SearchRequest

    tools, find = await tool_use_cases.survey(session)

    def search(query: str) -> list[str]:
        found = find(SearchRequest(query, limit=TOOLS_LOOKED_AT, include_always=True))
        return [match.document.public_name for match in found.matches]

    described = [
        Described(tool, definition, card.tags, tuple(each.description for each in card.examples))
        for tool, definition, card in tools
    ]
    return described, search


# -- for people ----------------------------------------------------------------------------------


def _texts(report: Report) -> Iterable[str]:
    """Yield a block for each server, that with the worst findings first, and the summary."""
    by_server: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in report.findings:
        by_server[finding.described.tool.server].append(finding)
    for server, findings in sorted(by_server.items(), key=lambda pair: (*(-n for n in _counts(pair[1])), pair[0])):
        yield f"{server}: {_counts_text(findings)}\n" + "\n".join(_server_lines(findings)) + "\n"
    servers = len({each.tool.server for each in report.tools})
    yield (
        f"{counted(len(report.tools), 'tool')} of {counted(servers, 'server')}: "
        f"{_share(report.by_name)} found first by name, {_share(report.by_first_sentence)} by first sentence, "
        f"{_share(report.by_request)} by request; "
        f"{_counts_text(report.findings)}"
    )


def _proposal(entries: Mapping[str, JsonObject]) -> Iterable[str]:
    """Yield entries as YAML, to be looked over and pasted into the config."""
    if not entries:
        return
    from toolcrib.base.yaml import to_yaml

    document = to_yaml({"toolcrib": {"servers": dict(entries)}})
    yield f"\nProposed for the config; look each of them over:\n\n{document}"


def _server_lines(findings: Sequence[Finding]) -> Iterable[str]:
    by_code: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in sorted(findings, key=lambda each: (_LEVELS.index(each.rule.level), each.rule.code)):
        by_code[finding.rule.code].append(finding)
    for code, same in by_code.items():
        yield f"  {same[0].rule.level.value}  {code}  ({len(same)})"
        # Those that most other tools are in the way of.
        for finding in sorted(same, key=lambda each: -len(each.others))[:_SHOWN_MAX]:
            yield f"    {truncate(one_line(finding.described.tool.name), _NAME_MAX)}: {finding.what}"
        if len(same) > _SHOWN_MAX:
            yield f"    and {len(same) - _SHOWN_MAX} more; --json shows all"
        yield f"    -> {same[0].advice}"


def _counts(findings: Iterable[Finding]) -> list[int]:
    levels = [finding.rule.level for finding in findings]
    return [levels.count(level) for level in _LEVELS]


def _counts_text(findings: Iterable[Finding]) -> str:
    errors, warnings, infos = _counts(findings)
    return f"{counted(errors, 'error')}, {counted(warnings, 'warning')}, {counted(infos, 'info')}"


def _share(share: float | None) -> str:
    return "none" if share is None else f"{share:.1%}"


# -- for programs --------------------------------------------------------------------------------


def _report_json(report: Report) -> JsonObject:
    counts = dict(zip([level.value for level in _LEVELS], _counts(report.findings), strict=True))
    return {
        "found_first": {
            "by_name": report.by_name,
            "by_first_sentence": report.by_first_sentence,
            "by_request": report.by_request,
        },
        "counts": counts,
        "findings": [_finding_json(finding) for finding in report.findings],
        "tools": [
            {
                "tool": each.name,
                "server": each.tool.server,
                "searches": [{"by": one.source, "query": one.query, "rank": one.rank} for one in tried],
            }
            for each, tried in zip(report.tools, report.probes, strict=True)
        ],
    }


def _finding_json(finding: Finding) -> JsonObject:
    return {
        "level": finding.rule.level.value,
        "code": finding.rule.code,
        "server": finding.described.tool.server,
        "tool": finding.described.name,
        "what": finding.what,
        "others": finding.others,
        "add": finding.advice,
    }

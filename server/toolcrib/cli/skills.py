"""``toolcrib skills``: shows skills as agents see them, validates files, and enables and disables skills."""

import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import chdir
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from toolcrib.base.errors import BadRequest, ToolcribError
from toolcrib.base.model import JsonObject, SearchType, SkillProblem, TaskType
from toolcrib.base.text import enumerated, truncate
from toolcrib.cli.in_process import with_skills
from toolcrib.cli.output import (
    ConfigOption,
    JsonOption,
    LimitOption,
    RowsOption,
    SearchTypeOption,
    counted,
    fail_if,
    load_settings,
    print_answer,
    print_json,
    print_lines,
    print_text,
    print_verbatim,
    table,
)
from toolcrib.cli.screen import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolcrib.base.model import Skill
    from toolcrib.policy.sessions import Session
    from toolcrib.skills.answers import FoundSkill, GetAnswer, Overview
    from toolcrib.skills.doctor import Health
    from toolcrib.skills.outcomes import Explained
    from toolcrib.skills.use_cases import SkillUseCases

_Answer = TypeVar("_Answer")
_TRIGGER_MAX, _NAMES_ROOM = 100, 300
_DAY_S = 86_400

_STDIN_MAX = 1_000_000
"""Characters of a task that are read."""


class HookHostName(StrEnum):
    """The hosts whose hooks are known."""

    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    GEMINI_CLI = "gemini-cli"
    COPILOT_CLI = "copilot-cli"
    CURSOR = "cursor"


NameArgument = Annotated[str, typer.Argument(help="The skill's name, source/name, id or skill:// URI.")]
SourceOption = Annotated[str | None, typer.Option(help="Only this source's skills.")]

commands = typer.Typer(help="Manage skills.", no_args_is_help=True)


@commands.command("list")
def list_skills(
    source: SourceOption = None,
    limit: RowsOption = None,
    hidden: Annotated[bool, typer.Option("--hidden", help="Also hidden skills, with the reason.")] = False,
    cwd: Annotated[Path | None, typer.Option(help="As for an agent that works in this folder.")] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List every skill that agents can get, and every file that could not be loaded."""
    from toolcrib.skills.overviews import Overviews

    if cwd is not None and not cwd.is_dir():
        raise BadRequest(f"{cwd} is not a folder.")
    config = config and config.absolute()
    with chdir(cwd or "."):  # discovery of skills begins at the working directory
        overview = _with_skills(
            config, lambda skill_use_cases, session: Overviews(skill_use_cases).overview(session), "skills list"
        )
    _require_source(overview, source)
    shown = [skill for skill in overview.skills if source in (None, skill.skill.source)][:limit]
    if as_json:
        print_json(_overview_json(overview, shown))
        return
    rows = [(skill.name, skill.skill.source, truncate(skill.trigger, _TRIGGER_MAX)) for skill in shown]
    if hidden:
        rows += [(skill.name, skill.source, f"hidden: {reason}") for skill, reason in overview.withheld]
    plain = [f"{name}  [{origin}]  {text}".rstrip() for name, origin, text in rows]
    if rows:
        print_text(table(("SKILL", "SOURCE", Column("WHEN TO USE IT", words=True)), rows, plain))
    _print_footer(overview)


@commands.command()
def search(
    query: Annotated[str, typer.Argument(help="What you want to do; or a pattern, or a name.")],
    kind: SearchTypeOption = SearchType.FTS,
    limit: LimitOption = 8,
    task_type: Annotated[TaskType | None, typer.Option(help="Only skills of this kind.")] = None,
    source: SourceOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Search skills as the tool skill_search does for an agent."""
    from toolcrib.skills.search import SkillQuery

    request = SkillQuery(query, kind, limit, task_type, source)
    answer = _with_skills(
        config, lambda skill_use_cases, session: skill_use_cases.search(session, request), "skills search"
    )
    lines = [f"{hit.score:.2f}  {hit.name}  [{hit.skill.source}]\n      {hit.trigger}" for hit in answer.hits]
    notes = [answer.note] if answer.note else []
    print_answer(answer.as_json, [*(lines or ["Nothing found."]), *notes], as_json=as_json)


@commands.command()
def show(
    name: NameArgument,
    max_tokens: Annotated[int, typer.Option(min=200, max=6000, help="The token budget.")] = 1500,
    raw: Annotated[bool, typer.Option("--raw", help="The author's text, unchanged.")] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a skill as skill_get returns it to an agent, and what affects its rank."""
    from toolcrib.skills.answers import GetRequest
    from toolcrib.skills.outcomes import OutcomeReports

    request = GetRequest((name,), "raw" if raw else "injection", max_tokens)

    async def shown(skill_use_cases: "SkillUseCases", session: "Session") -> "tuple[GetAnswer, list[Explained]]":
        answer = await skill_use_cases.get(session, request, None)
        skills = [given.skill for given in answer.skills]
        return answer, await OutcomeReports(skill_use_cases).explained(session, skills)

    answer, explained = _with_skills(config, shown, "skills show")
    if as_json:
        print_json({**answer.as_json(request), "explained": [each.as_json for each in explained]})
    else:
        if answer.skills:
            print_verbatim(answer.formatted)
        else:
            print_text(_missing_text(answer), error=True)
        for each in explained:
            print_lines(_explanation(each), error=True)
    fail_if(not answer.skills)


@commands.command()
def relevant(
    task: Annotated[str, typer.Argument(help="The task; - reads it, or a hook's JSON, from standard input.")],
    frame: Annotated[str | None, typer.Option(help="Prefer skills of this frame.")] = None,
    task_type: Annotated[TaskType | None, typer.Option(help="Prefer skills of this kind.")] = None,
    top_k: Annotated[int | None, typer.Option(min=1, max=10, help="Most skills.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=200, max=6000, help="Budget for all of them.")] = None,
    hook: Annotated[
        HookHostName | None, typer.Option(help="Answer in the format of this host's hook; failures never block it.")
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the skills that fit a task, for a host's hook."""
    from toolcrib.skills.answers import RelevantRequest
    from toolcrib.skills.hooks import hook_answer, task_of

    try:
        said = task_of(sys.stdin.read(_STDIN_MAX)) if task == "-" else task
        if not said.strip():
            raise BadRequest("The task is blank. Describe it in a few words.")
        request = RelevantRequest(said, top_k, max_tokens, frame, task_type)
        answer = _with_skills(
            config, lambda skill_use_cases, session: skill_use_cases.relevant(session, request), "skills relevant"
        )
    except ToolcribError as error:
        if hook is None:
            raise
        # A hook that fails would keep the person's prompt from the host.
        print_text(f"toolcrib: {error}", error=True)
        # An empty object is what every host takes for "nothing to add".
        print_json({})
        return
    if hook is not None:
        print_json(hook_answer(hook.value, answer.formatted))
    elif as_json:
        print_json({"skills": list(answer.names), "formatted_context": answer.formatted})
    elif answer.formatted:
        print_text(answer.formatted)


@commands.command()
def check(
    path: Annotated[Path, typer.Argument(help="A SKILL.md, a pack's file, or a folder with such files.")],
    as_json: JsonOption = False,
) -> None:
    """Validate skill files against every rule of their format."""
    from toolcrib.config.schema import LimitsSection
    from toolcrib.skills.doctor import check as check_files

    checked = check_files(path, LimitsSection())
    problems = [asdict(problem) for problem in checked.problems]
    answer = {"ok": not checked.errors, "files": checked.files, "skills": checked.skills, "problems": problems}
    counts = (len(checked.files), "file"), (len(checked.skills), "skill"), (checked.errors, "error")
    summary = ", ".join(counted(number, what) for number, what in counts)
    lines = [*(_problem_text(problem, checked.folder) for problem in checked.problems), summary]
    print_answer(answer, lines, as_json=as_json)
    fail_if(checked.errors)


@commands.command()
def doctor(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Report problems of skills that no single file shows, and how each is used."""
    from toolcrib.skills.doctor import SkillDoctor

    now = time.time()
    examined = _with_skills(config, lambda cases, session: SkillDoctor(cases).examine(session, now), "skills doctor")
    if as_json:
        skills = [health.as_json for health in examined.skills]
        print_json({"skills": skills, "unlisted": list(examined.unlisted)})
        return
    for health in examined.skills:
        print_lines(_health_lines(health, now))
    faulty = sum(any(health.findings) for health in examined.skills)
    print_text(f"{counted(len(examined.skills), 'skill')} checked, problems in {faulty}", error=True)
    if examined.unlisted:
        names = enumerated(examined.unlisted, _NAMES_ROOM)
        print_text(f"never listed, so missing tools of these are unknown: {names}", error=True)


@commands.command()
def enable(name: NameArgument, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Enable a skill that was disabled."""
    _switch(name, config, enabled=True, as_json=as_json)


@commands.command()
def disable(name: NameArgument, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Hide a skill from every agent until it is enabled again."""
    _switch(name, config, enabled=False, as_json=as_json)


def _switch(name: str, config: Path | None, *, enabled: bool, as_json: bool) -> None:
    from toolcrib.skills.overviews import Overviews

    async def switch(skill_use_cases: "SkillUseCases", session: "Session") -> "tuple[Skill, str | None]":
        overviews = Overviews(skill_use_cases)
        skill = await overviews.switch(session, name, enabled=enabled)
        overview = await overviews.overview(session)
        return skill, next((reason for each, reason in overview.withheld if each.id == skill.id), None)

    skill, reason = _with_skills(config, switch, f"skills {'enable' if enabled else 'disable'}", decides=True)
    if as_json:
        print_json({"name": skill.name, "source": skill.source, "enabled": enabled, "hidden": reason})
        return
    print_text(f"{skill.name} [{skill.source}] is {'enabled' if enabled else 'disabled'}.")
    if enabled and reason:
        print_text(f"It is still hidden: {reason}", error=True)


def _with_skills(
    config: Path | None,
    use: "Callable[[SkillUseCases, Session], Awaitable[_Answer]]",
    command: str,
    *,
    decides: bool = False,
) -> _Answer:
    if not load_settings(config).toolcrib.skills.enabled:
        raise BadRequest("Skills are disabled: set toolcrib.skills.enabled to true in the config.")
    return with_skills(config, use, command=command, decides=decides)


def _require_source(overview: "Overview", source: str | None) -> None:
    every = (*(each.skill for each in overview.skills), *(skill for skill, _reason in overview.withheld))
    sources = sorted({skill.source for skill in every})
    if source is not None and source not in sources:
        raise BadRequest(f"There is no skill from {source}. Sources with skills: {', '.join(sources) or 'nowhere'}")


def _print_footer(overview: "Overview") -> None:
    """Print to stderr which skills are not in the list, and why."""
    print_text(f"{counted(len(overview.skills), 'skill')}, {overview.changed} of them new or changed", error=True)
    for found in overview.errors:
        print_text(f"not loaded: {found.place}: {found.message}", error=True)
    if overview.untrusted:
        count = counted(overview.untrusted, "skill")
        print_text(f"hidden: {count} of the repository, because skills.trust_project is false", error=True)
    if overview.withheld:
        print_text(
            f"hidden: {counted(len(overview.withheld), 'skill')}; --hidden lists them with the reasons", error=True
        )


def _explanation(explained: "Explained") -> "Iterator[str]":
    """Yield what changes a skill's rank besides its words, and the outcomes of calls of its tools."""
    from toolcrib.policy.state import OUTCOME_HALF_LIFE_S
    from toolcrib.skills.relevance import FRAME_BOOST

    for frame in explained.frames:
        yield f"before a task of the frame {frame}: {FRAME_BOOST:+}"
    for outcome in explained.outcomes:
        days = int(outcome.age_s // _DAY_S)
        last = f"{counted(days, 'day')} ago" if days else "today"
        reports = f"{counted(outcome.reports, 'report')} by {outcome.principal}"
        half_life = f"half of that every {OUTCOME_HALF_LIFE_S / _DAY_S:.0f} days"
        lost = f"{-outcome.penalty:+.2f} in searches by {outcome.principal}, {half_life}"
        cost = lost if outcome.penalty else f"no change to its score in searches by {outcome.principal}"
        note = f' ("{outcome.note}")' if outcome.note else ""
        yield f"{reports}, {outcome.failure_share:.0%} of them failures, the last {last}: {cost}{note}"
    for tool in explained.calls:
        calls = counted(tool.calls, "time")
        yield f"while it was active, {tool.tool} was called {calls}; {tool.failed} failed"


def _health_lines(health: "Health", now: float) -> "Iterator[str]":
    """Yield the uses and the problems of one skill, if it has any."""
    done: list[str] = []
    if health.use:
        days = int(max(now - health.use.last, 0) // _DAY_S)
        last = f"{counted(days, 'day')} ago" if days else "today"
        done.append(f"used {counted(health.use.count, 'time')}, the last {last}")
    for outcome in health.outcomes:
        failed = f"{outcome.failure_share:.0%} of them failures"
        done.append(f"{counted(outcome.reports, 'report')} by {outcome.principal}, {failed}")
    done += [f"{tool.tool} called {counted(tool.calls, 'time')}, {tool.failed} failed" for tool in health.tools]
    findings = [text for _code, text in health.findings]
    if done or findings:
        yield f"{health.name}  [{health.skill.source}]  {'; '.join(done) or 'never used'}"
    yield from (f"    {text}" for text in findings)


def _missing_text(answer: "GetAnswer") -> str:
    """Return what to do about names that no skill has, or several."""
    from toolcrib.skills.answers import did_you_mean

    lines = [
        f"Error: Not found: {name}.{did_you_mean(answer.near.get(name, ()))} `toolcrib skills search` finds skills."
        for name in answer.not_found
    ]
    lines += [
        f"Error: Several skills are called {name}; show one of: {', '.join(names)}"
        for name, names in answer.ambiguous.items()
    ]
    return "\n".join(lines)


def _overview_json(overview: "Overview", shown: "Sequence[FoundSkill]") -> JsonObject:
    return {
        "skills": [
            {"name": each.name, "source": each.skill.source, "id": each.skill.id, "trigger": each.trigger}
            for each in shown
        ],
        "hidden": [
            {"name": skill.name, "source": skill.source, "reason": reason} for skill, reason in overview.withheld
        ],
        "untrusted": overview.untrusted,
        "errors": [found.as_json for found in overview.errors],
    }


def _problem_text(problem: SkillProblem, folder: Path) -> str:
    line = f":{problem.line}" if problem.line else ""
    return f"{folder / problem.path}{line}: {problem.level}: {problem.message} ({problem.code})"

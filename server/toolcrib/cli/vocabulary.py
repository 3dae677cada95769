"""``toolcrib index vocabulary``: shows and deletes the words that search has learned from use (ADR 49)."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

import typer

from toolcrib.cli.completion import tool_names
from toolcrib.cli.in_process import why_not_stored
from toolcrib.cli.output import ConfigOption, JsonOption, RowsOption, counted, load_settings, print_answer, table
from toolcrib.cli.screen import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolcrib.base.model import Caller, JsonObject
    from toolcrib.gateway.offline import Offline
    from toolcrib.policy.state import Vocabularies


def vocabulary(
    word: Annotated[str | None, typer.Argument(help="Only what was learned about this word.")] = None,
    tool: Annotated[
        str | None, typer.Option(help="Only for this tool, by its public name.", autocompletion=tool_names)
    ] = None,
    principal: Annotated[str | None, typer.Option(help="Only from this caller: the subject of a token.")] = None,
    limit: RowsOption = None,
    forget: Annotated[bool, typer.Option("--forget", help="Delete it.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="With --forget: delete everything.")] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show or delete the words that search has learned from use (tool_search.learn)."""
    from toolcrib.gateway.offline import open_offline
    from toolcrib.gateway.runtime import Runtime

    is_narrowed = any((word, tool, principal))
    # Neither would delete everything by an oversight, and both contradict each other.
    if forget and is_narrowed == everything:
        raise typer.BadParameter("requires a word, --tool, --principal or --all", param_hint="--forget")
    if everything and not forget:
        raise typer.BadParameter("requires --forget: without it, everything is shown", param_hint="--all")
    settings = load_settings(config)
    selection = _Selection(word, tool, principal)
    with open_offline(settings, Runtime(command="index vocabulary"), keep_rows=True) as offline:
        if not forget:
            found = [*_lessons(offline, selection)][:limit]
            print_answer(found, _lines(found, settings.toolcrib.tool_search.learn), as_json=as_json)
            return
        gone = _forget(offline, selection)
        if refusal := why_not_stored(offline):
            raise refusal
    text = f"Deleted {counted(gone, 'lesson')}. A running toolcrib notices within a second of a search."
    print_answer({"forgotten": gone}, text, as_json=as_json)


@dataclass(frozen=True)
class _Selection:
    """Which lessons a person means: those that fit each of these that is given."""

    word: str | None
    tool: str | None
    principal: str | None

    def learners(self, known: "Vocabularies") -> "dict[str, Caller | None]":
        """Return who learns, with the caller behind each; None where all do."""
        from toolcrib.policy.state import caller_from_key

        callers = {learner: caller_from_key(learner) for learner in known}
        return {
            learner: caller
            for learner, caller in callers.items()
            if self.principal is None or (caller is not None and caller.principal == self.principal)
        }

    @cached_property
    def stems(self) -> list[str] | None:
        """The forms in which the word may be stored: its stem, or itself if it is one; None selects every word."""
        from toolcrib.base.text import words
        from toolcrib.search.english import stem

        return None if self.word is None else [self.word, *map(stem, words(self.word))]


def _forget(offline: "Offline", selection: _Selection) -> int:
    """Delete the selected lessons, all or none; return their number."""
    from toolcrib.policy.state import LessonFilter

    vocabularies = offline.state.vocabularies
    learners = None if selection.principal is None else list(selection.learners(vocabularies.all()))
    return vocabularies.forget(LessonFilter(learners, selection.stems, selection.tool))


def _lessons(offline: "Offline", selection: _Selection) -> "Iterator[JsonObject]":
    """Yield the selected lessons about tools that their learner may use now: a denied tool's name is not shown."""
    every = offline.state.vocabularies.all()
    for learner, caller in sorted(selection.learners(every).items()):
        allowed = _names(offline, caller)
        now = every[learner].newest(allowed)
        for word, tool, entry in sorted(every[learner].pairs(), key=lambda pair: pair[:2]):
            if tool in allowed and selection.tool in (None, tool) and (not selection.stems or word in selection.stems):
                yield {
                    "word": word,
                    "tool": tool,
                    "principal": caller.principal if caller else None,
                    "tenant_id": caller.tenant_id if caller else None,
                    "project_id": caller.project_id if caller else None,
                    "profile": caller.profile if caller else None,
                    "weight": round(entry.weight_at(now), 2),
                    "taught_at": datetime.fromtimestamp(entry.at, tz=UTC).isoformat(timespec="seconds"),
                }


def _names(offline: "Offline", learner: "Caller | None") -> set[str]:
    """Return the public names of the tools that a learner may use now; None learns for all, so every tool counts."""
    from toolcrib.policy.sessions import RunActivations, Session

    catalog = offline.indexer.current()
    if learner is None:
        return {tool.public_name for tool in catalog.tools}
    # A session of the learner, because the policy decides by caller.
    session = Session("command-line", learner, RunActivations(), growing=False)
    return {tool.public_name for tool in offline.gate.allowed(session, catalog).tools}


def _lines(found: "list[JsonObject]", learns: bool) -> "Iterator[str | Table]":
    if not learns:
        yield "Learning is off, and lessons are ignored: tool_search.learn is false."
    rows = [(each["word"], each["tool"], _whose(each), f"{each['weight']:.2f}", each["taught_at"]) for each in found]
    yield table(("word", "tool", "from", "weight", "last"), rows) if rows else "Nothing was learned about this."


def _whose(each: "JsonObject") -> str:
    place = "/".join(filter(None, (each["tenant_id"], each["project_id"], each["profile"])))
    return f"{each['principal'] or 'everyone'}{f' ({place})' if place else ''}"

"""The use case of programs: one is read, its tools are found, and each of its calls goes the way of ``tool_call``."""

import json
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from toolcrib.base.cache import Recent
from toolcrib.base.errors import BadRequest, Busy, DownstreamError, ToolcribError
from toolcrib.base.json_values import as_object, compact, weight
from toolcrib.base.model import JsonObject, SearchType, Tool
from toolcrib.base.text import characters_of, one_line, truncate
from toolcrib.catalog.arguments import call_digest
from toolcrib.catalog.outputs import Output
from toolcrib.catalog.tool_search import SearchRequest
from toolcrib.config.schema import ProgramsSection
from toolcrib.events.kinds import Confirmation, ConfirmationAnswer, ProgramRun
from toolcrib.events.log import EventLog, elapsed_ms
from toolcrib.gateway.results import failure
from toolcrib.gateway.returned import LastReturned, read_size, returned, text_of_result
from toolcrib.gateway.tools import Allow, ToolUseCases
from toolcrib.policy.confirmations import InputRequired
from toolcrib.policy.requests import QUESTIONS, Progress, Request, refuse_beyond
from toolcrib.policy.sessions import Session
from toolcrib.programs import running
from toolcrib.programs.dialect import Finding
from toolcrib.programs.places import share_of_one
from toolcrib.programs.running import CallFailed, CallMade, Deadline, Outcome, Program, Result, Run
from toolcrib.programs.source import NotRunnable, Source, import_names, read
from toolcrib.programs.workers import Workers

_ELICIT = "elicitation/create"
_CHECKED_KEPT = 256
_READ_INLINE = 4096
"""Characters of JSON that are read or written on the event loop: far less than a millisecond."""
_SEARCH_MAX = 20
_CALLS_SHOWN, _ARGUMENTS_SHOWN, _VALUE_SHOWN, _REASON_MAX = 12, 6, 60, 100
_LINE_MAX = 200
_OF_VALUES = frozenset(
    ("AttributeError", "IndexError", "KeyError", "SyntaxError", "TypeError", "ValueError", "json.JSONDecodeError")
)
"""Errors that a program ends with where a value is not what it took it for."""
_PRINTED_LEAST = 200
"""Characters of what a program has printed that are shown, however long its value or its error is."""
_NOTICE_MAX = 150
"""Characters of the notice that something was cut, and of what stands before it."""
_NO_VALUE = "The program has run; it has no value. End it with an expression, or print something."

Clean = Callable[[str], str]
"""Replaces secrets and keys in a text."""

THIS_CALL, THIS_RUN, NO = "this call", "this tool in this run", "no"


class Programs:
    """What the programs of every config share: the workers, and how many run."""

    def __init__(self, tasks: TaskGroup) -> None:
        self.workers = Workers(tasks)
        self.checked = Recent[bytes, None](_CHECKED_KEPT)
        self._running = list[Session]()

    @contextmanager
    def counted(self, session: Session, section: ProgramsSection) -> Generator[None]:
        """Count a program during the block.

        Raises:
            Busy: too many run already.

        """
        of_caller = sum(each.caller.principal == session.caller.principal for each in self._running)
        of_session = sum(each.label == session.label for each in self._running)
        for running_now, most, whose in (
            (len(self._running), section.runs, "may (programs.runs"),
            (of_caller, share_of_one(section.runs), "may of one caller (half of programs.runs"),
            (of_session, section.runs_per_session, "may of one session (programs.runs_per_session"),
        ):
            if running_now >= most:
                raise Busy(f"As many programs run as {whose}: {most}). Nothing ran; wait for one of them to end.")
        self._running.append(session)
        try:
            yield
        finally:
            self._running.remove(session)


class InnerCall(Request):
    """A call that a program makes: the request of its caller, who is asked and told through the one that runs it."""

    whole_results = True

    def __init__(self, outer: Request, name: str, deadline: Deadline, on_progress: Progress | None) -> None:
        meta = outer.params.get("_meta")
        super().__init__(outer.session, "tools/call", {"name": name, **({"_meta": meta} if meta else {})}, on_progress)
        self._outer, self._deadline = outer, deadline
        self.lasting, self.can_ask_now = outer.lasting, outer.can_ask_now

    @property
    def log_level(self) -> str | None:
        """The log level of its caller."""
        return self._outer.log_level

    def wants_log(self, level: str) -> bool:
        """Return whether its caller is sent log messages of a level."""
        return self._outer.wants_log(level)

    async def ask(self, method: str, params: JsonObject, /) -> JsonObject:
        """Ask the caller; the program's time stands still meanwhile."""
        async with self._deadline.paused():
            return await self._outer.ask(method, params)

    async def notify(self, method: str, params: JsonObject) -> None:
        """Notify the caller."""
        await self._outer.notify(method, params)

    async def tell(self, method: str, params: JsonObject) -> None:
        """Notify the caller, also after this call."""
        await self._outer.tell(method, params)

    async def end_stream(self) -> None:
        """Leave the caller's stream open: other calls of the program use it."""

    async def notify_tools_changed(self) -> None:
        """Notify the caller that its list has changed."""
        await self._outer.notify_tools_changed()


class ProgramUseCases:
    """The programs of one config. ``tools`` makes their calls; ``shared`` outlives the config."""

    def __init__(self, tools: ToolUseCases, shared: Programs, events: EventLog) -> None:
        self._tools, self._shared, self._events = tools, shared, events
        self._section = tools.settings.toolcrib.programs

    async def run(
        self, request: Request, code: str, *, timeout_s: float | None = None, max_tokens: int | None = None
    ) -> JsonObject:
        """Run a program, and return its value and what it printed as a tool result.

        Raises:
            NotRunnable: it cannot run as it is written, or names a tool that its caller cannot use; nothing ran.
            Busy: too many programs run; nothing ran.
            InputRequired: a call of it may have to ask its caller, which it cannot while this request is under way.

        """
        # Before anything runs: it goes on where the caller can be asked, and no call is ever made twice.
        if not request.can_ask_now and not request.session.capabilities.keys().isdisjoint(QUESTIONS.values()):
            raise InputRequired
        section, began = self._section, time.perf_counter()
        most = characters_of(min(max_tokens or section.max_tokens, section.max_tokens))
        with self._shared.counted(request.session, section):
            # In a thread: to tell of wrong syntax, Python looks for a file.
            source = await anyio.to_thread.run_sync(read, code, section.code_bytes)
            imported, called = await self._named(request, source)
            deadline = Deadline(min(timeout_s or section.timeout_s, section.timeout_s))
            callable_ = {**_by_public_name(imported.values()), **called}
            outputs = await self._tools.outputs(callable_)
            host = _Host(self._tools, request, callable_, outputs, section, deadline, self._events)
            host.refuse_writes(source, {**imported, **called})
            tools = {
                name: running.Tool(
                    tool.public_name,
                    await self._tools.input_schema(request.session, tool),
                    outputs[tool.public_name].kinds if tool.public_name in outputs else (),
                )
                for name, tool in imported.items()
            }
            outcome = await self._run(Program(source, tools), _key(code, imported), host, deadline, most)
            returned_last = await anyio.to_thread.run_sync(host.last_returned.told) if _is_of_values(outcome) else ""
        text = _text(code, outcome, returned_last, most)
        ran = _ran(code, outcome, host.characters_read, len(text))
        request.session.history.ran_program(ran.tokens_saved)
        self._events.emit(ran, session=request.session.label, duration_ms=elapsed_ms(began))
        if outcome.problem is None:
            return {"content": [{"type": "text", "text": text}], "isError": False}
        return failure(text)

    async def _run(self, program: Program, key: bytes, host: "_Host", deadline: Deadline, most: int) -> Outcome:
        program = Program(program.source, program.tools, is_checked=key in self._shared.checked)
        run = Run(program, host, self._section, deadline, caller=host.caller, most=most, progress=host.told)
        outcome = await run.run(self._shared.workers)
        if outcome.end is not None and (outcome.problem is None or not outcome.notes):
            self._shared.checked[key] = None
        return outcome

    async def _named(self, request: Request, source: Source) -> tuple[dict[str, Tool], dict[str, Tool]]:
        """Return the tools that a program imports and calls by literal names.

        Raises:
            NotRunnable: it names some that its caller cannot use: denied, hidden and nonexistent are one error.

        """
        findings: list[Finding] = []
        found: tuple[dict[str, Tool], dict[str, Tool]] = {}, {}
        for names, tools, is_import in ((source.imported, found[0], True), (source.called, found[1], False)):
            for name, lines in names.items():
                try:
                    tools[name] = await self._tools.named(request.session, name, import_names if is_import else None)
                except ToolcribError as error:
                    findings += [Finding(line, str(error)) for line in lines]
        if findings:
            raise NotRunnable(findings)
        return found


def _by_public_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    return {tool.public_name: tool for tool in tools}


def _key(code: str, tools: Mapping[str, Tool]) -> bytes:
    """Return what a check depends on: the program, and the definitions of the tools that it imports."""
    named = [(name, tool.public_name, tool.fingerprint) for name, tool in sorted(tools.items())]
    return sha256(json.dumps([code, named]).encode()).digest()


# -- the calls of a program ----------------------------------------------------------------------


class _Host:
    """Makes the calls of one run.

    ``tools`` are those that the program names, by the names that it calls them by; ``outputs`` is what they return.
    """

    def __init__(
        self,
        use_cases: ToolUseCases,
        request: Request,
        tools: Mapping[str, Tool],
        outputs: Mapping[str, Output],
        section: ProgramsSection,
        deadline: Deadline,
        events: EventLog,
    ) -> None:
        self._use_cases, self._request, self._section = use_cases, request, section
        self._tools, self._outputs = dict(tools), dict(outputs)
        self._deadline, self._events = deadline, events
        self._allowed: set[tuple[str, str]] = set()
        self._asking = anyio.Lock()
        self.characters_read = self._reports = 0
        self.last_returned = LastReturned(use_cases.settings.redactor.without_keys)

    @property
    def caller(self) -> str:
        """Who runs it: the principal."""
        return self._request.session.caller.principal

    def refuse_writes(self, source: Source, tools: Mapping[str, Tool]) -> None:
        """Refuse a program that names tools which may change something, if it may call none.

        Raises:
            NotRunnable: with each of them, and how it can be called.

        """
        why = self._why_no_writes()
        if not why:
            return
        lines = {**source.called, **source.imported}
        findings = [
            Finding(line, f"{tool.public_name} may change something, {why}: call it with toolcrib's tool_call")
            for name, tool in tools.items()
            if not tool.read_only
            for line in lines[name][:1]
        ]
        if findings:
            raise NotRunnable(findings)

    def _why_no_writes(self) -> str:
        """Return why no tool may be called that may change something; empty: it may, once a person has said so."""
        from mcp import MCPError  # noqa: PLC0415 - commands do not wait for the SDK

        if self._section.writes == "never":
            return "and programs may not (programs.writes)"
        if self._section.writes == "allow":
            return ""
        try:
            refuse_beyond(self._request.session.capabilities, _ELICIT, {})
        except MCPError:
            return "and this client has no way to ask a person first (programs.writes)"
        return ""

    async def call(self, name: str, arguments: str, made: CallMade) -> Result:
        """Make a call as ``tool_call`` does; see :class:`toolcrib.programs.running.Host`."""
        tool = self._tools.get(name)
        if tool is None:
            raise CallFailed(f"{name[:100]} is neither written in the program nor found by a search in it.")
        output = self._outputs.get(name)
        if output is None:
            raise CallFailed(f"{tool.public_name} was changed by its server just now; run the program again.")
        given: Any = await _decoded(arguments)
        inner = InnerCall(self._request, tool.public_name, self._deadline, self._reports_of(tool.public_name))
        try:
            result = await self._use_cases.call(inner, tool.public_name, given, allow=self._allowing(inner, made))
        except DownstreamError as error:
            raise CallFailed(f"The server of {tool.public_name} refused the call: {error}") from None
        except ToolcribError as error:
            raise CallFailed(str(error)) from None
        except InputRequired:
            raise CallFailed(f"{tool.public_name} asks for input: call it with toolcrib's tool_call.") from None
        if result.get("resultType", "complete") != "complete":
            raise CallFailed(f"{tool.public_name} asks for input: call it with toolcrib's tool_call.")
        return await self._taken(tool, result, output)

    async def _taken(self, tool: Tool, result: JsonObject, output: Output) -> Result:
        """Return a result as the program gets it; raises CallFailed."""
        most, size = self._section.result_bytes, weight(result, _READ_INLINE)
        is_small = size <= _READ_INLINE
        if not is_small:
            size = await anyio.to_thread.run_sync(weight, result, most)
        if size > most:
            raise CallFailed(f"The result of {tool.public_name} is larger than {most} bytes (programs.result_bytes).")
        if is_small:
            taken = returned(tool.public_name, result, output)
        else:
            taken = await anyio.to_thread.run_sync(returned, tool.public_name, result, output)
        most_shown = self._use_cases.long_results.shown_at_once(self._request.session, tool.server)
        self.characters_read += min(read_size(result, taken), most_shown)
        self.last_returned.keep(tool.public_name, taken)
        return taken

    def _reports_of(self, name: str) -> Progress | None:
        """Return what takes the progress of one call: as reports of the whole, which may only grow."""
        on_progress = self._request.on_progress
        if on_progress is None:
            return None

        async def report(progress: float, total: float | None, message: str | None) -> None:
            del progress, total
            await self.told(f"{name}: {message}" if message else name)

        return report

    async def told(self, message: str) -> None:
        """Report to the caller that something goes on."""
        self._reports += 1
        if self._request.on_progress is not None:
            await self._request.on_progress(self._reports, None, message)

    def _allowing(self, inner: InnerCall, made: CallMade) -> Allow:
        """Return what has a call allowed: once, also where it is tried again, as after a login."""
        allowed: set[bytes] = set()

        async def allow(tool: Tool, sent: JsonObject) -> None:
            if tool.read_only:
                return
            if self._section.writes != "allow":
                call = await anyio.to_thread.run_sync(call_digest, tool, sent)
                if call not in allowed:
                    await self._allow(inner, tool, sent)
                    allowed.add(call)
            made.changes = _shown(sent, self._use_cases.settings.redactor.without_keys)

        return allow

    async def _allow(self, inner: InnerCall, tool: Tool, arguments: JsonObject) -> None:
        """Return once a tool that may change something may be called.

        Raises:
            CallFailed: a person says no, or cannot be asked.

        """
        if why := self._why_no_writes():
            raise CallFailed(f"{tool.public_name} may change something, {why}.")
        async with self._asking:  # one question at a time; the answer to one may be that of the next
            version = tool.public_name, tool.fingerprint
            if version in self._allowed:
                return
            answer, chosen = await self._answer(inner, tool, arguments)
            self._events.emit(Confirmation("tool", tool.public_name, answer), session=inner.session.label)
            if chosen == THIS_RUN:
                self._allowed.add(version)
        if chosen not in (THIS_CALL, THIS_RUN):
            raise CallFailed(f"{tool.public_name} did not run: a person was asked, and did not allow it.")

    async def _answer(self, inner: InnerCall, tool: Tool, arguments: JsonObject) -> tuple[ConfirmationAnswer, object]:
        from mcp import MCPError  # noqa: PLC0415 - as above

        question = await self._use_cases.question(inner.session, tool, arguments)
        choices = [THIS_CALL, THIS_RUN, NO]
        answer = {"type": "string", "title": "Allow it", "enum": choices, "default": THIS_CALL}
        schema = {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}
        form = {"message": f"A program asks: {question}", "requestedSchema": schema}
        try:
            with anyio.move_on_after(self._use_cases.settings.toolcrib.limits.answer_timeout_s):
                said = await inner.ask(_ELICIT, form)
                chosen = as_object(said.get("content")).get("answer") if said.get("action") == "accept" else NO
                kinds: dict[object, ConfirmationAnswer] = {THIS_CALL: "once", THIS_RUN: "this run"}
                return kinds.get(chosen, "no"), chosen
        except MCPError:
            return "unable", NO
        return "none", NO

    async def search(self, query: str, limit: int) -> Result:
        """Search as ``tool_search`` does; what it finds may be called by name."""
        wanted = SearchRequest(query.strip(), SearchType.FTS, min(max(limit, 1), _SEARCH_MAX))
        try:
            answer = await self._use_cases.search_tools(self._request.session, wanted, "signature")
        except ToolcribError as error:
            raise CallFailed(str(error)) from None
        new = _by_public_name(hit.tool for hit in answer.hits if hit.tool.public_name not in self._tools)
        # What is known already stays: the program was told of that.
        self._outputs = {**await self._use_cases.outputs(new), **self._outputs}
        self._tools = {**new, **self._tools}
        found = [
            {
                "name": hit.tool.public_name,
                "signature": hit.shown.as_line(hit.tool.public_name),
                "description": hit.shown.description,
                "read_only": hit.tool.read_only,
            }
            for hit in answer.hits
        ]
        return Result("json", compact(found))

    async def result(self, handle: str) -> Result:
        """Return the whole text of a result that was kept for paging."""
        try:
            kept = await self._use_cases.long_results.whole(self._request.session, handle)
        except BadRequest as error:
            raise CallFailed(str(error)) from None
        return Result("text", await anyio.to_thread.run_sync(text_of_result, kept))


async def _decoded(arguments: str) -> Any:
    try:
        if len(arguments) <= _READ_INLINE:
            return json.loads(arguments)
        return await anyio.to_thread.run_sync(json.loads, arguments)
    except (ValueError, RecursionError):
        raise CallFailed("The arguments are no JSON, or nested too deeply.") from None


# -- the answer ----------------------------------------------------------------------------------


def _text(code: str, outcome: Outcome, returned_last: str, most: int) -> str:
    """Return what ``tool_run`` answers: the value and what was printed, or what went wrong and what had been done.

    ``returned_last`` is a line about what calls have returned. It has at most ``most`` characters, whichever of these
    they are.
    """
    if outcome.problem is None:
        return _told("", outcome, most) or _NO_VALUE
    return _told(_failed(code, outcome, returned_last), outcome, most)


def _ran(code: str, outcome: Outcome, read: int, said: int) -> ProgramRun:
    """Return the event of a program that has ended."""
    # A model has to do again what a failed one did.
    instead = read if outcome.problem is None else 0
    return ProgramRun(
        ok=outcome.problem is None,
        calls=len(outcome.calls),
        failed=sum(call.outcome != "ok" for call in outcome.calls),
        characters_read=read,
        characters_returned=said,
        tokens_saved=(instead - len(code) - said) // characters_of(1),
    )


def _is_of_values(outcome: Outcome) -> bool:
    """Return whether a program has failed at a value that is not what it took it for."""
    return outcome.problem is not None and outcome.problem.partition(":")[0] in _OF_VALUES


def _failed(code: str, outcome: Outcome, returned_last: str) -> str:
    line = outcome.end.line if outcome.end else 0
    where = f" in line {line}" if line else ""
    head = [f"The program failed{where}: {outcome.problem}"]
    lines = code.splitlines()
    if 0 < line <= len(lines):
        head.append(f"    {truncate(lines[line - 1].strip(), _LINE_MAX)}")
    calls = _calls_text(outcome.calls) if outcome.calls else ""
    return "\n".join([*head, *filter(None, (returned_last, calls)), *outcome.notes])


def _told(said: str, outcome: Outcome, most: int) -> str:
    """Return what is said of a run, and below it its value and what it has printed."""
    least = min(len(outcome.printed), _PRINTED_LEAST) + _NOTICE_MAX if outcome.printed else 0
    said = truncate(said, most - least - _NOTICE_MAX)
    room = most - len(said) - 1
    parts = [said]
    end = outcome.end
    if end is not None and end.value is not None:
        parts.append(_cut(end.value, room - least, end.size, is_counted=end.is_counted))
        room -= len(parts[-1]) + 1
    if outcome.printed:
        label = "Printed:\n" if any(parts) else ""
        printed = outcome.printed.rstrip("\n")
        size = outcome.printed_size - len(outcome.printed) + len(printed)
        parts.append(label + _cut(printed, room - len(label), size, is_counted=end is not None or size == len(printed)))
    return "\n".join(filter(None, parts))


def _cut(text: str, room: int, size: int, *, is_counted: bool) -> str:
    """Return a text, or what of it there is room for and a notice; ``size`` is that of the whole, or of a part."""
    if is_counted and size == len(text) <= room:
        return text
    notice = (
        f"\n[toolcrib: cut; it has {'' if is_counted else 'more than '}{size} characters. "
        "Return less, such as only some fields, or raise max_tokens.]"
    )
    return text[: max(room - len(notice), 0)] + notice


def _calls_text(calls: Sequence[CallMade]) -> str:
    """Return one line about the calls of a program: how many of each tool, and each that may have changed something."""
    by_name: dict[str, list[CallMade]] = {}
    for call in calls:
        by_name.setdefault(call.name, []).append(call)
    counts = [_count(name, made) for name, made in by_name.items()]
    more = len(counts) - _CALLS_SHOWN
    counts[_CALLS_SHOWN:] = [f"{more} more"] if more > 0 else []
    said = f"Calls made: {', '.join(counts)}."
    # Those that did not end well first: there may be no room for all.
    changing = sorted((call for call in calls if call.changes is not None), key=lambda call: call.outcome == "ok")
    if not changing:
        return f"{said} None was sent to a tool that may change something."
    told = [f"{call.name}({call.changes}) {_ending(call)}" for call in changing[:_CALLS_SHOWN]]
    if len(changing) > len(told):
        told.append(f"and {len(changing) - len(told)} more")
    return f"{said} These may have changed something, and are not undone: {'; '.join(told)}"


def _count(name: str, made: Sequence[CallMade]) -> str:
    """Return how often a tool was called, how often it did not end well, and the first reason not told besides."""
    others = Counter(call.outcome for call in made if call.outcome != "ok")
    if not others:
        return f"{name} {len(made)}"
    why = next(
        (f": {truncate(call.problem, _REASON_MAX)}" for call in made if call.problem and call.changes is None), ""
    )
    return f"{name} {len(made)} ({', '.join(f'{n} {how}' for how, n in others.items())}{why})"


def _ending(call: CallMade) -> str:
    return f"{call.outcome} ({call.problem})" if call.problem else call.outcome


def _shown(arguments: JsonObject, clean: Clean) -> str:
    """Return arguments as they are told of a call: their names, and the beginnings of their values, without secrets."""
    shown = list(arguments.items())[:_ARGUMENTS_SHOWN]
    return ", ".join(f"{_beginning(name, clean)}={_begun(value, clean)}" for name, value in shown)


def _beginning(text: str, clean: Clean) -> str:
    # Enough of it is read that a secret which is begun is known.
    return truncate(one_line(clean(text[:_READ_INLINE])), _VALUE_SHOWN)


def _begun(value: object, clean: Clean) -> str:
    match value:
        case str():
            return json.dumps(_beginning(value, clean), ensure_ascii=False)
        case dict():
            return "{…}"
        case list():
            return "[…]"
        case _:
            return json.dumps(value)

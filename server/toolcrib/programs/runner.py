"""The process that runs programs for a gateway, one at a time: the one door to ``pydantic_monty``.

A program runs in the interpreter's own worker, a child of this process, which bounds what it holds. What it hands over
has no other bound than that, so it is built here, in a process that may be lost, and leaves in frames of bounded size
(ADR 91). The gateway ends this process by its group; without its gateway, it ends itself.
"""

import ast
import json
import os
import re
import signal
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from typing import IO, TYPE_CHECKING, Any, Final

from toolcrib.programs.frames import ARGUMENTS_MAX, HEAD, NOT_STARTED, HostFunction, header_of, packed
from toolcrib.programs.values import rendered

if TYPE_CHECKING:
    import pydantic_monty as monty

_NODE_BYTES: Final = {",": 32, ":": 48, "[": 64, "{": 64, '"': 56}
"""What values take beside their characters, by the marks in JSON that they come with; a text has one mark here."""
_FUNCTIONS = frozenset(HostFunction)
_MISFITS = {
    HostFunction.CALL: f"the arguments do not fit, or are longer than {ARGUMENTS_MAX} characters",
    HostFunction.SEARCH: 'search takes a text and a number: search("words", 8)',
    HostFunction.RESULT: 'result takes a text: result("HANDLE")',
    HostFunction.LITERAL: f"literal_eval takes a text of at most {ARGUMENTS_MAX} characters",
}
"""What is wrong with a call of the host that is not handed over."""
_NAME_MAX = 300
_HITS_MAX = 1_000_000
_SLEEP_MAX_S = 1_000_000.0
_TEXT_MAX = 2000
_DIAGNOSTICS_MAX = 100
_RECURSION_MAX = 400
"""Depth of calls in a program: a worker's stack holds some thousands."""
_SUSPENSIONS, _SUSPENSIONS_PER_CALL = 1000, 8
"""Turns that a program may take, and those of each call: itself, waiting for it, names and sleeps beside it."""
_ANSWERS_AFTER_S: Final = 2.0
"""How long a worker may take beyond its computing time to say so, before it is killed."""
_BESIDE_VALUES = 128 * 1024 * 1024
"""Memory of this process beside twice the memory of a program, which is what one value takes to be built here."""
_DROPPED_PRINT_S = 0.0005
"""How long a program waits for each piece that it prints and nobody keeps: else it takes two processors from others."""
_COMPUTES_BESIDE_S, _COMPUTES_PER_CALL_S = 5.0, 0.005
"""How long this process may compute beside twice as long as a program: it passes on what that takes and gives."""
_COMPUTES_MAX_S = 1_000_000.0
_NICE = 10
_HAS_ENDED = "The worker that ran it has ended."
_FIRST = "<python-input-0>"
_SLEEP = "system.sleep"
_SLEEPS = frozenset((_SLEEP, "system.async_sleep"))
_STRINGS = re.compile(r'"(?:[^"\\]|\\.|\\\Z)*+"?', re.DOTALL)
"""Texts in JSON; one that does not end goes to the end, so that nothing is looked at twice."""
_HALVES = re.compile(r"\\(?:u|U0000)[dD][89a-fA-F]")
"""Escapes in literals of Python that are half of a character (a surrogate)."""
_MARKS = {"text": "t", "json": "j"}
"""The first character of a result, which says what the program makes of the rest."""
_WORDED = {
    "TimeoutError: feed time limit exceeded": "it computed for too long (programs.compute_s)",
    "MemoryError": "it used too much memory (programs.memory_bytes)",
    "RuntimeError: suspension limit": "it made too many calls, sleeps and literal_evals (programs.calls): limit",
    "NotImplementedError: external function 'toolcrib_literal'": (
        "NotImplementedError: map, sorted and the like cannot call literal_eval; use [literal_eval(x) for x in xs]: it"
    ),
    "RuntimeError": "ToolError",
}
_NO_LITERAL = "this text is no literal of Python, or too large or too deeply nested"
_TOO_MUCH = "It used too much memory (programs.memory_bytes)"

Frame = tuple[dict[str, Any], str]


def main(*, interpreter: str | None, memory_bytes: int) -> None:
    """Run programs until the gateway has gone.

    ``interpreter`` is the program that its library starts, None for the usual one; ``memory_bytes`` what a program has.
    """
    _bound(memory_bytes)
    _stand_back()
    received, sent = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    with os.fdopen(received, "rb") as source, os.fdopen(sent, "wb", 0) as sink, suppress(EOFError):
        outbox = _Outbox(sink)
        inbox = _Inbox(source, outbox, memory_bytes)
        threading.Thread(target=inbox.fill, daemon=True).start()
        _serve(interpreter, inbox, outbox)


def _serve(interpreter: str | None, inbox: "_Inbox", outbox: "_Outbox") -> None:
    with ExitStack() as stack:
        try:
            pool = stack.enter_context(_opened(interpreter))
        except Exception as error:  # barrier: whatever is wrong with an installation is told, not only that it ended
            outbox.send({"is": "lost", "detail": f"{type(error).__name__}: {error}"[:_TEXT_MAX]}, NOT_STARTED)
            return
        outbox.send({"is": "ready"})
        while True:
            header, text = inbox.request()
            if header["do"] == "run":
                _Run(header, text, inbox, outbox).run(pool)


def _opened(interpreter: str | None) -> "monty.Monty":
    import pydantic_monty as monty  # noqa: PLC0415 - once this process has its bounds

    return monty.Monty(
        binary_path=interpreter, min_processes=1, max_processes=1, feed_duration_limit_grace=_ANSWERS_AFTER_S
    )


def _bound(memory_bytes: int) -> None:
    """Bound the memory of this process and of its workers, where the system can, and have no crash of it kept."""
    with suppress(ImportError):
        import resource  # noqa: PLC0415 - not everywhere

        most = 2 * memory_bytes + _BESIDE_VALUES
        with suppress(ValueError, OSError, OverflowError):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _stand_back() -> None:
    """Leave one processor to the gateway and its servers, and the others to whoever wants them more, where that can be.

    The library's worker, which computes, inherits this. A lower priority alone is not enough: where each session of
    processes is scheduled as a group (Linux, autogroup), it says nothing to other groups.
    """
    with suppress(AttributeError, OSError):
        os.nice(_NICE)
    with suppress(AttributeError, OSError):
        processors = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, processors[1:] or processors)


@contextmanager
def _computing_at_most(seconds: float) -> Generator[None]:
    """End this process when it computes for longer during the block, whatever it is in the middle of."""
    can = hasattr(signal, "setitimer")
    if can:
        signal.setitimer(signal.ITIMER_PROF, min(seconds, _COMPUTES_MAX_S))
    try:
        yield
    finally:
        if can:
            signal.setitimer(signal.ITIMER_PROF, 0)


class _Outbox:
    """Sends frames, from any thread."""

    def __init__(self, sink: IO[bytes]) -> None:
        self._sink, self._lock = sink, threading.Lock()

    def send(self, header: dict[str, Any], text: str = "") -> None:
        """Send a frame; raises as :meth:`send_all`."""
        self.send_all([(header, text)])

    def send_all(self, frames: Iterable[Frame]) -> None:
        """Send frames, at once.

        Raises:
            EOFError: the gateway has gone.

        """
        data = b"".join(packed(header, text) for header, text in frames)
        with self._lock:
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[self._sink.write(rest) :]
            except OSError:
                raise EOFError from None


class _Inbox:
    """What the gateway sends, read by a thread of its own: a turn of the interpreter blocks the other one.

    ``most`` characters of results may wait until the program takes them; it is ended beyond.
    """

    def __init__(self, source: IO[bytes], outbox: _Outbox, most: int) -> None:
        self._source, self._outbox, self._most = source, outbox, most
        self._changed = threading.Condition()
        self._requests = deque[Frame]()
        self._answers: dict[int, tuple[monty.ExternalSettledResult, int]] = {}
        self._due: dict[int, float] = {}
        self._untaken = 0
        self._is_closed = self._is_running = False
        self._worker: int | None = None

    def receive(self) -> Frame:
        """Read one frame, with all of its text.

        Raises:
            EOFError: the gateway has gone.

        """
        pieces: list[str] = []
        while True:
            top, rest = HEAD.unpack(self._exactly(HEAD.size))
            header = header_of(self._exactly(top))
            pieces.append(self._exactly(rest).decode("utf-8", "replace"))
            if header["do"] != "more":
                return header, "".join(pieces)

    def _exactly(self, size: int) -> bytes:
        data = self._source.read(size)
        if len(data) < size:
            raise EOFError
        return data

    def fill(self) -> None:
        """Read until the gateway has gone, or more waits than this process may hold; then let nothing go on."""
        try:
            while True:
                self._add(*self.receive())
        except EOFError:
            pass
        except MemoryError:
            with suppress(EOFError):
                self._outbox.send({"is": "lost"}, f"{_TOO_MUCH}: a result of its calls is too large for it.")
        finally:
            with self._changed:
                self._is_closed = True
                self._changed.notify_all()
                if self._worker is not None:
                    with suppress(OSError):
                        os.kill(self._worker, getattr(signal, "SIGKILL", signal.SIGTERM))

    def _add(self, header: dict[str, Any], text: str) -> None:
        with self._changed:
            if header["do"] != "answer":
                self._is_running = True
                self._requests.append((header, text))
            elif self._is_running:  # else it is to a program that has ended, and the calls of the next have its numbers
                size = len(text)
                self._answers[header["number"]] = (_answer(header, text), size)
                self._untaken += size
                if self._untaken > self._most:
                    self._outbox.send({"is": "lost"}, f"{_TOO_MUCH}: it has not taken the results of its calls.")
                    raise EOFError
            self._changed.notify_all()

    def request(self) -> Frame:
        """Wait for what the gateway wants next, and return it.

        Raises:
            EOFError: it has gone.

        """
        with self._changed:
            while self._is_closed or not self._requests:
                self._wait(None)
            return self._requests.popleft()

    @contextmanager
    def running_in(self, worker: int | None) -> Generator[None]:
        """Have a process end with this one during the block; raises as :meth:`request`."""
        with self._changed:
            if self._is_closed:
                raise EOFError
            self._worker = worker
        try:
            yield
        finally:
            with self._changed:
                self._worker = None

    def finish(self) -> None:
        """Forget the answers to a program that has ended, and those that are still to come."""
        with self._changed:
            self._is_running = False
            self._answers.clear()
            self._due.clear()
            self._untaken = 0

    def sleep(self, number: int, seconds: float) -> None:
        """Have a sleep end after so many seconds; it is answered as a call."""
        self._due[number] = time.monotonic() + seconds

    def answers_to(self, pending: frozenset[int], calls: Sequence[Frame]) -> "dict[int, monty.ExternalSettledResult]":
        """Hand over calls, wait until some of the pending calls and sleeps have ended, and return their answers.

        Others compute meanwhile, so it goes on when the gateway says so. Raises as :meth:`request`.
        """
        if self._have_ended(pending):
            self._outbox.send_all(calls)
        else:
            self._outbox.send_all([*calls, ({"is": "waits"}, "")])
            with self._changed:
                while not self._have_ended(pending):
                    self._wait(min((self._due[number] for number in pending & self._due.keys()), default=None))
            self._outbox.send({"is": "ready"})
            self.request()
        with self._changed:
            taken = {number: self._answers.pop(number) for number in pending & self._answers.keys()}
            size = sum(size for _, size in taken.values())
            self._untaken -= size
        if size:
            self._outbox.send({"is": "taken", "size": size})
        return {number: answer for number, (answer, _) in taken.items()}

    def _have_ended(self, pending: frozenset[int]) -> bool:
        """Answer the sleeps whose time is over, and return whether some of these have ended."""
        now = time.monotonic()
        with self._changed:
            for number in [number for number in pending & self._due.keys() if self._due[number] <= now]:
                del self._due[number]
                self._answers[number] = ({"return_value": None}, 0)
            return not pending.isdisjoint(self._answers)

    def _wait(self, until: float | None) -> None:
        if self._is_closed:
            raise EOFError
        self._changed.wait(None if until is None else max(until - time.monotonic(), 0))


def _answer(header: Mapping[str, Any], text: str) -> "monty.ExternalSettledResult":
    """Return an answer as the interpreter takes it."""
    if header["kind"] == "failed":
        return {"exc_type": "RuntimeError", "message": text}
    return {"return_value": _MARKS[header["kind"]] + text}


class _Run:
    """One program. The header has its bounds; the text has the stubs for the checker, our prelude, and the program."""

    def __init__(self, header: Mapping[str, Any], text: str, inbox: _Inbox, outbox: _Outbox) -> None:
        self._bounds, self._inbox, self._outbox = header, inbox, outbox
        ends = [0, *header["ends"], len(text)]
        self._stubs, self._prelude, self._code = (text[start:end] for start, end in pairwise(ends))
        self._printed = 0
        self._calls: list[Frame] = []
        self._held = 0

    def run(self, pool: "monty.Monty") -> None:
        """Run it, and send what it comes to."""
        own_s = _COMPUTES_BESIDE_S + _COMPUTES_PER_CALL_S * self._bounds["calls"]
        with _computing_at_most(2 * self._bounds["compute_s"] + own_s):
            ended = self._guarded(lambda: self._in_session(pool))
            self._inbox.finish()  # before the gateway knows, which may begin the next one then
            self._send(*ended)

    def _in_session(self, pool: "monty.Monty") -> Frame:
        bounds = self._bounds
        with (
            pool.checkout(
                limits={
                    "max_feed_duration_secs": bounds["compute_s"],
                    "max_memory": bounds["memory_bytes"],
                    "max_recursion_depth": _RECURSION_MAX,
                    "max_suspensions": _SUSPENSIONS + bounds["calls"] * _SUSPENSIONS_PER_CALL,
                },
                type_check=bounds["checked"],
                type_check_stubs=self._stubs or None,
                type_check_format="json",
                os_policy={"sleep_system_max": float("inf")},  # the time of the whole run bounds it
            ) as session,
            self._inbox.running_in(session.worker_pid),
        ):
            return self._through(session)

    def _through(self, session: "monty.MontySession") -> Frame:
        self._driven(session, self._prelude, is_checked=False)
        if self._bounds["checked"]:
            ended = self._guarded(lambda: self._ended(session, is_checked=True))
            if ended[0]["is"] != "refused":
                return ended
            self._send(*ended)
            header, _ = self._inbox.request()
            if header["do"] != "go on":
                return {"is": "stopped"}, ""
        return self._ended(session, is_checked=False)

    def _ended(self, session: "monty.MontySession", *, is_checked: bool) -> Frame:
        value = self._driven(session, self._code, is_checked=is_checked)
        if value is None:
            return {"is": "ended", "size": None}, ""
        shown = rendered(value, self._bounds["most"])
        return {"is": "ended", "size": shown.size, "is_counted": shown.is_counted}, shown.text

    def _send(self, header: dict[str, Any], text: str) -> None:
        self._outbox.send({**header, "printed": self._printed}, text)

    def _guarded(self, work: Callable[[], Frame]) -> Frame:
        """Return what ``work`` returns, or how it has failed."""
        try:
            return work()
        except EOFError:
            raise
        except Exception as error:  # barrier: the library may fail at any value, and the program is to be told
            return _end_by(error)

    def _driven(self, session: "monty.MontySession", code: str, *, is_checked: bool) -> Any:
        """Run a text to its end, and return its value; its calls are handed over when it has to wait."""
        import pydantic_monty as monty  # noqa: PLC0415 - as above

        step = session.feed_start(
            code, print_callback=lambda _stream, text: self._print(text), skip_type_check=not is_checked
        )
        while not isinstance(step, monty.MontyComplete):
            if isinstance(step, monty.NameLookupSnapshot):
                step = step.resume()
            elif isinstance(step, monty.FutureSnapshot):
                step = step.resume(self._inbox.answers_to(frozenset(step.pending_call_ids), self._handed_over()))
            else:
                step = self._called(step)
        self._handed_over()  # and dropped: those that are never awaited are not made
        return step.output

    def _called(self, step: Any) -> Any:
        """Keep a call until it is handed over, and go on."""
        name, number = str(step.function_name), step.call_id
        if name in _SLEEPS:
            self._inbox.sleep(number, _seconds(step.args))
            if name != _SLEEP:
                return step.resume({"future": ...})
            # It ends before anything else goes on.
            return step.resume(self._inbox.answers_to(frozenset((number,)), self._handed_over())[number])
        if step.is_os_function:
            # Stubs of modules are wanted in another form; there are none besides the interpreter's own.
            return step.resume({"return_value": {}}) if "stubs" in name else step.resume_not_handled()
        call = _call(name, step.args) if not step.kwargs else None
        if call is None:
            return step.resume(_answered_here(name, step.args))
        self._keep({"is": "call", "number": number, **call[0]}, call[1])
        return step.resume({"future": ...})

    def _keep(self, header: dict[str, Any], text: str) -> None:
        self._calls.append((header, text))
        self._held += len(text)
        if self._held > self._bounds["held"] or len(self._calls) > self._bounds["calls"]:
            self._outbox.send_all(self._handed_over())  # the gateway ends it for that

    def _handed_over(self) -> list[Frame]:
        """Return the calls that were kept until now, and keep none of them."""
        calls, self._calls, self._held = self._calls, [], 0
        return calls

    def _print(self, text: str) -> None:
        room = self._bounds["printed"] - self._printed
        self._printed += len(text)
        if room >= 0:  # and once more than is kept, so that is known
            self._outbox.send({"is": "printed", "size": len(text)}, text[:room])
        else:
            time.sleep(_DROPPED_PRINT_S)


def _call(name: str, args: Sequence[Any]) -> Frame | None:
    """Return a call of the host as it is handed over; None: it does not fit."""
    match name, args:
        case HostFunction.CALL, (str(tool), str(arguments)) if (
            len(tool) <= _NAME_MAX and len(arguments) <= ARGUMENTS_MAX
        ):
            return {"kind": "call", "name": tool, "weight": weight_of(arguments)}, arguments
        case HostFunction.SEARCH, (str(query), int(limit)) if len(query) <= ARGUMENTS_MAX:
            return {"kind": "search", "limit": max(min(limit, _HITS_MAX), 0), "weight": len(query)}, query
        case HostFunction.RESULT, (str(handle),) if len(handle) <= _NAME_MAX:
            return {"kind": "result", "weight": len(handle)}, handle
        case _:
            return None


def _answered_here(name: str, args: Sequence[Any]) -> "monty.ExternalResult":
    """Return the answer to a call that is not handed over."""
    match name, args:
        case HostFunction.LITERAL, (str(text),) if len(text) <= ARGUMENTS_MAX:
            return _literal(text)
        case HostFunction.LITERAL, _:
            return {"exc_type": "ValueError", "message": _MISFITS[HostFunction.LITERAL]}
        case _ if name in _FUNCTIONS:
            return {"exc_type": "RuntimeError", "message": _MISFITS[HostFunction(name)]}
        case _:
            return {"exc_type": "NameError", "message": f"name {name!r} is not defined"}


def _literal(text: str) -> "monty.ExternalResult":
    """Return the value of a literal of Python, which many servers write, as a program gets it."""
    if _HALVES.search(text):  # the interpreter's texts have only whole characters
        return {"exc_type": "ValueError", "message": _NO_LITERAL}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes in strings, which go to nobody here
            return {"return_value": ast.literal_eval(text.strip())}
    except SyntaxError as error:
        return {"exc_type": "SyntaxError", "message": f"{_NO_LITERAL}: {error.msg}"}
    except (ValueError, TypeError, RecursionError, MemoryError):
        return {"exc_type": "ValueError", "message": _NO_LITERAL}


def weight_of(arguments: str) -> int:
    """Return about how many bytes arguments take once they are built from JSON."""
    outside = _STRINGS.sub('"', arguments)
    return sys.getsizeof(arguments) + sum(outside.count(mark) * size for mark, size in _NODE_BYTES.items())


def _seconds(args: Sequence[Any]) -> float:
    seconds = args[0] if args else 0
    return float(min(seconds, _SLEEP_MAX_S)) if isinstance(seconds, int | float) and seconds > 0 else 0.0


def _diagnostics(said: str) -> str:
    """Return the first of what the checker says, as JSON: all that is read of it."""
    found: Any = json.loads(said)
    shown = [
        {"code": each["code"], "location": each["location"], "message": each["message"][:_TEXT_MAX]}
        for each in found[:_DIAGNOSTICS_MAX]
    ]
    return json.dumps(shown)


def _end_by(error: Exception) -> Frame:
    """Return the end that an error is for a program."""
    import pydantic_monty as monty  # noqa: PLC0415 - as above

    end: Frame
    match error:
        case monty.MontyTypingError():
            end = {"is": "refused"}, _diagnostics(error.display())
        case monty.MontySyntaxError() | monty.MontyRuntimeError():
            end = _failure(error)
        case monty.MontyCrashedError():
            why = "It computed for too long (programs.compute_s)." if error.timed_out else _HAS_ENDED
            end = {"is": "lost", "detail": str(error)[:_TEXT_MAX]}, why
        case MemoryError():
            end = {"is": "lost"}, f"{_TOO_MUCH}: its value, or what it hands over, is too large."
        case RecursionError():
            end = {"is": "failed", "line": 0}, "its value is nested too deeply to be shown"
        case _:
            said = f"{type(error).__name__}: {str(error)[:_NAME_MAX]}"
            end = {"is": "failed", "line": 0}, f"its value, or what it hands over, cannot be shown: {said}"
    return end


def _failure(error: "monty.MontySyntaxError | monty.MontyRuntimeError") -> Frame:
    """Return the end of a program, with the last line of its own text on the way."""
    said = error.display("type-msg")[:_TEXT_MAX]
    for start, worded in _WORDED.items():
        if said.startswith(start):
            said = worded + said.removeprefix(start)
            break
    said = said.removesuffix(": ")
    # What is fed first is ours.
    lines = [frame.line for frame in error.traceback() if frame.filename != _FIRST]
    return {"is": "failed", "line": lines[-1] if lines else 0}, said

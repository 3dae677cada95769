"""Stores the answers to ``initialize`` and the first list on stdio, for the next start to reuse."""

import json
import logging
import os
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import mcp
import mcp_types

from toolcrib.base.errors import ToolcribError
from toolcrib.base.json_values import as_object
from toolcrib.base.model import JsonObject
from toolcrib.config.settings import SKILL_CACHE, STATE, TOOL_CACHE
from toolcrib.gateway.composition import Generation
from toolcrib.jsonrpc.sdk import Context, envelope_of
from toolcrib.policy.sessions import Session, WholeList
from toolcrib.server.early import FOLDER, STORED_MAX, EarlyExchange, StartConditions
from toolcrib.server.envelopes import list_result
from toolcrib.server.instructions import Instructions
from toolcrib.server.lists import Listing
from toolcrib.skills.catalog import SkillInputs
from toolcrib.storage.files import private_directory

_FILES_MAX = 32
"""Maximum number of files in one cache directory: one per client, working directory and command line."""
_PATHS_MAX = 10_000
"""Maximum number of files that an answer may depend on: a start checks each of them before it answers."""
_VERIFY_AFTER_S = 0.5
"""Delay, in seconds, before a replayed answer is verified: the client's first requests take precedence."""
_FINAL_STORE_S = 1.0
_UNREADABLE = (OSError, sqlite3.Error, ToolcribError)
"""Possible errors of the files from which an answer is made."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Greeting:
    """An answered ``initialize`` or probe: the question, and the result without instructions."""

    session: Session
    question: Any
    result: JsonObject


class HandshakeCache:
    """Answers ``initialize`` for one client, and stores its answers up to the first list.

    ``replayed`` are the answers given before the server was ready: questions, each with its outcome. If ``initialize``
    is among them, the client waits for no instructions: they are computed in the background to verify the answer.
    ``decide_whole_list`` returns what a session that begins now is listed whole.
    ``take_back`` is called if it was wrong.
    """

    def __init__(
        self,
        generation: Generation,
        instructions: Instructions,
        listing: Listing,
        start: StartConditions,
        *,
        replayed: Sequence[Any],
        decide_whole_list: Callable[[Session], Awaitable[WholeList | None]],
        take_back: Callable[[], None],
    ) -> None:
        self._generation, self._instructions, self._listing = generation, instructions, listing
        self._start, self._replayed, self._take_back = start, list(replayed), take_back
        self._decide_whole_list = decide_whole_list
        self._greetings: list[_Greeting] = []
        self._are_complete = anyio.Event()
        self._stored: Any = None
        self._is_retired = False

    async def answer(self, session: Session, context: Context, result: JsonObject, *, is_last: bool) -> JsonObject:
        """Return the result of ``initialize`` or of a probe with instructions; the first ones are stored.

        ``is_last`` is false for a probe that a handshake is to follow.
        """
        question = _question(context)
        if not self._are_complete.is_set():
            if is_last or not self._greetings:
                self._greetings.append(_Greeting(session, question, result))
            if is_last:
                self._are_complete.set()
            # Answered already, and not written again: generating instructions now would delay the next request.
            if any(question == replayed for replayed, _outcome in self._replayed):
                return result
        return await self._instructions.complete(result, session, is_rehearsal=not is_last)

    def retire(self) -> None:
        """Store nothing any more: another config is in use, and answers now depend on that."""
        self._is_retired = True

    async def run(self) -> None:
        """Store the client's answers after the handshake; if they were replayed, only if they were wrong."""
        await self._are_complete.wait()
        if self._replayed:
            await anyio.sleep(_VERIFY_AFTER_S)
            if self._is_retired:
                return
            try:
                answers = await self._answers(is_rehearsal=False)
            except _UNREADABLE as error:
                _log.warning("what the client was answered as the last time could not be looked at again: %s", error)
                return
            if answers[: len(self._replayed)] == self._replayed:
                return
            self._take_back()
            _log.warning("the client was answered as the last time, and would be told something else now")
            await anyio.to_thread.run_sync(self._drop)
        await self.store()

    async def store(self) -> None:
        """Store the answers that the client would get now, if they are final; others stay valid in their situation."""
        if self._is_retired or not self._are_complete.is_set():
            return
        try:
            answers = await self._final_answers()
            if answers is not None and answers != self._stored:
                await anyio.to_thread.run_sync(self._write, answers)
                self._stored = answers
        except _UNREADABLE as error:
            _log.info("the handshake is not cached: %s", error)

    async def _final_answers(self) -> Any:
        """Return the answers with the situation in which they are valid; None while something is still in progress."""
        tools, skills = self._generation.tools, self._generation.skills
        if tools.fleet.listing_first or await anyio.to_thread.run_sync(tools.indexer.unlisted):
            return None
        inputs = await skills.inputs(self._greetings[-1].session) if skills else SkillInputs((), (), ())
        if inputs is None:
            return None
        before = await anyio.to_thread.run_sync(self._situation, inputs)
        answers = await self._answers(is_rehearsal=True)
        # What changed meanwhile may or may not be in the answers: the next attempt will know.
        if before is None or await anyio.to_thread.run_sync(self._situation, inputs) != before:
            return None
        return {"situation": before, "answers": answers}

    async def _answers(self, *, is_rehearsal: bool) -> list[Any]:
        """Return the client's answers up to its first list: questions, each with its outcome.

        ``is_rehearsal``: nothing of it was or is sent to the client.
        """
        answers: list[Any] = []
        last = self._greetings[-1]
        anew = last.session.restarted()
        # As the next start will decide: this session keeps the kind of list that it began with.
        whole_list = await self._decide_whole_list(anew or last.session)
        for each in self._greetings:
            quietly = is_rehearsal or each is not last
            begun = replace(each.session, whole_list=whole_list)
            result = await self._instructions.complete(each.result, begun, is_rehearsal=quietly)
            answers.append([each.question, {"result": result}])
        if anew is None:
            return answers
        anew.whole_list = whole_list
        _method, params = last.question
        server_info = as_object(last.result.get("_meta")).get(mcp_types.SERVER_INFO_META_KEY)
        listed = list_result(await self._listing.definitions(anew), server_info)
        return [*answers, [["tools/list", params if envelope_of(params) else {}], {"result": listed}]]

    def _situation(self, inputs: SkillInputs) -> Any:
        stores = [self._generation.offline.stores.get(name) for name in (TOOL_CACHE, SKILL_CACHE, STATE)]
        if any(store and store.path is None for store in stores):
            return None  # in memory for now: the next start finds other rows
        rows = [str(store.path) if store else "" for store in stores]
        files = [*inputs.files, *(str(each.__file__) for each in (mcp, mcp_types))]
        if len(files) > _PATHS_MAX:
            return None
        return self._start.situation(files, [*inputs.places, *self._start.places], inputs.variables, rows)

    @property
    def _file(self) -> Path:
        first = self._greetings[0].question
        return self._generation.settings.cache_dir / FOLDER / self._start.files(first)[0].name

    def _drop(self) -> None:
        with suppress(OSError):
            self._file.unlink(missing_ok=True)

    def _write(self, answers: Any) -> None:
        file, text = self._file, json.dumps(answers)
        if len(text) >= STORED_MAX:  # a list of this length is computed at each start
            text = json.dumps({**answers, "answers": answers["answers"][:-1]})
        private_directory(file.parent)
        if file.exists() and file.read_text(encoding="ascii") == text:
            file.touch()  # the most recently used ones survive
            return
        beside = file.with_suffix(f".{os.getpid()}")
        beside.touch(mode=0o600)
        beside.write_text(text, encoding="ascii")
        # As a whole, because another start may be reading it.
        beside.replace(file)
        oldest_last = sorted(file.parent.glob("*.json"), key=lambda each: each.stat().st_mtime, reverse=True)
        for each in oldest_last[_FILES_MAX:]:
            with suppress(OSError):
                each.unlink(missing_ok=True)


def _question(context: Context) -> Any:
    return [context.method, dict(context.params or {})]


@asynccontextmanager
async def open_handshake_cache(
    generation: Generation,
    instructions: Instructions,
    listing: Listing,
    early: EarlyExchange,
    decide_whole_list: Callable[[Session], Awaitable[WholeList | None]],
    take_back: Callable[[], None],
) -> AsyncGenerator[HandshakeCache | None]:
    """Yield what answers ``initialize`` and stores the answer; None if no later start would use it.

    ``decide_whole_list`` returns what a session that begins now is listed whole; ``take_back`` notifies the client that
    its list has changed.
    """
    if early.start is None:
        yield None
        return
    cache = HandshakeCache(
        generation,
        instructions,
        listing,
        early.start,
        replayed=early.replayed,
        decide_whole_list=decide_whole_list,
        take_back=take_back,
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cache.run)
        try:
            yield cache
        finally:
            tasks.cancel_scope.cancel()
            # What the answer depends on may have changed: a skill that was used moves within the directory.
            with anyio.move_on_after(_FINAL_STORE_S, shield=True):
                await cache.store()

"""The CPU time of one skill_get in process over a folder of real skills: of each for the first time, and again.

It is that of the whole process: the look at the file, the read of its row, cleaning, shortening, the event. Beside it
stands what is the least there is to do: the file is read, hashed and cut off at the budget.
"""

import hashlib
import os
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio

from measuring import Finding, Target, median, percentile, show
from skills import over_corpus, refresh, write_config
from toolcrib.base.model import Caller, JsonObject, Skill
from toolcrib.config.loading import load
from toolcrib.gateway.composition import open_gateway
from toolcrib.gateway.runtime import Runtime
from toolcrib.policy.sessions import RunActivations, Session
from toolcrib.skills.answers import GetRequest, ListRequest
from toolcrib.skills.use_cases import SkillUseCases

TOKENS = 1500
MOST = Target(4)


async def cpu_ms(work: Callable[[], Awaitable[object]]) -> float:
    """Return the milliseconds of CPU that the process takes for a piece of work."""
    began = time.process_time()
    await work()
    return (time.process_time() - began) * 1000


async def got(library: SkillUseCases, session: Session, name: str) -> JsonObject:
    request = GetRequest((name,), max_tokens=TOKENS, force=True)
    return (await library.get(session, request)).as_json(request)


async def plainly(file: anyio.Path) -> str:
    data = await file.read_bytes()
    return hashlib.sha256(data).hexdigest() + data.decode(errors="replace")[: 4 * TOKENS]


async def all_skills(library: SkillUseCases, session: Session) -> list[Skill]:
    skills: list[Skill] = []
    cursor = None
    while True:
        page = await library.list_skills(session, ListRequest(cursor=cursor, page_size=200))
        skills += [shown.skill for shown in page.skills]
        cursor = page.next_cursor
        if cursor is None:
            return skills


async def measured(config: Path, corpus: Path) -> dict[str, list[float]]:
    """Return the milliseconds of each skill: made for the first time, given again, and done plainly."""
    times: dict[str, list[float]] = {"first": [], "again": [], "plain": []}
    refresh(load(config, os.environ, config.parent))
    async with open_gateway(load(config, os.environ, config.parent), Runtime()) as gateway:
        library = gateway.skills
        session = Session("benchmark", Caller(), RunActivations(), growing=False)
        for skill in await all_skills(library, session):
            ask = partial(got, library, session, skill.id)
            times["first"].append(await cpu_ms(ask))
            times["again"].append(await cpu_ms(ask))
            times["plain"].append(await cpu_ms(partial(plainly, anyio.Path(corpus / skill.path))))
    return times


def measure(given: Namespace, folder: Path) -> None:
    config = write_config(folder, "get", {"core_pack": False, "skill_dirs": [str(given.corpus)]})
    rounds = [anyio.run(measured, config, given.corpus) for _ in range(given.repeat)]
    found: list[Finding] = []
    for share in (0.5, 0.95):
        of = {name: median([percentile(each[name], share) for each in rounds]) for name in rounds[0]}
        for name in ("first", "again"):
            what = f"one skill within {TOKENS:,} tokens, {name}, p{share * 100:g}"
            found.append(Finding(what, "ms", of[name], of["plain"], "read, hashed, cut", MOST if share > 0.5 else None))
    show(found, f"{len(rounds[0]['first'])} skills; medians of {given.repeat} rounds; CPU time", as_json=given.json)


def main() -> None:
    over_corpus(__doc__, 3, measure)


if __name__ == "__main__":
    main()

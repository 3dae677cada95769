"""A disk that is full from some byte on: no request fails, and there is room again without a restart.

Each file may be so large and no larger, which stops every write of every file at some point: SQLite's, and those of
logs, events, approvals and logins. What the system says then (``EFBIG``) is what SQLite takes a full disk for.
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import anyio
import pytest
from builders import opened
from counts import count
from test_hostile_kills import CONFIG, NAMED, SIZES, listed

from worlds import world

pytestmark = [
    pytest.mark.hostile,
    pytest.mark.skipif(sys.platform == "win32", reason="no fork and no bounds of files there"),
]

SMALLEST, LARGEST = 1000, 600_000
"""Bytes of the config, which is there before; and of the largest file where nothing is in the way, and some more."""

FORKER = """
import os, resource, sys, tempfile, traceback
from pathlib import Path
import anyio
from test_hostile_kills import CONFIG, NAMED, listed
from worlds import world

HARD = resource.getrlimit(resource.RLIMIT_FSIZE)[1]

def bound(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (HARD if size is None else size, HARD))

async def use(folder, size):
    bound(size)
    async with world(folder, {"zoo": listed(0)}, CONFIG, environ=NAMED) as w, w.client() as client:
        for turn in (1, 2, 3):
            assert await client.found("feeds animal 7", limit=1), "nothing is found"
            assert not (await client.call("zoo__feed_7", {})).get("isError"), "a call fails"
            await w.change("zoo", *listed(turn))
        bound(None)
        w.clock.now += 61  # when a file is tried again
        await w.change("zoo", *listed(4))
        await w.change("zoo", *listed(5))
        assert not (await client.call("zoo__feed_9", {})).get("isError"), "a call fails afterwards"
        assert "zoo__feed_9" in await client.names()

for line in sys.stdin:
    folder, size = line.rsplit(" ", 1)
    pid = os.fork()
    if not pid:
        try:
            anyio.run(use, Path(folder), int(size))
            os._exit(0)
        except BaseException:
            bound(None)
            traceback.print_exc()
            os._exit(1)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@pytest.mark.timeout(3600)
def test_it_serves_on_a_full_disk_and_goes_on_when_there_is_room(tmp_path: Path, record_property):
    sizes, found, wrong = count("writes"), Counter[str](), list[int]()
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", FORKER]
    with subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as forker:
        for number in range(sizes):
            size, folder = SMALLEST + LARGEST * number // sizes, tmp_path / str(number)
            folder.mkdir()
            forker.stdin.write(f"{folder} {size}\n")
            forker.stdin.flush()
            if int(forker.stdout.readline()):
                wrong.append(size)
                continue
            found["kept"] += anyio.run(started_again, folder)
        forker.stdin.close()
    record_property("count", found["kept"] + len(wrong))
    record_property("worst", f"{len(wrong)} of {sizes} failed; after {found['kept']} what was decided then is there")
    assert wrong == []
    assert found["kept"] == sizes


async def started_again(folder: Path) -> bool:
    """Start on what is there by now; return whether what was activated last is known."""
    async with world(folder, {"zoo": listed(5)}, CONFIG, environ=NAMED) as w, w.client() as client:
        assert await client.found("feeds animal 7", limit=1)
        is_kept = "zoo__feed_9" in await client.names()
    with opened(w.catalog_file) as it:
        assert it.index.check() == []
        assert len(it.names("feed", limit=20)) == min(20, SIZES[1])
    return is_kept

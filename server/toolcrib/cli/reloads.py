"""When the config of a running toolcrib is read again: on a signal, and when its file changes, if asked.

Knows the file and what a person is told; never knows what is reloaded, or how.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Never

import anyio
import anyio.to_thread

from toolcrib.config.settings import Settings
from toolcrib.policy.client_profiles import Hosts
from toolcrib.server.serving import Serving

_LOOK_S = 1.0
"""Between two looks at the file. It is read once two of them have found it the same."""

_Stamp = tuple[int, int, int] | None


class Reloads:
    """Wishes to read the config again; those that come while that is done are one more."""

    def __init__(self) -> None:
        self._wanted = anyio.Event()

    def ask(self) -> None:
        """Have the config read again, as soon as that is possible."""
        self._wanted.set()

    async def carry_out(self, serving: Serving, read: Callable[[], Settings], transport: str) -> Never:
        """Read the config again whenever that is asked for."""
        while True:
            await self._wanted.wait()
            self._wanted = anyio.Event()
            loaded = await serving.reload(read, lambda settings: Hosts(settings, transport))
            if loaded.failure:
                _say(f"the config is not reloaded, and nothing has changed. {loaded.failure}")
                continue
            _say(f"the config is reloaded, {len(serving.settings.servers)} servers are in it")
            for notice in (*serving.settings.notices, *serving.settings.skipped):
                _say(str(notice))
            if loaded.fixed:
                _say(f"restart toolcrib to apply changes in {', '.join(loaded.fixed)}")

    async def watch(self, serving: Serving) -> Never:
        """Ask for it each time that the file has changed."""
        seen = known = await _stamp(serving)
        while True:
            await anyio.sleep(_LOOK_S)
            before, seen = seen, await _stamp(serving)
            if seen == before and seen != known:
                known = seen
                self.ask()


async def _stamp(serving: Serving) -> _Stamp:
    return await anyio.to_thread.run_sync(_stamp_of, serving.settings.config_path)


def _stamp_of(path: Path | None) -> _Stamp:
    try:
        status = path.stat() if path else None
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino) if status else None


def _say(text: str) -> None:
    print(f"toolcrib: {text}", file=sys.stderr, flush=True)

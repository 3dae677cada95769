"""Real authorization servers and servers behind them, as processes, and a person with a browser.

By hand, to try ``toolcrib login`` on them: ``python tests/oauth/rig.py`` (oidc-provider and a server of the SDK), and
``python tests/oauth/rig.py fastmcp``. Both print an entry for ``mcpServers`` and run until they are interrupted.
"""

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS)] if str(TESTS) not in sys.path else []

from e2e.npm import HOW_TO_INSTALL, Npm, find  # noqa: E402 - by hand this file is no part of a package

_START_S = 60.0
_STEPS_MAX = 20
HOW_TO_INSTALL_FASTMCP = "needs FastMCP: run scripts/install-fastmcp, or set TOOLCRIB_FASTMCP_PYTHON"
_LISTENS = re.compile("^listening$|Uvicorn running on", re.MULTILINE)
_PORT_TAKEN = re.compile("EADDRINUSE|address already in use")
_ACTION = re.compile(r'<form[^>]*action="([^"]+)"')
_HIDDEN = re.compile(r'<input[^>]*type="hidden"[^>]*name="([^"]+)"[^>]*value="([^"]*)"')


Started = TypeVar("Started")


class PortTakenError(Exception):
    """A process ended because somebody else took its port, which was free when it was chosen."""


@dataclass(frozen=True)
class Rig:
    """A server that wants a login at ``url``, and its authorization server at ``issuer``.

    ``told`` is where the authorization server tells what happened, a line each; empty where it tells nothing.
    """

    url: str
    issuer: str
    told: Path | None

    def happened(self) -> list[str]:
        """Return what the authorization server has told so far."""
        return self.told.read_text().splitlines() if self.told else []

    def end(self, token: str) -> None:
        """Have an access token end, as time does; FastMCP's server knows no such thing."""
        answer = httpx2.get(f"{self.issuer}/test/end", params={"token": token}, trust_env=False)
        assert answer.status_code == 204

    def revoke(self, client: Mapping[str, str], token: str) -> None:
        """Have a token revoked, as its client could do it, or the person on the provider's pages."""
        metadata = httpx2.get(f"{self.issuer}/.well-known/oauth-authorization-server", trust_env=False).json()
        answer = httpx2.post(metadata["revocation_endpoint"], data={"token": token, **client}, trust_env=False)
        assert answer.status_code == 200, answer.text


class Browser:
    """A person with a browser: opens an address, logs in and agrees, and ends where the login began.

    ``opened`` are the addresses that it was asked to open.
    """

    def __init__(self, account: str = "jane", *, agrees: bool = True) -> None:
        self.opened: list[str] = []
        self._account, self._agrees = account, agrees

    async def log_in(self, address: str) -> str:
        """Return the address that the person is sent back to, the one that was asked for; it is not opened."""
        self.opened.append(address)
        [back_to] = parse_qs(urlsplit(address).query)["redirect_uri"]
        async with httpx2.AsyncClient(trust_env=False, timeout=30) as http:
            answer = await http.get(address)
            for _ in range(_STEPS_MAX):
                if answer.is_redirect:
                    address = urljoin(str(answer.url), answer.headers["location"])
                    if address.startswith(back_to):
                        return address
                    answer = await http.get(address)
                    continue
                form = _ACTION.search(answer.text)
                assert form, f"a page without a form: {answer.status_code} {answer.text[:500]}"
                fields = dict(_HIDDEN.findall(answer.text))
                if fields.get("prompt") == "login":
                    fields |= {"login": self._account, "password": "any"}
                elif not self._agrees:
                    answer = await http.get(urljoin(str(answer.url), f"{form[1].rstrip('/')}/abort"))
                    continue
                answer = await http.post(urljoin(str(answer.url), form[1]), data=fields)
        raise AssertionError("led from one page to the next")


@contextmanager
def oidc_provider(npm: Npm, folder: Path, *, lasts_s: int = 600, servers: int = 1) -> Generator[list[Rig]]:
    """Run oidc-provider in front of servers of the SDK; ``folder`` gets what they say."""
    with _with_free_ports(partial(_oidc_provider, npm, folder, lasts_s, servers)) as rigs:
        yield rigs


@contextmanager
def _oidc_provider(npm: Npm, folder: Path, lasts_s: int, servers: int) -> Generator[list[Rig]]:
    with ExitStack() as stack:
        ports = [_free_port() for _ in range(servers + 1)]
        issuer = f"http://127.0.0.1:{ports[0]}"
        urls = [f"http://127.0.0.1:{port}/mcp" for port in ports[1:]]
        told = folder / "provider.txt"
        options = json.dumps({"resources": urls, "lasts": lasts_s})
        script = str(TESTS / "oauth" / "provider.mjs")
        stack.enter_context(running([str(npm.node), script, str(npm.folder), str(ports[0]), options], told))
        introspection = [issuer, f"{issuer}/token/introspection", "resource", "resource"]
        for port in ports[1:]:
            command = [sys.executable, "-m", "oauth.notes_server", str(port), *introspection]
            stack.enter_context(running(command, folder / f"server-{port}.txt"))
        yield [Rig(url, issuer, told) for url in urls]


@contextmanager
def fastmcp(python: Path, folder: Path, *, lasts_s: int = 600) -> Generator[Rig]:
    """Run FastMCP with its own authorization server."""
    with _with_free_ports(partial(_fastmcp, python, folder, lasts_s)) as rig:
        yield rig


@contextmanager
def _fastmcp(python: Path, folder: Path, lasts_s: int) -> Generator[Rig]:
    port = _free_port()
    command = [str(python), "-m", "oauth.fastmcp_server", str(port), str(lasts_s)]
    with running(command, folder / "fastmcp.txt"):
        yield Rig(f"http://127.0.0.1:{port}/mcp", f"http://127.0.0.1:{port}", None)


def find_fastmcp(environ: Mapping[str, str]) -> Path | None:
    """Return the Python that has FastMCP, or ``None`` where it is not installed."""
    cache = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    python = Path(environ.get("TOOLCRIB_FASTMCP_PYTHON") or cache / "toolcrib-ci" / "fastmcp" / "bin" / "python")
    return python if python.exists() else None


@contextmanager
def _with_free_ports(start: Callable[[], AbstractContextManager[Started]]) -> Generator[Started]:
    """Start processes, and once more, on other ports, where somebody else took one meanwhile."""
    with ExitStack() as stack:
        try:
            started = stack.enter_context(start())
        except PortTakenError:
            started = stack.enter_context(start())
        yield started


@contextmanager
def running(command: Sequence[str], told: Path) -> Generator[None]:
    """Run a server until this is left, or this process ends; it has said that it listens when the block begins.

    Raises ``PortTakenError`` where it ended because its port is another's.
    """
    with told.open("w") as output:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, cwd=TESTS)
        try:
            ends_at = time.monotonic() + _START_S
            while not _LISTENS.search(told.read_text()):
                if process.poll() is not None:
                    said = told.read_text()
                    raise PortTakenError(said) if _PORT_TAKEN.search(said) else AssertionError(said)
                assert time.monotonic() < ends_at, f"{command[0]} does not listen: {told.read_text()}"
                time.sleep(0.05)
            yield
        finally:
            process.kill()
            process.communicate()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run one of them until it is interrupted."""
    import tempfile

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if arguments == ["fastmcp"]:
            python = find_fastmcp(environ)
            assert python, HOW_TO_INSTALL_FASTMCP
            rig = stack.enter_context(fastmcp(python, folder))
        else:
            npm = find(environ)
            assert npm, HOW_TO_INSTALL
            [rig] = stack.enter_context(oidc_provider(npm, folder))
        print(json.dumps({"mcpServers": {"notes": {"url": rig.url}}}))
        print(f"issuer: {rig.issuer}; any name and password will do; end with ^C", flush=True)
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    try:
        main(sys.argv[1:], os.environ)
    except KeyboardInterrupt:
        sys.exit(130)

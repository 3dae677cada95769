"""What the tasks of ``program_tasks.py`` are about: eight servers of others, over the shop in ``tasks/shop``.

Knows how the shop's repository, files, database, graph and pages come to stand in a folder, the same each time and as
long as such things are, and how the servers over them are started; never knows a task.
"""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import catalog

sys.path.insert(0, str(catalog.ROOT / "tests"))
from e2e.npm import Npm, entry

SHOP = Path(__file__).resolve().parent / "tasks" / "shop"
_CODE = "".join(f"\n\ndef step_{number}(cart):\n    return [line for line in cart if line]\n" for number in range(20))
_PROSE = "".join(
    f"\nThe shop has {number} kinds of cups, all of them made by hand in one village.\n" for number in range(20)
)
_ENDS = {".py": _CODE, ".md": _PROSE}
"""What makes files of the repository as long as others are, the same in each version of a file."""
_REQUESTS = "".join(
    f"T{n // 60:02}:{n % 60:02}:00 INFO request GET /tea/{n % 7}.html 200 {n % 9}ms\n" for n in range(240)
)
_PARAGRAPHS = "".join(
    f"<p>Our tea number {n} is packed by hand and sent within two days, in paper.</p>\n" for n in range(30)
)
_NO_SETTINGS = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


@dataclass(frozen=True, slots=True)
class World:
    """Where the shop stands, where its pages are, and the entries of ``mcpServers`` over it."""

    folder: Path
    site: str
    servers: Mapping[str, dict[str, Any]]


@contextmanager
def shop(folder: Path, npm: Npm, python: Path | None, lists: Path) -> Iterator[World]:
    """Put the shop into a folder, and serve its pages as long as this lasts.

    ``python`` has mcp-server-fetch and mcp-server-sqlite; without it there are neither. Of playwright there is the list
    alone, from the folder of tool lists, if it is there.
    """
    shutil.copytree(SHOP / "files", folder / "files")
    for log in (folder / "files" / "logs").iterdir():
        requests = "".join(f"{log.stem}{line}" for line in _REQUESTS.splitlines(keepends=True))
        log.write_text(requests + log.read_text(encoding="utf-8"), encoding="utf-8")
    shutil.copytree(SHOP / "pages", folder / "pages")
    for page in (folder / "pages").rglob("*.html"):
        longer = page.read_text(encoding="utf-8").replace("</article>", f"{_PARAGRAPHS}</article>")
        page.write_text(longer, encoding="utf-8")
    shutil.copy(SHOP / "memory.jsonl", folder)
    with closing(sqlite3.connect(folder / "shop.db")) as base:
        base.executescript((SHOP / "shop.sql").read_text(encoding="utf-8"))
    _make_repository(folder / "repo")
    servers = {
        "git": entry([sys.executable, "-m", "mcp_server_git"]),
        "time": entry([sys.executable, "-m", "mcp_server_time", "--local-timezone", "UTC"]),
        "filesystem": entry(npm.filesystem(folder / "files")),
        "memory": entry(npm.memory(), env={"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}),
        "everything": entry(npm.everything()),
    }
    if python is not None:
        # With a search path it may find npm, and installs packages.
        fetch = entry([str(python), "-m", "mcp_server_fetch", "--allow-private-ips"], env={"PATH": ""})
        database = entry([str(python.with_name("mcp-server-sqlite")), "--db-path", str(folder / "shop.db")])
        servers |= {"fetch": fetch, "sqlite": database}
    tools = catalog.captured(lists).get("playwright")
    if tools is not None:
        listed = folder / "playwright.json"
        listed.write_text(json.dumps({"tools": tools}), encoding="utf-8")
        servers["playwright"] = entry([sys.executable, "-S", str(catalog.SERVERS / "listing.py"), str(listed)])
    with _served(folder / "pages") as site:
        yield World(folder, site, servers)


def _make_repository(folder: Path) -> None:
    made = tomllib.loads((SHOP / "repository.toml").read_text(encoding="utf-8"))
    _git(folder.parent, "init", "-q", "-b", "main", str(folder))
    on = "main"
    for commit in made["commits"]:
        branch = commit.get("branch", "main")
        if branch != on:
            _git(folder, "checkout", "-q", *([] if branch == "main" else ["-b"]), branch)
            on = branch
        _put(folder, commit["files"])
        _git(folder, "add", "-A")
        name, when = commit["by"], f"{commit['day']}T10:00:00+00:00"
        person = {"NAME": name, "EMAIL": f"{name.split()[0].lower()}@shop.example", "DATE": when}
        environ = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in person.items()}
        _git(folder, "commit", "-q", "-m", commit["message"], **environ)
    _git(folder, "branch", "old-design", "HEAD~5")
    _put(folder, made["staged"]["files"])
    _git(folder, "add", "-A")
    _put(folder, made["unstaged"]["files"])


def _git(folder: Path, *args: str, **environ: str) -> None:
    subprocess.run(["git", *args], cwd=folder, env=os.environ | _NO_SETTINGS | environ, check=True)


def _put(folder: Path, files: Mapping[str, str | bool]) -> None:
    for name, text in files.items():
        path = folder / name
        if isinstance(text, bool):
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + _ENDS.get(path.suffix, ""), encoding="utf-8")


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the name that it has above
        """Say nothing of each request."""

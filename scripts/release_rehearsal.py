"""Builds a release in a temporary folder, installs it into an empty virtual environment and runs it; publishes nothing.

Prints each step and then what a real release would do next; ends with 1 at the first thing that is wrong.
"""

import json
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from check_docs import FENCE, LINK, documents, problems

ROOT = Path(__file__).resolve().parents[1]
INSTALL_S = 600
RUN_S = 60

HELLO = (
    {
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "release-rehearsal", "version": "0"},
        },
    },
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/list"},
)
"""What a client says first."""


class WrongError(Exception):
    """Something that a release must not have."""


def run(*command: object, seconds: float = RUN_S, given: str = "", at: Path | None = None) -> str:
    """Return what a command prints; it must end well, in time."""
    words = [str(word) for word in command]
    ended = subprocess.run(words, cwd=at, input=given, capture_output=True, text=True, timeout=seconds, check=False)
    if ended.returncode:
        raise WrongError(f"{' '.join(words)} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def build(folder: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel out of it, as an installer would; return both."""
    hatchling = (sys.executable, "-m", "hatchling", "build", "--directory", folder, "--target")
    run(*hatchling, "sdist", at=ROOT)
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    run(*hatchling, "wheel", at=source)
    (wheel,) = folder.glob("*.whl")
    check_links(source)
    return sdist, wheel


def check_links(source: Path) -> None:
    """Fail where a document links to nothing, or to what the sdist leaves out."""
    broken = [f"{path.name}: {problem}" for path in documents() for problem in problems(path)]
    broken += [
        f"{path.name} links to {link}, which is not in the sdist"
        for path in sorted(source.glob("*.md"))
        for link in LINK.findall(FENCE.sub("", path.read_text(encoding="utf-8")))
        if not re.match(r"[a-z]+:", link) and not (source / link.partition("#")[0]).exists()
    ]
    if broken:
        raise WrongError("\n".join(broken))


def changes_of(version: str, text: str) -> str:
    """Return what a change log says about this version; its section must be the first."""
    sections = re.split(r"^## +", text, flags=re.MULTILINE)[1:]
    title, _, body = sections[0].partition("\n") if sections else ("", "", "")
    if title.split()[:1] != [version] or not body.strip():
        raise WrongError(f"CHANGELOG.md must begin with a section '## {version}' that says something; it has: {title}")
    return body.strip()


def check_versions(version: str, wheel: Path, binary: Path) -> None:
    """Fail where the files, the installed program and the constant in the source do not all say the same."""
    constant = re.search(r'__version__ = "(.+)"', (ROOT / "server/toolcrib/__init__.py").read_text(encoding="utf-8"))
    said = {
        "the source": constant[1] if constant else "nothing",
        "server.json": json.loads((ROOT / "server.json").read_text(encoding="utf-8"))["version"],
        "the wheel": wheel.name.split("-")[1],
        "toolcrib --version": run(binary, "--version").strip().removeprefix("toolcrib "),
    }
    if set(said.values()) != {version}:
        raise WrongError(f"the installed package is {version}, but {said}")


def serve_once(binary: Path, config: Path, version: str) -> int:
    """Say hello to ``toolcrib serve`` and leave; return how many tools it lists."""
    lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in HELLO)
    said = run(binary, "serve", "--config", config, given=lines)
    answers = {message.get("id"): message for message in map(json.loads, said.splitlines())}
    serving = answers[1]["result"]["serverInfo"]
    if serving != {**serving, "name": "toolcrib", "version": version}:
        raise WrongError(f"serve calls itself {serving}")
    return len(answers[2]["result"]["tools"])


def rehearse(folder: Path) -> tuple[str, list[Path]]:
    """Do all of it; return the version and the files that would be published."""
    print("--- build sdist and wheel, follow the links of the documents")
    sdist, wheel = build(folder)
    print(f"{sdist.name}, {sdist.stat().st_size:,} bytes; {wheel.name}, {wheel.stat().st_size:,} bytes")
    print("--- install the wheel into an empty virtual environment")
    run(sys.executable, "-m", "venv", folder / "venv")
    python, binary = folder / "venv/bin/python", folder / "venv/bin/toolcrib"
    run(python, "-m", "pip", "install", "-q", wheel, seconds=INSTALL_S)
    run(python, "-m", "pip", "check")
    version = run(python, "-c", "import importlib.metadata as m; print(m.version('toolcrib'))").strip()
    print("--- one version number, and a section of the change log for it")
    check_versions(version, wheel, binary)
    changes_of(version, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    print(version)
    print("--- check a config and serve it to one client")
    config = folder / "mcp.json"
    servers = {"nothing": {"command": str(python), "args": ["-c", "pass"]}}
    config.write_text(json.dumps({"mcpServers": servers, "toolcrib": {"cache_dir": str(folder / "cache")}}))
    run(binary, "config", "check", "--config", config)
    print(f"{serve_once(binary, config, version)} tools listed")
    print("--- the same with the sdist in the wheel's place")
    run(python, "-m", "pip", "install", "-q", "--no-deps", "--force-reinstall", sdist, seconds=INSTALL_S)
    print(f"{serve_once(binary, config, version)} tools listed")
    return version, [sdist, wheel]


def main() -> int:
    """Rehearse; print what comes next, or what is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            version, files = rehearse(Path(folder))
        except (WrongError, OSError, subprocess.TimeoutExpired, KeyError, ValueError) as error:
            print(f"not ready for a release: {error}", file=sys.stderr)
            return 1
    print(f"""--- what a release of {version} would do now, and this rehearsal does not
 1. commit, with a clean tree, and .ci/run and scripts/full green
 2. git tag --sign v{version} --message 'toolcrib {version}' && git push origin v{version}
 3. the tag's workflow builds and publishes {" and ".join(file.name for file in files)} (.github/workflows/release.yml)
 4. make a release of the tag, with the section of CHANGELOG.md as its text
 5. tell the registry of MCP servers: mcp-publisher login and publish, from an account that owns the name in server.json
 6. raise __version__ in server/toolcrib/__init__.py and begin its section in CHANGELOG.md""")
    return 0


if __name__ == "__main__":
    sys.exit(main())

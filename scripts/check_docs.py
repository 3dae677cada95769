"""Fails where a Markdown file links to or names what is not there, or shows JSON that is none."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PATH = re.compile(r"`((?:server|tests|scripts|docs|benchmarks|packs|\.ci)/[\w./-]+)(?:::\w+)?`")
"""A file or folder of the repository in code marks; ``NAME`` in it stands for any."""
OTHERS = re.compile(r"server/(?:discover\Z|KEY\b)")
"""What looks like one: a method of the protocol, and the source of a server's skills."""
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


def documents() -> list[Path]:
    """Return the Markdown files that people read first, and all of ``docs``."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def anchors(text: str) -> set[str]:
    """Return the fragments that a text's headings can be linked by."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(FENCE.sub("", text)))
    return {heading.replace(" ", "-") for heading in plain}


def problems(path: Path) -> Iterator[str]:
    """Yield what is wrong in one file."""
    text = path.read_text(encoding="utf-8")
    for language, body in FENCE.findall(text):
        if language == "json":
            try:
                json.loads(body)
            except ValueError as error:
                yield f"a json block is no JSON: {error}"
    for named in PATH.findall(FENCE.sub("", text)):
        # A decision speaks of the tree of its day; the package has a folder `server` too.
        places = (ROOT / named, ROOT / "server" / "toolcrib" / named)
        is_known = "NAME" in named or OTHERS.match(named) or any(place.exists() for place in places)
        if "adr" not in path.parts and not is_known:
            yield f"no such file: {named}"
    for link in LINK.findall(FENCE.sub("", text)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, fragment = link.partition("#")
        target = path.parent / name if name else path
        if not target.exists():
            yield f"no such file: {link}"
        elif fragment and target.suffix == ".md" and fragment not in anchors(target.read_text(encoding="utf-8")):
            yield f"no such heading: {link}"


def main() -> int:
    """Print every problem; return 1 where there is one."""
    found = [f"{path.relative_to(ROOT)}: {problem}" for path in documents() for problem in problems(path)]
    print("\n".join(found) or f"{len(documents())} documents, all links lead somewhere")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())

"""Draws docs/demo.svg, the terminal in which README's first command has run; ``--check`` says whether it is still so.

Runs the demo with the Python that runs this, or takes what it printed from stdin (``-``). What differs from run to run
is written the same each time.
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "demo.svg"
COLUMNS = 112
CHAR_W, LINE_H, PAD, BAR_H = 7.25, 17, 16, 30
RUN_S = 120

SAME = (
    (re.compile(r"/\S*/toolcrib-demo-\w+/"), "/home/you/demo/"),
    (re.compile(r"\b[0-9a-f]{40}\b"), "a03e45781f5bed7c5ee0621cb7be54b54db0dbd9"),
    (re.compile(r"\b20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\+00:00"), "2026-11-22 12:00:00+00:00"),
    (re.compile(r"\bit took \d+ itself"), "it took 120 itself"),  # the path of the repository is in it
)
"""What no two runs have in common, and what is shown of it."""

SKILL_LINES = 9
"""Lines of the skill that are shown; it is given whole."""

STYLES = (
    (re.compile(r"\$ "), "prompt"),
    (re.compile(r"\d\. "), "step"),
    (re.compile(r" +(tools/list|tool_\w+ \{|tool_run$|skill_\w+ \{)"), "call"),
    (re.compile(r" +\d\.\d\d  "), "hit"),
    (re.compile(r"All steps held\."), "step"),
)


def shown(said: str) -> Iterator[str]:
    """Yield the lines of the picture."""
    yield "$ toolcrib demo"
    in_skill = 0
    for line in said.rstrip().splitlines():
        for pattern, text in SAME:
            line = pattern.sub(text, line)  # noqa: PLW2901 - the same line, step by step
        in_skill = in_skill + 1 if in_skill or line.lstrip().startswith("<skill ") else 0
        is_end = line.strip() == "</skill>"
        if in_skill <= SKILL_LINES or is_end:
            yield line if len(line) <= COLUMNS else f"{line[: COLUMNS - 1]}…"
        elif in_skill == SKILL_LINES + 1:
            yield "   …"
        if is_end:
            in_skill = 0


def picture(lines: Sequence[str]) -> str:
    """Return lines as an SVG of a terminal."""
    width = round(COLUMNS * CHAR_W + 2 * PAD)
    height = BAR_H + len(lines) * LINE_H + 2 * PAD
    dots = "".join(
        f'<circle cx="{PAD + 4 + 18 * place}" cy="15" r="5.5" fill="{color}"/>'
        for place, color in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    texts = "\n".join(
        f'<text x="{PAD}" y="{BAR_H + PAD + LINE_H * number}" class="{style(line)}">{escape(line)}</text>'
        for number, line in enumerate(lines, 1)
        if line.strip()
    )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"
role="img" xml:space="preserve">
<title>toolcrib demo in a terminal: a search, a call, a skill, and what they cost</title>
<style>
text {{ font: 12px ui-monospace, "SF Mono", Menlo, Consolas, monospace; fill: #c9d1d9; white-space: pre; }}
.prompt {{ fill: #7ee787; }} .step {{ fill: #79c0ff; font-weight: bold; }} .call {{ fill: #ffa657; }}
.hit {{ fill: #d2a8ff; }}
</style>
<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>
{dots}
{texts}
</svg>
"""


def style(line: str) -> str:
    """Return how a line is written."""
    return next((name for pattern, name in STYLES if pattern.match(line)), "plain")


def main(arguments: Sequence[str]) -> int:
    """Draw it, or say whether what is there is what would be drawn."""
    if "-" in arguments:
        said = sys.stdin.read()
    else:
        command = [sys.executable, "-m", "toolcrib", "demo"]
        said = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=True).stdout
    drawn = picture(list(shown(said)))
    if "--check" not in arguments:
        PICTURE.write_text(drawn, encoding="utf-8")
        return 0
    if PICTURE.read_text(encoding="utf-8") == drawn:
        return 0
    print("docs/demo.svg is not what the demo shows: run python scripts/demo_picture.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

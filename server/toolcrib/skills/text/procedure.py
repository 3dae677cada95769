"""Finds the procedure of a skill: the steps to follow, as opposed to other numbered lists.

Knows headings and numbered items; never knows how much of them will be shown.
"""

import re
from collections.abc import Sequence

from toolcrib.base.markdown import Block, Kind
from toolcrib.skills.text.pieces import Layout, Topic

_LEAST = 2
"""Minimum number of steps of a procedure."""
_LONG = 9
_PHASED = re.compile(r"(?:step|phase|stage|mode)\s*\d", re.IGNORECASE)
_COUNTED = re.compile(r"\d{1,2}(?:[.):]|\s*[\u2013\u2014-]\s)")
_NAMED = re.compile(
    r"work ?flow|process|procedure|\bsteps?\b|instruction|methodology|how (?:it works|to use|to)|quick ?start"
    r"|getting started|protocol|pipeline|execut|implement|\bloop\b|\border\b|\brun\b|first checks|usage|approach"
    r"|what to do|\btask|phases?\b|the method|playbook|runbook|\bplan\b",
    re.IGNORECASE,
)
_OTHER = re.compile(
    r"best practice|\btips?\b|example|\boutput|template|troubleshoot|\bfaq\b|success criteria|principle|\bnotes?\b"
    r"|related|reference|limitation|anti-?pattern|deliver|mistake|pitfall|checklist|guideline|question|dimension"
    r"|metric|criteria|concept|requirement|issue|hierarchy|when to|report|format|structure|sections|gotcha|rules",
    re.IGNORECASE,
)


def procedure(layout: Layout) -> list[int]:
    """Return the blocks that are the steps of the procedure, in order; none if nothing looks like one.

    Numbered headings and runs of numbered items are ranked by the heading above them, by position and by their share of
    the text.
    """
    best: list[int] = []
    weight = 0.0
    for steps in (*_headings(layout.blocks), *_items(layout)):
        own = _weight(layout, steps)
        if own > weight:
            best, weight = steps, own
    return best


def _headings(blocks: Sequence[Block]) -> list[list[int]]:
    """Return series of numbered headings of one level, separated by their parent headings."""
    series: list[list[int]] = []
    current: dict[int, list[int]] = {}
    for number, block in enumerate(blocks):
        if block.kind is not Kind.HEADING:
            continue
        current = {level: steps for level, steps in current.items() if level <= block.level}
        if block.level > 1 and (_PHASED.match(block.title) or _COUNTED.match(block.title)):
            if block.level not in current:
                current[block.level] = []
                series.append(current[block.level])
            current[block.level].append(number)
        else:
            current.pop(block.level, None)
    return [steps for steps in series if len(steps) >= _LEAST]


def _items(layout: Layout) -> list[list[int]]:
    """Return runs of numbered items that need the same piece, regardless of what is between them."""
    runs: list[list[int]] = []
    current: dict[tuple[int, int], list[int]] = {}
    for number, block in enumerate(layout.blocks):
        if block.kind is not Kind.STEP:
            continue
        first = layout.first_of[number]
        place = layout.sections[first], layout.needs[first]
        # A list that restarts is another one.
        if place not in current or block.text.lstrip().startswith(("1.", "1)")):
            runs.append([])
            current[place] = runs[-1]
        current[place].append(number)
    return [steps for steps in runs if len(steps) >= _LEAST]


def _weight(layout: Layout, steps: Sequence[int]) -> float:
    blocks = layout.blocks
    first = layout.first_of[steps[0]]
    topic = layout.topics[first]
    titles = _titles_over(layout, first)
    weight = 1.5
    if blocks[steps[0]].kind is Kind.HEADING:
        weight += 4 if _PHASED.match(blocks[steps[0]].title) else 0.5
    weight += 3 * bool(_NAMED.search(titles)) - 3 * bool(_OTHER.search(titles))
    weight -= 2 if topic in (Topic.EXAMPLES, Topic.BACKGROUND, Topic.WARNINGS) else 0
    weight -= 1.5 * steps[0] / len(blocks)
    return weight + min(len(steps), _LONG) / 6


def _titles_over(layout: Layout, index: int) -> str:
    """Return the nearest heading above a piece, and the line that introduces it."""
    named = [layout.sections[index], layout.needs[index]]
    if layout.pieces[index].kind is Kind.HEADING:
        named = [layout.needs[index]]
    blocks = {layout.pieces[each].block for each in named if each >= 0}
    return " ".join(layout.blocks[block].title or layout.blocks[block].text for block in blocks)

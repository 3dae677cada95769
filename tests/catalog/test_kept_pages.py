"""Pages that are kept for whoever asked: by a handle, for a time, and so much of them."""

from typing import Any

import pytest

from toolcrib.base.errors import BadRequest
from toolcrib.base.model import Caller, LoadingMode, Tool
from toolcrib.config.schema import LimitsSection
from toolcrib.gateway.results import Owner, ResultPages

ANN, BOB = Caller("ann"), Caller("bob")
OWNER: Owner = (ANN, "ann-1")
TOOL = Tool(1, "db", "get", "db__get", LoadingMode.DEFERRED, None, False, "")


def anything(_tool: Tool) -> bool:
    return True


class Kept(ResultPages):
    """Kept pages with a clock that a test moves."""

    def __init__(self, **limits: Any) -> None:
        self.time = 0.0
        super().__init__(LimitsSection(**limits), lambda: self.time)

    def numbers(self, owner: Owner, handle: str) -> list[int]:
        """Return the numbers of the pages that can be read."""
        found = []
        for number in range(2, 10):
            try:
                found.append(self.page(owner, handle, number, anything).number)
            except BadRequest:
                break
        return found


def refusal(kept: ResultPages, owner: Owner, handle: str) -> str:
    with pytest.raises(BadRequest) as refused:
        kept.page(owner, handle, 2, anything)
    return str(refused.value)


def test_pages_are_read_by_number_or_one_after_the_other():
    kept = Kept()
    handle, count = kept.keep(OWNER, TOOL, [b"two", b"three"])
    assert count == 2
    assert [kept.page(OWNER, handle, None, anything).content for _ in range(2)] == [b"two", b"three"]
    assert kept.page(OWNER, handle, 2, anything).content == b"two"
    assert kept.page(OWNER, handle, None, anything).number == kept.page(OWNER, handle, 3, anything).last == 3


@pytest.mark.parametrize("number", [-1, 0, 1, 4])
def test_a_page_that_there_is_not_is_refused_with_those_there_are(number: int):
    kept = Kept()
    handle, _ = kept.keep(OWNER, TOOL, [b"two", b"three"])
    with pytest.raises(BadRequest, match="must be from 2 to 3"):
        kept.page(OWNER, handle, number, anything)


def test_a_foreign_an_expired_and_an_unknown_handle_get_the_same_answer():
    kept = Kept(results_kept_s=10)
    handle, _ = kept.keep(OWNER, TOOL, [b"x"])
    others = [refusal(kept, owner, handle) for owner in ((BOB, "ann-1"), (ANN, "ann-2"), (Caller("ann", "t"), "ann-1"))]
    unknown = refusal(kept, OWNER, "unknown")
    kept.time = 10
    assert {refusal(kept, OWNER, handle), unknown, *others} == {unknown}


def test_what_a_tool_left_is_refused_like_what_there_never_was_once_it_may_not_be_used():
    kept = Kept()
    handle, _ = kept.keep(OWNER, TOOL, [b"x"], b"x")
    asked: list[Tool] = []

    def none(tool: Tool) -> bool:
        asked.append(tool)
        return False

    with pytest.raises(BadRequest) as page:
        kept.page(OWNER, handle, 2, none)
    with pytest.raises(BadRequest) as whole:
        kept.whole(OWNER, handle, none)
    assert asked == [TOOL, TOOL]
    assert {str(page.value), str(whole.value)} == {refusal(kept, OWNER, "unknown")}
    assert kept.whole(OWNER, handle, anything) == b"x"


def test_handles_are_long_and_never_the_same():
    kept = Kept()
    handles = {kept.keep(OWNER, TOOL, [b"x"])[0] for _ in range(100)}
    assert len(handles) == 100
    assert min(map(len, handles)) >= 22  # 128 bits in base 64


def test_of_a_result_that_is_too_large_to_keep_only_the_pages_that_fit_are_kept():
    kept = Kept(results_kept_bytes=5)
    handle, count = kept.keep(OWNER, TOOL, [b"xx", b"xx", b"xx"])
    assert (count, kept.numbers(OWNER, handle)) == (2, [2, 3])
    assert kept.keep(OWNER, TOOL, [b"x" * 6])[1] == 0


def test_the_oldest_of_a_session_goes_for_its_next():
    kept = Kept(results_kept_bytes=5)
    first, second, third = (kept.keep(OWNER, TOOL, [b"xx"])[0] for _ in range(3))
    assert [kept.numbers(OWNER, handle) for handle in (first, second, third)] == [[], [2], [2]]


def test_whoever_has_most_makes_room_for_others():
    kept = Kept(results_kept_bytes=10, results_kept_total_bytes=12)
    bobs, _ = kept.keep((BOB, "bob-1"), TOOL, [b"xx"])
    greedy = [kept.keep((ANN, f"ann-{number}"), TOOL, [b"x" * 4])[0] for number in range(9)]
    assert kept.numbers((BOB, "bob-1"), bobs) == [2]
    assert [bool(kept.numbers((ANN, f"ann-{place}"), handle)) for place, handle in enumerate(greedy)] == [
        *[False] * 7,
        *[True] * 2,
    ]

"""Texts made to be slow: what is done to a document takes time in proportion to its length."""

import time
from collections.abc import Callable

import pytest

from toolcrib.base.document_redaction import redact_document
from toolcrib.base.model import Caller, LoadingMode, Tool
from toolcrib.base.names import public_name
from toolcrib.catalog.denied_names import NameMasker
from toolcrib.catalog.snapshot import Catalog
from toolcrib.policy.rules import Policy

pytestmark = pytest.mark.hostile

SMALL, LARGE = 125_000, 1_000_000
GROWTH = 2.5 * LARGE / SMALL
"""How much longer a text of the larger size may take: in proportion, with room for a busy machine."""

BEGIN = "-----BEGIN PRIVATE" + " KEY-----"
MIXED = "Aa1" * 9
PIECES = [
    "@", "a@", "a.a@a.", "a@a-", "a%", "a@b.co ", "a@b.co.", "\u4e2d", "\u4e2d@", "+1", "+1 ", "+1(1)", "1", "415-555-",
    "eyJ", "eyJabcdefgh.", "sk-", "SG.", "Aa1", "-", "-----BEGIN", BEGIN,
    BEGIN + "\n" + MIXED * 2 + "\n", '"', "=", "'=\"", "key", "key=", 'key="', "token ", "key: ",
    f"key={MIXED}-", f"key {MIXED}(", "key abcdefghijklmnopqrst", "bearer ", "a://", "://",
    "://x ", "http://@", "http://u:p@", "https://a?token=", "?token=.", "&;", "a_", ".", "?", "(", "`", " ", "\n",
]  # fmt: skip


def seconds(work: Callable[[str], object], text: str) -> float:
    """Return the processor time of the quicker of two runs."""
    taken: list[float] = []
    for _ in range(2):
        began = time.process_time()
        work(text)
        taken.append(time.process_time() - began)
    return min(taken)


def is_linear(work: Callable[[str], object], piece: str, limit: float) -> bool:
    small, large = (seconds(work, piece * (size // len(piece))) for size in (SMALL, LARGE))
    print(f"{piece[:40]!r}: {small * 1000:.0f} ms, {large * 1000:.0f} ms")
    return large < limit and large < small * GROWTH + 0.1


@pytest.mark.parametrize("piece", PIECES)
def test_no_megabyte_takes_a_second_to_redact(piece: str):
    assert is_linear(redact_document, piece, 1.0)


@pytest.mark.parametrize("first", ["https://a?", "key=", "Bearer ", "a@", BEGIN + "\n"])
@pytest.mark.parametrize("piece", ["a", "a.", "token=", "?token=", "&", "@", "=", "-", "\n", " "])
def test_nor_does_what_follows_a_promising_beginning(first: str, piece: str):
    assert is_linear(lambda text: redact_document(first + text), piece, 1.0)


@pytest.fixture(scope="module")
def mentions() -> Callable[[str], object]:
    """Read each text as if it were the first, for a caller with many denies and a catalog of many tools."""
    tools = [(f"server-{number % 40}", f"do_thing_{number}") for number in range(1300)]
    catalog = Catalog(
        Tool(row, server, name, public_name(server, name), LoadingMode.DEFERRED, None, False, "f")
        for row, (server, name) in enumerate(tools)
    )
    deny = [f"*thing_{number}" for number in range(25)] + [f"server-{number}.do_*_9*" for number in range(25)]
    view = Policy(deny=deny).permissions(Caller())
    servers = sorted({server for server, _ in tools})
    return lambda text: NameMasker(view, catalog, servers, own=()).clean(text)


@pytest.mark.parametrize(
    "piece",
    ["a.", "a-", "a_", "a", "__", "\\_", "`", "`a` ", "``` \n", "~~~\n", "> ", "\n \n", "://", "a://b/", "a.com.",
     "do_thing_1 ", "server-1.do_thing_9 ", "mcp__server-1__do_thing_1.", "do_thing_1-"],
)  # fmt: skip
def test_names_are_found_in_time_in_proportion_to_the_text(mentions, piece: str):
    assert is_linear(mentions, piece, 8.0)


def test_words_that_are_all_different_and_marks_that_are_all_of_different_lengths_take_no_longer(mentions):
    words = ".".join(f"a{number}" for number in range(LARGE // 7))
    marks = "".join("`" * length + " " for length in range(1, 1400))
    assert seconds(mentions, words) < 8
    assert seconds(mentions, marks) < 1

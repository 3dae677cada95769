"""The pages that a downstream's result comes to, and how large one is."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.base.json_values import weight
from toolcrib.gateway.results import Pages, Weigh, failure, pages, read_weight

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


def texts(result: dict[str, Any]) -> list[str]:
    return [block["text"] for block in result["content"]]


@pytest.mark.parametrize(
    "value", ["x" * 1000, ["x"] * 100, {"a" * 100: "b"}, {"deep": [{"deeper": ["x" * 500]}]}, 7, None]
)
def test_the_weight_of_plain_values_is_about_their_length_as_json(value: Any):
    size = len(json.dumps(value))
    assert size / 2 <= weight(value, 10**6) <= size * 2 + 8


@given(JSON)
def test_the_weight_of_any_value_is_found_and_never_less_than_its_text(value: Any):
    found = weight(value, 10**9)
    longest = max((len(text) for text in strings(value)), default=0)
    assert found >= longest


def strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inside = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for item in inside for text in strings(item)]


def test_counting_stops_soon_after_the_limit():
    visited = []

    class Counting(list):
        def __iter__(self):
            visited.append(1)
            return super().__iter__()

    weight(["x" * 100, *(Counting(["y"]) for _ in range(1000))][::-1], 50)
    assert len(visited) < 1000


def test_a_very_deep_value_is_weighed_without_recursion():
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    assert weight(deep, 10**6) > 100_000


def whole_text(cut: Pages) -> str:
    return "".join(block["text"] for page in (cut.first, *cut.rest) for block in page["content"])


@given(JSON)
def test_a_result_within_the_limit_is_one_page(value: Any):
    result = {"content": [{"type": "text", "text": "t"}], "structuredContent": value}
    size = 3 * weight(result, 10**9) + 100
    assert pages(result, size) == Pages(result, (), ())


def test_a_page_ends_between_blocks():
    cut = pages({"content": [{"type": "text", "text": letter * 600} for letter in "abcd"]}, 1024)
    assert [texts(page) for page in (cut.first, *cut.rest)] == [[letter * 600] for letter in "abcd"]


@pytest.mark.parametrize(
    ("text", "end"),
    [("a line of text\n" * 200, "\n"), ("A sentence. " * 200, ". "), ("word " * 500, " "), ("句子。" * 500, "。")],
)
def test_a_text_is_cut_after_a_line_else_a_sentence_else_a_word(text: str, end: str):
    cut = pages({"content": [{"type": "text", "text": text}]}, 1024)
    assert len(cut.rest) > 1
    assert all(texts(page)[-1].endswith(end) for page in (cut.first, *cut.rest))
    assert whole_text(cut) == text


def test_an_embedded_resource_of_text_is_cut_and_keeps_its_form():
    about = {"uri": "file:///log", "mimeType": "text/plain"}
    text = "a line\n" * 500
    cut = pages({"content": [{"type": "resource", "resource": {**about, "text": text}, "annotations": {}}]}, 1024)
    blocks = [block for page in (cut.first, *cut.rest) for block in page["content"]]
    assert "".join(block["resource"]["text"] for block in blocks) == text
    assert {json.dumps({**block, "resource": {**block["resource"], "text": ""}}) for block in blocks} == {
        json.dumps({"type": "resource", "resource": {**about, "text": ""}, "annotations": {}})
    }


def image(size: int, **more: str) -> dict[str, Any]:
    return {"type": "image", "data": "x" * size, "mimeType": "image/png", **more}


def text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


AUDIO = {"type": "audio", "data": "y" * 5000, "mimeType": "audio/wav"}
BLOB = {"type": "resource", "resource": {"uri": "file:///a.pdf", "blob": "z" * 5000}}


@pytest.mark.parametrize("media", [image(5000), AUDIO, BLOB], ids=["image", "audio", "blob"])
@pytest.mark.parametrize("weigh", [weight, read_weight])
def test_media_are_on_the_first_page_beside_their_text_whatever_they_weigh(media: Any, weigh: Weigh):
    for content in ([media, text("Saved.")], [text("Saved."), media], [media], [media, text("")]):
        assert pages({"content": content}, 1024, weigh) == Pages({"content": content}, (), ())


def test_only_the_text_is_cut_and_media_in_the_middle_of_it_or_behind_it_come_first():
    lines = "a line of text\n" * 200
    for content in ([image(5000), text(lines)], [text(lines), image(5000)], [text(lines), image(5000), text("end")]):
        cut = pages({"content": content}, 1024)
        assert [block for block in cut.first["content"] if block["type"] == "image"] == [image(5000)]
        assert 400 < len("".join(block.get("text", "") for block in cut.first["content"])) < 1024
        assert {block["type"] for page in cut.rest for block in page["content"]} == {"text"}
        read = "".join(block.get("text", "") for page in (cut.first, *cut.rest) for block in page["content"])
        assert read == "".join(block.get("text", "") for block in content)


def test_the_first_page_has_as_many_media_as_fit_and_all_of_the_text_comes_before_the_others():
    many = [image(400, name=str(number)) for number in range(7)]
    cut = pages({"content": [text("before"), *many, text("after")]}, 1024)
    assert cut.first["content"] == [text("before"), many[0], many[1], text("after")]
    assert [page["content"] for page in cut.rest] == [many[2:4], many[4:6], many[6:]]
    cut = pages({"content": [text("before"), *many, text("a line of text\n" * 100)]}, 1024)
    assert cut.first["content"][:2] == [text("before"), many[0]]
    assert [block["type"] for block in cut.first["content"]] == ["text", "image", "text"]
    rest = [page["content"] for page in cut.rest]
    assert rest[-3:] == [many[1:3], many[3:5], many[5:]]
    assert {block["type"] for page in rest[:-3] for block in page} == {"text"}


def test_media_with_a_long_address_are_on_the_first_page_too_and_keep_no_others_from_it():
    blob = {"type": "resource", "resource": {"uri": "https://a/" + "x" * 400, "blob": "z" * 5000}}
    lines = text("a line of text\n" * 200)
    assert blob in pages({"content": [blob, lines]}, 1024).first["content"]
    much = image(50, alt="x" * 3000)
    assert image(60) in pages({"content": [much, image(60), lines]}, 1024).first["content"]


def test_a_text_beside_an_image_begins_on_the_first_page_though_it_would_fit_on_the_next():
    cut = pages({"content": [image(5000), text("word " * 180)]}, 1024)
    assert [block["type"] for block in cut.first["content"]] == ["image", "text"]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "resource", "resource": {"uri": "a", "text": "a line\n" * 4000, "blob": None}},
        {"type": "resource", "resource": {"uri": "a", "text": "a line\n" * 4000, "blob": "AAAA"}},
        {"type": "text", "text": "a line\n" * 4000, "resource": {"blob": "AAAA"}},
        {"type": "image", "data": "AAAA", "alt": "a line\n" * 4000},
        {"type": "image", "data": None, "text": "a line\n" * 4000},
    ],
    ids=["no blob", "text and blob", "a text with a resource", "an image that says much", "an image without bytes"],
)
@pytest.mark.parametrize("weigh", [weight, read_weight])
def test_no_text_comes_whole_as_media(block: Any, weigh: Weigh):
    cut = pages({"content": [block]}, 1024, weigh)
    assert weight(cut.first, 10**9) < 1100
    assert cut.rest


def test_media_that_are_larger_than_a_page_are_pages_by_themselves_but_for_the_first():
    many = [image(5000, name=str(number)) for number in range(3)]
    cut = pages({"content": [*many, text("end")]}, 1024)
    assert [page["content"] for page in (cut.first, *cut.rest)] == [[many[0], text("end")], [many[1]], [many[2]]]


@given(st.lists(st.integers(0, 3000) | st.text(max_size=3000), max_size=8), st.integers(1024, 4096))
def test_of_texts_and_media_nothing_is_lost_and_the_first_page_is_bounded(parts: list[int | str], limit: int):
    content = [image(part, name=str(n)) if isinstance(part, int) else text(part) for n, part in enumerate(parts)]
    cut = pages({"content": content}, limit)
    blocks = [block for page in (cut.first, *cut.rest) for block in page["content"]]
    assert [block for block in blocks if block["type"] == "image"] == [each for each in content if "name" in each]
    assert "".join(block.get("text", "") for block in blocks) == "".join(
        part for part in parts if isinstance(part, str)
    )
    first = sum(block["type"] == "image" for block in cut.first["content"])
    assert first >= ("image" in {block["type"] for block in content})
    assert weight(cut.first, 10**9) <= limit + 30 or first == 1
    assert sum(weight(block, 10**9) for block in cut.first["content"] if block["type"] == "text") <= limit


def test_a_link_that_is_larger_than_a_page_is_a_page_by_itself_and_never_the_first():
    link = {"type": "resource_link", "uri": "file:///" + "x" * 5000, "name": "a"}
    cut = pages({"content": [link, text("t"), link]}, 1024)
    assert [page["content"] for page in (cut.first, *cut.rest)] == [[], [link], [text("t")], [link]]


def test_small_structured_content_stays_and_large_follows_as_text():
    long = {"type": "text", "text": "x" * 3000}
    small = pages({"content": [long], "structuredContent": {"n": 1}}, 1024)
    assert (small.first["structuredContent"], small.first.get("isError")) == ({"n": 1}, None)
    large = pages({"content": [], "structuredContent": {"n": "y" * 3000}}, 1024)
    assert "structuredContent" not in large.first
    assert "isError" not in large.first
    assert whole_text(large) == "structuredContent: " + json.dumps({"n": "y" * 3000}, separators=(",", ":"))


def test_structured_content_that_was_promised_is_whole_and_only_the_text_is_cut():
    value = {"n": "y" * 9000}
    cut = pages(
        {"content": [{"type": "text", "text": json.dumps(value)}], "structuredContent": value}, 1024, weight, "whole"
    )
    assert cut.first["structuredContent"] == value
    assert "isError" not in cut.first
    assert whole_text(cut) == json.dumps(value)


def test_structured_content_that_a_text_says_already_does_not_follow_as_text():
    value = {"n": ["y" * 100] * 90}
    cut = pages({"content": [{"type": "text", "text": json.dumps(value)}], "structuredContent": value}, 1024)
    assert whole_text(cut) == json.dumps(value)


def test_an_image_counts_as_a_model_reads_it():
    image = {"type": "image", "data": "x" * 10_000_000, "mimeType": "image/png"}
    content = [{"type": "text", "text": "look: "}, image, {"type": "text", "text": "word " * 4000}]
    cut = pages({"content": content}, 8000, read_weight)
    assert image in cut.first["content"]
    assert sum(image in page["content"] for page in cut.rest) == 0


def test_structured_content_that_is_nested_too_deeply_for_text_takes_nothing_else_along():
    deep: Any = "x" * 2000
    for _ in range(100_000):
        deep = [deep]
    cut = pages({"content": [{"type": "text", "text": "t"}], "structuredContent": deep}, 1024)
    assert texts(cut.first) == ["t", "structuredContent: (nested too deeply to be written)"]


def test_every_page_says_whether_the_result_is_an_error_and_the_first_keeps_a_small_meta():
    big = [{"type": "text", "text": "x" * 5000}]
    cut = pages({"content": big, "isError": True, "_meta": {"vendor/key": 1}}, 1024)
    assert cut.first["_meta"] == {"vendor/key": 1}
    assert all(page["isError"] is True for page in (cut.first, *cut.rest))


@pytest.mark.parametrize("name", ["_meta", "vendor", "isError"])
def test_a_large_member_beside_the_content_is_left_out_and_named(name: str):
    assert pages({"content": [], name: "x" * 5000}, 1024) == Pages({"content": []}, (), (name,))


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "text", "text": "t", "annotations": {"big": "x" * 5000}}],
        [{"type": "text", "text": ""}] * 5000,
        [{"type": "text", "text": "x"}] * 5000,
        [7, None, ["x" * 5000], {"type": "text", "text": 7}],
        [{"type": "resource", "resource": ["x" * 5000]}, {"type": "resource", "resource": {"text": "x" * 5000}}],
        [{"type": "text", "text": "\ud83d" * 5000}],
    ],
)
def test_wherever_the_bulk_is_the_first_page_is_small_and_nothing_is_lost(content: list[Any]):
    cut = pages({"content": content}, 1024)
    assert weight(cut.first, 10**9) <= 1100
    if content[0] is not None and len(content) == 5000:
        assert [block for page in (cut.first, *cut.rest) for block in page["content"]] == content


@given(st.lists(st.text(max_size=600)), st.integers(1024, 4096))
def test_no_page_of_text_is_much_over_the_limit_and_together_they_are_the_whole(parts: list[str], limit: int):
    cut = pages({"content": [{"type": "text", "text": part} for part in parts]}, limit)
    assert all(weight(page, 10**9) <= limit + 30 for page in (cut.first, *cut.rest))
    assert whole_text(cut) == "".join(parts)


def test_a_failure_is_all_text():
    assert failure("Why.") == {"content": [{"type": "text", "text": "Why."}], "isError": True}

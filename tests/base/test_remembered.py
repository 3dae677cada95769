"""What is made of short texts is made once, and neither many texts nor long ones fill the memory."""

from toolcrib.base.cache import Remembered


def test_what_is_made_of_a_text_is_made_once():
    made: list[str] = []
    remembered = Remembered(lambda text: made.append(text) or text.upper(), most=2, longest=3)
    assert [remembered[text] for text in ("a", "b", "a", "b")] == ["A", "B", "A", "B"]
    assert made == ["a", "b"]


def test_no_more_texts_are_remembered_than_are_allowed_and_no_longer_ones():
    remembered = Remembered(str.upper, most=2, longest=3)
    for text in ("a", "b", "c", "long"):
        assert remembered[text] == text.upper()
        assert len(remembered) <= 2
    assert "long" not in remembered

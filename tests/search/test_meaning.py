"""What vectors add to a ranking by words, and what a model must not get away with; the vectors are made up."""

import logging
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pytest
from plain_texts import SAID, World, names, reasons

from toolcrib.base.errors import ModelUnavailable, StoreError
from toolcrib.base.model import SearchType
from toolcrib.search.capabilities import Capabilities
from toolcrib.search.confidence import NO_EVIDENCE, Evidence, is_sure, word_for
from toolcrib.search.documents import Request
from toolcrib.search.postings import Worded
from toolcrib.search.ranking import Ranked
from toolcrib.search.semantic import NEAREST, Model, Semantic, SharedModel, finite, fuse, state_of

numpy = pytest.importorskip("numpy", reason="the extra toolcrib[semantic] is not installed")

AXES = ("wood", "wall", "sand")
EVIDENCE = Evidence(0, 0, 0, words=0.5)
"""Words tell nothing, so that meaning has its whole weight."""


class Encoder:
    """Turns a text into how often it has each of three words. ``gives`` takes the place of what it would give."""

    model_id = "m"

    def __init__(self, gives: Any = None) -> None:
        self.gives, self.encoded = gives, list[str]()

    def encode(self, texts: list[str]) -> Any:
        self.encoded += texts
        if self.gives is not None:
            return self.gives(texts)
        return [[text.split().count(axis) for axis in AXES] for text in texts]


@dataclass
class Vectors:
    """Texts of rows and their vectors, as a store keeps them; a text is its own key. ``broken``: methods that fail."""

    said: dict[int, str]
    kept: dict[str, bytes] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)

    def texts(self, rows: Iterable[int]) -> dict[int, tuple[str, str]]:
        self._check("texts")
        return {row: (self.said[row], self.said[row]) for row in rows if row in self.said}

    def vectors(self, model_id: str, keys: Iterable[str]) -> dict[str, bytes]:
        self._check("vectors")
        return {key: self.kept[key] for key in keys if key in self.kept}

    def missing(self, model_id: str, owner: str) -> dict[str, str]:
        self._check("vectors")
        return {text: text for text in self.said.values() if text not in self.kept}

    def add(self, model_id: str, vectors: Mapping[str, bytes]) -> None:
        self._check("add")
        self.kept |= vectors

    def _check(self, method: str) -> None:
        if method in self.broken:
            raise StoreError("No store.")


@dataclass(frozen=True, eq=False)
class Rows:
    in_order: Sequence[int]
    known: Sequence[str | None] = ()

    def versions(self) -> Sequence[None]:
        return [None] * len(self.in_order)

    def words(self, rows: Iterable[int]) -> Mapping[int, Worded]:
        raise NotImplementedError

    def stored(self, does: object) -> None:
        pass

    def texts(self) -> Mapping[int, Sequence[str]]:
        raise NotImplementedError

    def embedded_versions(self) -> Sequence[str | None]:
        return self.known or [None] * len(self.in_order)

    def texts_to_embed(self, stored: Mapping[int, str]) -> Mapping[int, str]:
        return stored


@dataclass(frozen=True, eq=False)
class Reworded(Rows):
    """Rows that their callers read in other words."""

    told: Mapping[str, str] = field(default_factory=dict)

    def texts_to_embed(self, stored: Mapping[int, str]) -> Mapping[int, str]:
        return {row: self.told.get(text, text) for row, text in stored.items()}


@dataclass
class Shown:
    """What documents do: their numbers by mark. ``asked``: the marks that were looked up."""

    by_mark: Mapping[str, Collection[int]]
    asked: list[str] = field(default_factory=list[str])

    def __contains__(self, mark: str) -> bool:
        return mark in self.by_mark

    def having(self, mark: str, numbers: Collection[int]) -> Collection[int]:
        self.asked.append(mark)
        return {*self.by_mark[mark]}.intersection(numbers)


class Room:
    """Three documents that have one word each, in rows from 10 on, and what vectors say of them.

    ``ways`` are lines of a dictionary of capabilities, ``shows`` which documents show which of them, by its place.
    """

    def __init__(
        self,
        *said: str,
        alpha: float = 0.5,
        ways: str = "",
        shows: Mapping[int, Collection[int]] = MappingProxyType({}),
    ) -> None:
        self.encoder = Encoder()
        self.model = SharedModel(lambda: self.encoder)
        texts = dict(enumerate(said or AXES, 10))
        self.vectors, self.rows = Vectors(texts), Rows(list(texts))
        known = Capabilities([("own.txt", ways)] if ways else ())
        marks = [mark for mark, _ in known.marked()]
        self.shown = Shown({marks[place]: numbers for place, numbers in shows.items()})
        self.semantic = Semantic(self.model, self.vectors, alpha, known)

    def fused(
        self,
        query: str,
        *matches: tuple[int, float],
        among: Iterable[int] | None = None,
        evidence: Evidence = EVIDENCE,
    ) -> Ranked:
        numbers = None if among is None else frozenset(among)
        return self.semantic.fused(Ranked(matches, evidence), query, self.rows, numbers, self.shown)


class TestFusing:
    """One relevance out of two."""

    def test_each_kind_counts_by_its_share_of_the_best_of_its_kind(self):
        assert fuse({1: 10.0, 2: 5.0}, {2: 0.5, 3: 0.25}, 0.6) == pytest.approx({1: 4.0, 2: 2 + 6, 3: 3.0})

    def test_what_is_far_counts_as_nothing_and_is_left_out(self):
        assert fuse({1: 10.0}, {1: -0.5, 2: 0.5, 3: -0.2, 4: 0.0}, 0.5) == pytest.approx({1: 5.0, 2: 5.0})

    def test_without_anything_near_words_stay_as_they_are(self):
        assert fuse({1: 10.0}, {2: -0.1}, 0.6) == fuse({1: 10.0}, {}, 0.6) == {1: 10.0}
        assert fuse({1: 10.0}, {2: 0.0}, 0.6) == {1: 10.0}

    def test_without_words_what_is_near_counts_from_one_down(self):
        assert fuse({}, {1: 0.5, 2: 0.25}, 0.6) == pytest.approx({1: 0.6, 2: 0.3})


class TestSureness:
    """Meaning counts the less the surer words are."""

    @pytest.mark.parametrize(("alpha", "weight"), [(0, 0), (0.4, 0.4), (0.6, 0.55), (1, 0.55)])
    def test_where_words_tell_nothing_meaning_has_its_whole_weight_but_no_more_than_half(self, alpha, weight):
        found = dict(Room(alpha=alpha).fused("wood", (2, 8.0)).matches)
        assert found == pytest.approx({2: 8 * (1 - weight), **({0: 8 * weight} if weight else {})})

    @pytest.mark.parametrize("level", [0.2, 0.5, 0.8])
    def test_its_weight_is_less_by_the_likelihood_that_words_are_right(self, level: float):
        evidence = Evidence(level, 0.5, 0.1, 0.5)
        weight = min(0.55, 0.6 * (1 - evidence.strength))
        found = dict(Room(alpha=0.6).fused("wood", (2, 8.0), evidence=evidence).matches)
        assert found == pytest.approx({0: 8 * weight, 2: 8 * (1 - weight)})

    @pytest.mark.parametrize("served", [0.0, 0.25, 1.0])
    def test_it_is_less_where_the_first_match_does_what_people_ask_for_so(self, served: float):
        weight = 0.4 * (1 - served**0.5)
        found = dict(Room(alpha=0.4).fused("wood", (2, 8.0), evidence=Evidence(0, 0, 0, 0, served=served)).matches)
        assert found == pytest.approx({2: 8 * (1 - weight), **({0: 8 * weight} if weight else {})})

    def test_a_first_match_that_words_are_sure_of_stays_first(self):
        sure = Evidence(0.8, 0.9, 0.4, 1)
        assert is_sure(sure)
        matches = Room("wood", "wall", "sand", alpha=1.0).fused("wood", (2, 8.0), (0, 7.9), evidence=sure).matches
        assert [number for number, _ in matches] == [2, 0]
        assert matches[0][1] == pytest.approx(1.05 * matches[1][1])

    def test_the_lead_by_meaning_is_that_of_the_first_over_any_other(self):
        room = Room("wood", "wood wood wall", "sand")
        assert room.fused("wood", (0, 8.0)).evidence.lead == pytest.approx(1 - 2 / 5**0.5)
        assert room.fused("wood", (2, 8.0), (1, 7.0), (0, 0.1)).evidence.lead == pytest.approx(2 / 5**0.5 - 1)
        assert Room("wood").fused("wood", (0, 8.0)).evidence.lead == 0, "nothing is behind"

    def test_words_that_put_another_first_speak_less_for_it(self):
        little = Evidence(0.3, 0.3, 0.1, 0.5)
        one, other = (Room(alpha=1.0).fused("wood", (first, 1.0), evidence=little).evidence for first in (0, 2))
        assert (one.is_agreed, other.is_agreed) == (True, False)
        assert one.strength > other.strength > little.strength

    def test_what_only_meaning_finds_is_unlikely_unless_it_is_near(self):
        near = Room("wood", "sand").fused("wood", evidence=NO_EVIDENCE).evidence
        far = Room("wood sand sand sand", "wall").fused("wood", evidence=NO_EVIDENCE).evidence
        assert (near.near, far.near) == (1, pytest.approx(1 / 10**0.5))
        assert (word_for(near, 0.1), word_for(far, 0.1)) == ("low", "none")


class TestNearness:
    """Which documents are found besides those that words find."""

    def test_a_document_is_found_by_its_vector(self):
        assert Room("wood", "wood wall", "sand").fused("wood").matches == (
            (0, pytest.approx(0.5)),
            (1, pytest.approx(0.5 / 2**0.5)),
        )

    def test_what_words_have_found_stays(self):
        assert Room().fused("wood", (2, 8.0)).matches == ((0, pytest.approx(4.0)), (2, pytest.approx(4.0)))

    def test_only_those_among_which_one_may_search(self):
        assert [number for number, _ in Room("wood", "wood", "wood").fused("wood", among=[1, 2]).matches] == [1, 2]

    def test_equal_ones_are_in_order(self):
        assert [number for number, _ in Room(*["wood"] * 4).fused("wood", (2, 1.0), (1, 1.0)).matches] == [1, 2, 0, 3]

    def test_a_hundred_are_weighed_and_those_that_words_have_found(self):
        said = ["sand"] + ["wood"] * NEAREST + ["wood wall"]
        found = dict(Room(*said).fused("wood", (0, 2.0), (NEAREST + 1, 1.0)).matches)
        assert found.keys() == {0, *range(1, NEAREST + 1), NEAREST + 1}
        assert NEAREST + 1 not in dict(Room(*said).fused("wood").matches)

    def test_without_a_word_that_the_model_knows_words_decide(self):
        ranked = Ranked(((1, 3.0),), EVIDENCE)
        assert Room().fused("zzz", (1, 3.0)) == ranked
        assert Room("zzz", "zzz").fused("wood", (1, 3.0)) == ranked

    def test_without_documents_nothing_is_found(self):
        room = Room()
        room.rows = Rows([])
        assert room.fused("wood") == Ranked((), EVIDENCE)


DOES = "[own]\nsaw boards: CREATE board\n  sand\n  wood wood wall\npaint: CREATE paint\n  zzz\n"
"""Two capabilities; people ask for the first by "sand"."""


class TestWays:
    """A document is also near by the ways in which people ask for what it does."""

    def test_one_that_shows_what_is_asked_for_is_nearly_as_near_as_the_way_itself(self):
        room = Room("wall", "wood", "wall", ways=DOES, shows={0: [0]})
        found = dict(room.fused("sand", (0, 4.0), (1, 8.0)).matches)
        assert found == pytest.approx({0: 0.5 * 4 + 0.5 * 8, 1: 0.5 * 8}), "the nearest has all of its weight"
        assert room.fused("sand", (0, 4.0), (1, 8.0)).evidence.lead == pytest.approx(0.9)

    def test_the_nearest_way_of_a_capability_counts_and_not_their_mean(self):
        room = Room("wall", "wood", ways=DOES, shows={0: [0]})
        lead = room.fused("wood wood wall", (0, 8.0), (1, 1.0)).evidence.lead
        assert lead == pytest.approx(1 - 0.1 - 2 / 5**0.5, abs=1e-6)

    def test_its_own_text_counts_where_that_is_nearer(self):
        by_text, by_both = (Room("sand", "wall", ways=DOES, shows=shows) for shows in ({}, {0: [0]}))
        assert by_both.fused("sand", (0, 1.0), (1, 1.0)) == by_text.fused("sand", (0, 1.0), (1, 1.0))
        assert by_both.shown.asked

    def test_a_way_that_is_far_from_the_request_means_nothing(self):
        far = "sand sand sand wood"  # its cosine to "wood" is below .4
        room = Room("wall", "wood", ways=f"[own]\nsaw: CREATE board\n  {far}\n", shows={0: [0]})
        assert dict(room.fused("wood", (0, 4.0)).matches) == pytest.approx({0: 2.0, 1: 2.0}), "as without it"
        assert room.shown.asked == []

    def test_what_words_have_not_found_gains_nothing(self):
        room = Room("wall", "wall", "wall", ways=DOES, shows={0: [0, 1]})
        assert dict(room.fused("sand", (2, 8.0), (0, 1.0)).matches) == pytest.approx({2: 4.0, 0: 4.5})

    def test_where_words_are_sure_nobody_looks_for_ways(self):
        room = Room("wall", "wood", ways=DOES, shows={0: [0]})
        room.fused("sand", (1, 8.0), (0, 1.0), evidence=Evidence(0.8, 0.9, 0.4, 1))
        assert room.shown.asked == []

    def test_ten_capabilities_count_of_those_that_documents_show_nearest_first(self):
        lines = "".join(
            f"do {number}: CREATE board\n  {'sand ' * 20}{'wood ' * (number + 1)}\n" for number in range(14)
        )
        room = Room("wall", "wood", ways=f"[own]\n{lines}", shows={number: [0] for number in range(14) if number != 2})
        room.fused("sand", (0, 1.0))
        marks = list(room.shown.by_mark)
        assert room.shown.asked == marks[:10]

    def test_the_ways_are_encoded_once_with_the_first_list(self):
        room = Room(ways=DOES, shows={0: [0]})
        room.semantic.fill("s")
        ways = ["saw boards", "sand", "wood wood wall", "paint", "zzz"]
        assert room.encoder.encoded[:6] == ["tool", *ways]
        room.fused("sand", (0, 1.0))
        assert room.encoder.encoded.count("paint") == 1
        assert room.vectors.kept.keys() == set(AXES), "they are stored for no document"


class TestVectors:
    """What is encoded, and what is kept."""

    def test_each_text_is_encoded_once_and_kept(self):
        room = Room("wood", "wall", "wood")
        room.fused("sand")
        room.fused("wood")
        assert room.encoder.encoded == ["tool", "wood", "wall", "sand", "wood"]
        assert {text: [*numpy.frombuffer(kept, "<f4")] for text, kept in room.vectors.kept.items()} == {
            "wood": [1, 0, 0],
            "wall": [0, 1, 0],
        }

    def test_what_is_kept_is_not_encoded_but_what_has_another_length_is(self):
        room = Room()
        room.vectors.kept |= {"wood": numpy.array([0, 0, 1], "<f4").tobytes(), "wall": b"1234", "sand": b""}
        assert [number for number, _ in room.fused("sand").matches] == [0, 2]
        assert room.encoder.encoded == ["tool", "wall", "sand", "sand"]

    def test_a_row_that_is_gone_has_no_vector(self):
        room = Room()
        del room.vectors.said[11]
        assert [number for number, _ in room.fused("wall").matches] == []
        assert [number for number, _ in room.fused("wood").matches] == [0]

    def test_a_kept_vector_that_is_no_number_ends_the_use_of_the_model(self):
        room = Room()
        room.vectors.kept["wood"] = numpy.array([float("nan"), 0, 1], "<f4").tobytes()
        assert room.fused("wood", (1, 3.0)) == Ranked(((1, 3.0),), EVIDENCE)
        assert room.model.state().state == "unavailable"

    def test_a_store_that_cannot_be_read_is_tried_again(self, caplog: pytest.LogCaptureFixture):
        room = Room()
        for broken in ("texts", "vectors"):
            room.vectors.broken = {broken}
            with caplog.at_level(logging.INFO):
                assert room.fused("wood", (1, 3.0)) == Ranked(((1, 3.0),), EVIDENCE)
            assert "cannot be read" in caplog.text
        room.vectors.broken = set()
        assert [number for number, _ in room.fused("wood").matches] == [0]

    def test_a_store_that_cannot_be_written_costs_no_search(self, caplog: pytest.LogCaptureFixture):
        room = Room()
        room.vectors.broken = {"add"}
        with caplog.at_level(logging.INFO):
            assert [number for number, _ in room.fused("wood").matches] == [0]
        assert "not kept: No store." in caplog.text

    def test_it_is_quick_once_the_vectors_are_there_or_never_will_be(self):
        room = Room()
        assert not room.semantic.is_quick(room.rows)
        room.fused("wood")
        assert room.semantic.is_quick(room.rows)
        assert not room.semantic.is_quick(Rows([10]))
        room.model.give_up(ModelUnavailable("No."))
        assert room.semantic.is_quick(Rows([10]))

    def test_a_search_finds_what_only_they_find(self):
        said = {"one": "sand", "two": "wall"}
        semantic = Semantic(SharedModel(Encoder), Vectors({100: "wood", 101: "wall"}), 0.5)
        assert names(World(said).search("wood")) == []
        found = World(said, semantic=semantic).search("wood")
        assert (names(found), found.confidence) == (["one"], "low")

    def test_a_name_that_begins_with_the_query_stays_before_what_only_meaning_finds(self):
        semantic = Semantic(SharedModel(Encoder), Vectors({100: "wall", 101: "wood"}), 0.5)
        found = World({"woodwork": "sand", "two": "wall"}, semantic=semantic).search("wood")
        assert (names(found), reasons(found)) == (["woodwork", "two"], ["prefix", "text"])

    def test_a_search_is_as_quick_as_its_vectors(self):
        rows = dict(enumerate(SAID.values(), 100))
        semantic = Semantic(SharedModel(Encoder), Vectors(rows), 0.5)
        world = World(SAID, semantic=semantic)
        request = Request("merge", SearchType.FTS)
        assert not world.engine.is_quick(request, world.documents)
        world.search("merge")
        assert world.engine.is_quick(request, world.documents)
        semantic.fused(Ranked(), "wood", Rows([]), None, Shown({}))
        for _ in range(10):
            semantic.fused(Ranked(), "wood", Rows([100]), None, Shown({}))
        assert not world.engine.is_quick(request, world.documents), "its vectors have been forgotten"


class TestSharedVectors:
    """Sets of documents that share vectors, and what that must not change."""

    def test_a_document_of_a_known_version_is_neither_read_nor_encoded_again(self):
        room = Room()
        assert [*dict(room.fused("wall", among=[1]).matches)] == [1]
        room.vectors.broken = {"texts", "vectors", "add"}
        room.rows = Rows([12, 11], ("sand", "wall"))
        room.encoder.encoded.clear()
        assert [number for number, _ in room.fused("wall").matches] == [1]
        assert room.encoder.encoded == ["wall"]

    def test_a_row_that_was_written_since_is_known_as_what_it_is_now(self):
        room = Room("wood", "wall", "sand")
        room.rows = Rows([10, 11, 12], ("old", "wall", "sand"))
        assert [number for number, _ in room.fused("wood").matches] == [0]
        assert room.vectors.kept.keys() == {"wood", "wall", "sand"}
        room.vectors.said[10] = "wall"
        room.rows = Rows([10], ("old",))
        assert [number for number, _ in room.fused("wood").matches] == []

    def test_a_text_that_only_some_callers_read_like_that_is_not_kept(self):
        room = Room("wood wall", "wall")
        room.rows = Reworded([10, 11], told={"wood wall": "wall"})
        assert [number for number, _ in room.fused("wall").matches] == [0, 1]
        assert room.vectors.kept.keys() == {"wall"}
        room.rows = Rows([10, 11])
        assert [number for number, _ in room.fused("wood").matches] == [0]

    def test_what_is_prepared_is_not_read_by_the_next_search(self):
        room = Room()
        later = Rows([12, 10], ("sand", "wood"))
        room.semantic.prepare(later)
        assert room.encoder.encoded == [], "nothing was searched yet"
        room.fused("wood")
        room.semantic.prepare(later)
        assert room.semantic.is_quick(later)

    @pytest.mark.slow
    def test_vectors_of_no_known_documents_are_forgotten(self):
        said = [f"wood {'wall ' * number}" for number in range(3000)]
        room = Room(*said)
        assert len(room.fused("sand wood").matches) > 0
        alone = dict(Room(*said[:10]).fused("wood").matches)
        for size in (9, 8, 7, 6, 10):
            room.rows = Rows(range(10, 10 + size))
            found = dict(room.fused("wood").matches)
        assert found == alone
        room.vectors.kept.clear()
        room.encoder.encoded.clear()
        room.rows = Rows([10, 11, 3000])
        room.fused("wood")
        assert room.encoder.encoded == [said[2990], "wood"]

    def test_the_vectors_of_an_owner_are_made_before_anybody_searches(self):
        room = Room()
        room.vectors.kept["wall"] = numpy.array([0, 1, 0], "<f4").tobytes()
        room.semantic.fill("anybody")
        assert room.encoder.encoded == ["tool", "wood", "sand"]
        room.fused("sand")
        assert room.encoder.encoded == ["tool", "wood", "sand", "sand"]

    @pytest.mark.slow
    def test_documents_that_a_caller_may_not_see_change_not_a_bit_of_what_it_is_told(self):
        chance = random.Random(1)
        for number in range(2000):
            words = [" ".join(chance.choices(AXES, k=chance.randint(0, 9))) for _ in range(chance.randint(2, 24))]
            seen = sorted(chance.sample(range(len(words)), chance.randint(1, len(words))))
            queries = [" ".join(chance.choices(AXES, k=chance.randint(1, 4))) for _ in range(3)]
            alone, among = Room(*(words[place] for place in seen)), Room(*words)
            if number % 2:  # somebody else, who sees all of them, has searched before
                among.fused("wood wall")
            among.rows = Rows([10 + place for place in seen])
            for query in queries:
                matches = [(place, chance.random()) for place in range(0, len(seen), 3)]
                assert among.fused(query, *matches) == alone.fused(query, *matches)


class TestModel:
    """A model that works, and one that does not."""

    def test_vectors_have_the_length_one_but_for_those_without_any(self):
        rows = Model(Encoder(), 3).unit_rows(["wood wood wall", "zzz"])
        assert rows.dtype == numpy.dtype("<f4")
        assert rows.tolist() == [pytest.approx([2 / 5**0.5, 1 / 5**0.5, 0]), [0, 0, 0]]

    @pytest.mark.parametrize(
        ("gives", "told"),
        [
            (lambda texts: [["a", "b", "c"]] * len(texts), "something else than vectors"),
            (lambda texts: [[1, 2, 3], [1]], "something else than vectors"),
            (lambda texts: [1.0] * len(texts), "one vector a text"),
            (lambda texts: [[1.0, 2.0, 3.0]] * (len(texts) + 1), "one vector a text"),
            (lambda texts: [[]] * len(texts), "one vector a text"),
            (lambda texts: [[[1.0]]] * len(texts), "one vector a text"),
            (lambda texts: [[1.0, 2.0]] * len(texts), "different lengths"),
            (lambda texts: [[1.0, float("nan"), 0.0]] * len(texts), "not numbers"),
            (lambda texts: [[1.0, float("inf"), 0.0]] * len(texts), "not numbers"),
        ],
    )
    def test_what_is_no_vector_is_refused(self, gives: Any, told: str):
        with pytest.raises(ModelUnavailable, match=told):
            Model(Encoder(gives), 3).unit_rows(["wood", "wall"])

    def test_numbers_are_passed_on(self):
        assert finite(numpy.ones((1, 2))).tolist() == [[1, 1]]

    def test_it_is_loaded_once_when_it_is_needed(self):
        loaded: list[Encoder] = []

        def load() -> Encoder:
            loaded.append(Encoder())
            return loaded[-1]

        model = SharedModel(load)
        assert loaded == []
        first, second = model.get(), model.get()
        assert first is second
        assert first is not None
        assert first.dimensions == len(AXES)
        assert len(loaded) == 1
        assert state_of(model).json() == {"state": "ready", "reason": None}

    def test_one_that_cannot_be_loaded_is_tried_and_told_once(self, caplog: pytest.LogCaptureFixture):
        tries: list[int] = []

        def load() -> Encoder:
            tries.append(1)
            raise ModelUnavailable("It is not there.")

        model = SharedModel(load)
        assert model.get() is None
        assert model.get() is None
        assert len(tries) == 1
        assert [record.getMessage() for record in caplog.records] == ["search goes by words alone: It is not there."]
        assert state_of(model).json() == {"state": "unavailable", "reason": "It is not there."}

    def test_one_that_is_given_up_stays_so_for_its_first_reason(self, caplog: pytest.LogCaptureFixture):
        model = SharedModel(Encoder)
        assert model.get() is not None
        model.give_up(ModelUnavailable("First."))
        model.give_up(ModelUnavailable("Second."))
        assert model.get() is None
        assert model.reason == "First."
        assert len(caplog.records) == 1

    def test_one_that_fails_later_leaves_words_alone(self):
        room = Room()
        room.encoder.gives = lambda texts: [[1.0] * (3 if texts == ["tool"] else 2)] * len(texts)
        assert room.fused("wood", (1, 3.0)) == Ranked(((1, 3.0),), EVIDENCE)
        assert room.model.reason == "The model gives vectors of different lengths."

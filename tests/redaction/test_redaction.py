"""Secrets and personal data leave texts; everything else stays."""

import base64
import json
import time
from collections.abc import Sequence
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.base.redaction import EMAIL, MASK, PHONE, TEXT_RULES, TOKEN, Learned, MaskedBytes, Redactor, redact_text

WORD = "abcdefghij1234567890"
JWT = ".".join(("eyJ" + WORD, WORD, WORD))

# Known secrets


def test_a_secret_is_masked_wherever_it_stands():
    assert Redactor(["hunter2"]).clean("hunter2, xhunter2x: hunter2") == "***, x***x: ***"


def test_the_longest_secret_is_masked_first():
    assert Redactor(["abc", "abcdef"]).clean("abcdef abc") == "*** ***"


@pytest.mark.parametrize("secret", ["p@ss word/1", 'quo"te\\back', "gr\u00fcn\n", "???>>>"])
def test_a_secret_is_masked_in_its_encoded_forms_too(secret: str):
    clean = Redactor([secret]).clean
    raw = secret.encode()
    for form in (
        quote(secret, safe=""),
        quote_plus(secret),
        repr(secret) if secret.isprintable() and "\\" not in secret else secret,
        base64.b64encode(raw).decode(),
        base64.urlsafe_b64encode(raw).decode(),
    ):
        assert secret not in clean(f"<{form}>")
        assert form.rstrip("=") not in clean(f"<{form}>")


def test_a_secret_is_masked_in_json():
    assert Redactor(['a"b\u00fc']).clean(r'{"x": "a\"bü", "y": "a\"b\u00fc"}') == '{"x": "***", "y": "***"}'


@pytest.mark.parametrize("secret", ["hunter2", "???>>>?"])
def test_a_secret_is_masked_in_base64_without_the_padding_too(secret: str):
    clean = Redactor([secret]).clean
    for encoded in (base64.b64encode, base64.urlsafe_b64encode):
        written = encoded(secret.encode()).decode()
        assert written.endswith("=")
        assert clean(f"<{written.rstrip('=')}>") == "<***>"


def test_a_secret_with_half_a_character_is_masked_like_any_other():
    assert Redactor(["half \ud83d of it"]).clean("a half \ud83d of it, plain") == "a ***, plain"
    learned = Learned()
    learned.add(["half \ud83d of it"])
    assert learned.clean("a half \ud83d of it, plain") == "a ***, plain"
    masked = MaskedBytes(learned)
    assert masked.feed("a half \ud83d of it.".encode(errors="surrogatepass")) == b"a ***."


# Known secrets in JSON values


@pytest.mark.parametrize("redactor", [Redactor(["hunter2"]), Redactor([], learned=Learned())])
def test_of_a_json_value_only_the_secrets_change(redactor: Redactor):
    redactor._learned.add(["hunter2"])
    value = {"hunter2": ["a hunter2", 7, 1.5, True, None, {"b": "hunter2", "c": []}], "d": {}}
    assert redactor.cleaned(value) == {"***": ["a ***", 7, 1.5, True, None, {"b": "***", "c": []}], "d": {}}


def nested(depth: int, lists: Sequence[bool], innermost: object) -> object:
    """Return a value inside so many lists and objects, in turn as ``lists`` says."""
    value = innermost
    for level in reversed(range(depth)):
        value = [value] if lists[level % len(lists)] else {"a": value}
    return value


SHAPES = [(True,), (False,), (True, False)]


@pytest.mark.parametrize("lists", SHAPES, ids=["lists", "objects", "both"])
@pytest.mark.parametrize(("innermost", "left"), [(7, 7), (None, None), ("hunter2", "***"), ([], "***"), ({}, "***")])
def test_what_is_nested_more_than_200_deep_is_masked_and_what_is_not_stays(
    lists: Sequence[bool], innermost: object, left: object
):
    redactor = Redactor(["hunter2"])
    assert redactor.cleaned(nested(200, lists, innermost)) == nested(200, lists, left)
    assert redactor.cleaned(nested(201, lists, innermost)) == nested(200, lists, MASK)


def test_where_there_are_no_secrets_a_json_value_stays_however_deep_it_is():
    deep = nested(300, (True, False), "text")
    assert Redactor([""]).cleaned(deep) is deep


def test_secrets_given_and_learned_can_be_asked_about():
    learned = Learned()
    redactor = Redactor(["hunter2", "correct horse"], (), learned)
    learned.add(["battery staple"])
    assert redactor.knows(lambda secret: secret == "hunter2")
    assert redactor.knows(lambda secret: "staple" in secret)
    assert not redactor.knows(lambda secret: "hunter3" in secret)
    assert not Redactor([""]).knows(lambda _secret: True)


def test_without_secrets_nothing_changes():
    assert Redactor([]).clean("text") == Redactor([""]).clean("text") == "text"


def test_redacting_masks_known_secrets_and_known_shapes():
    assert Redactor(["hunter2"], TEXT_RULES).redact("hunter2 anna@corp.io") == f"{MASK} {EMAIL}"


@given(st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=4), st.text(max_size=20))
def test_no_secret_survives(secrets: list[str], text: str):
    cleaned = Redactor(secrets).clean(text + secrets[0])
    pieces = cleaned.split(MASK)
    assert all(secret not in piece for secret in secrets for piece in pieces)


# Known shapes


@pytest.mark.parametrize(
    "email",
    [
        "anna@corp.io",
        "anna.b+x@mail.corp.co.uk",
        "a_b%c-d@corp-1.com",
        "j\u00fcrgen@corp.de",
        "x@notexample.com",
    ],
)
@pytest.mark.parametrize("around", ["{}", "<{}>", "mail {}, now", "[a](mailto:{})", "{}.", '"{}"\n', "\u4e2d {}"])
def test_mail_addresses_are_replaced(email: str, around: str):
    assert redact_text(around.format(email)) == around.format(EMAIL)


@pytest.mark.parametrize(
    "phone",
    [
        "+14155552671", "+1 (415) 555-2671", "+49 170 1234567", "+44 20 7946 0958", "+1.415.555.2671",
        "(415) 555-2671", "(415)555-2671", "415-555-2671", "415.555.2671",
    ],
)  # fmt: skip
@pytest.mark.parametrize("around", ["{}", "call {}, now", "({})", "tel:{}\n"])
def test_phone_numbers_are_replaced(phone: str, around: str):
    assert redact_text(around.format(phone)) == around.format(PHONE)


def test_a_number_is_fictional_only_where_it_is_as_long_as_those_of_north_america():
    assert redact_text("+49 30 2555 0142 and +1 415 555 0142") == f"{PHONE} and +1 415 555 0142"


@pytest.mark.parametrize(
    "token",
    [
        "sk-" + WORD, "sk-proj-" + WORD, "sk_live_" + WORD, "rk_test_" + WORD, "ghp_" + WORD, "gho_" + WORD,
        "github_pat_" + WORD, "github_pat_" + "x1" * 12, "glpat-" + WORD, "xoxb-" + WORD, "AKIA" + "ABCDEFGH12345678",
        "AIza" + WORD + WORD, "hf_" + WORD, "npm_" + WORD + WORD, "pypi-" + WORD + WORD, JWT, JWT.rpartition(".")[0],
    ],
)  # fmt: skip
@pytest.mark.parametrize("around", ["{}", "key={}", '"{}"', "use {}, now", "`{}`\n", "/{}/"])
def test_keys_are_replaced(token: str, around: str):
    assert redact_text(around.format(token)) == around.format(TOKEN)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR", "Authorization: Bearer"])
def test_bearer_tokens_are_replaced(scheme: str):
    assert redact_text(f"{scheme} s3cr3t.token~x==") == f"{scheme} {TOKEN}"


@pytest.mark.parametrize("end", ["", "\n-----END RSA PRIVATE KEY-----"])
def test_private_keys_are_replaced_even_where_they_are_cut(end: str):
    text = "a -----BEGIN RSA PRIVATE KEY-----\nMIIabc/+=" + end
    assert redact_text(text) == "a " + TOKEN


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://host.io/p?key=1&b=2", "https://host.io/p"),
        ("https://user:p@ss@host.io:80/p#part", "https://host.io:80/p#part"),
        ("postgres://user:pass@db/x?y=z#f", "postgres://db/x#f"),
        ("(see https://host.io/p?q=a).", "(see https://host.io/p)."),
        ("[a](https://host.io/?q=a), b", "[a](https://host.io/), b"),
        ("http://a.io?x=1 http://b.io?x=1", "http://a.io http://b.io"),
    ],
)
def test_urls_lose_user_and_query(url: str, kept: str):
    assert redact_text(url) == kept


@pytest.mark.parametrize(
    "text",
    [
        "user@example.com, a@b.example.org, c@mail.test, d@x.invalid, e@x.localhost, f@y.example",
        "https://u:p@example.com/x?q=1 http://api.example.net:80?a=b https://a.test/?b http://localhost/?c",
        "git clone git@github.com:owner/name.git",
        "@decorator, @scope/package, a @ b, name@1.2.3, user@host",
        "2026-11-20 10:00:00, 2026-11-20T10:00:00+0100, +2026-11-20, arXiv 2602.20156, 1.2.3.4, +1.23456789",
        "123e4567-e89b-12d3-a456-426614174000, 1700000000, 12345678901234",
        "415-555-0123, (415) 555-0199, +1 415 555 0100",
        "10.0.0.1:8080 3.14159265 1,000,000 +100 -5 v1.2.3-rc.4",
        "Bearer authentication, bearer of news, a bearer ${TOKEN}, Bearer <your-key>, Bearer YOUR_TOKEN",
        "task-force-abcdefgh-12345678, risk-assessment-for-2026-projects, sk-learn, disk-0123456789abcdef",
        "sk-estimator-with-a-long-name, ghp_, AKIA, eyJ, hf_transfer, npm_config_registry",
        "https://host.io/path/to#part and file:///etc/hosts",
        "",
    ],
)
def test_what_only_looks_similar_stays(text: str):
    assert redact_text(text) == text


@given(st.text("ab1@.+-_ ()/:?&=#\n\u00e9") | st.text())
def test_redacting_twice_changes_nothing_more(text: str):
    once = redact_text(text)
    assert redact_text(once) == once


@given(st.text())
def test_lines_stay_lines(text: str):
    assert redact_text(text).count("\n") == text.count("\n")


@pytest.mark.parametrize(
    "piece",
    [
        "eyJ", "eyJabcdefgh.", "sk-", "1", "+1 ", "+1", "a@", "a.a@a.", "a://", "http://@", "bearer ", "@", "(", "w",
        "-----BEGIN PRIVATE KEY-----", "+1(1)", "a%", ".", "?", "415-555-", "https://a?", "_", "a-", "ghp_", "AKIA",
    ],
)  # fmt: skip
def test_no_text_makes_it_slow(piece: str):
    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        started = time.process_time()
        redact_text(text)
        return time.process_time() - started

    assert min(seconds(200_000) for _ in range(2)) < 0.5


# Secrets that come up later


def test_a_secret_that_comes_up_later_is_masked_by_those_who_were_there_before():
    learned = Learned()
    redactor = Redactor(["hunter2"], (), learned)
    assert redactor.clean("hunter2 token-1") == "*** token-1"
    learned.add(["token-1", "token-1-longer"])
    assert redactor.clean("hunter2 token-1-longer token-1") == "*** *** ***"
    assert Redactor([], learned=learned).cleaned({"a": ["token-1"]}) == {"a": ["***"]}


def test_of_secrets_that_come_up_the_latest_are_remembered():
    learned = Learned()
    for ten in range(0, 120, 10):
        learned.add([f"<secret {number}>" for number in range(ten, ten + 10)])
    assert learned.clean("<secret 1> <secret 119>") == "<secret 1> ***"


def test_a_hundred_are_remembered_in_all_and_six_of_a_part():
    learned = Learned()
    learned.add(f"<secret {number}>" for number in range(101))
    assert learned.clean("<secret 0> <secret 1>") == "<secret 0> ***"
    part = learned.part("a")
    for number in range(7):
        part.add([f"<token {number}>"])
    assert part.clean("<token 0> <token 1>") == "<token 0> ***"
    assert learned.clean("<token 0> <token 1> <secret 7> <secret 8>") == "*** *** <secret 7> ***"


def test_what_is_known_already_is_not_worked_out_again():
    learned = Learned()
    learned.add(["secret-1", "secret-2"])
    before = learned.forms
    learned.add(["secret-1"])
    learned.add([])
    assert learned.forms is before
    learned.add(["secret-1", "secret-3"])
    assert learned.secrets == ["secret-2", "secret-1", "secret-3"]


def test_a_secret_that_comes_up_again_is_the_latest():
    learned = Learned()
    learned.add(f"<secret {number}>" for number in range(100))
    learned.add(["<secret 0>"])
    learned.add(["<one more>"])
    assert learned.clean("<secret 0> <secret 1> <one more>") == "*** <secret 1> ***"


def test_what_parts_remember_is_not_forgotten_however_many_there_are():
    learned = Learned()
    tokens = [[f"token-{kind}-of-{number}." for kind in ("access", "refresh")] for number in range(60)]
    for number, both in enumerate(tokens):
        learned.part(f"server-{number}").add(both)
    assert {learned.clean(token) for both in tokens for token in both} == {"***"}
    for number in range(20):
        learned.part("server-0").add([f"renewed-{number}."])
    learned.add(f"other-{number}." for number in range(100))
    assert learned.clean("token-access-of-0. renewed-1. renewed-19.") == "token-access-of-0. renewed-1. ***"


def test_what_is_too_short_for_a_secret_is_no_secret():
    learned = Learned()
    learned.part("a").add(["e", "", "12345"])
    assert not learned.has_any
    assert learned.clean("e 12345") == "e 12345"
    learned.part("a").add(["123456", "e"])
    assert learned.clean("e 123456") == "e ***"


ESCAPED = [
    r"tok\/en+1==&",
    r"tok/en+1==\u0026",
    r"tok/en+1\u003d\u003d\u0026",
    r"tok/en\u002B1==\u0026",
]


@pytest.mark.parametrize("written", ESCAPED, ids=["PHP", "Go", "Gson", ".NET"])
def test_a_secret_is_masked_as_any_writer_of_json_escapes_it(written: str):
    secret, learned = json.loads(f'"{written}"'), Learned()
    assert secret == "tok/en+1==&"
    learned.add([secret])
    masked = MaskedBytes(learned)
    assert masked.feed(f'{{"a": "{written}"}}'.encode()) + masked.end() == b'{"a": "***"}'
    assert Redactor([secret]).clean(f"<{written}>") == "<***>"


def test_what_comes_up_in_one_place_all_know_of_and_other_places_do_not():
    learned = Learned()
    learned.part("a").add(["secret-a"])
    learned.part("b").add(["secret-b"])
    assert learned.clean("secret-a secret-b") == "*** ***"
    assert learned.part("a").clean("secret-a secret-b") == "*** secret-b"


SECRETS = ("tok.en/1+2=", "abcabd")


@pytest.mark.parametrize(
    "secret", [*SECRETS, *(base64.b64encode(each.encode()).decode().rstrip("=") for each in SECRETS)]
)
def test_a_secret_in_pieces_is_masked_wherever_it_is_cut(secret: str):
    learned = Learned()
    learned.add(SECRETS)
    data = f"<{secret}|abcab|{secret}>".encode()
    for first in range(len(data)):
        for second in range(first, len(data)):
            masked = MaskedBytes(learned)
            pieces = [data[:first], data[first:second], data[second:]]
            assert b"".join([*map(masked.feed, pieces), masked.end()]) == b"<***|abcab|***>"


@given(st.lists(st.binary(max_size=8)))
def test_pieces_without_a_secret_stay_as_they_are(pieces: list[bytes]):
    learned = Learned()
    learned.add(["never-in-eight-bytes"])
    masked = MaskedBytes(learned)
    assert b"".join([*map(masked.feed, pieces), masked.end()]) == b"".join(pieces)


def test_the_beginning_of_a_secret_is_held_back_also_right_behind_what_looks_like_one():
    learned = Learned()
    learned.add(["aaaabcdefg", "x-x-x-y-z-"])
    for before, begun, rest in (("aaaaab", 5, "cdefg"), ("aaaaaab", 5, "cdefg"), ("ax-x-x-x-y", 7, "-z-")):
        masked = MaskedBytes(learned)
        assert masked.feed(before.encode()) == before[:-begun].encode()
        assert masked.feed(rest.encode()) == b"***"


def test_nothing_is_held_back_that_is_no_beginning_of_a_secret():
    learned = Learned()
    learned.add(["secret"])
    masked = MaskedBytes(learned)
    assert masked.feed(b"data: {}\n\n") == b"data: {}\n\n"
    assert masked.feed(b"a sec") == b"a "
    assert masked.feed(b"ond") == b"second"
    assert masked.feed(b"a secre") == b"a "
    assert masked.feed(b"t, secrecy, se") == b"***, secrecy, "
    assert masked.end() == b"se"
    assert masked.end() == b""
    assert MaskedBytes(Learned()).feed(b"any") == b"any"

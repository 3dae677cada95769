"""What a skill must not tell leaves its text; what it teaches stays, byte for byte."""

import base64
import random
import string
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from toolcrib.base import document_redaction
from toolcrib.base.document_redaction import redact_document
from toolcrib.base.redaction import EMAIL, PHONE, TOKEN

REAL_SKILLS = Path(__file__).resolve().parents[3] / "shared" / "skills-dev" / "corpus"
"""Skills of strangers, where they are at hand; they are no part of the project."""

DIGITS = "12345678901234567890"
ALPHANUMERIC = string.ascii_letters + string.digits
AROUND = [
    "{}",
    "\n{}\n",
    "Use {}, then go on.",
    "This is it: {}.",
    '  "x": "{}",\r\n',
    "'{}'",
    "`{}`",
    "```sh\n    {}\n```",
    "> - {}",
    "| a | {} |",
    "**{}**",
    "请用{}登录",
    "«{}»",
    "\u00a0{}\u2026",
]
LINKS = ["[here]({})", "<{}>", "see {} and {}"]

# -- what leaves a text --------------------------------------------------------------------------


Planted = tuple[str, str]
"""A made-up text, and the part of it that must go."""


def mixed(rng: random.Random, size: int, alphabet: str = ALPHANUMERIC) -> str:
    """Make up what a generator of keys might: never without digits inside."""
    made = rng.choices(alphabet, k=size - 4)
    return "".join([*made[:8], "7", *made[8:-4], "3", *made[-4:], rng.choice("Qq"), rng.choice("Kk")])


def base64_lines(rng: random.Random) -> list[str]:
    raw = base64.b64encode(rng.randbytes(rng.randint(200, 1200))).decode()
    return [raw[at : at + 64] for at in range(0, len(raw), 64)]


def private_key(rng: random.Random) -> Planted:
    kind = rng.choice(["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "])
    begin, end = (f"-----{word} {kind}PRIVATE KEY-----" for word in ("BEGIN", "END"))
    line_break = rng.choice(["\n", "\r\n", "\n    ", "\\n", '\\n" +\n    "'])
    headers = rng.choice([[], ["Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-128-CBC,00FF", ""]])
    lines = base64_lines(rng)
    return line_break.join([begin, *headers, *lines, end]), lines[0]


def json_web_token(rng: random.Random) -> Planted:
    parts = [base64.urlsafe_b64encode(rng.randbytes(size)).decode().rstrip("=") for size in (20, 60, 32)]
    token = ".".join(["eyJ" + parts[0], "eyJ" + parts[1], *parts[2 : 2 + rng.randint(0, 1)]])
    return token, token


VENDORS = {
    "sk-": 48, "sk-proj-": 60, "sk-ant-api03-": 80, "sk_live_": 24, "rk_test_": 24, "ghp_": 36, "gho_": 36,
    "github_pat_": 60, "glpat-": 20, "xoxb-": 40, "AIza": 35, "hf_": 34, "npm_": 36, "pypi-": 80, "shpat_": 32,
    "whsec_": 32, "ya29.": 60, "GOCSPX-": 28, "dop_v1_": 64, "nvapi-": 64, "gsk_": 52, "lin_api_": 40,
    "AKIA": 16, "ASIA": 16, "SG.": 22,
}  # fmt: skip
"""How the tokens of well-known vendors begin, and how long the rest is."""


def vendor_token(rng: random.Random) -> Planted:
    start, size = rng.choice(list(VENDORS.items()))
    token = start + mixed(rng, size) + ("." + mixed(rng, 43) if start == "SG." else "")
    token = token.upper() if start.endswith("IA") else token
    return token, token


def bearer(rng: random.Random) -> Planted:
    token = mixed(rng, rng.randint(16, 60))
    return rng.choice(["Bearer ", "bearer ", "BEARER  ", "Bearer\n  "]) + token, token


def assignment(rng: random.Random) -> Planted:
    name = rng.choice(
        ["key", "API_KEY", "apiKey", "client_secret", "SECRET", "token", "AccessToken", "password", "DB_PASSWD", "pwd"]
    )
    form = rng.choice(
        ["{}={}", "{} = '{}'", '{} = "{}"', '"{}": "{}"', "{}: {}", "--{} {}", "{} := `{}`", "**{}**: {}"]
    )
    alphabet = rng.choice(
        [ALPHANUMERIC, ALPHANUMERIC + "+/", string.ascii_lowercase + string.digits, "0123456789abcdef"]
    )
    secret = mixed(rng, rng.randint(20, 64), alphabet)
    return form.format(name, secret), secret


def url_with_a_password(rng: random.Random) -> Planted:
    scheme = rng.choice(["https", "postgres", "mongodb+srv", "redis", "amqp"])
    user, password = rng.choice(["svc", "deploy", "", "anna.b"]), mixed(rng, rng.randint(8, 24))
    return f"{scheme}://{user}:{password}@db-{rng.randint(1, 9)}.corp.io:5432/main", password


def url_with_a_secret_parameter(rng: random.Random) -> Planted:
    name = rng.choice(
        ["key", "api_key", "apikey", "token", "access_token", "accessToken", "sig", "X-Amz-Signature", "client_secret"]
    )
    value = mixed(rng, rng.randint(8, 40))
    return f"https://api.corp.io/v1/items?page=2&{name}={value}&sort=name", value


def email(rng: random.Random) -> Planted:
    local = rng.choice(["anna", "anna.b", "a+tag", "jürgen", "x_y-z", "A.B.C1"])
    address = f"{local}@{rng.choice(['corp.io', 'mail.corp.co.uk', 'büro.de', 'corp-1.com', 'notexample.com'])}"
    return address, address


def phone(rng: random.Random) -> Planted:
    digits = "".join(rng.choices("23456789", k=10))
    form = rng.choice(["+1{}{}{}", "+1 ({}) {}-{}", "({}) {}-{}", "({}){}-{}", "{}-{}-{}", "{}.{}.{}", "+49 {} {} {}"])
    number = form.format(digits[:3], digits[3:6], digits[6:])
    return number, number


TOKENS = (private_key, json_web_token, vendor_token, bearer, assignment)
URLS = (url_with_a_password, url_with_a_secret_parameter)
MASKS: dict[Callable[[random.Random], Planted], str] = {
    **dict.fromkeys(TOKENS + URLS, TOKEN),
    email: EMAIL,
    phone: PHONE,
}


@pytest.mark.parametrize("make", MASKS)
def test_every_one_of_many_made_up_secrets_leaves_every_place(make: Callable[[random.Random], Planted]):
    rng = random.Random(make.__name__)
    for _ in range(60):
        planted, secret = make(rng)
        for around in [*AROUND, *(LINKS if "\n" not in planted and make is not assignment else [])]:
            text = around.replace("{}", planted)
            clean = redact_document(text)
            assert secret not in clean, text
            assert clean.count(MASKS[make]) == around.count("{}"), text
            assert clean.startswith(around.partition("{}")[0]), text
            assert clean.endswith(around.rpartition("{}")[2]), text
            assert clean.count("\n") == text.count("\n"), text
            assert redact_document(clean) == clean, text


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("https://u:Pw1x@db.io/a?b=1", f"https://u:{TOKEN}@db.io/a?b=1"),
        ("https://u:P4$$w*rd@db.io", f"https://u:{TOKEN}@db.io"),
        ("redis://:Pw1x@db.io", f"redis://:{TOKEN}@db.io"),
        ("https://db.io/?q=a&api_key=Ab12cd&page=2#top", f"https://db.io/?q=a&api_key={TOKEN}&page=2#top"),
        (
            "https://aB3dE6fG9haB3dE6@db.io https://u1B3dE6fG9haB3d@db.io",
            f"https://{TOKEN}@db.io https://u1B3dE6fG9haB3d@db.io",
        ),
        ("https://aB3dE6fG9haB3dE6:x@db.io", f"https://{TOKEN}:x@db.io"),
        (
            '{"id":"abcdefghijklmnopqrstuv","token":"aB3dE6fG9haB3dE6fG9h"}',
            f'{{"id":"abcdefghijklmnopqrstuv","token":"{TOKEN}"}}',
        ),
        ("[a](https://db.io/?q=a&amp;token=Ab12cd).", f"[a](https://db.io/?q=a&amp;token={TOKEN})."),
        ("(see https://db.io/?sig=Ab12cd.)", f"(see https://db.io/?sig={TOKEN}.)"),
        ("'Authorization: Bearer Ab12cd34.'", f"'Authorization: Bearer {TOKEN}.'"),
        ("anna@corp.io,ben@corp.io", f"{EMAIL},{EMAIL}"),
        ("https://db.io/?token=Ab12cd\u8bf7\u7528", f"https://db.io/?token={TOKEN}\u8bf7\u7528"),
        # The value ends in the name of the next key.
        (f"token=a1b2c3d4e5f6g7h8i9j0key=/{'z9y8' * 5} now", f"token={TOKEN}{TOKEN} now"),
        ("\u8054\u7cfbanna@corp.io\u5373\u53ef", f"\u8054\u7cfb{EMAIL}\u5373\u53ef"),
        ("\u7535\u8bdd+8613912345678\u3002", f"\u7535\u8bdd{PHONE}\u3002"),
        ("\u5f20\u4f1f@corp.io", EMAIL),
    ],
)
def test_only_the_secret_itself_is_replaced(text: str, kept: str):
    assert redact_document(text) == kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("GET /rows?user=bob&token=hunter2x", "GET /rows?user=bob&token="),
        ("Append `?user=bob&token=hunter` to it", "Append `?user=bob&token=* to it"),
        ("https://api.corp.io/x?user=bob&token=hunter2x#a", "https://api.corp.io/x?user=bob&token=*#a"),
        ("https://bob:pw@db.corp.io/x", "https://bob:*@db.corp.io/x"),
        ("password=hunter2", "password="),
        ('password: "hunter2!"', 'password: "*"'),
        ("export DB_PASSWORD='s3cr3t-x'", "export DB_PASSWORD='*'"),
    ],
)
def test_a_password_and_a_token_leave_a_query_an_address_and_an_assignment(text: str, kept: str):
    before, _, after = kept.partition("*")
    left = redact_document(text)
    assert left.startswith(before + TOKEN)
    assert left.endswith(after)
    assert redact_document(left) == left


@pytest.mark.parametrize(
    "text",
    [
        "?user=bob&token=YOUR_TOKEN&next_token=abc",
        "https://user:password@db.corp.io https://bob:$PW@db.corp.io https://bob:pwd@db.corp.io",
        "password=password1, password: secret2, password=user2_password, password=$PASSWORD1, password=args.p4ss",
        "password=getpass1(), password=read[2], password: /run/secrets/p4ss, password=123456, password: correct horse",
        "What? a=b and token=c; is it so?",
    ],
)
def test_what_only_stands_where_a_password_would_stays(text: str):
    assert redact_document(text) == text


def test_a_private_key_leaves_its_line_breaks_so_that_lines_keep_their_numbers():
    lines = base64_lines(random.Random(1))
    text = "\r\n  ".join(["a: |", "-----BEGIN PRIVATE" + " KEY-----", *lines, "-----END PRIVATE" + " KEY-----", "b: 1"])
    clean = redact_document(text)
    assert clean == f"a: |\r\n  {TOKEN}" + "\r\n" * (len(lines) + 1) + "\r\n  b: 1"


def test_a_private_key_that_is_cut_leaves_too_but_not_what_follows():
    text = "-----BEGIN PRIVATE" + " KEY-----\n" + "\n".join(base64_lines(random.Random(2))[:3]) + "\n\nThen go on.\n"
    assert redact_document(text) == TOKEN + "\n" * 3 + "\n\nThen go on.\n"


# -- what stays ----------------------------------------------------------------------------------


LOOKALIKES = [
    "user@example.com, a@b.example.org, c@mail.test, d@x.invalid, e@x.localhost, f@y.example, g@printer.local",
    "git clone git@github.com:owner/name.git, ssh://anna@host.io/x, sftp://anna.b:{pw}@host.io",
    "PROJECT_NUMBER-compute@developer.gserviceaccount.com, name@PROJECT.iam.gserviceaccount.com",
    "press@yourcompany.com, icon@2x.png, react@18.next, owner@odata.bind, @scope/package, @decorator, a @ b.co",
    "https://user:password@db.corp.io/x postgres://postgres:postgres@db/x https://u:pw1@localhost/?token=abc123",
    "https://${USER}:${PASS}@db.io https://<user>:<pass>@db.io http://u:YOUR_PASSWORD@db.io http://u:***@db.io",
    "https://anna:Pw1x5678@example.com https://aB3dE6fG9haB3dE6@a.test:8080/x https://anna.of.the.north@git.corp.io",
    "https://docs.corp.io/a?view=latest&lang=en&v=1.2.3 https://corp.io/models?library=tokenizers&sort=trending",
    "https://a.io/?key=${KEY}&token=<token>&api_key=YOUR_KEY&sig=... https://a.io/?token=TOKEN&page_token=abc123",
    "https://a.io/?sort_by=key&key=name&next_token=abc123 https://api.example.com/?api_key=abc123",
    'api_key="your-api-key", token = secrets.token_urlsafe(32), key = results.get, API_SECRET_KEY=dev-secret-key',
    'key="processed/batch_2024_counts_v2_final.csv", topologyKey: "kubernetes.io/hostname"',
    "token: ${{ secrets.GITHUB_TOKEN_2_FOR_RELEASES }} password: <your-password-with-20-characters>",
    "API_KEY=xxxxxxxxxxxxxxxxxxxxxxxx1A2b, TOKEN=YOUR_TOKEN_1a2B3c4D5e6F7g8H9, token = parse1Of2Tokens3And4Rest(x)",
    "sk-xxxxxxxxxxxxxxxxxxxx1, ghp_xxxxxxxxxxxxxxxxxxxx1, sk-estimator-with-a-long-name, hf_transfer",
    "Bearer ${TOKEN_1234}, Bearer <token-12345>, Bearer YOUR_TOKEN_123, bearer of news, Bearer eyJhbGciOiJIUzI1...",
    "Bearer authentication is for a bearer certificate",
    "-----BEGIN PRIVATE" + " KEY-----\n...\n-----END PRIVATE" + " KEY-----",
    "A file that begins with `-----BEGIN PRIVATE" + " KEY-----` is a key. Go on - carefully.",
    "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUYx\n-----END CERTIFICATE-----",
    "2026-11-20 10:00:00, 2026-11-20T10:00:00+0100, arXiv 2602.20156, 1.2.3.4, +1.23456789, +2026-11-20",
    "123e4567-e89b-12d3-a456-426614174000, 1700000000, 12345678901234, 415-555-0123, +1 415 555 0100",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "```python\n    def f(key: str, token: str) -> None:\n\t\treturn key\n```\n",
    "",
]


@pytest.mark.parametrize("text", LOOKALIKES)
def test_what_only_looks_like_a_secret_stays(text: str):
    assert redact_document(text) == text


@pytest.mark.parametrize("before", ["", "See "])
@pytest.mark.parametrize(("size", "stays"), [(0, True), (196, True), (197, False)])
def test_a_user_behind_a_scheme_is_no_mail_address_as_far_as_200_characters_back(before: str, size: int, stays: bool):
    start = f"{before}://{'a' * size}{':' if size else ''}"
    assert redact_document(f"{start}b@corp.io") == f"{start}{'b@corp.io' if stays else EMAIL}"


REAL = {
    "a key": (f"xoxb-{DIGITS[:10]}", TOKEN),
    "a bearer": (f"Bearer {DIGITS[:8]}", f"Bearer {TOKEN}"),
    "an assignment": (f"token = {'aB3dE6fG9h' * 2}", f"token = {TOKEN}"),
    "a short key": (f"sk-{DIGITS[:12]}abcd", TOKEN),
}
"""The shortest of some secrets, and what is left of each."""


@pytest.mark.parametrize(
    ("value", "goes"),
    [
        ("abcdefgh1ijklmno2pqrstuv", True),
        ("abcdefgh1ijklmno2pqrstuvw", False),
        ("aBcDeFgH1iJkLmNoPqRs", True),
        ("aBcDeFgHiJkLmNoPqRs1", False),
        ("aBcDeFgHiJkLmNoPqRsT", False),
        ("a1b2c3d4e5f6g7h8i9j0", True),
        ("a1b2c3d4e5f6g7h8i9j", False),
    ],
)
def test_an_assigned_value_goes_that_is_long_and_changes_often_between_letters_and_digits(value: str, goes: bool):
    secret, left = REAL["an assignment"]
    assert redact_document(f"key = {value}, {secret}") == f"key = {TOKEN if goes else value}, {left}"


@pytest.mark.parametrize("real", REAL)
@pytest.mark.parametrize("text", LOOKALIKES)
def test_what_only_looks_like_a_secret_stays_next_to_one_that_goes(text: str, real: str):
    secret, left = REAL[real]
    assert redact_document(f"{secret}\n\n{text}") == f"{left}\n\n{text}"
    assert redact_document(f"{text}\n\n{secret}") == f"{text}\n\n{left}"


@pytest.mark.parametrize("mask", [TOKEN, EMAIL, PHONE])
@pytest.mark.parametrize("around", [*AROUND, "key = {}", "Bearer {}", "https://u:{}@h.io", "https://h.io/?token={}"])
def test_what_was_replaced_is_not_replaced_again(mask: str, around: str):
    assert redact_document(around.format(mask)) == around.format(mask)


PIECES = st.sampled_from(
    [
        *(make(random.Random(seed))[0] for make in MASKS for seed in range(3)),
        *"@.:/?&=+-%_(\"'` \n1aZ\u00e9\u4e2d",
        "://",
        "key=",
        "Bearer ",
        "sk-",
        "+1",
    ]
)


@given(st.lists(PIECES, max_size=12).map("".join) | st.text("ab1@.+-_ ()/:?&=#%\n\u00e9\u4e2d") | st.text())
@example("%" * 60 + "415-555-2671%a@b.co")
@example("-----BEGIN PRIVATE KEY-----Hjt4h2i8/yIYLhN8g4oEcGMOmdJulnZY-----END KEY-----rk_test_JXdhVDxn7E")
def test_redacting_twice_changes_nothing_more_and_keeps_every_line(text: str):
    once = redact_document(text)
    assert redact_document(once) == once
    assert once.count("\n") == text.count("\n")
    assert once.count("\r") == text.count("\r")


@pytest.mark.slow
def test_real_skills_are_left_as_they_are():
    if not REAL_SKILLS.is_dir():
        pytest.skip("the real skills are not here")
    lines, changed, addresses = 0, [], 0
    for path in sorted(REAL_SKILLS.rglob("SKILL.md")):
        text = path.read_text(encoding="utf-8")
        before, after = text.split("\n"), redact_document(text).split("\n")
        assert len(before) == len(after)
        lines += len(before)
        for old, new in zip(before, after, strict=True):
            if old != new and EMAIL in new:
                addresses += 1
            elif old != new:
                changed.append(f"{path.parent.name}: {new.strip()[:100]}")
    print(f"{lines} lines: {addresses} lost a mail address, {len(changed)} something else", *changed, sep="\n")
    assert len(changed) * 10_000 <= lines
    assert addresses * 2_500 <= lines, "so many mail addresses cannot all be somebody's"


# -- what is not tried -----------------------------------------------------------------------------

PARTS = [
    *(
        "ghp_",
        "xoxb-",
        "sk-",
        "SG.",
        "AKIA",
        "eyJ",
        "bearer ",
        "Bearer\n",
        "Secret: ",
        "paſſword=",
        "toKen => `",
        "api_key ",
    ),
    *("0a1b2c3d4e5f", "Abc123Def456", "aaaaaaaaaaaa", "ABCDEFGHIJKLMNOP", "12345678", "٣٤٥", "bob", "@", ".", "-", "_"),
    *(
        "corp.net",
        "://",
        "?token=",
        "+49",
        " (555) ",
        "555-0199",
        "555 123 4567",
        "-----BEGIN PRIVATE KEY-----",
        "AAAA" * 9,
    ),
    *("token=aBcDeFgH1iJkLmNoPqRs", "bob@x.de", "ann@ex-am.co.uk", "xoxb-1234567890", "+4930123456789", "555-123-4567"),
    *(" ", "\n", "\u00a0", "\x1c", "\x85", "[REDACTED_TOKEN]", "=", '"', "词"),
]
"""What keys, addresses and numbers are made of, and what stands around them."""


@given(
    st.lists(st.sampled_from(PARTS), max_size=12).flatmap(
        lambda parts: st.sampled_from(["", " "]).map(lambda between: between.join(parts))
    )
)
@example("xoxb-1234567890")
@example("555-123-4567")
@example("+4930123456789")
@settings(max_examples=5 * settings.default.max_examples)
def test_no_text_is_passed_over_that_a_pattern_would_change(text: str):
    expected = text
    for rule in (*document_redaction._BLOCK_RULES, *document_redaction._WORD_RULES, *document_redaction._BEARER_RULES):
        expected = rule.pattern.sub(rule.replace, expected)
    expected = document_redaction._without_assigned(expected)
    for rule in document_redaction._OTHER_RULES:
        expected = rule.pattern.sub(rule.replace, expected)
    assert redact_document(text) == expected

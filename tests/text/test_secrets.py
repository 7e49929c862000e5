"""What is a secret, and texts and values without them."""

from __future__ import annotations

import base64
import html
import json
import pickle
import re
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_agenteval.calibration.results import store_calibration
from pytest_agenteval.cassettes.interaction import chat_request
from pytest_agenteval.cassettes.redaction import Redactor
from pytest_agenteval.records.evidence import Answer, FileText, Grade, Outcome, Tree
from pytest_agenteval.records.trial_redaction import redact_trial
from pytest_agenteval.text.redaction import KNOWN_SECRETS, Secrets
from pytest_agenteval.text.secret_forms import MARK, worth_hiding
from tests.store.samples import trial
from tests.text.spelled import SPELLED

LONG = "aB3dE6gH9jK2mN5pQ8sT1vW4xY7zA0cF"


def test_the_longest_secret_goes_first() -> None:
    """One secret that begins another leaves nothing of the longer one behind, in whatever order they came."""
    short, long = "begin-the-beguine", "begin-the-beguine-again-and-again"
    for values in ([short, long], [long, short]):
        secrets = Secrets(values)
        assert secrets.text(f"{long} {short} {long}{short}") == f"{MARK} {MARK} {MARK}{MARK}"
        assert Redactor(values).text(f"<{long}>") == f"<{MARK}>"


@pytest.mark.parametrize(
    "text",
    [
        "sk-learn-preprocessing-and-more-modules is a package; task-force-1234567890-abcdef met",
        "the bearer of authentication-requirements, a basic understanding-of-everything",
        "https://x.test/a?page=2&sort=key:asc and mail me@example.com about a/b:c@d",
        "AKIA is short, eyJ too, xox- nothing; npm_config, SG.1, hf_hub",
        "?key=short &monkey=business-as-usual token=12 tokens=1234567890123",
        "C:/Users/me: 12:30 @home; ratio 3:2@4; ssh://host:22/path",
        "20261122 2026-11-22T10:00:00Z 0123456789",
        "sha256:9f8e7d6c5b4a392817069f8e7d6c5b4a39281706 3fa85f64-5717-4562-b3fc-2c963f66afa6 L3-001 pkm_7",
        "오늘 서울의 날씨는 맑고 기온은 21.5도입니다... 미나에게 안녕이라고 말해 줘요…",
        "r8_x xai-grok-4-fast-reasoning-latest-preview pypi-server nvapi- hooks.slack.com/services/",
    ],
)
def test_ordinary_words_are_left_alone(text: str) -> None:
    """What only looks a little like a key is none: a report full of marks tells nothing."""
    assert Secrets().text(text) == text


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (f"OPENAI: sk-{LONG}.", f"OPENAI: {MARK}."),
        (f'{{"a":"x\\nsk-ant-{LONG}"}}', f'{{"a":"x\\n{MARK}"}}'),
        (f"Authorization: Bearer {LONG}==", f"Authorization: Bearer {MARK}"),
        ("authorization: basic bWU6cGFzc3dvcmQ=", f"authorization: basic {MARK}"),
        ("postgres://me:pa55@db/x", f"postgres://{MARK}@db/x"),
        (f"GET /v1?q=1&api_key={LONG}&n=2", f"GET /v1?q=1&api_key={MARK}&n=2"),
        (f"-----BEGIN RSA PRIVATE KEY-----\n{LONG}\n-----END RSA PRIVATE KEY----- x", f"{MARK} x"),
        (f"-----BEGIN PRIVATE KEY-----\\n{LONG}", MARK),
        (f"xai-{LONG} r8_{LONG}", f"{MARK} {MARK}"),
        (f"https://hooks.slack.com/services/T0AB/B0CD/{LONG}", f"https://hooks.slack.com/services/{MARK}"),
    ],
)
def test_well_known_shapes_go(text: str, clean: str) -> None:
    """Nobody has to name them, and what stands around them stays."""
    assert Secrets().text(text) == clean


@pytest.mark.parametrize("value", ["", "abc", "password", "changeme", "20261122", "  true  ", "letters"])
def test_values_that_stand_in_too_many_texts_are_none(value: str) -> None:
    """A variable with a secret's name may hold an ordinary word: masked everywhere, it would tear texts."""
    assert not worth_hiding(value)
    assert Secrets([value]).text(f"my {value} is here") == f"my {value} is here"


def test_a_text_that_was_cut_within_a_secret_holds_no_beginning_of_it() -> None:
    """Reasons and sides of checks are cut to fit a line, maybe in the middle of a key."""
    secrets = Secrets(["trumpet-marmalade-42"])
    assert secrets.text("see trumpet-marma…") == f"see {MARK}…"
    assert secrets.text("see trumpet-marma... and more") == f"see {MARK}... and more"
    assert secrets.text("see trumpet-marma") == f"see {MARK}"
    assert secrets.text("trumpet-marching bands") == "trumpet-marching bands"


def test_a_text_that_was_cut_within_a_secret_holds_no_end_of_it() -> None:
    """What is long is shown as its beginning and its end, by pytest's tracebacks for one."""
    secrets = Secrets(["trumpet-marmalade-42"])
    assert secrets.text("local = 'xyz...rmalade-42' and more") == f"local = 'xyz...{MARK}' and more"
    assert secrets.text("…trumpet-marm…marmalade-42") == f"…{MARK}…{MARK}"
    assert secrets.text("ends with rmalade-42...") == "ends with rmalade-42..."
    assert secrets.text("first... then orange marmalade-42") == "first... then orange marmalade-42"


@pytest.mark.parametrize(
    "value", ["a&b<c>\"d'e+f/=%1", "schlüssel-안녕-77", "plain-looking-55", "tab\tand\\slash"]
)
def test_a_known_value_is_found_as_pages_addresses_and_headers_hold_it(value: str) -> None:
    """Escaped for HTML, for an address in either case, as bytes, and in base64 wherever it stands there."""
    secrets = Secrets([value])
    in_base64 = [base64.b64encode(f"{'x' * before}{value}".encode()).decode() for before in range(7)]
    written = [
        html.escape(value),
        html.escape(value, quote=False),
        value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        .replace("'", "&#39;").replace('"', "&#34;"),
        quote(value, ""),
        re.sub("%..", lambda found: found[0].lower(), quote(value, "")),
        repr(value.encode())[2:-1],
        *(base64.b64encode(value.encode()).decode(), base64.urlsafe_b64encode(value.encode()).decode()),
    ]  # fmt: skip
    assert [form for form in written if secrets.text(f"<{form}>") != f"<{MARK}>"] == []
    for form in in_base64:
        left = secrets.text(form)
        assert MARK in left
        assert len(left.replace(MARK, "")) < 13  # what stood before it, and bits of a letter


@pytest.mark.parametrize("value", ["p/w: schlüssel+99", f"sk-{LONG}", "plain-looking-55", "ab/cd+ef"])
@pytest.mark.parametrize("spelling", SPELLED)
def test_a_known_value_is_found_in_every_spelling(spelling: str, value: str) -> None:
    """What is left is what stood beside it, and at most the letters that hold bits of that."""
    written = SPELLED[spelling](value)
    left = Secrets([value]).text(f"see {written} and more")
    assert MARK in left
    beside = SPELLED[spelling]("")
    assert len(left.replace(MARK, "")) <= len("see  and more") + len(beside) + 12


def test_a_spelling_is_found_wherever_it_stands() -> None:
    """A long text is looked at here and there only, which leaves no place out."""
    secrets = Secrets([LONG, "another-key-of-this-run"])
    form = base64.b64encode(LONG.encode()).decode().rstrip("=")[:-1]
    for before in range(70):
        assert secrets.text("z" * before + LONG + "z" * 50) == "z" * before + MARK + "z" * 50
        assert form not in secrets.text("." * before + form + "." * (99 - before))


@pytest.mark.parametrize(
    ("name", "value", "hidden"),
    [
        ("WEATHER_KEY", "9f8e7d6c5b4a39281706", True),
        ("OPENAI_API_KEYS", "first-key-0001,second-key-0002", True),
        ("DB_PASS", "hunter-two", True),
        ("CACHE_KEY", "linux-dependencies-cache", False),
        ("SSH_KEY", "/home/me/.ssh/id_rsa_20261122", False),
        ("PWD", "/home/me/projects/evals-2026", False),
        ("MONKEY", "capuchin-and-marmoset", False),
        ("GITHUB_SHA", "9f8e7d6c5b4a392817069f8e7d6c5b4a39281706", False),
    ],
)
def test_which_variables_look_like_keys(name: str, value: str, hidden: bool) -> None:
    """By their names, and where these tell little by their values; paths, words and commits are none."""
    secrets = Secrets()
    secrets.know_environment({name: value})
    for part in value.split(","):
        assert (secrets.text(f"see {part}.") == f"see {MARK}.") is hidden


@pytest.mark.parametrize(
    ("address", "told", "clean"),
    [
        ("http://me:hunt/erpw22@proxy:80", "no proxy: http://me:hunt/erpw22@proxy:80", "no proxy: http://…@proxy:80"),
        ("http://me:hunt#erpw22@proxy", "http://me:hunt#erpw22@proxy/", "http://…@proxy/"),
        ("http://me:hunt?erpw22@proxy", "password hunt?erpw22", "password …"),
        ("http://proxy:8080/feed/of/the@user", "8080/feed/of/the@user", "8080/feed/of/the@user"),
        ("http://[::1]/feed/of/the@user", "1]/feed/of/the@user", "1]/feed/of/the@user"),
    ],
)  # fmt: skip
def test_a_password_within_an_address_is_known(address: str, told: str, clean: str) -> None:
    """Also one that an address cannot hold as it is: whoever tries it tells all of it."""
    secrets = Secrets()
    secrets.know_environment({"HTTP_PROXY": address})
    assert secrets.text(told) == clean.replace("…", MARK)


def test_what_settings_name_as_a_key_is_one_at_any_depth() -> None:
    """A model's params may hold what litellm passes on."""
    secrets = Secrets()
    secrets.know_named(
        {"extra_body": {"api_key": "to-be-passed-on-1"}, "reasoning_effort": "high-and-mighty-2"}
    )
    assert secrets.text("to-be-passed-on-1 high-and-mighty-2") == f"{MARK} high-and-mighty-2"


@example('pa"ss\\wörd\n9', "x")
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=9), st.text(max_size=20))
def test_a_known_value_stands_nowhere_however_it_is_written(value: str, around: str) -> None:
    """As it is, in JSON and in JSON within JSON: what is left is JSON still."""
    secrets = Secrets([f"{value}!7"])
    written = json.dumps({"a": f"{around}{value}!7", f"{value}!7": [around]})
    if not worth_hiding(f"{value}!7"):
        return
    assert f"{value}!7" not in secrets.text(f"{around}{value}!7{around}") or f"{value}!7" in MARK
    assert f"{value}!7" not in json.dumps(json.loads(secrets.text(written)), ensure_ascii=False)
    json.loads(json.loads(secrets.text(json.dumps(written))))


def test_numbers_and_keys_of_maps_are_cleaned_too() -> None:
    """A key of digits may come back as a number: the mark is a text, so that JSON stays JSON."""
    secrets = Secrets(["123456789012"])
    given = {"a": 123456789012, "b": True, "123456789012": [1.5, None, "x 123456789012"]}
    assert secrets.value(given) == {"a": MARK, "b": True, MARK: [1.5, None, f"x {MARK}"]}


def test_a_trial_leaves_the_engine_clean_and_one_without_secrets_as_it_is() -> None:
    """Also the files of its workspace; what cannot hold a secret is the very same object."""
    clean = trial()
    secrets = Secrets(["trumpet-marmalade-42"])
    assert redact_trial(clean, secrets) is clean
    files = {"a.md": FileText("1", 3, "my trumpet-marmalade-42"), "b.md": FileText("2", 3, "b")}
    outcome = Outcome(
        Answer("trumpet-marmalade-42", {"k": ["trumpet-marmalade-42"]}), Tree(files), Tree(files)
    )
    found = redact_trial(replace(clean, outcome=outcome, traceback="in trumpet-marmalade-42"), secrets)
    assert "trumpet" not in repr(found)
    assert found.outcome.after.text("a.md") == f"my {MARK}"
    assert (found.outcome.after.files["b.md"], found.score) == (files["b.md"], clean.score)
    assert pickle.loads(pickle.dumps(found.outcome.answer)) == found.outcome.answer


SECRET, DIGITS = "trumpet-marmalade-42", 123456789012
CLEAN = Tree({"a.md": FileText("1", 1, "a")})
PLACES: dict[str, dict[str, Any]] = {
    "an answer": {"outcome": Outcome(Answer(SECRET))},
    "a state": {"outcome": Outcome(Answer("", {"k": [{"deep": (SECRET,)}]}))},
    "a key": {"outcome": Outcome(Answer("", {SECRET: 1}))},
    "a key of digits": {"outcome": Outcome(Answer("", {DIGITS: 1}))},
    "a key of several parts": {"outcome": Outcome(Answer("", {("a", SECRET): 1}))},
    "a key that is a path": {"outcome": Outcome(Answer("", {PurePath(SECRET): 1}))},
    "a number": {"outcome": Outcome(Answer("", {"n": DIGITS}))},
    "a file before": {"outcome": Outcome(before=Tree({"a.md": FileText("2", 1, SECRET)}), after=CLEAN)},
    "a file after": {"outcome": Outcome(before=CLEAN, after=Tree({"a.md": FileText("3", 1, SECRET)}))},
    "a file's name": {"outcome": Outcome(before=CLEAN, after=Tree({SECRET: FileText("1", 1, "a")}))},
    "a traceback": {"traceback": f"in {SECRET}"},
    "a reason": {"grades": (Grade("g", 1.0, SECRET),)},
    "output": {"output": f"{SECRET}\n"},
}


@pytest.mark.parametrize("place", PLACES)
def test_one_secret_is_seen_wherever_in_a_trial_it_stands(place: str) -> None:
    """A trial without any is looked through once and given as it is: no place may be left out of it."""
    found = redact_trial(trial(**PLACES[place]), Secrets([SECRET, str(DIGITS)]))
    assert MARK in repr(found)
    assert not re.search(f"{SECRET}|{DIGITS}", repr(found))


def test_what_is_learned_later_is_seen_in_texts_that_were_clean_before() -> None:
    """Clean texts are looked at once, but only as long as nothing new is known."""
    secrets = Secrets([LONG])
    text, file = {SECRET: SECRET}, {"a digest": f"holds {DIGITS}"}
    assert secrets.all_clean(text | file)
    secrets.know([SECRET])
    assert not secrets.all_clean(text)
    secrets.know([str(DIGITS)])
    assert not secrets.all_clean(file)
    assert secrets.all_clean({"another digest": "of something else"})


def test_what_was_looked_at_before_a_secret_was_known_is_not_remembered_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A trial's thread may learn of one while pytest's own thread is looking at a text."""
    secrets, looked_for = Secrets([LONG]), Secrets.dirty

    def learning_meanwhile(self: Secrets, text: str) -> bool:
        found = looked_for(self, text)
        secrets.know([SECRET])
        return found

    with monkeypatch.context() as patched:
        patched.setattr(Secrets, "dirty", learning_meanwhile)
        assert secrets.all_clean({SECRET: SECRET})
    assert not secrets.all_clean({SECRET: SECRET})


def test_headers_of_a_model_are_not_recorded() -> None:
    """Any of them may hold a key; their names are kept, and a recording plays whatever their values are."""
    asked = {"model": "m", "settings": {"extra_headers": {"X-Team": "blue-team-7"}, "seed": 1}}
    other = {"model": "m", "settings": {"extra_headers": {"X-Team": "red-team-8"}, "seed": 1}}
    one, two = (Redactor().request(chat_request("agent", "m", 1, 1, said)) for said in (asked, other))
    assert one == two
    assert "blue" not in str(one.body)
    assert "X-Team" in str(one.body)


def test_a_calibration_and_its_page_hold_no_secret(tmp_path: Path) -> None:
    """What judges say of labelled examples is kept as data and as a page."""
    secret = "trumpet-marmalade-42"
    KNOWN_SECRETS.know([secret])
    try:
        store_calibration(tmp_path, {"id": "tone", "v": 1, "said": secret}, f"<p>{secret}</p>")
    finally:
        KNOWN_SECRETS.forget()
    stored_text = "".join(path.read_text(encoding="utf-8") for path in tmp_path.iterdir())
    assert (secret in stored_text, stored_text.count(MARK)) == (False, 2)

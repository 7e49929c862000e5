"""Two trials beside each other: from where they part, difference by difference, for every reader."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.records.evidence import Answer, Check, Grade, Outcome, Tree
from pytest_agenteval.records.transcript import Event, Message, ToolCall, Transcript
from pytest_agenteval.records.trial import Digests, Trial
from tests.extended.browser.sample_reports import HOSTILE, write
from tests.extended.browser.test_looks import AXE, LOOKS
from tests.extended.browser.visit import PHONE, Visit, trial_address
from tests.reports.runs import key, store_run, trial
from tests.store.samples import file

Open = Callable[..., Visit]
STATUS = "document.querySelector('.jumps [role=status]').textContent"
FOCUSED = "document.activeElement.getAttribute('aria-label')"
READY = "document.querySelector('.beside .stop')"


def address(task: str, old: str = "rules", new: str = "gpt") -> str:
    """Give the part of an address that puts two models' trials of a task beside each other."""
    two = [trial_address(f"s/{task}[{model}-1]").removeprefix("#/t/") for model in (old, new)]
    return f"#/b/{'/'.join(two)}"


def call(number: int, tool: str, result: Any, **args: Any) -> ToolCall:
    """Give a call of a turn."""
    return ToolCall(f"c{number}", number, 0, tool, args, result=result, ended=0.1 * number)


def transcript(*messages: Message) -> Transcript:
    """Give a transcript with all calls of its messages."""
    events = tuple(Event(at / 10, "prompt_read", f"part {at}") for at in range(11))
    return Transcript(messages, tuple(each for message in messages for each in message.calls), events=events)


ASKED = (Message("system", "Be kind. " * 300), Message("user", "환불해 주세요."))
LOG = "".join(f"line {at}: nothing of note\n" for at in range(80))
FIND = [
    call(1, "find_order", {"state": state}, query=query, limit=5)
    for state, query in (("sent", "order of Mina"), ("lost", "orders of Mina"))
]
READ, SAVE = call(1, "read", "nothing", path="/notes.md"), call(2, "save", "ok", path="/notes.md")


def asked(word: str, *calls: ToolCall) -> Transcript:
    """Give a conversation in Korean and Japanese, of which a word is another."""
    return transcript(
        *ASKED,
        Message("assistant", "I look.", calls, turn=1),
        Message("assistant", "", (SAVE,), turn=2),
        Message("assistant", f"{LOG}환불이 {word}되었습니다.", turn=3),
        Message("assistant", "さようなら。", turn=4),
    )


OLD, NEW = asked("완료", FIND[0]), asked("접수", READ, FIND[1])
BEFORE = Tree({"a.md": file("# Notes\n- tea\n"), "b.md": file("b\n")})


def sides(task: str, transcripts: Sequence[Transcript], **fields: Any) -> list[Trial]:
    """Give the trials of two models, the first of which passed."""
    trials = []
    for at, said in enumerate(transcripts):
        passed = at == 0
        checks = (
            Check("answer contains '접수'", passed, "'접수'", "'환불'"),
            Check("it is short", True, "", "9 words"),
        )
        after = Tree(
            {"a.md": file(f"# Notes\n- {'green' if passed else 'black'} tea\n"), "b.md": file("B\n")}
        )
        own: dict[str, Any] = {
            "grades": (Grade("says", 1.0 if passed else 0.5, "", checks), Grade("kept", 1.0, "fine")),
            "outcome": Outcome(Answer("", {"saved": at}), BEFORE, after),
            "digests": Digests(prompt=f"p{at}", model=f"m{at}"),
            "key": key(task, model=("rules", "gpt")[at]),
        }
        trials.append(trial(task, 1, 1.0 if passed else 0.5, transcript=said, **{**own, **fields}))
    return trials


@pytest.fixture(scope="module")
def parted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two models: trials that part, that are the same, that try to act, and long ones."""
    folder = tmp_path_factory.mktemp("parted")
    hostile = [
        transcript(
            Message("user", f"{HOSTILE} {word} {HOSTILE}"),
            Message("assistant", "", (call(1, HOSTILE, {HOSTILE: word}, **{HOSTILE: f"{word} {HOSTILE}"}),)),
            Message("assistant", f"{word}{HOSTILE}", (call(2, f"{HOSTILE}{word}", HOSTILE),), turn=2),
        )
        for word in ("one", "two")
    ]  # fmt: skip
    many = [
        transcript(*(Message("assistant", f"{word} {at}", turn=at) for at in range(1, 161)))
        for word in ("one", "two")
    ]
    equal = [
        trial("same", 1, 1.0, transcript=OLD, key=key("same", model=model)) for model in ("rules", "gpt")
    ]
    grades = (Grade(HOSTILE, 0.0, HOSTILE, (Check(HOSTILE, False, HOSTILE, HOSTILE),)),)
    runs = [
        *sides("refund", (OLD, NEW)),
        *sides("many", many),
        *equal,
        *sides("hostile", hostile, grades=grades),
    ]
    return write(folder, store_run(folder / "runs", runs))


def test_it_begins_where_the_trials_part(visit: Open, parted: Path) -> None:
    """In the first screen: what flipped, then the first step that differs; what is the same is a line."""
    seen = visit(parted, address("refund"))
    seen.until(READY)

    heads = seen.get("[...document.querySelectorAll('.part > h2')].map(each => each.firstChild.textContent)")
    assert heads == ["Grades", "Conversation", "End state", "Workspace", "Events"]
    top = seen.get("document.querySelector('.stop.row').getBoundingClientRect().top")
    assert top < seen.get("innerHeight") * 0.75
    assert "differs: prompt, model" in seen.page.locator(".made").inner_text()
    assert seen.page.locator(".flips .claim").inner_text().split() == [
        "✓",
        "→",
        "✕",
        "answer",
        "contains",
        "'접수'",
    ]
    same = seen.page.locator("#conversation > .same > summary")
    assert same.all_text_contents() == ["3 messages the same", "1 call the same", "1 message the same"]
    assert seen.page.locator(".parting").inner_text() == "first difference: turn 1"
    same.first.click()
    seen.until("document.querySelectorAll('#conversation .same .message').length === 3")
    assert seen.page.locator(".event-line").inner_text() == "11 prompt read as before"


def test_words_are_marked_on_their_own_sides(visit: Open, parted: Path) -> None:
    """In answers, arguments, results and files; the middle of a long text is left out, and can be opened."""
    seen = visit(parted, address("refund"))
    seen.until(READY)

    assert seen.get("[...document.querySelectorAll('.words.old del')].map(each => each.textContent)") == [
        "order", "sent", "완료", "0", "green",
    ]  # fmt: skip
    assert seen.get("[...document.querySelectorAll('.words.new ins')].map(each => each.textContent)") == [
        "orders", "lost", "접수", "1", "black",
    ]  # fmt: skip
    assert seen.count(".words.old ins, .words.new del") == 0
    assert seen.page.get_by_text("limit 5: the same").is_visible()
    assert seen.page.locator(".one.none").inner_text() == "no such step"
    left_out = seen.page.locator(".words.new .left-out button")
    assert "lines the same" in (left_out.text_content() or "")
    left_out.click()
    texts = seen.get("[...document.querySelectorAll('.words.new')].map(each => each.textContent)")
    assert f"{LOG}환불이 접수되었습니다." in texts


def test_keys_and_buttons_walk_through_the_differences(visit: Open, parted: Path) -> None:
    """Each has the focus in turn, in sight below the bar, and is announced; the ends stay ends."""
    seen = visit(parted, address("refund"))
    seen.until(READY)
    assert seen.get(STATUS) == "6 differences"
    names = []
    for number in range(1, 7):
        seen.press("n")
        assert seen.get(STATUS) == f"{number} of 6"
        names.append(seen.get(FOCUSED))
        assert 0 <= seen.get("document.activeElement.getBoundingClientRect().top") < seen.get("innerHeight")
    assert names == [
        "Difference 1 of 6: says, 1.00 to 0.50",
        "Difference 2 of 6: read, turn 1",
        "Difference 3 of 6: find_order, turn 1",
        "Difference 4 of 6: assistant, turn 3",
        "Difference 5 of 6: the end state",
        "Difference 6 of 6: the file a.md",
    ]
    seen.press("n")
    assert seen.get(FOCUSED) == names[-1]
    seen.press("p", "p")
    assert seen.get(FOCUSED) == names[3]
    seen.page.get_by_role("button", name="Next difference").click()
    assert seen.get(FOCUSED) == names[4]
    seen.page.get_by_role("button", name="Previous difference").press("Enter")
    assert seen.get(FOCUSED) == names[3]
    seen.press("?")
    assert "next, previous difference" in seen.page.locator("#keys").inner_text()


def test_a_walk_begins_at_what_is_in_sight(visit: Open, parted: Path) -> None:
    """Whoever has scrolled goes on from there, also past what is drawn so far."""
    seen = visit(parted, address("many"))
    seen.until(READY)
    seen.until("document.querySelectorAll('#conversation .stop').length >= 60")
    assert seen.page.get_by_role("button", name="Show 100 more steps that differ").count() == 1
    seen.get("void document.querySelector('[data-stop=\"40\"]').scrollIntoView()")
    seen.press("n")
    assert int(seen.get("document.activeElement.dataset.stop")) in (40, 41)
    seen.page.get_by_role("button", name="more steps").click()
    seen.until("document.querySelectorAll('#conversation .stop').length >= 120")
    seen.get("void document.activeElement.blur()")
    for _ in range(130):
        seen.press("n")
    assert int(seen.get("document.activeElement.dataset.stop")) > 130


def test_equal_trials_have_no_difference(visit: Open, parted: Path) -> None:
    """It says so, the buttons are off, and a key does nothing."""
    seen = visit(parted, address("same"))
    seen.until("document.querySelector('.beside .made')")
    assert seen.get(STATUS) == "0 differences"
    assert seen.page.get_by_role("button", name="Next difference").is_disabled()
    seen.press("n", "p")
    assert seen.page.locator("#conversation > .same > summary").inner_text() == "5 messages, 2 calls the same"


def test_texts_that_try_to_act_are_texts(visit: Open, parted: Path) -> None:
    """In claims, tools, arguments, results and words that differ: each is seen as it is stored."""
    seen = visit(parted, address("hostile"))
    seen.until(READY)
    seen.get("for (const fold of document.querySelectorAll('details')) fold.open = true")
    for _ in range(8):
        seen.press("n")
    assert seen.get("window.PWNED === undefined")
    assert seen.count(".beside script, .beside img, .beside a[href^=javascript]") == 0
    marked = seen.get("[...document.querySelectorAll('.beside del')].map(each => each.textContent)")
    assert "one" in marked
    assert "\u202e" not in seen.get("document.querySelector('.beside').textContent")


def test_on_a_phone_both_share_a_column(visit: Open, parted: Path) -> None:
    """Words of both stand in one text, and what one side alone has says whose it is."""
    seen = visit(parted, address("refund"), viewport=PHONE)
    seen.until(READY)
    seen.get("for (const fold of document.querySelectorAll('details')) fold.open = true")
    assert seen.get("document.scrollingElement.scrollWidth") <= PHONE["width"]
    query = seen.page.locator(".words.both").first
    assert query.text_content() == "orderorders of Mina"
    assert [query.locator(tag).text_content() for tag in ("del", "ins")] == ["order", "orders"]
    assert seen.page.locator(".one .only").first.is_visible()


@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_no_serious_fault(visit: Open, parted: Path, look: str) -> None:
    """Contrast of marked words, names, roles and headings hold in every look."""
    seen = visit(parted, address("refund"), **LOOKS[look])
    seen.until(READY)
    seen.get("for (const fold of document.querySelectorAll('details')) fold.open = true")
    seen.get(AXE.read_text(encoding="utf-8"))
    faults = seen.get("axe.run().then(result => result.violations)")
    assert [
        (each["id"], each["nodes"][0]["html"]) for each in faults if each["impact"] in ("serious", "critical")
    ] == []


def test_paper_has_all_of_both(visit: Open, parted: Path) -> None:
    """What is folded, left out or not drawn yet is printed."""
    seen = visit(parted, address("many"))
    seen.until(READY)
    seen.get("void dispatchEvent(new Event('beforeprint'))")
    assert seen.count("#conversation .stop") == 160
    seen.get("void dispatchEvent(new Event('afterprint'))")
    seen.go(address("refund"))
    seen.until("document.querySelector('.parting')")
    seen.get("void dispatchEvent(new Event('beforeprint'))")
    assert seen.count(".left-out") == 0
    assert seen.count("#conversation .same .message") >= 4


WORDS, MESSAGES, LENGTH = 4000, 200, 25_000


def test_long_trials_stand_beside_each_other_at_once(visit: Open, tmp_path: Path) -> None:
    """200 messages of 25 kB of which each differs, and 200 of which the last does."""
    import random

    chance = random.Random(33)
    words = ["".join(chance.choices("abcdefghijklmnop", k=chance.randint(2, 9))) for _ in range(WORDS)]
    said = [" ".join(chance.choices(words, k=LENGTH // 6)) for _ in range(MESSAGES)]
    changed = [" ".join([*text.split(" ")[:2000], "CHANGED", *text.split(" ")[2003:]]) for text in said]
    trials = {
        "each": (said, changed),
        "last": (said, [*said[:-1], changed[-1]]),
    }
    runs = [
        each
        for task, both in trials.items()
        for each in sides(task, [transcript(*(Message("user", text) for text in texts)) for texts in both])
    ]
    seen = visit(write(tmp_path, store_run(tmp_path / "runs", runs)))
    for task in trials:
        seen.open_trial(f"s/{task}[rules-1]")
        seen.open_trial(f"s/{task}[gpt-1]")
        drawn = seen.get(
            f"""new Promise((done) => {{
                const started = performance.now();
                location.hash = {address(task)!r};
                const look = () => {READY} ? done(performance.now() - started) : setTimeout(look, 1);
                look();
            }})"""
        )
        print(f"\n{task} of {MESSAGES} messages differs: beside each other in {drawn / 1000:.2f} s")
        assert drawn < 3000
        begun = time.monotonic()
        seen.press("n", "n", "n")
        assert time.monotonic() - begun < 10

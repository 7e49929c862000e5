"""Feedback within its budget of tokens: the worst bucket gets most of it, and what is cut is listed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby

from msgspec.structs import replace

from pytest_agenteval.loop.feedback.content import (
    BucketFeedback,
    BucketLine,
    Cut,
    EarlierRound,
    Feedback,
    Section,
    SectionKind,
    TrialFeedback,
    feedback_markdown,
)
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import pluralize

# ASCII characters for each token, as offline models count too.
ASCII_CHARACTERS = 4

_ALPHABETS = re.compile("[\x80-\u0dff\u10a0-\u10ff\u1e00-\u2e7f]")
_WIDE = re.compile("[\u0e00-\u109f\u1100-\u1dff\u2e80-\uffff]")
_RARE = re.compile("[\U00010000-\U0010ffff]")

# Tokens of a character that is not ASCII: half a token for a letter of other alphabets (accents, Greek,
# Cyrillic, Arabic, Devanagari) and for signs, one for a character of Chinese, Japanese, Korean, Thai or
# Ethiopic, two for others, such as emoji. Today's tokenizers need fewer for all of them.
TOKENS_OF_CHARACTERS = ((_ALPHABETS, 0.5), (_WIDE, 1.0), (_RARE, 2.0))

# With fewer tokens than this, a bucket is shown by its figures alone, and a trial or a line is left out.
LEAST_BUCKET, LEAST_TRIAL, LEAST_LINE = 450, 220, 10

# Tokens of the surroundings: of a title, and of the mark before each line.
TITLE, LINE = 6, 2

# The share of a shortened input that is taken from its end.
END_SHARE = 0.7

GAP = "(…)"

# How many graders of a bucket, and of all buckets, Markdown names.
MOST_GRADERS = 6

SECTION_WEIGHTS: dict[SectionKind, float] = {
    "checks": 4, "input": 4, "calls": 3, "reasons": 2, "reference": 2, "files": 2, "answer": 1.5,
}  # fmt: skip
TRIAL_WEIGHTS = (4.0, 2.0, 1.5)
PASSING_WEIGHT = 1.5

# This many repeated lines in a row are not shown again.
REPEATED_LINES = 4

# All sequences of ``REPEATED_LINES`` lines that a suite's inputs contained so far.
LineWindows = set[tuple[str, ...]]

# With fewer tokens for buckets than this, there is no feedback.
LEAST_ROOM = 250

# For each of this many tokens of the budget, one more bucket is named.
TOKENS_OF_A_NAME = 120

LEAST_NAMES = 5
TOKENS_OF_A_GRADER, LEAST_GRADERS = 700, 2
# The shares of buckets, guide and earlier rounds in the rest of the budget.
PART_WEIGHTS = (10.0, 2.0, 2.0)

# How many steps a bisection of the remaining room takes.
BISECTIONS = 7


def estimate_tokens(text: str) -> int:
    """Give about how many tokens a text is: a quarter for each ASCII character, more for others."""
    return math.ceil(_exact_tokens(text))


def _exact_tokens(text: str) -> float:
    if text.isascii():
        return len(text) / ASCII_CHARACTERS
    others = [(len(pattern.findall(text)), weight) for pattern, weight in TOKENS_OF_CHARACTERS]
    plain = len(text) - sum(number for number, _ in others)
    return plain / ASCII_CHARACTERS + sum(number * weight for number, weight in others)


def cut_to_tokens(text: str, most: float) -> str:
    """Give a text's beginning of at most so many tokens, with ``…`` where it was cut."""
    if _exact_tokens(text) <= most:
        return text
    ends = accumulate(map(_exact_tokens, text))
    # Half a token is for the ellipsis.
    fits = sum(1 for end in ends if end <= most - 0.5)
    return text[:fits] + "…" if fits else ""


def weighted_shares(needs: Sequence[float], weights: Sequence[float], total: float) -> list[float]:
    """Divide a total by weight; nobody gets more than he needs, and the others share what he leaves."""
    given = [0.0] * len(needs)
    waiting = set(range(len(needs)))
    while waiting:
        unit = max(0.0, total) / sum(weights[at] for at in waiting)
        # Whoever needs less than his share gets all he needs, and the rest is divided anew.
        content = {at for at in waiting if needs[at] <= weights[at] * unit}
        for at in content or waiting:
            given[at] = needs[at] if content else weights[at] * unit
            total -= given[at]
        waiting -= content or set(waiting)
    return given


def _fit_lines(lines: Sequence[str], tokens: float) -> tuple[str, ...]:
    fitting: list[str] = []
    for line in lines:
        cost = estimate_tokens(line) + LINE
        if cost > tokens:
            # The last line may be cut, unless only a few words of it would fit.
            if tokens >= LEAST_LINE:
                fitting.append(cut_to_tokens(line, tokens - LINE))
            break
        fitting.append(line)
        tokens -= cost
    return tuple(fitting)


def fit_ends(lines: Sequence[str], tokens: float) -> tuple[str, ...]:
    """Give the first and the last lines that so many tokens hold: the question often stands at the end."""
    if lines_cost(lines) <= tokens or len(lines) < 2:
        return _fit_lines(lines, tokens)
    # From the end backwards, so that the last lines are the ones that fit.
    last = _fit_lines(lines[::-1], tokens * END_SHARE)[::-1]
    first = _fit_lines(lines[: len(lines) - len(last)], tokens - lines_cost(last) - LINE - len(GAP) / 4)
    return (*first, GAP, *last) if len(first) + len(last) < len(lines) else (*first, *last)


def lines_cost(lines: Sequence[str]) -> float:
    """Give the tokens of lines, with the marks before them."""
    return sum(estimate_tokens(line) + LINE for line in lines)


def _section_cost(section: Section) -> float:
    return TITLE + lines_cost(section.lines)


def _trial_head(trial: TrialFeedback) -> float:
    wrong = trial.first_wrong.text if trial.first_wrong else ""
    return estimate_tokens("".join((trial.name, trial.task, wrong, *trial.prompts_read))) + 8 * TITLE


def _trial_cost(trial: TrialFeedback) -> float:
    return _trial_head(trial) + sum(map(_section_cost, trial.sections))


def _fit_trial(trial: TrialFeedback, tokens: float) -> TrialFeedback:
    needs = [_section_cost(section) for section in trial.sections]
    weights = [SECTION_WEIGHTS[section.kind] for section in trial.sections]
    parts = weighted_shares(needs, weights, tokens - _trial_head(trial))
    return replace(trial, sections=tuple(map(_fit_section, trial.sections, parts)))


def _fit_section(section: Section, tokens: float) -> Section:
    fit = fit_ends if section.kind == "input" else _fit_lines
    lines = fit(section.lines, tokens - TITLE)
    # The gap is a line of ours, and none of the section.
    left_out = section.left_out + len(section.lines) - len([line for line in lines if line != GAP])
    return replace(section, lines=lines, left_out=left_out)


def _bucket_head(bucket: BucketFeedback) -> float:
    asks = "".join(f"{grader.grader}{grader.asks}" for grader in bucket.graders[:MOST_GRADERS])
    texts = bucket.suite + bucket.bucket + bucket.rule + bucket.descriptions + asks
    return estimate_tokens(texts) + 4 * TITLE + 12 * min(MOST_GRADERS, len(bucket.graders))


def bucket_cost(bucket: BucketFeedback) -> float:
    return _bucket_head(bucket) + sum(map(_trial_cost, _all_trials(bucket)))


def _all_trials(bucket: BucketFeedback) -> list[TrialFeedback]:
    return [*bucket.failing, *([bucket.passing] if bucket.passing else [])]


def _fit_bucket(bucket: BucketFeedback, tokens: float) -> BucketFeedback:
    """Give a bucket with as many trials as the tokens hold: one failing, one passing, then more."""
    room = tokens - _bucket_head(bucket)
    while True:
        trials = _all_trials(bucket)
        weights = [*TRIAL_WEIGHTS, *[1.0] * len(trials)][: len(bucket.failing)]
        weights += [PASSING_WEIGHT] if bucket.passing else []
        needs = [_trial_cost(trial) for trial in trials]
        parts = weighted_shares(needs, weights, room)
        least = [
            min(need, max(LEAST_TRIAL, _trial_head(trial) + LEAST_TRIAL / 2))
            for need, trial in zip(needs, trials, strict=True)
        ]
        # Fewer trials that say something are better than all of them in a line each.
        if len(trials) == 1 or all(part >= low for part, low in zip(parts, least, strict=True)):
            break
        if len(bucket.failing) > 1:
            bucket = replace(bucket, failing=bucket.failing[:-1], more=bucket.more + 1)
        else:
            bucket = replace(bucket, passing=None)
    fitted = [_fit_trial(trial, part) for trial, part in zip(trials, parts, strict=True)]
    count = len(bucket.failing)
    return replace(bucket, failing=tuple(fitted[:count]), passing=fitted[count] if bucket.passing else None)


def fit_buckets(buckets: Sequence[BucketFeedback], tokens: float) -> list[BucketFeedback]:
    """Give as many of the worst buckets as so many tokens hold, each with what its place in the order gives.

    The weight of a place is one through its number: the worst gets twice what the second gets, where it needs
    as much.
    """
    needs = [bucket_cost(bucket) for bucket in buckets]
    for many in range(len(buckets), 0, -1):
        parts = weighted_shares(needs[:many], [1 / place for place in range(1, many + 1)], tokens)
        # Rather fewer buckets that say something than all of them in a line each.
        if many == 1 or all(
            part >= min(need, LEAST_BUCKET + _bucket_head(bucket))
            for part, need, bucket in zip(parts, needs, buckets, strict=False)
        ):
            return [_fit_bucket(bucket, part) for bucket, part in zip(buckets, parts, strict=False)]
    return []


def _fit_rounds(rounds: Sequence[EarlierRound], tokens: float) -> list[EarlierRound]:
    # The newest rounds get most: what was tried last is what must not be tried again.
    newest = rounds[::-1]
    needs, heads = [_rounds_cost([each]) for each in newest], list(map(_round_head, newest))
    for many in range(len(newest), 0, -1):
        parts = weighted_shares(needs[:many], [1 / place for place in range(1, many + 1)], tokens)
        # A round is shown with its decision or not at all; old rounds go first.
        if all(part >= min(need, head) for part, need, head in zip(parts, needs, heads, strict=False)):
            fitted = []
            for each, part, head in zip(newest, parts, heads, strict=False):
                fitted.append(replace(each, diff="\n".join(_fit_lines(each.diff.splitlines(), part - head))))
            return fitted[::-1]
    return []


def _round_head(each: EarlierRound) -> float:
    return estimate_tokens(each.summary + each.decision + each.sentence) + 4 * TITLE


def _rounds_cost(rounds: Sequence[EarlierRound]) -> float:
    return sum(_round_head(each) + lines_cost(each.diff.splitlines()) for each in rounds)


def bucket_cuts(before: Sequence[BucketFeedback], after: Sequence[BucketFeedback]) -> Iterator[Cut]:
    for whole, part in zip(before, after, strict=False):
        fewer = len(whole.failing) - len(part.failing)
        lost = [pluralize(fewer, "failing trial")] if fewer else []
        if whole.passing and not part.passing:
            lost.append("the trial that passed")
        lost += _lost_lines(whole, part)
        if lost:
            tokens = bucket_cost(whole) - bucket_cost(part)
            yield Cut(f"{part.suite}/{part.bucket}", "; ".join(lost), max(1, round(tokens)))
    # Buckets stand worst first, so those that did not fit are the last ones.
    rest = before[len(after) :]
    if rest:
        what = f"all but figures of {pluralize(len(rest), 'bucket')}"
        yield Cut("buckets that are less bad", what, round(sum(map(bucket_cost, rest))))


def _lost_lines(whole: BucketFeedback, part: BucketFeedback) -> Iterator[str]:
    wholes = {trial.name: trial for trial in _all_trials(whole)}
    for trial in _all_trials(part):
        lost = [
            f"{after.left_out - before.left_out} of {after.kind}"
            for before, after in zip(wholes[trial.name].sections, trial.sections, strict=True)
            if after.left_out > before.left_out
        ]
        if lost:
            yield f"lines of {trial.name}: {', '.join(lost)}"


def without_repeats(buckets: Sequence[BucketFeedback]) -> tuple[BucketFeedback, ...]:
    """Replace lines that an earlier input of the suite has, in the same order, by their number."""
    seen: dict[str, LineWindows] = {bucket.suite: set() for bucket in buckets}
    shortened = []
    for bucket in buckets:
        failing = tuple(_shortened_trial(trial, seen[bucket.suite]) for trial in bucket.failing)
        passing = _shortened_trial(bucket.passing, seen[bucket.suite]) if bucket.passing else None
        shortened.append(replace(bucket, failing=failing, passing=passing))
    return tuple(shortened)


def _shortened_trial(trial: TrialFeedback, seen: LineWindows) -> TrialFeedback:
    sections = []
    for section in trial.sections:
        if section.kind == "input":
            lines = tuple(_marked_lines(section.lines, seen))
            # The lines as they were, so that a third input finds what the second repeated.
            seen.update(_line_windows(section.lines))
            section = replace(section, lines=lines)
        sections.append(section)
    return replace(trial, sections=tuple(sections))


def _line_windows(lines: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(lines[at : at + REPEATED_LINES]) for at in range(len(lines) - REPEATED_LINES + 1)]


def _marked_lines(lines: Sequence[str], seen: LineWindows) -> Iterator[str]:
    starts = [at for at, window in enumerate(_line_windows(lines)) if window in seen]
    repeated = {at + step for at in starts for step in range(REPEATED_LINES)}
    for is_repeated, group in groupby(range(len(lines)), repeated.__contains__):
        places = list(group)
        if is_repeated:
            yield f"(… {pluralize(len(places), 'line')} as in an input above)"
        else:
            yield from (lines[at] for at in places)


def fit_to_budget(whole: Feedback) -> Feedback:
    """Cut feedback until its Markdown fits the budget; raises UsageMistake where nothing would remain."""
    least = min(LEAST_ROOM, sum(map(bucket_cost, whole.buckets)))
    low, high = least, 1.5 * whole.budget
    best = _cut_to(whole, low)
    if _markdown_tokens(best) > whole.budget:
        enough = whole.budget
        # The lists of names grow with the budget, so a larger one may again be too small.
        while (size := _markdown_tokens(_cut_to(replace(whole, budget=enough), least))) > enough:
            enough = 50 * math.ceil(size / 50)
        raise UsageMistake(f"--budget {whole.budget}: too small to say anything; {enough:,} tokens would do")
    # The tokens of the Markdown are known only when it is made, so the room is found by halving.
    for _ in range(BISECTIONS):
        cut = _cut_to(whole, (low + high) / 2)
        if _markdown_tokens(cut) <= whole.budget:
            best, low = cut, (low + high) / 2
        else:
            high = (low + high) / 2
    return best


def _markdown_tokens(feedback: Feedback) -> int:
    return estimate_tokens(feedback_markdown(feedback))


def _cut_to(whole: Feedback, room: float) -> Feedback:
    """Give feedback whose buckets, guide and earlier rounds take about ``room`` tokens."""
    guide = whole.guide.splitlines()
    needs = (sum(map(bucket_cost, whole.buckets)), lines_cost(guide), _rounds_cost(whole.earlier_rounds))
    for_buckets, for_guide, for_rounds = weighted_shares(needs, PART_WEIGHTS, room)
    buckets = fit_buckets(whole.buckets, for_buckets)
    rounds = _fit_rounds(whole.earlier_rounds, for_rounds)
    short_guide = _fit_lines(guide, for_guide)
    names = max(LEAST_NAMES, whole.budget // TOKENS_OF_A_NAME)
    in_brief = [
        BucketLine(bucket.suite, bucket.bucket, bucket.score, bucket.passed, bucket.trials)
        for bucket in whole.buckets[len(buckets) :]
    ]
    cut = replace(
        whole,
        buckets=tuple(buckets),
        in_brief=tuple(in_brief[:names]),
        passed=whole.passed[:names],
        graders=whole.graders[: max(LEAST_GRADERS, whole.budget // TOKENS_OF_A_GRADER)],
        prompts=whole.prompts[: max(LEAST_NAMES, whole.budget // TOKENS_OF_A_NAME)],
        earlier_rounds=tuple(rounds),
        guide="\n".join(short_guide).strip(),
    )
    return replace(cut, cuts=tuple(_all_cuts(whole, cut)))


def _all_cuts(whole: Feedback, cut: Feedback) -> Iterator[Cut]:
    yield from bucket_cuts(whole.buckets, cut.buckets)
    unnamed = len(whole.buckets) - len(cut.buckets) - len(cut.in_brief)
    if unnamed:
        yield Cut("buckets that are less bad", f"names of {unnamed}")
    if fewer := len(whole.passed) - len(cut.passed):
        yield Cut("buckets that passed", f"names of {fewer}")
    if fewer := len(whole.prompts) - len(cut.prompts):
        yield Cut("prompts", f"{fewer} of {len(whole.prompts)}")
    if fewer := len(whole.graders) - len(cut.graders):
        yield Cut("graders", f"{fewer} of {len(whole.graders)}")
    if lost := _rounds_cost(whole.earlier_rounds) - _rounds_cost(cut.earlier_rounds):
        gone = len(whole.earlier_rounds) - len(cut.earlier_rounds)
        rounds = f"{gone} of {len(whole.earlier_rounds)} rounds, and " if gone else ""
        yield Cut("earlier rounds", f"{rounds}lines of diffs", round(lost))
    if whole.guide != cut.guide:
        lines = len(whole.guide.splitlines()) - len(cut.guide.splitlines())
        tokens = estimate_tokens(whole.guide) - estimate_tokens(cut.guide)
        yield Cut("guide", f"{lines} lines at its end", tokens)

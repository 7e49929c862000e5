"""What chance does: the change that a comparison could have seen, and how a run scores that changed nothing.

The differences of tasks vary for two reasons: an agent does not do the same twice, and a change moves tasks
by different amounts. Repetitions average out the first and never the second: ``error(r)^2 = (V + 2 W / r) /
n`` over n tasks with r repetitions on both sides, W the variance between trials of a task, V the variance of
the tasks' true changes.

A run in which nothing changed is the same agent on the same tasks, tried anew. Its mean differs from the
stored one for two reasons: its own trials scatter, and the stored mean is an estimate too. Both need the
scatter of a task's trials, so that most tasks need 2 stored trials or more; else the answer is None.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean as mean

from pytest_agenteval.compare.scoring.aggregates import pass_hat_k
from pytest_agenteval.compare.scoring.exact_tests import PairedScores, common_denominator
from pytest_agenteval.compare.scoring.intervals import NORMAL, beta_cdf, log_beta, t_quantile
from pytest_agenteval.records.evidence import ROUNDING
from pytest_agenteval.records.record import FrozenValue

POWER = 0.80
# From this many tasks on, the change that ``smallest_visible_change`` names is detected about as often as it
# says. Of 7 tasks all would have to rise, which happens 6 times of 10; with 9 it is 7.6 times, with 12 and
# more 8 times.
FEWEST_FOR_POWER = 10

# Beyond this many repetitions, more tasks are the cheaper way to detect more.
MOST_REPETITIONS = 50


class DifferenceNoise(FrozenValue, frozen=True):
    """Where the spread of task differences comes from.

    ``variance`` is that of the differences: as they are, or as exchanged labels make them, whichever is more,
    for a verdict has to pass both tests. ``trial_variance`` (W) is that of single trials of one task, over
    both sides. ``trial_share`` is how much of ``variance`` the repetitions there are leave to chance, 0..1.
    Both are None where no task has two trials on a side: then nobody knows.
    """

    variance: float
    trial_variance: float | None
    trial_share: float | None


def difference_noise(tasks: Sequence[PairedScores]) -> DifferenceNoise:
    """Split the spread of task differences, new mean less old, into trial-to-trial noise and the rest."""
    differences = [mean(new) - mean(old) for old, new in tasks]
    # The variance of each task's difference over all ways to hand out its labels.
    of_labels = [_label_variance(old, new) for old, new in tasks]
    variance = max(sample_variance(differences) or 0.0, mean(of_labels))
    within = trial_variance(tasks)
    if within is None:
        return DifferenceNoise(variance, None, None)
    by_chance = mean([_squared_error(old, within) + _squared_error(new, within) for old, new in tasks])
    share = min(1.0, by_chance / variance) if variance else 1.0
    return DifferenceNoise(variance, within, share)


def _label_variance(old: Sequence[float], new: Sequence[float]) -> float:
    return (sample_variance([*old, *new]) or 0.0) * (1 / len(old) + 1 / len(new))


def _squared_error(scores: Sequence[float], variance: float) -> float:
    """Give the squared error of a side's mean, by the variance of its own trials if it has several."""
    # Noisy tasks may have been repeated more often: the mean variance would be too low for them.
    own = sample_variance(scores)
    return (variance if own is None else own) / len(scores)


def trial_variance(tasks: Iterable[PairedScores]) -> float | None:
    """Give the mean variance between trials of one task on one side; None where no side has two trials."""
    spreads = [sample_variance(side) or 0.0 for pair in tasks for side in pair if len(side) > 1]
    return mean(spreads) if spreads else None


def smallest_visible_change(variance: float, tasks: int, level: float) -> float:
    """Give the change of the mean that would be significant 4 times of 5, were it true (the MDE).

    ``variance`` is that of the task differences: (t + z) * sqrt(variance / tasks), t Student's two-sided
    quantile of ``level`` with tasks - 1 degrees of freedom, z the normal quantile of 0.80.
    """
    return _reach(tasks, level) * math.sqrt(variance / tasks)


class RepetitionsNeeded(FrozenValue, frozen=True):
    """How a change of a given size would be seen 4 times of 5.

    By ``repetitions`` of the same tasks; by so many ``tasks`` where no number of repetitions suffices (None).
    """

    repetitions: int | None
    tasks: int


def repetitions_needed(
    noise: DifferenceNoise, tasks: int, change: float, level: float
) -> RepetitionsNeeded | None:
    """Say how many repetitions on both sides would show a ``change``; None where noise is not known."""
    if noise.trial_variance is None or noise.trial_share is None:
        return None
    between = max(0.0, noise.variance * (1 - noise.trial_share))
    largest_error = change / _reach(tasks, level)
    # largest_error^2 * tasks = V + 2 W / r, solved for r
    left = largest_error**2 * tasks - between
    more_tasks = math.ceil(tasks * (smallest_visible_change(noise.variance, tasks, level) / change) ** 2)
    if left <= 0 or 2 * noise.trial_variance / left > MOST_REPETITIONS:
        return RepetitionsNeeded(None, more_tasks)
    return RepetitionsNeeded(max(1, math.ceil(2 * noise.trial_variance / left)), more_tasks)


def sample_variance(values: Sequence[float]) -> float | None:
    """Give the unbiased variance, None of fewer than two values."""
    if len(values) < 2:
        return None
    middle = mean(values)
    return math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1)


def _reach(tasks: int, level: float) -> float:
    return t_quantile((1 + level) / 2, tasks - 1) + NORMAL.inv_cdf(POWER)


# Up to this many trials all cases are summed. For more, a beta distribution is as good.
MOST_UNITS = 1_000

# The largest common denominator of scores with which means lie on steps. Means of other scores lie anywhere.
FINEST = 100


class NullMean(FrozenValue, frozen=True):
    """The mean of a run in which nothing changed, as a distribution.

    It scatters like the mean of ``units`` trials that pass or miss at one rate, which is a beta variable of
    the shapes ``passes`` and ``misses``: beta-binomial (Skellam 1948), with Jeffreys' prior of half a pass
    and half a miss. The mean can only be a multiple of 1 / ``steps``.
    """

    units: int
    passes: float
    misses: float
    steps: int

    def chance_below(self, floor: float) -> float:
        """Give the chance that the mean is less than ``floor``, 0..1."""
        least = math.ceil(floor * self.steps - ROUNDING)
        if least <= 0:
            return 0.0
        # Halfway between the highest mean that is below and the lowest that is not.
        between = (min(least, self.steps) - 0.5) / self.steps
        if self.units > MOST_UNITS:
            known = self.passes + self.misses
            # By the beta distribution of the same mean and variance: over m (1 - m), the variance of a beta
            # variable is 1 / (k + 1), and the beta-binomial's is on the right.
            k = 1 / (1 / self.units + (1 - 1 / self.units) / (known + 1)) - 1
            share = self.passes / known
            return beta_cdf(between, share * k, (1 - share) * k)
        at = between * self.units - 0.5
        whole = math.floor(at)
        # Between two numbers of passes the chance is taken as linear.
        below = (at - whole) * self._chance_of(whole + 1)
        for passed in range(whole, -1, -1):
            chance = self._chance_of(passed)
            below += chance
            # What is left would not change the sum.
            if chance < 1e-12 * below:
                break
        return min(1.0, below)

    def highest_floor(self, share: float = 0.01) -> float:
        """Give the highest floor of 2 digits that at most this share of runs falls below."""
        low, high = 0, 100
        while low < high:
            middle = (low + high + 1) // 2
            if self.chance_below(middle / 100) <= share:
                low = middle
            else:
                high = middle - 1
        return low / 100

    def _chance_of(self, passed: int) -> float:
        missed = self.units - passed
        # In logarithms, for the factors are too large and too small for floats.
        ways = -math.log(self.units + 1) - log_beta(passed + 1, missed + 1)
        known = log_beta(self.passes, self.misses)
        return math.exp(ways + log_beta(self.passes + passed, self.misses + missed) - known)


class PassRates(FrozenValue, frozen=True):
    """How the pass rates of a suite's tasks are distributed: a beta distribution of this mean.

    What it says of one task weighs as much as ``weight`` trials of the task.
    """

    mean: float
    weight: float

    def chance_of_a_miss(self, tasks: Iterable[tuple[int, int]], repetitions: int) -> float:
        """Give the chance that any trial misses, for tasks that passed so many of so many trials.

        A task that passed c of n passes r more with the chance of the product over i = 0 .. r-1 of (w m + c +
        i) / (w + n + i): n passes of n are no rate of 1. With m = 1/2 and w = 1 this is Jeffreys' prediction.
        Here m and w are those of all tasks of the suite (empirical Bayes: Casella 1985), for Jeffreys' would
        overstate the misses of a suite in which most tasks nearly always pass.
        """
        known = self.mean * self.weight
        return 1 - math.prod(
            (known + passed + more) / (self.weight + trials + more)
            for passed, trials in tasks
            for more in range(repetitions)
        )

    def passes_needed(self, tasks: int, repetitions: int, share: float) -> int | None:
        """Give how many passes of as many trials each task needs for a miss in at most this share of runs.

        None where 100 are not enough.
        """
        # The share that each of so many independent tasks may have.
        most = 1 - (1 - share) ** (1 / tasks)
        able = (each for each in range(1, 101) if self.chance_of_a_miss([(each, each)], repetitions) <= most)
        return next(able, None)


def null_mean(tasks: Sequence[Sequence[float]], repetitions: int) -> NullMean | None:
    """Predict the mean of the tasks' mean scores in a run that repeats each of them so often.

    ``tasks`` holds the stored scores of each task, 0..1, one or more. None where fewer than half of the tasks
    have two: then it is unknown how trials scatter.
    """
    scatter = _scatter(tasks)
    if scatter is None:
        return None
    stored_mean = math.fsum(math.fsum(task) / len(task) for task in tasks) / len(tasks)
    apart = common_denominator((score for task in tasks for score in task), FINEST) or FINEST
    steps = len(tasks) * repetitions * apart
    return _null_mean(stored_mean, scatter.variance, scatter.trials, len(tasks) * repetitions, steps)


def null_pass_hat_k(tasks: Sequence[Sequence[bool]], k: int) -> NullMean | None:
    """Predict pass^k of a run with k repetitions: the share of tasks of which all k trials pass.

    How that share scatters follows from the distribution of the tasks' pass rates. None where fewer than half
    of the tasks have two trials, and k.
    """
    rates, scatter = pass_rates(tasks), _scatter(tasks)
    able = [(len(task), sum(task)) for task in tasks if len(task) >= k]
    if rates is None or scatter is None or 2 * len(able) < len(tasks):
        return None
    stored_mean = math.fsum(pass_hat_k(trials, passed, k) for trials, passed in able) / len(able)
    all_pass, twice = (1 - rates.chance_of_a_miss([(0, 0)], times) for times in (k, 2 * k))
    # Whether all k trials of a task pass varies by p^k - p^2k at a rate p. This is its mean over all rates.
    return _null_mean(stored_mean, all_pass - twice, scatter.trials / k, len(tasks), len(tasks))


def pass_rates(tasks: Sequence[Sequence[bool]]) -> PassRates | None:
    """Estimate how pass rates are distributed over tasks like these, each with the outcomes of its trials.

    The mean is that of ``null_mean``, the weight the likeliest of 1/4, 1/2, 1, 2, ... up to the number of
    trials; where no trial missed, all weights fit, and it is that number. None where fewer than half of the
    tasks have two trials.
    """
    null, scatter = null_mean(tasks, 1), _scatter(tasks)
    if null is None or scatter is None:
        return None
    rate, most = null.passes / (null.passes + null.misses), scatter.trials
    counts = Counter((sum(task), len(task) - sum(task)) for task in tasks)
    if not any(missed for _, missed in counts):
        return PassRates(rate, most)
    weights = [2.0**power for power in range(-2, max(0, math.frexp(most)[1]))]

    def log_likelihood(weight: float) -> float:
        """Give how well a beta distribution of pass rates explains the passes and misses of the tasks."""
        a, b = rate * weight, (1 - rate) * weight
        return math.fsum(
            times * (log_beta(a + passed, b + missed) - log_beta(a, b))
            for (passed, missed), times in counts.items()
        )

    return PassRates(rate, max(weights, key=log_likelihood))


class _Scatter(FrozenValue, frozen=True):
    """The variance of a task's trials, and how many trials the mean rests on.

    ``trials`` is the number of trials that would say as much if all tasks were tried equally often.
    """

    variance: float
    trials: float


def _scatter(tasks: Sequence[Sequence[float]]) -> _Scatter | None:
    """Pool the variance within tasks; None where fewer than half of the tasks have two trials."""
    if not tasks or 2 * sum(len(task) > 1 for task in tasks) < len(tasks):
        return None
    squares = 0.0
    for task in tasks:
        task_mean = math.fsum(task) / len(task)
        squares += math.fsum((score - task_mean) ** 2 for score in task)
    # As if half a jump more had been seen, the largest within a task: so the variance is never 0.
    jump = max(max(task) - min(task) for task in tasks) or 1.0
    freedom = sum(map(len, tasks)) - len(tasks)
    # The harmonic mean, for the error of a task is the variance over its number of trials.
    typical = len(tasks) / math.fsum(1 / len(task) for task in tasks)
    return _Scatter((squares + jump**2 * (1 - 1 / typical) / 2) / (freedom + 1), len(tasks) * typical)


def _null_mean(stored_mean: float, variance: float, stored: float, new: int, steps: int) -> NullMean:
    """Predict the mean of ``new`` trials from that of ``stored`` ones of one rate, with this variance."""
    # A score that varies less than passes and misses do counts as several of them.
    per_trial = max(1.0, stored_mean * (1 - stored_mean) / variance)
    known = stored * per_trial
    passes, misses = stored_mean * known, (1 - stored_mean) * known
    return NullMean(max(1, round(new * per_trial)), passes + 0.5, misses + 0.5, steps)

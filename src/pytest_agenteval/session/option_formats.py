"""The values of options that have a format of their own: prompt variants, gates, report files and prices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from pytest_agenteval.compare.pairing import BASE
from pytest_agenteval.records.plan import ModelPrice, Variant
from pytest_agenteval.records.record import from_builtins
from pytest_agenteval.reports.report_files import check_report_path, listed_files
from pytest_agenteval.session.options import RawValue, WrongValue, names
from pytest_agenteval.tasks.documents import ParsedDocument
from pytest_agenteval.tasks.suite_spec import Gate
from pytest_agenteval.tasks.task_spec import Spec, expects
from pytest_agenteval.tasks.validation import SpecRefused, problems_of, spec_of
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound, UsageMistake, did_you_mean

FORBIDDEN = frozenset("@[]: ,/")  # what may not stand in a variant's name, which is part of test ids


def read_variants(raw: RawValue) -> tuple[Variant, ...]:
    """Read the prompt files of each ``NAME=PATH``."""
    variants = tuple(_variant(text, raw.place, raw.folder) for text in names(raw))
    first: dict[str, Variant] = {}
    for variant in variants:
        other = first.setdefault(variant.name.lower(), variant)
        if other is not variant:
            both = f"some file systems do not distinguish the variants {other.name!r} and {variant.name!r}"
            twice = f"the variant {variant.name!r} is named more than once"
            raise UsageMistake(f"{raw.place}: {twice if other.name == variant.name else both}")
    return variants


def _variant(text: str, place: str, folder: Path) -> Variant:
    """Read a variant: a folder of prompt files, or one file, which is the prompt ``system``."""
    name, sign, where = text.partition("=")
    if not sign or not name or not where:
        name = Path(text).name.partition(".")[0] or "new"
        example = f"; did you mean '{name}={text}'?" if text and not sign else ""
        raise UsageMistake(f"{place}: expected NAME=PATH; found {text!r}{example}")
    if not name.isascii() or not name.isprintable() or FORBIDDEN & set(name):
        raise UsageMistake(f"{place}: the name {name!r} may hold ASCII letters, digits, '_', '-' and '.'")
    if name.lower() == BASE:
        own = f"{name} means the agent's own prompts, which always run too"
        raise UsageMistake(f"{place}: {own}: choose another name, as in {place} v2={where}")
    path, place = folder / where, f"{place} {name}"
    if not path.exists():
        beside = sorted(each.name for each in path.parent.iterdir()) if path.parent.is_dir() else []
        near = did_you_mean(path.name, beside)
        raise UsageMistake(f"{place}: no such file or folder: {where}{near and f'; {near}'}")
    prompts = {"system": path} if path.is_file() else {}
    for file in sorted(path.iterdir()) if path.is_dir() else ():
        if file.is_file() and not file.name.startswith("."):
            prompt = file.name.partition(".")[0]
            first = prompts.setdefault(prompt, file)
            if first != file:
                both = f"{first.name} and {file.name}"
                raise UsageMistake(f"{place}: two files for the prompt {prompt!r}: {both}")
    if not prompts:
        raise UsageMistake(f"{place}: no prompt file in {path}")
    texts = {}
    for prompt, file in prompts.items():
        try:
            texts[prompt] = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as broken:
            raise UsageMistake(f"{place}: {file} cannot be read: {broken}") from None
    return Variant(name, texts, where)


GATE_KEYS = ("score", "buckets.NAME", "pass_hat_k", "not_worse", "better", "errored", "recheck")
_BUCKET = "buckets."


def read_gate(raw: RawValue) -> Mapping[str, Any] | None:
    """Read ``score=0.8,buckets.NAME=0.9``, or a table of pyproject.toml; None for ``none``."""
    if isinstance(raw.value, dict):
        written: dict[str, Any] = raw.value
    else:
        parts = names(raw)
        if "none" in parts:
            if len(parts) > 1:
                raise WrongValue(hint="none cannot be combined with rules")
            return None
        written = dict(map(_gate_rule, parts))
        if len(written) < len(parts):
            raise WrongValue(hint="each rule only once")
    rules = {key: value for key, value in written.items() if not key.startswith(_BUCKET)}
    buckets = {key.removeprefix(_BUCKET): written[key] for key in written if key.startswith(_BUCKET)}
    if buckets and isinstance(own := rules.get("buckets", {}), dict):
        rules["buckets"] = {**own, **buckets}
    unknown = next((key for key in rules if key not in Gate.__struct_fields__ or key == "baseline"), None)
    if unknown is not None:
        raise WrongValue(expected=f"one of {', '.join(GATE_KEYS)}", hint=did_you_mean(unknown, GATE_KEYS))
    try:
        from_builtins(Gate, rules)
    except msgspec.ValidationError as wrong:
        raise WrongValue(
            expected=f"numbers and true or false as docs/guides/gates.md says ({wrong})"
        ) from None
    return rules


def _gate_rule(text: str) -> tuple[str, Any]:
    key, equals, value = text.rpartition("=")
    if not equals:
        raise WrongValue
    word = value.strip().lower()
    if word in ("true", "false"):
        return key.strip(), word == "true"
    try:
        return key.strip(), int(word) if word.isdigit() else float(word)
    except ValueError:
        raise WrongValue(expected=f"a number, true or false behind {key}=") from None


def read_report_files(raw: RawValue) -> tuple[Path, ...]:
    """Read the files that reports are written to; one that cannot be written is refused before the run."""
    files = raw.value if isinstance(raw.value, list) else listed_files(str(raw.value))
    paths = () if files == ["none"] else tuple(raw.folder / str(file) for file in files)
    for path in paths:
        try:
            check_report_path(path)
        except UsageMistake as mistake:
            raise UsageMistake(f"{raw.place}: {mistake}") from None
    return paths


_DOLLARS = expects("US dollars for a million tokens, 0 or more")
Dollars: TypeAlias = Annotated[float, Meta(ge=0, le=1e9), _DOLLARS]
MaybeDollars: TypeAlias = Annotated[Dollars | None, _DOLLARS]


class _Tier(Spec, frozen=True, kw_only=True):
    above: Annotated[int, Meta(ge=1), expects("a whole number of tokens, 1 or more")]
    input: MaybeDollars = None
    output: MaybeDollars = None
    cached: MaybeDollars = None
    cache_write: MaybeDollars = None


class _Price(Spec, frozen=True, kw_only=True):
    input: Dollars
    output: Dollars
    cached: MaybeDollars = None
    cache_write: MaybeDollars = None
    tiers: Annotated[
        tuple[_Tier, ...], expects("a list of tables such as {above = 200000, input = 5.0}")
    ] = ()
    as_of: Annotated[
        str, Meta(pattern=r"^(\d{4}-[01]\d-[0-3]\d)?$"), expects("a date such as 2026-11-23")
    ] = ""


PRICES = 3  # the steps of ``tool.agenteval.prices``


class _PriceTable(ParsedDocument):
    """``[tool.agenteval.prices]``, whose keys are looked up line by line: readers of TOML tell no lines."""

    def line_of(self, path: KeyPath) -> int:
        """Give the line of a key of a model's price, else that on which its table begins."""
        lines = self.text.splitlines()
        prices = next(at for at, line in enumerate(lines) if "prices" in line)
        name, key = (*map(str, path[PRICES:]), "", "")[:2]
        head = next((at for at in range(prices, len(lines)) if name in lines[at]), prices)
        own = range(head + 1, len(lines))
        end = next((at for at in own if lines[at].startswith("[") and "tiers" not in lines[at]), len(lines))
        found = (at for at in range(head + 1, end) if key and re.match(rf'[\s\["]*{key}\b', lines[at]))
        return next(found, head) + 1


def read_prices(raw: RawValue) -> Mapping[str, ModelPrice]:
    """Read the price of each model; raises UsageMistake with everything that is wrong with them."""
    if not isinstance(raw.value, dict):
        raise WrongValue
    prices: dict[str, ModelPrice] = {}
    problems: list[Problem] = []
    for name, table in raw.value.items():
        if isinstance(table, dict) and "as_of" in table:  # TOML has dates of its own
            table = {**table, "as_of": str(table["as_of"])}
        try:
            prices[name] = from_builtins(ModelPrice, spec_of(_Price, table).to_json())
        except SpecRefused:
            file, place = raw.folder / "pyproject.toml", ("tool", "agenteval", "prices", name)
            document = _PriceTable(file, file.read_text(encoding="utf-8"), {})
            problems += problems_of(_Price, table, document, place, file.name).problems
    if problems:
        raise UsageMistake(str(ProblemsFound(problems)))
    return prices

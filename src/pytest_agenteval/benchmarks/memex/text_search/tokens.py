"""Words and numbers of a text, in scripts with spaces between words and in those without.

A token of a script that is written without spaces is one letter: there, only a run of letters can be looked
for. Hangul and Katakana come letter by letter too, each knowing whether it begins its run and what is left
of it: Korean particles are written onto a word, and spaces between words are a matter of taste.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache

from msgspec.structs import replace

from pytest_agenteval.records.record import FrozenValue

_HANGUL, _KATAKANA = "\uac00-\ud7a3\u1100-\u11ff\u3130-\u318f", "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
_UNSPACED = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3041-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
)
_SPACED = rf"(?:(?![{_HANGUL}{_KATAKANA}{_UNSPACED}])(?:[^\W\d_]|\u200d))"
_TOKEN = re.compile(
    rf"(?P<number>\d+(?:[.,']\d+)*)|(?P<hangul>[{_HANGUL}]+)|(?P<katakana>[{_KATAKANA}]+)"
    rf"|(?P<letter>[{_UNSPACED}])|(?P<word>(?:{_SPACED}MARK*)+(?:[+#]+(?!\w))?)".replace(
        "MARK",
        "[\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0903\u093a-\u094f"
        "\u0962\u0963\u0980-\u0983\u09bc-\u09cd\u0a3c-\u0a4d\u0abc-\u0acd\u0b3c-\u0b4d\u0bbe-\u0bcd\u0c3e-\u0c4d"
        "\u0cbc-\u0ccd\u0d3e-\u0d4d\u200c\u200d]",
    )
)
_PARTICLE = (
    "께서|에게서|한테서|으로서|으로써|로서|로써|에서|에게|한테|까지|부터|마다|처럼|보다|조차|마저|밖에|이랑|하고|"
    "이나|이라도|라도|이든|든지|으로|은|는|이|가|을|를|의|에|와|과|도|만|로|랑|나|께|요|야|아|들|님|씨|"
    "입니다|이에요|예요|이다|다|이고|이며|였다|였고|이었다"
)
_PARTICLES = re.compile(rf"(?:{_PARTICLE}){{0,3}}")
_BEFORE_ARABIC = re.compile("(?:[وف]?[بكل]?(?:ال)?|[وف]?لل)")
_BEFORE_HEBREW = re.compile("[ו]?[בכלמהש]{0,2}")
MOST_PARTICLES = 16
"""Letters after a word: more than all particles together have, so that a longer rest is none."""
_CURRENCIES = "usd eur gbp jpy krw cny rmb chf inr rs kr sek nok dkk pln aud cad nzd hkd us r"
_MONEY = frozenset(_CURRENCIES.split())
_NUMERALS = frozenset("〇零一二三四五六七八九十百千万萬億亿两兩")
_NOT_BEFORE_A_SIGN = frozenset(")].,%°")
_COLOUR = re.compile(r"#[0-9a-f]{3,8}\b")


class Token(FrozenValue, frozen=True):
    """A word, a letter of a word, or a number.

    ``readings`` are a number's values, 1,900 having two. ``starts`` says that a run of letters begins here,
    ``rest`` is what follows of it.
    """

    text: str
    readings: frozenset[Decimal] = frozenset()
    starts: bool = True
    rest: str = ""
    whole: bool = True
    """Whether the run's ends matter: not where letters are all that there is."""
    sign: str = ""


@lru_cache(maxsize=256)
def tokens(folded: str) -> tuple[Token, ...]:
    """Give the words and numbers of a folded text, in order; signs and spaces are none."""
    # A colour of a card has digits, and none of them is a number that anybody said.
    return tuple(_tokens(unicodedata.normalize("NFC", _COLOUR.sub(" ", folded))))


def _tokens(text: str) -> Iterator[Token]:
    matches = list(_TOKEN.finditer(text))
    index = 0
    while index < len(matches):
        match = matches[index]
        after = matches[index + 1] if index + 1 < len(matches) else None
        if (
            match["word"]
            and after is not None
            and after["number"]
            and _is_name_with_digits(text, matches, index)
        ):
            yield Token(match[0] + after[0])  # F7, Q2: a name and no number
            index += 1
        elif match["number"]:
            more, sign = _three_more(text, match, after), _sign(text, match.start())
            yield from (replace(token, sign=sign) for token in _numbers(match[0], more))
        elif match["hangul"] or match["katakana"]:
            run = match[0]
            for place, letter in enumerate(run):
                yield Token(letter, starts=place == 0, rest=run[place + 1 : place + 1 + MOST_PARTICLES])
        elif match[0] in _NUMERALS:
            before, next_ = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
            rest = next_ if next_ in _NUMERALS else ""
            yield Token(match[0], starts=before not in _NUMERALS, rest=rest, whole=False)
        else:
            yield Token(match[0], whole=bool(match["word"]))
        index += 1


def _sign(text: str, start: int) -> str:
    """Give the sign of the number that starts here; a hyphen between two things is none."""
    sign, before = text[start - 1 : start], text[start - 2 : start - 1]
    signed = sign in ("+", "-") and not before.isalnum() and before not in _NOT_BEFORE_A_SIGN
    return sign if signed else ""


def _is_name_with_digits(text: str, matches: list[re.Match[str]], index: int) -> bool:
    """Whether digits are written onto a word that is neither a unit after a number nor money."""
    match, after = matches[index], matches[index + 1]
    first = index == 0 or not (matches[index - 1]["number"] and matches[index - 1].end() == match.start())
    return first and match.end() == after.start() and match[0] not in _MONEY


def _three_more(text: str, match: re.Match[str], after: re.Match[str] | None) -> str:
    """Give the digits that a number goes on with after a space: 13 499."""
    if after is None or not after["number"] or text[match.end() : after.start()] != " ":
        return ""
    goes_on = re.fullmatch(r"\d{1,3}", match[0]) and re.fullmatch(r"\d{3}", after[0])
    return after[0] if goes_on else ""


def _numbers(digits: str, more: str) -> Iterator[Token]:
    readings = set(number_readings(digits))
    if not readings and "." not in digits:
        for part in re.split("[,']", digits):  # 1,2,3 is a list
            yield Token(part, frozenset({Decimal(part)}))
        return
    if more:
        readings.add(Decimal(digits + more))
    yield Token(digits, frozenset(readings))


def number_readings(digits: str) -> frozenset[Decimal]:
    """Give the values that digits with points and commas can have; none where they are no number."""
    groups, signs = re.split("[.,']", digits), re.findall("[.,']", digits)
    if not signs:
        return frozenset({Decimal(digits)})
    thousands = 1 <= len(groups[0]) <= 3 and not groups[0].startswith("0")
    whole = "".join(groups[:-1])
    inner = all(len(group) == 3 for group in groups[1:-1]) and len(set(signs[:-1])) <= 1
    readings = set()
    if thousands and len(groups[-1]) == 3 and inner and len(set(signs)) == 1:
        readings.add(Decimal("".join(groups)))
    decimal = signs[-1] != "'" and (len(signs) == 1 or (thousands and inner and signs[-1] not in signs[:-1]))
    if decimal and not (readings and signs == [","] and groups[-1] == "000"):  # 5,000 is no 5
        readings.add(Decimal(f"{whole}.{groups[-1]}"))
    return frozenset(readings)


def find_run(needle: tuple[Token, ...], text: tuple[Token, ...]) -> bool:
    """Whether the tokens of a needle stand in a text, one after the other, each word whole."""
    return any(_stands_at(needle, text, place) for place in range(len(text) - len(needle) + 1))


def _stands_at(needle: tuple[Token, ...], text: tuple[Token, ...], place: int) -> bool:
    for index, token in enumerate(needle):
        there = text[place + index]
        last = index + 1 == len(needle) or not _goes_on(token, needle[index + 1])
        first = index == 0 or not _goes_on(needle[index - 1], token)
        if not _same(token, there, first=first, last=last):
            return False
    return True


def _goes_on(first: Token, other: Token) -> bool:
    """Whether two letters may belong to one word, spaces or not, or to one number."""
    return (_is_letter(first) and _is_letter(other)) or (first.text in _NUMERALS and other.text in _NUMERALS)


def _is_letter(token: Token) -> bool:
    return not token.readings and re.fullmatch(f"[{_HANGUL}{_KATAKANA}]", token.text) is not None


def _same(token: Token, there: Token, *, first: bool, last: bool) -> bool:
    if token.readings or there.readings:
        fits = token.sign in ("", there.sign) or (token.sign == "+" and not there.sign)
        return fits and bool(token.readings & there.readings)
    if token.text in _NUMERALS:
        return token.text == there.text and (there.starts or not first) and not (last and there.rest)
    if _is_letter(token):
        ends = not last or _PARTICLES.fullmatch(there.rest) is not None
        return token.text == there.text and (there.starts or not first) and ends
    return token.text == there.text or (token.whole and there.whole and _is_form(token.text, there.text))


def _is_form(word: str, there: str) -> bool:
    """Whether a word is another with an ending or a beginning that is written onto it."""
    longer, shorter = (there, word) if len(there) > len(word) else (word, there)
    if shorter.isascii():
        return len(shorter) >= 3 and longer in (f"{shorter}s", f"{shorter}es")
    before = there.removesuffix(word)
    if before == there:
        return False
    beginning = _BEFORE_ARABIC if "\u0600" <= word[0] <= "\u06ff" else _BEFORE_HEBREW
    return "\u0590" <= word[0] <= "\u06ff" and beginning.fullmatch(before) is not None

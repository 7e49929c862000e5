"""Dates, words and mentions of facts, found in notes in any of several languages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache
from urllib.parse import unquote

from msgspec.structs import replace

from pytest_agenteval import fold_text
from pytest_agenteval.records.record import FrozenValue

# Months in English, German, French, Spanish, Italian, Portuguese and Dutch; each row is one month.
_MONTHS = (
    "january jan januar jänner janvier enero gennaio janeiro januari",
    "february feb februar février fevrier febrero febbraio fevereiro februari",
    "march mar märz maerz mars marzo março maart",
    "april apr avril abril aprile",
    "may mai mayo maggio maio mei",
    "june jun juni juin junio giugno junho",
    "july jul juli juillet julio luglio julho",
    "august aug août aout agosto augustus",
    "september sept sep septembre septiembre settembre setembro",
    "october oct oktober okt octobre octubre ottobre outubro",
    "november nov novembre noviembre novembro",
    "december dec dezember dez décembre decembre diciembre dicembre dezembro",
)
_MONTH = {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}
# Names that can only mean a month. Others have a second meaning: mars is also a planet.
_WHOLE = {name for name in _MONTH if len(name) > 4} | {names.split()[0] for names in _MONTHS}
# Longest names first: an alternation takes the first that fits, and "jan" begins "january".
_NAME = rf"(?P<month>{'|'.join(sorted(_MONTH, key=len, reverse=True))})(?![^\W\d_])\.?"
_DAY = r"(?P<day>\d{1,2})(?!\d)(?:st|nd|rd|th|er|º|\.)?"
_TO = (
    r"(?:\s*(?:-|/|,|&|to|till|until|through|and|bis|und|et|au|y|al|e|a)\s*"
    r"(?P<last>\d{1,2})(?!\d)(?:st|nd|rd|th|\.)?)?"
)
_YEAR = r"(?:,?\s*(?:of\s|de\s)?\s*(?P<year>\d{4})(?!\d))?"

# The year first, or the year last: then the other two may be day and month in either order.
_NUMERIC = (
    re.compile(r"(?<!\d)(?P<year>\d{4})(?P<by>[-/]|\. ?)(?P<month>\d{1,2})(?P=by)(?P<day>\d{1,2})(?!\d)"),
    re.compile(r"(?<![\d.])(?P<one>\d{1,2})(?P<by>[-/]|\. ?)(?P<other>\d{1,2})(?P=by)(?P<year>\d{4})(?!\d)"),
)
# Day before month, month before day, and the order of Chinese, Japanese and Korean.
_NAMED = (
    re.compile(rf"(?<!\d){_DAY}{_TO}\s*(?:of\s|de\s|di\s)?\s*{_NAME}{_YEAR}"),
    re.compile(rf"(?<![^\W\d_]){_NAME}\s*{_DAY}{_TO}{_YEAR}"),
    re.compile(
        r"(?:(?P<year>\d{4})\s*[年년]\s*)?(?P<month>(?<!\d)\d{1,2})\s*[月월]\s*(?P<day>\d{1,2})\s*[日号號일]"
        r"(?:\s*[-~至到]\s*(?P<last>\d{1,2})\s*[日号號일])?"
    ),
)
_MONTH_ALONE = re.compile(
    rf"(?<![^\W\d_]){_NAME}|(?<!\d)(?P<number>\d{{1,2}})\s*[月월]|(?<!\d)\d{{4}}-(?P<of_year>\d\d)(?![\d-])"
)
# A date without a year may as well be a score or a section: `short=False` leaves these out.
_SHORT = re.compile(r"(?<![\d./:-])(?P<one>\d{1,2})(?P<by>[-/.])(?P<other>\d{1,2})(?![\d/:-]|\.\d)")

# Halves of the day in English, Korean, Chinese and Japanese.
_LATE = ("p", "오후", "下午", "午後")
_EARLY = ("a", "오전", "上午", "早上", "午前", "凌晨", "아침", "새벽", "朝", "清晨", "早晨")
_AT_NIGHT = ("저녁", "밤", "晚上", "夜", "夕方", "傍晚", "晩")
_AT_NOON = ("낮", "中午", "昼")
_HALVES = [half for half in (*_LATE, *_EARLY, *_AT_NIGHT, *_AT_NOON) if half not in ("a", "p")]
# No digit and no sign of a longer number or time may stand before the hour.
_ALONE = r"(?<![\d:])(?<!\d[.,])"
# In this order: 18:45, 18h45 and 6:45 pm; 오후 6:45 and PM 6:45; 6 pm and 6.45 pm; 18 Uhr; 오후 6시 45분.
_CLOCKS = (
    re.compile(
        _ALONE + r"(?P<hour>\d{1,2})[:h](?P<minute>[0-5]\d)(?::[0-5]\d)?(?:\.0+)?(?![\d:]|\.\d)"
        r"(?:\s*(?P<half>[ap])\.?m\b)?"
    ),
    re.compile(
        rf"(?P<half>{'|'.join(_HALVES)}|\b[ap](?=\.?m))(?:\.?m\.?)?\s*"
        r"(?P<hour>\d{1,2}):(?P<minute>[0-5]\d)(?![\d:]|\.\d)"
    ),
    re.compile(_ALONE + r"(?P<hour>\d{1,2})(?:[.](?P<minute>[0-5]\d))?\s*(?P<half>[ap])\.?m\b"),
    re.compile(_ALONE + r"(?P<hour>\d{1,2})(?:[.:](?P<minute>[0-5]\d))?\s*uhr\b"),
    re.compile(
        rf"(?P<half>{'|'.join(_HALVES)})?\s*{_ALONE}(?P<hour>\d{{1,2}})\s*[시点點時]"
        # A span of hours, as in 3시간, is no time of day.
        r"(?!间|間|간)(?:\s*(?P<minute>\d{1,2})\s*[분分]|\s*(?P<middle>[반半]))?"
    ),
)
# With a point and nothing around it, a time looks like any decimal: only on request.
_DOTTED = re.compile(_ALONE + r"(?P<hour>\d{1,2})\.(?P<minute>[0-5]\d)(?![\d:]|\.\d)")
_NAMED_TIME = re.compile(r"\b(?P<noon>noon|정오|正午)|\b(?:midnight|자정|午夜)")


class Day(FrozenValue, frozen=True):
    """A day of a year, or of any year."""

    month: int
    day: int
    year: int | None = None

    def can_equal(self, other: Day) -> bool:
        """Whether both can be the same day: where one has no year, the year does not matter."""
        years = None in (self.year, other.year) or self.year == other.year
        return years and (self.month, self.day) == (other.month, other.day)


def parse_days(text: str) -> frozenset[Day]:
    """Give the readings of a text that is a date, with a year or a month's name, and nothing else."""
    matches = (pattern.fullmatch(text) for pattern in (*_NUMERIC, *_NAMED))
    match = next((match for match in matches if match is not None), None)
    return frozenset() if match is None else frozenset(_days(match))


def find_months(text: str) -> frozenset[int]:
    """Give every month that a folded text names, shortened or not, alone or in a date."""
    months = {day.month for day in find_days(text, short=False)}
    for match in _MONTH_ALONE.finditer(text):
        months.add(_MONTH[match["month"]] if match["month"] else int(match["number"] or match["of_year"]))
    return frozenset(months - {0})


def find_days(text: str, *, short: bool = True) -> frozenset[Day]:
    """Give every reading of every date in a folded text; ``short`` takes in those like 09-17."""
    return frozenset(
        day
        for pattern in (*_NUMERIC, *_NAMED, *((_SHORT,) if short else ()))
        for match in pattern.finditer(text)
        for day in _days(match)
    )


def parse_times(text: str) -> frozenset[int]:
    """Give the minutes of the day that a text can mean, where it is a time and nothing else.

    An hour without a leading zero and without morning or evening means both: 7:05 is also 19:05.
    """
    for pattern in _CLOCKS:
        match = pattern.fullmatch(text)
        minute = None if match is None else _minute(match)
        if match is not None and minute is not None:
            hour = match["hour"]
            open_half = not match.groupdict().get("half") and not hour.startswith("0") and 0 < int(hour) <= 12
            return frozenset({minute, (minute + 720) % 1440} if open_half else {minute})
    return frozenset()


def find_times(text: str, *, dotted: bool = False) -> frozenset[int]:
    """Give the minute of the day of every time in a folded text; ``dotted`` takes in those like 15.40."""
    patterns = (*_CLOCKS, _DOTTED) if dotted else _CLOCKS
    minutes = (_minute(match) for pattern in patterns for match in pattern.finditer(_without_days(text)))
    named = (720 if match["noon"] else 0 for match in _NAMED_TIME.finditer(text))
    return frozenset(minute for minute in (*minutes, *named) if minute is not None)


def without_days_and_times(text: str, *, named: bool = False) -> str:
    """Take out what is a numeric date, but for its year, and what is a time.

    ``named`` takes out all of a date, its year too, and dates with a month's name.
    """
    if named:
        for pattern in (*_NUMERIC, *_NAMED):
            text = re.sub(pattern.pattern + "(?:t(?=[0-9]))?", " · ", text)
    text = _without_days(text)
    for pattern in _CLOCKS:
        text = pattern.sub(" · ", text)
    return text


def _without_days(text: str) -> str:
    for pattern in _NUMERIC:
        # The T between date and time in ISO 8601 goes with the date.
        text = re.sub(pattern.pattern + "(?:t(?=[0-9]))?", r" \g<year> · ", text)
    return text


def _days(match: re.Match[str]) -> Iterator[Day]:
    parts = match.groupdict()
    year = int(parts["year"]) if parts.get("year") else None
    if "one" in parts:
        first, other = int(parts["one"]), int(parts["other"])
        readings = [(other, first)]
        # With points the day comes first everywhere; with slashes and hyphens it depends on who writes.
        if not parts["by"].startswith("."):
            readings.append((first, other))
    else:
        name = parts["month"]
        month = int(name) if name.isdigit() else _MONTH[name]
        readings = [(month, int(parts[key])) for key in ("day", "last") if parts.get(key)]
    yield from (Day(month, day, year) for month, day in readings if 1 <= month <= 12 and 1 <= day <= 31)


def _minute(match: re.Match[str]) -> int | None:
    parts = match.groupdict()
    hour, half = int(parts["hour"]), parts.get("half")
    minute = 30 if parts.get("middle") else int(parts.get("minute") or 0)
    if hour > 24 or minute > 59:
        return None
    # At night, hours from five on are in the evening, and twelve begins the next day.
    if half in _EARLY or (half in _AT_NIGHT and hour == 12):
        hour = 0 if hour == 12 else hour
    elif half in _LATE or (half in _AT_NIGHT and hour >= 5) or (half in _AT_NOON and hour <= 5):
        hour = hour + 12 if hour < 12 else hour
    return (hour * 60 + minute) % 1440


_HANGUL, _KATAKANA = "\uac00-\ud7a3\u1100-\u11ff\u3130-\u318f", "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
# Scripts that are written without spaces between words: Chinese characters, Hiragana, Thai, Lao, Burmese and
# Khmer. There each letter is a token of its own.
_UNSPACED = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3041-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
)
_SPACED = rf"(?:(?![{_HANGUL}{_KATAKANA}{_UNSPACED}])(?:[^\W\d_]|\u200d))"
# MARK stands for the combining marks of scripts such as Devanagari, Hebrew and Arabic: without them their
# words would fall apart. Signs behind a word belong to it, as in C++ and C#.
_TOKEN = re.compile(
    rf"(?P<number>\d+(?:[.,']\d+)*)|(?P<hangul>[{_HANGUL}]+)|(?P<katakana>[{_KATAKANA}]+)"
    rf"|(?P<letter>[{_UNSPACED}])|(?P<word>(?:{_SPACED}MARK*)+(?:[+#]+(?!\w))?)".replace(
        "MARK",
        "[\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0903\u093a-\u094f"
        "\u0962\u0963\u0980-\u0983\u09bc-\u09cd\u0a3c-\u0a4d\u0abc-\u0acd\u0b3c-\u0b4d\u0bbe-\u0bcd\u0c3e-\u0c4d"
        "\u0cbc-\u0ccd\u0d3e-\u0d4d\u200c\u200d]",
    )
)
# Korean particles and forms of the copula, which are written onto the word before them.
_PARTICLE = (
    "께서|에게서|한테서|으로서|으로써|로서|로써|에서|에게|한테|까지|부터|마다|처럼|보다|조차|마저|밖에|이랑|하고|"
    "이나|이라도|라도|이든|든지|으로|은|는|이|가|을|를|의|에|와|과|도|만|로|랑|나|께|요|야|아|들|님|씨|"
    "입니다|이에요|예요|이다|다|이고|이며|였다|였고|이었다"
)
_PARTICLES = re.compile(rf"(?:{_PARTICLE}){{0,3}}")
# Conjunctions, prepositions and articles, which Arabic and Hebrew write onto the next word.
_BEFORE_ARABIC = re.compile("(?:[وف]?[بكل]?(?:ال)?|[وف]?لل)")
_BEFORE_HEBREW = re.compile("[ו]?[בכלמהש]{0,2}")
# How many letters after a word are looked at: more than all its particles together can have.
MOST_PARTICLES = 16
# A currency may be written onto its number: USD20 is an amount, but F7 is a name.
_CURRENCIES = "usd eur gbp jpy krw cny rmb chf inr rs kr sek nok dkk pln aud cad nzd hkd us r"
_MONEY = frozenset(_CURRENCIES.split())
# Chinese numerals: 二十年 must not mention 十年.
_NUMERALS = frozenset("〇零一二三四五六七八九十百千万萬億亿两兩")
# Behind these a hyphen stands between two things, as in 5%-7%, and is no sign of a number.
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
    # Whether the ends of the run must match; False for characters that are no part of a word.
    whole: bool = True
    sign: str = ""


@lru_cache(maxsize=256)
def tokens(folded: str) -> tuple[Token, ...]:
    """Give the words and numbers of a folded text, in order; signs and spaces are none."""
    # The digits of a colour on a card are no numbers of the text.
    return tuple(_tokens(unicodedata.normalize("NFC", _COLOUR.sub(" ", folded))))


def _tokens(text: str) -> Iterator[Token]:
    matches = list(_TOKEN.finditer(text))
    index = 0
    while index < len(matches):
        match = matches[index]
        after = matches[index + 1] if index + 1 < len(matches) else None
        if match["word"] and after and after["number"] and _is_name_with_digits(matches, index):
            # F7, Q2: a name and no number.
            yield Token(match[0] + after[0])
            index += 1
        elif match["number"]:
            digits, more = match[0], ""
            if after and after["number"] and text[match.end() : after.start()] == " ":
                # A number may go on with three digits after a space: 13 499.
                goes_on = re.fullmatch(r"\d{1,3}", digits) and re.fullmatch(r"\d{3}", after[0])
                more = after[0] if goes_on else ""
            sign = _sign(text, match.start())
            yield from (replace(token, sign=sign) for token in _numbers(digits, more))
        elif match["hangul"] or match["katakana"]:
            # Letter by letter with what follows: where a word ends depends on whether the rest is a particle.
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


def _is_name_with_digits(matches: list[re.Match[str]], index: int) -> bool:
    """Whether digits are written onto a word that is neither a unit after a number nor money."""
    match, after = matches[index], matches[index + 1]
    first = index == 0 or not (matches[index - 1]["number"] and matches[index - 1].end() == match.start())
    return first and match.end() == after.start() and match[0] not in _MONEY


def _numbers(digits: str, more: str) -> Iterator[Token]:
    readings = set(number_readings(digits))
    if not readings and "." not in digits:
        # 1,2,3 is a list.
        for part in re.split("[,']", digits):
            yield Token(part, frozenset({Decimal(part)}))
        return
    if more:
        readings.add(Decimal(digits + more))
    yield Token(digits, frozenset(readings))


def number_readings(digits: str) -> frozenset[Decimal]:
    """Give the values that digits with points and commas can have; none where they are no number."""
    # Point and comma are read both ways where both are possible: 1,900 is 1900 or 1.9.
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
    # 5,000 is no 5.
    if decimal and not (readings and signs == [","] and groups[-1] == "000"):
        readings.add(Decimal(f"{whole}.{groups[-1]}"))
    return frozenset(readings)


def find_run(needle: tuple[Token, ...], text: tuple[Token, ...]) -> bool:
    """Whether the tokens of a needle stand in a text, one after the other, each word whole."""
    return any(_stands_at(needle, text, place) for place in range(len(text) - len(needle) + 1))


def _stands_at(needle: tuple[Token, ...], text: tuple[Token, ...], place: int) -> bool:
    for index, token in enumerate(needle):
        first = index == 0 or not _goes_on(needle[index - 1], token)
        last = index + 1 == len(needle) or not _goes_on(token, needle[index + 1])
        if not _same(token, text[place + index], first=first, last=last):
            return False
    return True


def _goes_on(first: Token, other: Token) -> bool:
    """Whether two letters may belong to one word or one number, whatever spaces stand between them."""
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
    """Whether one word is the other with an ending or a beginning written onto it."""
    longer, shorter = (there, word) if len(there) > len(word) else (word, there)
    if shorter.isascii():
        return len(shorter) >= 3 and longer in (f"{shorter}s", f"{shorter}es")
    before = there.removesuffix(word)
    if before == there:
        return False
    beginning = _BEFORE_ARABIC if "\u0600" <= word[0] <= "\u06ff" else _BEFORE_HEBREW
    return "\u0590" <= word[0] <= "\u06ff" and beginning.fullmatch(before) is not None


_ADDRESS = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*://)?(?:[^\s/@?#]*@)?(?P<host>[^\W_](?:[\w-]*\.)+[^\W\d_]{2,})\.?(?::\d+)?"
    r"(?P<path>/[^\s?#]*)?(?:\?(?P<query>[^\s#]*))?(?:#(?P<part>\S*))?"
)
_ENDS = """
    com org net edu gov info io dev app ai co me tv uk de fr es it nl eu ch at pl se no dk kr jp cn
    tw in br us ca au ru
"""
# A host without scheme and path looks like any word with a point in it, unless its end is a usual one.
_USUAL_ENDS = frozenset(_ENDS.split())
_CUTS = re.compile(r"[\s<>\"`|\\^{}「」『』【】《》，。；！？、]+")
_CUTS_TOO = re.compile(r"[()\[\]（）]+")


class Address(FrozenValue, frozen=True):
    """Where something stands: a host, a path, a query, and a part of the page."""

    host: str
    path: str = ""
    query: frozenset[str] = frozenset()
    part: str = ""

    def holds(self, other: Address) -> bool:
        """Whether another address is this one, or lies below it; a longer query does not matter."""
        below = not self.path or other.path == self.path or other.path.startswith(f"{self.path}/")
        same_part = self.part in ("", other.part)
        return self.host == other.host and below and self.query <= other.query and same_part


def parse_address(text: str) -> Address | None:
    """Read a folded text that is an address and nothing else; a bare name needs an ending that is usual."""
    match = _ADDRESS.fullmatch(text)
    if match is None or "@" in text.partition("/")[0]:
        return None
    sure = match["scheme"] or match["path"] or match["host"].startswith("www.")
    return _address(match) if sure or match["host"].rpartition(".")[2] in _USUAL_ENDS else None


def _find_addresses(text: str, *, ascii_only: bool) -> Iterator[Address]:
    """Give the addresses in a folded text; ``ascii_only`` ends each at the first letter that is not."""
    pieces = _CUTS.split(text)
    # Brackets may be a part of an address or stand around it: both ways are tried.
    inner = [part for piece in pieces for part in _CUTS_TOO.split(piece)]
    for piece in dict.fromkeys([*pieces, *inner]):
        if ascii_only:
            ascii_part = re.search(r"[a-z0-9][\x21-\x7e]*", piece)
            piece = ascii_part[0] if ascii_part else ""
        match = _ADDRESS.fullmatch(piece.strip(".,;:!?'*_~()[]…"))
        if match is not None:
            yield _address(match)


def _address(match: re.Match[str]) -> Address:
    host, path = match["host"].removeprefix("www."), unquote(match["path"] or "").strip("/")
    query = frozenset((match["query"] or "").split("&")) - {""}
    return Address(host, path, query, match["part"] or "")


_BELOW_20 = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen
"""
_FROM_20 = "twenty thirty forty fifty sixty seventy eighty ninety"
_SMALL = _BELOW_20.split()
_TENS = {word: 10 * number for number, word in enumerate(_FROM_20.split(), 2)}
# Words that stand for one number each.
NUMBER_WORDS = {word: number for number, word in enumerate(_SMALL)} | _TENS

_NUMBER_WORD = re.compile(
    rf"(?<![^\W\d_])(?:(?P<tens>{'|'.join(_TENS)})(?:[- ](?P<units>{'|'.join(_SMALL[1:10])}))?"
    rf"|(?P<small>{'|'.join(sorted(_SMALL[2:], key=len, reverse=True))}))(?![^\W\d_])"
)

# Words for a number below zero in English, Korean, Chinese and Japanese.
_MINUS = re.compile(r"(?:\bminus |영하 ?|零下 ?|マイナス ?)(?=\d)")


def words_to_digits(folded: str) -> str:
    """Write the number words of a folded text in digits: twenty-six as 26; one and zero stay words."""

    def digits(match: re.Match[str]) -> str:
        small = match["small"] or match["units"]
        return str(_TENS.get(match["tens"], 0) + (NUMBER_WORDS[small] if small else 0))

    return _MINUS.sub("-", _NUMBER_WORD.sub(digits, folded))


_DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d", "-"))
_QUOTES = str.maketrans({"\u2019": "'", "\u2018": "'", "\u02bc": "'", "\u066b": ".", "\u066c": ","})
_SPACED_NUMBER = re.compile(r"\d{1,3}(?: \d{3})+")
_PARTS = {sign: f"{unicodedata.numeric(sign):g}"[1:] for sign in "½¼¾⅕⅖⅗⅘⅛⅜⅝⅞"}
_FRACTION = re.compile(rf"(?:(?<!\d)(\d{{1,9}}) ?)?([{''.join(_PARTS)}])")
# A full-width comma outside a number. If it were folded into a plain one, it would join the numbers beside
# it.
_WIDE_COMMA = re.compile(r"(?<!\d)，|，(?!\d{3}(?!\d))")
# Vowel points of Hebrew and Arabic, which writers mostly leave out, and the dot of a Turkish capital i.
_POINTS = re.compile(
    "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u065f\u0670]|(?<=i)\u0307"
)
_HYPHEN = re.compile(r"(?<=[^\W\d_])-(?=[^\W\d_])")


@lru_cache(maxsize=256)
def normalize_mention(text: str) -> str:
    """Write a text so that case, width, kinds of dash and of apostrophe, and lengths of space are gone.

    So are vowel points; ½ is written .5.
    """
    text = _FRACTION.sub(lambda match: (match[1] or "0") + _PARTS[match[2]], _WIDE_COMMA.sub(", ", text))
    return _POINTS.sub("", fold_text(text).translate(_DASHES).translate(_QUOTES))


def mentions(text: str, needle: str) -> bool:
    """Whether a text mentions what the needle names.

    A needle that is a date is looked for among the dates, one that is a time among the times, and one that is
    an address among the addresses. Any other needle is looked for as a run of whole words and numbers;
    without word or number, it is looked for as it is.

    - Signs between words do not matter, nor does a hyphen within one, a plural's s, nor what Korean, Arabic
      and Hebrew write onto a word.
    - A number with a sign is not mentioned by one with the other sign. English number words count as numbers.
    - A month is also mentioned by its short name, or by a date in it.
    - A whole number up to 24 is also mentioned by a time at that hour, morning or evening.
    """
    target, folded = words_to_digits(normalize_mention(needle)), words_to_digits(normalize_mention(text))
    target = target.replace(" ", "") if _SPACED_NUMBER.fullmatch(target) else target
    # The narrowest reading comes first: an address holds words, and a date is also a run of numbers.
    address = parse_address(target)
    if address is not None:
        return any(address.holds(other) for other in _find_addresses(folded, ascii_only=target.isascii()))
    days = parse_days(target)
    if days:
        return any(day.can_equal(other) for day in days for other in find_days(folded))
    times = parse_times(target)
    if times:
        return bool(times & find_times(folded, dotted=True))
    if target in _WHOLE and _MONTH[target] in find_months(folded):
        return True
    words = tokens(target)
    if not words:
        return target in folded
    # A number is not searched for inside of dates and times, but the hour of a time may be meant.
    if len(words) == 1 and words[0].readings:
        return find_run(words, tokens(without_days_and_times(folded))) or _is_hour(words[0], folded)
    # A hyphen within a word does not matter: rule-book mentions rulebook.
    without = _HYPHEN.sub("", target), _HYPHEN.sub("", folded)
    return find_run(words, tokens(folded)) or (
        without != (target, folded) and find_run(tokens(without[0]), tokens(without[1]))
    )


def _is_hour(number: Token, folded: str) -> bool:
    """Whether a number is the hour of a time in the text, on the hour, morning or evening."""
    hours = {int(value) for value in number.readings if value == int(value) and value <= 24}
    minutes = {hour % 24 * 60 for hour in hours} | {(hour + 12) % 24 * 60 for hour in hours if 0 < hour <= 12}
    return bool(minutes & find_times(folded))

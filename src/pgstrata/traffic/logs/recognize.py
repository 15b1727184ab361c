"""Recognizes the `log_line_prefix` of a log by its structure.

The words for severities are fixed points; what stands in front of them are times, numbers of processes,
session ids, addresses and names between marks that all lines have. Samples of lines that only a session
writes are compared; where they differ, something stood for a % escape.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from pgstrata.errors import UsageError
from pgstrata.files.user_files import shown
from pgstrata.traffic.logs.atoms import PATTERNS, atoms, columns
from pgstrata.traffic.logs.prefix import ADVICE, HOST, SEVERITY, Prefix, lacking, prefix

_SAMPLES = 200
_FIRST = 20
"""Samples at the beginning that a change of the prefix leaves."""

_ATTEMPTS = 100
"""How often a prefix is recognized anew within a file."""

_LONGEST = 600
"""Letters of a prefix."""

_SEVERITY = re.compile(SEVERITY.decode())
_OF_SESSIONS = re.compile(
    r"(?:00000: )?(?:duration: |statement: |execute |fastpath function|connection (?:received|auth)|"
    r"disconnection: )"
)
_NAMES = re.compile(
    r"(?:connection authorized|disconnection): .*?\buser=(?P<user>\S+) database=(?P<database>\S+)"
    r"(?:.*? application_name=(?P<application>.+?)(?= SSL |\Z))?"
)
_KEYS = {
    **dict.fromkeys(("user", "usr", "u", "role", "username", "user_name"), "u"),
    **dict.fromkeys(("db", "database", "d", "dbname", "db_name", "database_name"), "d"),
    **dict.fromkeys(("app", "application", "application_name", "appname", "a"), "a"),
    **dict.fromkeys(("client", "host", "h", "r", "remote", "remote_host", "connection_source", "ip"), "h"),
    **dict.fromkeys(("pid", "p", "process", "proc"), "p"),
    **dict.fromkeys(("line", "log_line", "l", "line_num"), "l"),
    **dict.fromkeys(("trx_id", "txid", "xid", "tid", "x"), "x"),
    **dict.fromkeys(("qid", "query_id", "queryid"), "Q"),
    **dict.fromkeys(("sqlstate", "sql_error_code", "e", "state", "err", "error"), "e"),
    **dict.fromkeys(("cmd", "tag", "command", "ps"), "i"),
}
_TAGS = re.compile(
    r"(?:idle(?: in transaction(?: \(aborted\))?)?|PARSE|BIND|SELECT|INSERT|UPDATE|DELETE|BEGIN|COMMIT|"
    r"ROLLBACK|SET|SHOW|COPY|authentication|startup|EXECUTE|PREPARE|(?:CREATE|DROP|ALTER) [A-Z ]+|)"
    r"(?: waiting)?"
)
_HOST = re.compile(HOST)
_ADDRESS = re.compile(PATTERNS["<host>"])
_STOPS = frozenset(("<time>", "<epoch>", "<session>", "<transaction>", "<backend>"))
_IN_NAMES = frozenset(("-", ".", "+", "$", "~", "<number>"))
POSITIONAL = (
    "%p-%s-%c-%l-%h-%u-%d-%m ",
    "%t [%p]: [%l-1] %c %x %d %u %a %h ",
    "%m %r %u %a [%c] [%p] ",
    "%m|%u|%d|%r|%p|%l|%e|%s|%v|%x|%c|%i|%P|%a|%Q|",
)
"""Public prefixes with names that only their place tells apart (pganalyze, Spilo, Grafana Alloy)."""


class Sample(NamedTuple):
    """What stands in front of the severity of a line, and the message behind it."""

    text: str
    message: str

    @property
    def is_of_session(self) -> bool:
        """True for messages that only a client's session writes."""
        return _OF_SESSIONS.match(self.message) is not None


def sample_of(line: bytes) -> Sample | None:
    """Returns the sample of a line, None where it has no severity."""
    text = line[: 4 * _LONGEST].decode("utf-8", "replace")
    match = _SEVERITY.search(text[:_LONGEST])
    return Sample(text[: match.start()], text[match.end() :].rstrip("\r\n")) if match else None


class Recognizer:
    """Recognizes the prefix of one file, and recognizes it anew where a line does not fit."""

    def __init__(self, head: Sequence[bytes]) -> None:
        samples = [s for line in head if not line.startswith(b"\t") and (s := sample_of(line)) is not None]
        self._samples = samples[:_SAMPLES]
        self._attempts = _ATTEMPTS
        self.prefix = self._recognized(self._samples)
        # The prefix may change within the head; what both have in common is less than the first one.
        first = self._recognized(samples[:_FIRST])
        if first is not None and not first.names <= self.names:
            self._samples, self.prefix = samples[:_FIRST], first

    def again(self, line: bytes) -> Prefix | None:
        """Returns the prefix that fits this line, too, or this line alone; None where there is none."""
        sample = sample_of(line)
        if sample is None or not self._attempts:
            return None
        self._attempts -= 1
        for samples in ([*self._samples, sample], [sample]):
            other = self._recognized(samples)
            # What two prefixes have in common is less than each of them.
            is_less = len(samples) > 1 and other is not None and not self.names <= other.names
            if other is not None and not is_less and other.pattern.match(line):
                self._samples = samples[-_SAMPLES:]
                self.prefix = other
                return other
        return None

    @property
    def names(self) -> frozenset[str]:
        """Fields of the prefix as it is known now."""
        return frozenset() if self.prefix is None else self.prefix.names

    @staticmethod
    def _recognized(samples: Sequence[Sample]) -> Prefix | None:
        text = template(samples)
        return None if text is None or lacking(text) else prefix(text, is_recognized=True)


def recognize(head: Sequence[bytes], where: str) -> Recognizer:
    """Returns what recognizes the prefix of a file. where: the file, for errors.

    Raises UsageError where no line has a severity, and where the prefix leaves out what is needed.
    """
    recognizer = Recognizer(head)
    if recognizer.prefix is not None:
        return recognizer
    samples = [s for line in head if (s := sample_of(line)) is not None]
    text = template(samples)
    if text is None:
        first = next((line for line in head if line.strip()), b"").decode("utf-8", "replace").strip()
        raise UsageError(f"{where} is no log of PostgreSQL; it begins with: {shown(first, 80)}", ADVICE)
    raise UsageError(
        f"{where} has lines such as {shown(repr(samples[0].text), 120)}: the log_line_prefix has "
        f"{lacking(text)}",
        ADVICE,
    )


def template(samples: Sequence[Sample]) -> str | None:
    """Returns the prefix that the samples have in common, as `log_line_prefix` is written; None without
    samples."""
    of_sessions = [sample for sample in samples if sample.is_of_session] or list(samples)
    if not of_sessions:
        return None
    text = _Places(of_sessions).template()
    if lacking(text):
        # Two prefixes at once, perhaps: that of most lines.
        shapes = [tuple(a.symbol for a in atoms(s.text) if a.symbol in PATTERNS) for s in of_sessions]
        usual = Counter(shapes).most_common(1)[0][0]
        text = _Places([s for s, shape in zip(of_sessions, shapes, strict=True) if shape == usual]).template()
    return text if lacking(text) else _with_stop(text, samples)


_FIELD = re.compile(r"%[A-Za-z%]|[^%]+")


def _with_stop(text: str, samples: Sequence[Sample]) -> str:
    """Adds %q where lines that belong to no session end earlier."""
    whole = prefix(text, is_recognized=True)
    short = [s for s in samples if not whole.pattern.match(f"{s.text}LOG:  x".encode())]
    short = [s for s in short if not s.is_of_session]
    if not short:
        return text
    best, matches = text, 0
    for match in _FIELD.finditer(text):
        places = (
            [match.start(), *range(match.start() + 1, match.end())] if match[0][0] != "%" else [match.start()]
        )
        for at in places:
            if not at or lacking(text[:at]):
                continue
            begin = prefix(text[:at], is_recognized=True)
            count = sum(1 for s in short if begin.pattern.match(f"{s.text}LOG:  x".encode()))
            if count > matches:
                best, matches = f"{text[:at]}%q{text[at:]}", count
    return best


class _Places:
    """The places of a prefix, and which escape each of them stands for."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = samples
        self._columns = columns([sample.text for sample in samples])
        #: For each column the letter of its escape, "" for literal text, None where not known yet.
        self._letters: list[str | None] = [None] * len(self._columns)

    def template(self) -> str:
        """Returns the prefix as `log_line_prefix` is written."""
        self._mark_times()
        self._mark_keys()
        self._mark_around_at()
        self._mark_numbers()
        self._mark_rest()
        text = ""
        for number, (column, letter) in enumerate(zip(self._columns, self._letters, strict=True)):
            if letter:
                # A field of several columns is written once.
                joined = number and self._letters[number - 1] == letter and letter in "udaQ"
                text += "" if joined else f"%{letter}"
            else:
                literal = column.values[0] if column.symbol in PATTERNS else column.symbol
                text += literal.replace("%", "%%")
        return self._with_positions(text)

    def _is(self, number: int, symbols: str) -> bool:
        return 0 <= number < len(self._columns) and self._columns[number].symbol in tuple(symbols)

    def _is_number(self, number: int) -> bool:
        return self._columns[number].symbol == "<number>"

    def _is_word(self, number: int) -> bool:
        symbol = self._columns[number].symbol
        return symbol == "" or (symbol not in PATTERNS and (symbol[0].isalnum() or len(symbol) > 1))

    # --- kinds of places ------------------------------------------------------------------------

    def _mark_times(self) -> None:
        times = [n for n, column in enumerate(self._columns) if column.symbol == "<time>"]
        if times:
            # The start of a session has no fraction of a second, and is never later than the message.
            main = max(times, key=lambda n: ("." in self._columns[n].values[0], self._columns[n].values))
            for number in times:
                values = self._columns[number].values
                precise = "m" if "." in values[0] else "t"
                self._letters[number] = precise if number == main else "s"
        for number, column in enumerate(self._columns):
            letters = {"<epoch>": "n", "<session>": "c", "<transaction>": "v", "<backend>": "b"}
            if column.symbol in letters:
                self._letters[number] = letters[column.symbol]
            elif column.symbol == "<host>":
                self._letters[number] = "r" if any("(" in value for value in column.values) else "h"

    def _key_at(self, number: int) -> tuple[str, int] | None:
        """Returns the escape of a key such as `user=` at a column, and where its value begins."""
        column = self._columns[number]
        if column.symbol in PATTERNS or not column.symbol or not column.symbol[0].isalpha():
            return None
        behind = number + 1
        while self._is(behind, " "):
            behind += 1
        if not self._is(behind, "="):
            alone = number == 0 or self._is(number - 1, " [(,;<|")
            if not (alone and self._is(number + 1, ":") and column.symbol.lower() in _KEYS):
                return None
            behind = number + 1
        behind += 1
        while self._is(behind, " \"'"):
            behind += 1
        return _KEYS.get(column.symbol.lower(), "a"), behind

    def _mark_keys(self) -> None:
        keys = {n: key for n in range(len(self._columns)) if (key := self._key_at(n)) is not None}
        starts = sorted(keys)
        for place, number in enumerate(starts):
            letter, begin = keys[number]
            for literal in range(number, min(begin, len(self._columns))):
                self._letters[literal] = ""
            end = starts[place + 1] if place + 1 < len(starts) else len(self._columns)
            self._mark_value(letter, begin, self._end_of_value(letter, begin, end))

    def _end_of_value(self, letter: str, begin: int, end: int) -> int:
        at = begin
        while at < end:
            symbol = self._columns[at].symbol
            if letter == "a":
                # Names of applications hold all kinds of marks.
                in_brackets = symbol == "<number>" and self._is(at - 1, "[")
                if symbol in _STOPS or in_brackets:
                    break
            elif symbol in tuple(" ,;])>\"|'") and not (symbol == "]" and at == begin):
                return at
            at += 1
        while at > begin and self._columns[at - 1].symbol in tuple(" ,;:[](){}<>\"|'-"):
            at -= 1
        return at

    def _mark_value(self, letter: str, begin: int, end: int) -> None:
        for number in range(begin, end):
            symbol = self._columns[number].symbol
            if symbol == "<number>" and letter in "pxlQe":
                self._letters[number] = letter
            elif self._letters[number] is None or letter in "uda":
                self._letters[number] = letter if letter in "udahi" else "a"
        if letter == "h" and end > begin:
            # An address whose port differs is of several columns.
            for number in range(begin, end):
                self._letters[number] = "r" if self._letters[number] == "r" else "h"
            if end - begin > 1:
                self._letters[begin:end] = ["a"] * (end - begin)

    def _mark_around_at(self) -> None:
        for number, column in enumerate(self._columns):
            if column.symbol != "@" or self._letters[number] is not None:
                continue
            left = number - 1
            while left >= 0 and self._is_name(left):
                left -= 1
            right = number + 1
            while right < len(self._columns) and self._is_name(right):
                right += 1
            if right - left < 3:
                continue
            self._letters[left + 1 : number] = ["u"] * (number - left - 1)
            self._letters[number] = ""
            self._letters[number + 1 : right] = ["d"] * (right - number - 1)
            break

    def _is_name(self, number: int) -> bool:
        symbol = self._columns[number].symbol
        return self._letters[number] is None and (self._is_word(number) or symbol in _IN_NAMES)

    def _mark_numbers(self) -> None:
        for number, column in enumerate(self._columns[:-1]):
            if not column.symbol and set(column.values) <= {"", "-"} and self._is_number(number + 1):
                self._letters[number : number + 2] = "QQ"  # query ids are negative at times
        free = [n for n in range(len(self._columns)) if self._is_number(n) and self._letters[n] is None]
        for number in free:
            values = self._columns[number].values
            if self._is(number - 1, "-") and set(values) == {"1"} and self._is(number + 1, "]"):
                self._letters[number] = ""  # of [%l-1]
            elif all(len(value) == 5 for value in values) and "00000" in values:
                self._letters[number] = "e"
        free = [n for n in free if self._letters[n] is None]
        if "p" not in self._letters and (process := self._process(free)) is not None:
            self._letters[process] = "p"
            free.remove(process)
        for number in free:
            counted = "l" not in self._letters and self._counts(number)
            self._letters[number] = "l" if counted else "Q" if self._is(number - 1, "-") else "x"

    def _process(self, free: Sequence[int]) -> int | None:
        """Returns the column of the process's number: the one of the session id, or the first in brackets."""
        sessions = [column.values for column in self._columns if column.symbol == "<session>"]
        if sessions:
            ids = [str(int(value.partition(".")[2], 16)) for value in sessions[0]]
            return next((n for n in free if list(self._columns[n].values) == ids), None)
        candidates = [n for n in free if all(value.isdigit() for value in self._columns[n].values)]
        candidates = [n for n in candidates if any(v != "0" for v in self._columns[n].values)] or candidates
        bracketed = [n for n in candidates if self._is(n - 1, "[")]
        return next(iter(bracketed or candidates), None)

    def _counts(self, number: int) -> bool:
        """Returns whether a column grows with every line of a session."""
        if self._is(number + 1, "-") or self._is(number - 1, "-"):
            return True
        processes = next(
            (
                c.values
                for c, letter in zip(self._columns, self._letters, strict=True)
                if letter in ("p", "c")
            ),
            (),
        )
        last: dict[str, int] = {}
        grows = False
        for process, value in zip(processes, self._columns[number].values, strict=False):
            if not value.isdigit() or int(value) < last.get(process, 0):
                return False
            grows = grows or (process in last and int(value) > last[process])
            last[process] = int(value)
        return grows

    def _mark_rest(self) -> None:
        for number, column in enumerate(self._columns):
            if self._letters[number] is not None:
                continue
            if not self._is_word(number):
                self._letters[number] = ""
            elif (
                self._is(number + 1, "-")
                and number + 2 < len(self._letters)
                and self._letters[number + 2] == "e"
            ):
                self._letters[number] = ""  # PG-%e
            elif (
                column.values
                and all(_TAGS.fullmatch(value) for value in column.values)
                and any(column.values)
            ):
                self._letters[number] = "i"
            elif all(_HOST.fullmatch(value) for value in column.values) and any(
                _ADDRESS.fullmatch(value) for value in column.values
            ):
                self._letters[number] = "h"
            else:
                self._letters[number] = self._role(number) or "a"

    def _role(self, number: int) -> str:
        """Returns the escape of a name that the messages of the same lines tell."""
        for letter, name in (("u", "user"), ("d", "database"), ("a", "application")):
            if letter in self._letters:
                continue
            pairs = [
                (match[name], value)
                for sample, value in zip(self._samples, self._columns[number].values, strict=False)
                if (match := _NAMES.match(sample.message)) and match[name]
            ]
            if pairs and all(first == second for first, second in pairs):
                return letter
        return ""

    def _with_positions(self, text: str) -> str:
        """Takes over from a public prefix that fits all samples which name stands where."""
        for known in POSITIONAL if "%d" not in text else ():
            begins = prefix(known, is_recognized=True).pattern.match
            if all(begins(f"{sample.text}LOG:  ".encode()) for sample in self._samples):
                return known
        return text


__all__ = ["POSITIONAL", "Recognizer", "Sample", "recognize", "sample_of", "template"]

"""Logs as log services, clouds, journals and syslog keep them, made of what a server wrote."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pgstrata.traffic.logs.wrapped.kubernetes import _COLUMNS as CSV_COLUMNS

_MORE = re.compile(r"[^\n]{0,300}?\b(?:DETAIL|HINT|QUERY|CONTEXT|LOCATION|STATEMENT|BACKTRACE):  ")


@dataclass(frozen=True)
class Entry:
    """An entry of a text log. lines: each of its physical lines."""

    time: datetime
    process: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def parts(self) -> list[str]:
        """The entry, its DETAIL, its STATEMENT: what begins with a prefix of its own."""
        parts: list[str] = []
        for line in self.lines:
            if line.startswith("\t"):
                parts[-1] += f"\n{line}"
            else:
                parts.append(line)
        return parts


def entries(text: str) -> list[Entry]:
    """Takes apart a text log whose log_line_prefix begins with `%m [%c]`."""
    line_groups: list[list[str]] = []
    for line in text.split("\n")[:-1]:
        if line.startswith("\t") or (line_groups and _MORE.match(line)):
            line_groups[-1].append(line)
        else:
            line_groups.append([line])
    return [Entry(_when(lines[0]), _process(lines[0]), tuple(lines)) for lines in line_groups]


def _process(line: str) -> str:
    match = re.search(r"\[[0-9a-f]+\.([0-9a-f]+)\]", line)
    assert match is not None
    return str(int(match[1], 16))


def _when(line: str) -> datetime:
    return datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC)


def chunks(number: int, text: str) -> list[str]:
    """As write_syslog of PostgreSQL sends an entry, with its sequence numbers."""
    data = text.encode()
    parts: list[str] = []
    while data:
        if data.startswith(b"\n"):
            data = data[1:]
            continue
        size = min(900, data.find(b"\n") if b"\n" in data else len(data))
        part = data[:size].decode("utf-8", "ignore").encode()  # to the boundary of a letter
        following = data[len(part) : len(part) + 1]
        if following and not following.isspace():
            spaces = [at for at in range(1, len(part)) if part[at : at + 1].isspace()]
            part = part[: spaces[-1]] if spaces else part
        data = data[len(part) :]
        parts.append(f"[{number}-{len(parts) + 1}] {part.decode()}")
    return parts


def rfc3339(time: datetime, zone: str = "Z") -> str:
    return f"{time:%Y-%m-%dT%H:%M:%S.%f}{zone}"


def _numbered(entries: Sequence[Entry]) -> Iterable[tuple[Entry, list[str]]]:
    """Entries with their chunks: a process counts its own."""
    counts: dict[str, int] = {}
    for entry in entries:
        counts[entry.process] = counts.get(entry.process, 0) + 1
        yield entry, chunks(counts[entry.process], entry.text)


OTHER_PROGRAM = "sshd[99]: Accepted publickey for root"


def syslog(entries: Sequence[Entry], *, tab: str = "#011", form: str = "bsd") -> str:
    """A file of rsyslog. form: of the header. Lines of another program stand in between."""
    lines = []
    for entry, parts in _numbered(entries):
        header = {
            "bsd": f"{entry.time:%b %e %H:%M:%S} db1 postgres[{entry.process}]: ",
            "iso": f"{rfc3339(entry.time, '+00:00')} db1 postgres[{entry.process}]: ",
            "5424": f"<134>1 {rfc3339(entry.time)} db1 postgres {entry.process} - - ",
        }[form]
        lines += [header + part.replace("\t", tab) for part in parts]
        other = {"5424": f"<86>1 {rfc3339(entry.time)} db1 sshd 99 - - hello"}
        lines.append(other.get(form, header.partition("postgres")[0] + OTHER_PROGRAM))
    return "\n".join(lines) + "\n"


def printed(text: str, label: str, *, other: str = "") -> str:
    """A log with a label in front of each line, as `docker compose logs` prints it, and a line of another
    container behind each."""
    behind = f"{other}GET / 200\n" if other else ""
    return "".join(f"{label}{line}{behind}" for line in text.splitlines(keepends=True))


def tailed(log_entries: Sequence[Entry]) -> str:
    """What `aws logs tail` prints: time and stream in front of each event, not of its further lines."""
    return "".join(f"{rfc3339(e.time, '+00:00')} db-1.0 {part}\n" for e in log_entries for part in e.parts)


def heroku(entries: Sequence[Entry]) -> str:
    """What `heroku logs -p postgres` prints: with spaces for tabs, and the attachment's name."""
    lines = []
    for entry, parts in _numbered(entries):
        header = f"{entry.time:%Y-%m-%dT%H:%M:%S}+00:00 app[postgres.{entry.process}]: [DATABASE] "
        lines += [header + part.replace("\t", "    ") for part in parts]
        lines.append(f"{entry.time:%Y-%m-%dT%H:%M:%S}+00:00 app[web.1]: GET /")
    return "\n".join(lines) + "\n"


def journal(entries: Sequence[Entry], *, of_syslog: bool) -> str:
    """What `journalctl -o json --all` prints of a server that logs to syslog, or to standard error."""
    records = []
    for entry, parts in _numbered(entries):
        for part in parts if of_syslog else entry.lines:
            micro = int(entry.time.timestamp()) * 1_000_000 + entry.time.microsecond
            record: dict[str, object] = {
                "__CURSOR": "s=1;i=2",
                "__REALTIME_TIMESTAMP": str(micro + 5),
                "_SOURCE_REALTIME_TIMESTAMP": str(micro),
                "_HOSTNAME": "db1",
                "SYSLOG_IDENTIFIER": "postgres",
                "_PID": entry.process,
                # An array where it is no text that can be printed.
                "MESSAGE": part if part.isprintable() or "\x1b" not in part else list(part.encode()),
            }
            records.append(record)
        records.append(
            {"__CURSOR": "s", "__REALTIME_TIMESTAMP": "1", "SYSLOG_IDENTIFIER": "sshd", "MESSAGE": "x"}
        )
    return "".join(json.dumps(record) + "\n" for record in records)


def cloud_logging(entries: Sequence[Entry], *, by_line: bool = False, layout: str = "lines") -> str:
    """An export of Cloud Logging. by_line: as it was until 2021, each line an entry. layout: lines in the
    order of time, or the array that `gcloud logging read` prints, the newest first."""
    records: list[dict[str, object]] = []
    at = 0
    for entry in entries:
        for text in entry.lines if by_line else entry.parts:
            at += 1
            records.append(
                {
                    "insertId": f"s={at}",
                    "logName": "projects/shop/logs/cloudsql.googleapis.com%2Fpostgres.log",
                    "receiveTimestamp": "2026-12-31T00:00:00.123456789Z",
                    "resource": {"labels": {"database_id": "shop:db"}, "type": "cloudsql_database"},
                    "severity": "INFO",
                    "textPayload": text,
                    "timestamp": rfc3339(entry.time + timedelta(microseconds=at % 900 if by_line else 0)),
                }
            )
        records.append(
            {
                "insertId": f"o={at}",
                "logName": "projects/shop/logs/cloudaudit.googleapis.com%2Factivity",
                "protoPayload": {},
                "receiveTimestamp": "2026-12-31T00:00:00Z",
                "timestamp": rfc3339(entry.time),
            }
        )
    if layout == "lines":
        return "".join(json.dumps(record) + "\n" for record in records)
    return json.dumps(records[::-1], indent=2) + "\n"


def rows(text: str) -> list[dict[str, str]]:
    """The rows of a csvlog by their columns."""
    return [dict(zip(CSV_COLUMNS, row, strict=False)) for row in csv.reader(io.StringIO(text, newline=""))]


def cloudnativepg(rows: Sequence[dict[str, str]]) -> str:
    records: list[dict[str, object]] = []
    for row in rows:
        records.append(
            {"level": "info", "logger": "wal-archive", "msg": "Archived WAL file", "logging_pod": "a-1"}
        )
        records.append(
            {
                "level": "info",
                "ts": "2026-08-03T10:00:00.1Z",
                "logger": "postgres",
                "msg": "record",
                "logging_pod": "a-1",
                "record": {key: value for key, value in row.items() if value or key == "user_name"},
            }
        )
    return "".join(json.dumps(record) + "\n" for record in records)


def docker(text: str) -> str:
    """The file of Docker's json-file driver: long lines in parts."""
    records = []
    for line in text.splitlines(keepends=True):
        data = line
        while data:
            records.append({"log": data[:300], "stream": "stderr", "time": "2026-08-03T10:00:00.1Z"})
            data = data[300:]
    return "".join(json.dumps(record) + "\n" for record in records)


def kubernetes(text: str) -> str:
    """The file of a container on a node of Kubernetes: long lines in parts."""
    lines = []
    for line in text.split("\n")[:-1]:
        parts = [line[at : at + 300] for at in range(0, len(line), 300)] or [""]
        lines += [f"2026-08-03T10:00:00.123456789Z stderr P {part}" for part in parts[:-1]]
        lines.append(f"2026-08-03T10:00:00.123456789Z stderr F {parts[-1]}")
    return "\n".join(lines) + "\n"


def cloudwatch(entries: Sequence[Entry], *, indent: int | None = None) -> str:
    """What `aws logs get-log-events` prints."""
    events = [
        {"timestamp": int(entry.time.timestamp() * 1000), "message": text, "ingestionTime": 1}
        for entry in entries
        for text in entry.parts
    ]
    return json.dumps({"events": events, "nextForwardToken": "f/1"}, indent=indent) + "\n"


def cloudwatch_csv(entries: Sequence[Entry], *, is_insights: bool = False) -> str:
    """What CloudWatch's console exports of a log stream, or of a query of Logs Insights, newest first."""
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL if is_insights else csv.QUOTE_MINIMAL)
    writer.writerow(["@timestamp", "@message", "@logStream"] if is_insights else ["timestamp", "message"])
    events = [(entry.time, text) for entry in entries for text in entry.parts]
    for time, text in reversed(events) if is_insights else events:
        if is_insights:
            writer.writerow([time.isoformat(" ", "milliseconds").partition("+")[0], text, "app.0"])
        else:
            writer.writerow([int(time.timestamp() * 1000), text])
    return out.getvalue()


def _azure(
    rows: Sequence[dict[str, str]], prefixes: Sequence[str], *, flexible: bool
) -> list[dict[str, str]]:
    records = []
    for row, prefix in zip(rows, prefixes, strict=True):
        severity = f"{row['error_severity']}:  "
        # The server's tabs are its text log's alone.
        records.append(
            {
                "prefix": "" if flexible else prefix,
                "message": f"{prefix}{severity}{row['message']}" if flexible else row["message"],
                "detail": row["detail"],
                "errorLevel": row["error_severity"],
                "sqlerrcode": row["sql_state_code"],
                "context": row["context"],
                "statement": row["query"],
                "processId": row["process_id"],
                "timestamp": row["log_time"],
            }
        )
    return records


def _azure_time(row: dict[str, str]) -> str:
    return row["timestamp"].replace(" ", "T", 1).replace(" UTC", "Z")


def azure(rows: Sequence[dict[str, str]], prefixes: Sequence[str], *, flexible: bool = True) -> str:
    """What diagnostic settings write into a storage account."""
    return "".join(
        json.dumps(
            {
                "time": _azure_time(record),
                "resourceId": "/SUBSCRIPTIONS/1/PROVIDERS/MICROSOFT.DBFORPOSTGRESQL/FLEXIBLESERVERS/DB",
                "category": "PostgreSQLLogs",
                "operationName": "LogEvent",
                "properties": {key: value for key, value in record.items() if value or not flexible},
            }
        )
        + "\n"
        for record in _azure(rows, prefixes, flexible=flexible)
    )


def azure_csv(rows: Sequence[dict[str, str]], prefixes: Sequence[str]) -> str:
    """A table of Log Analytics, exported, the newest row first."""
    names = {
        "Message": "message",
        "Detail": "detail",
        "ErrorLevel": "errorLevel",
        "SqlErrorCode": "sqlerrcode",
        "Context": "context",
        "Statement": "statement",
    }
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["TimeGenerated [UTC]", *names])
    for record in reversed(_azure(rows, prefixes, flexible=True)):
        writer.writerow([_azure_time(record), *(record[key] for key in names.values())])
    return "\ufeff" + out.getvalue()


def _prefixes(csvlog: str) -> list[str]:
    return [f"{row['log_time']}-{row['session_id']}-{row['database_name']}-" for row in rows(csvlog)]


WRAPPED: dict[str, Callable[[str, str, str], str]] = {
    "syslog": lambda text, csvlog, jsonlog: syslog(entries(text)),
    "syslog with tabs": lambda text, csvlog, jsonlog: syslog(entries(text), tab="\t", form="iso"),
    "syslog of RFC 5424": lambda text, csvlog, jsonlog: syslog(entries(text), form="5424"),
    "journal of syslog": lambda text, csvlog, jsonlog: journal(entries(text), of_syslog=True),
    "journal of stderr": lambda text, csvlog, jsonlog: journal(entries(text), of_syslog=False),
    "Cloud SQL": lambda text, csvlog, jsonlog: cloud_logging(entries(text)),
    "Cloud SQL, newest first": lambda text, csvlog, jsonlog: cloud_logging(entries(text), layout="array"),
    "Cloud SQL, line by line": lambda text, csvlog, jsonlog: cloud_logging(entries(text), by_line=True),
    "CloudNativePG": lambda text, csvlog, jsonlog: cloudnativepg(rows(csvlog)),
    "Docker": lambda text, csvlog, jsonlog: docker(text),
    "Docker, jsonlog": lambda text, csvlog, jsonlog: docker(jsonlog),
    "Kubernetes": lambda text, csvlog, jsonlog: kubernetes(text),
    "Kubernetes, CloudNativePG": lambda text, csvlog, jsonlog: kubernetes(cloudnativepg(rows(csvlog))),
    "docker logs -t": lambda text, csvlog, jsonlog: printed(text, "2026-08-03T10:00:00.123456789Z "),
    "docker logs -t, csvlog": lambda text, csvlog, jsonlog: printed(csvlog, "2026-08-03T10:00:00.123Z "),
    "docker compose logs": lambda text, csvlog, jsonlog: printed(text, "db-1   | ", other="web-1  | "),
    "docker compose logs, in colour": lambda text, csvlog, jsonlog: printed(
        text, "\x1b[36mdb-1  | \x1b[0m", other="\x1b[33mweb-1 | \x1b[0m"
    ),
    "docker compose logs -t": lambda text, csvlog, jsonlog: printed(text, "db-1  | 2026-08-03T10:00:00.1Z "),
    "kubectl logs --prefix": lambda text, csvlog, jsonlog: printed(text, "[pod/pg-0/postgres] "),
    "aws logs tail": lambda text, csvlog, jsonlog: tailed(entries(text)),
    "byte order mark": lambda text, csvlog, jsonlog: f"\ufeff{text}",
    "byte order mark, csvlog": lambda text, csvlog, jsonlog: f"\ufeff{csvlog}",
    "CloudWatch": lambda text, csvlog, jsonlog: cloudwatch(entries(text)),
    "CloudWatch, indented": lambda text, csvlog, jsonlog: cloudwatch(entries(text), indent=4),
    "CloudWatch, CSV": lambda text, csvlog, jsonlog: cloudwatch_csv(entries(text)),
    "CloudWatch, CSV of Logs Insights": lambda text, csvlog, jsonlog: cloudwatch_csv(
        entries(text), is_insights=True
    ),
    "Azure": lambda text, csvlog, jsonlog: azure(rows(csvlog), _prefixes(csvlog)),
    "Azure, single server": lambda text, csvlog, jsonlog: azure(
        rows(csvlog), _prefixes(csvlog), flexible=False
    ),
    "Azure, CSV": lambda text, csvlog, jsonlog: azure_csv(rows(csvlog), _prefixes(csvlog)),
}
"""By name what makes a file of the same log as text, csvlog and jsonlog."""

__all__ = [
    "WRAPPED",
    "Entry",
    "azure",
    "azure_csv",
    "chunks",
    "cloud_logging",
    "cloudnativepg",
    "cloudwatch",
    "cloudwatch_csv",
    "docker",
    "entries",
    "heroku",
    "journal",
    "kubernetes",
    "printed",
    "rows",
    "syslog",
    "tailed",
]

"""One description of a connection, in libpq's terms, for the administrator's sessions and the driver's.

libpq reads connection strings, service files, `.pgpass` and `PG…` variables, and chooses among several
hosts; the driver, which speaks the protocol by itself, is told where that led and whether libpq's session is
encrypted there. What libpq would keep and the driver cannot is refused before anybody connects.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pgstrata.driver.spec import AuthMethod, Connection, Keepalives
from pgstrata.errors import ServerError, UsageError, server_said
from pgstrata.server.capabilities import catalog_of, setting
from pgstrata.server.connect import tls
from pgstrata.server.connect.session import answering, within
from pgstrata.suggest import nearest

if TYPE_CHECKING:
    import psycopg
    from psycopg import pq

    from pgstrata.server.connect.interruptible import Session

CONNECT_SECONDS = 30
"""Longest time for connecting and start-up where `connect_timeout` does not say otherwise."""

ENDLESS_SECONDS = 130
"""What `connect_timeout=0`, libpq's "without limit", means here: every wait has an end."""

GRACE_SECONDS = 3.0
"""How much later than libpq's own limit a connection is given up, which libpq cannot be while it computes."""

_WAYS: tuple[AuthMethod, ...] = ("none", "password", "md5", "scram-sha-256")

# Nothing can listen there: libpq looks at all parameters and connects to nobody.
_NOWHERE = {"host": "/dev/null/nowhere", "hostaddr": "", "port": ""}

_SERVICES = "services stand in the file of PGSERVICEFILE, ~/.pg_service.conf or PGSYSCONFDIR/pg_service.conf"

# What libpq takes from the environment and sends with the start-up message (fe-protocol3.c).
_SESSION_VARIABLES = {"PGDATESTYLE": "datestyle", "PGTZ": "timezone", "PGGEQO": "geqo"}


@dataclass(frozen=True)
class Conninfo:
    """How to connect to one server.

    given: parameters by libpq's names. own: a server of pgstrata's, so that no variable of the environment
    may lead elsewhere; those that describe a session (`PGOPTIONS`, `PGAPPNAME`, …) count there, too.
    application: the application_name where nobody gives one.
    """

    given: Mapping[str, str] = field(repr=False)
    is_ours: bool = False
    application: str = "pgstrata"

    @classmethod
    def parse(cls, text: str, application: str = "pgstrata") -> Conninfo:
        """Parses a URI or key=value words. Raises UsageError for a text that libpq does not understand."""
        import psycopg
        from psycopg.conninfo import conninfo_to_dict

        try:
            given = conninfo_to_dict(text)
        except psycopg.ProgrammingError as error:
            if (scheme := re.match(r"\w{1,20}://", text)) and not scheme[0].startswith("postgres"):
                raise UsageError(
                    f"{scheme[0]}… is not the address of a PostgreSQL server",
                    "write postgresql://user@host:port/database",
                ) from None
            raise _not_understood(str(error)) from None
        return cls({name: str(value) for name, value in given.items()}, application=application)

    @classmethod
    def of_own(
        cls, host: str, port: int, user: str, database: str, application: str = "pgstrata"
    ) -> Conninfo:
        """Returns the connection to a server that pgstrata has started. application: empty for a server that
        may not be told of it."""
        given = {"host": host, "port": str(port), "user": user, "dbname": database}
        unnamed = {} if application else {"application_name": ""}
        return cls({**given, **unnamed}, is_ours=True, application=application)

    def with_database(self, name: str | None) -> Conninfo:
        """Returns the same connection to another database, if one is named."""
        return replace(self, given={**self.given, "dbname": name}) if name else self

    @property
    def database(self) -> str | None:
        """The database it names, None where it names none."""
        return self.given.get("dbname") or None

    # --- what holds ---------------------------------------------------------------------------

    def resolved(self) -> dict[str, str]:
        """Returns all parameters as libpq has them after service files and variables; host and port point
        nowhere.

        Raises UsageError for values that libpq refuses.
        """
        values, problem = self._looked_at()
        if problem:
            where = _SERVICES if "service" in problem else ""
            raise UsageError(f"the connection is not valid: {server_said(problem)}", where)
        return values

    def _looked_at(self) -> tuple[dict[str, str], str]:
        """Returns all parameters, and libpq's complaint about them (empty if there is none)."""
        from psycopg import pq
        from psycopg.conninfo import make_conninfo

        wanted = make_conninfo("", **{**self._asked(), **_NOWHERE})
        connection = pq.PGconn.connect_start(wanted.encode())
        try:
            problem = connection.error_message.decode(errors="replace").strip()
            return _values(connection), "" if problem.startswith("connection to server") else problem
        finally:
            connection.finish()

    def check(self) -> None:
        """Raises UsageError for what libpq would keep and the driver cannot. Connects to nobody."""
        if self.is_ours:
            return
        values, _ = self._looked_at()
        if values.get("gssencmode") == "require":
            raise UsageError(
                f"the driver speaks no GSSAPI, and {self._named('gssencmode')} is require",
                "use TLS, a Unix socket or a tunnel, and leave gssencmode out",
            )
        values = self.resolved()
        tls.check(values, self._named)
        if values.get("requirepeer"):
            raise UsageError(
                f"the driver does not look who runs the server: leave {self._named('requirepeer')} out"
            )
        if (least := values.get("min_protocol_version", "3.0")) not in ("", "3.0"):
            raise UsageError(
                f"the driver speaks protocol 3.0, and {self._named('min_protocol_version')} is {least}"
            )
        if values.get("replication", "false").lower() not in ("false", "off", "no", "0", ""):
            raise UsageError("a connection for replication runs no statements: leave replication out")
        encoding = re.sub(r"[^a-z0-9]", "", values.get("client_encoding", "").lower())
        if encoding not in ("", "utf8", "unicode"):
            raise UsageError(
                f"the driver speaks UTF8 only, and {self._named('client_encoding')} is "
                f"{values['client_encoding']}"
            )
        if not _ways(values.get("require_auth", "")):
            raise UsageError(
                f"{self._named('require_auth')} = {values['require_auth']}: the driver speaks none of it",
                f"it speaks {', '.join(_WAYS)}",
            )
        timeout = values.get("connect_timeout", "")
        if timeout and not re.fullmatch(r"\s*[+-]?\d{1,9}\s*", timeout):
            raise UsageError(f"{self._named('connect_timeout')} = {timeout} is not a number of seconds")

    def _named(self, name: str) -> str:
        """Returns the name of the parameter, with the variable if its value comes from the environment."""
        variables = {o.keyword.decode(): (o.envvar or b"").decode() for o in _known()}
        variable = variables.get(name, "")
        return f"{name} ({variable})" if name not in self.given and os.environ.get(variable) else name

    # --- connecting ---------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """Longest time for connecting and start-up."""
        return _seconds(self.resolved().get("connect_timeout", ""))

    def connect(self) -> Session:
        """Returns a session of the administrator's, in autocommit.

        Raises UsageError for what cannot be kept, ServerError where there is none to be had.
        """
        import psycopg
        from psycopg.conninfo import make_conninfo

        from pgstrata.server.connect.interruptible import Session
        from pgstrata.server.connect.refused import refused

        self.check()
        wanted = make_conninfo("", **self._asked())
        try:
            if self.is_ours:
                return Session.connect(wanted, autocommit=True)
            hosts = self.given.get("host") or os.environ.get("PGHOST", "")
            limit = self.seconds * (1 + hosts.count(",")) + GRACE_SECONDS
            return within(limit, lambda: Session.connect(wanted, autocommit=True))
        except psycopg.Error as error:
            if self.is_ours:
                raise ServerError(f"cannot connect to the server: {server_said(error)}") from error
            raise refused(error, self._looked_at()[0], hosts.split(",")) from error

    def _asked(self) -> dict[str, str]:
        """Returns the parameters that libpq is given."""
        known = {o.keyword.decode(): o for o in _known()}
        asked = {**self.given, "fallback_application_name": self.application}
        timeout = known["connect_timeout"].val
        if "connect_timeout" not in asked and (self.is_ours or not timeout) and "service" not in asked:
            asked["connect_timeout"] = str(CONNECT_SECONDS)
        if self.is_ours:
            for name, option in known.items():
                elsewhere = option.val is not None and option.val != option.compiled
                if elsewhere and name not in asked and name not in ("options", "application_name", "service"):
                    asked[name] = (option.compiled or b"").decode()
        return {name: value for name, value in asked.items() if value is not None}

    def for_driver(self) -> Connection:
        """Returns the driver's connection, its spec's `connection`, to the same place for sessions of the
        same kind.

        Where several hosts, a service or the environment decide, libpq is asked by connecting.
        """
        if self.is_ours:
            values = {**self.resolved(), **self.given}
            return Connection(
                host=values["host"],
                port=int(values["port"]),
                user=values["user"],
                database=values["dbname"],
                application_name=_application(values, self.application),
                options=values.get("options") or None,
                parameters=_parameters(),
            )
        with self.connect() as session:
            return self.of_session(session)

    def of_session(self, session: psycopg.Connection[Any]) -> Connection:
        """Returns the driver's `connection` for the place where a session of this description is.

        Raises ServerError where the server does not answer.
        """
        info, values = session.info, _values(session.pgconn)
        local = info.host.startswith(("/", "@"))
        seconds = _seconds(values.get("connect_timeout", ""))
        # Servers before 9.0 refuse a connection that names its application, and libpq tries again without.
        with answering(session, seconds):
            named = _application(values, self.application) if _takes_name(session) else ""
        return Connection(
            host=info.host if local else info.hostaddr or info.host or "/tmp",
            port=info.port,
            user=info.user,
            database=info.dbname,
            password=info.password or None,
            auth=_ways(values.get("require_auth", "")),
            connect_timeout_seconds=seconds,
            keepalives=Keepalives() if local else _keepalives(values),
            application_name=named,
            options=values.get("options") or None,
            parameters=_parameters(),
            tls=tls.of_session(session, values),
        )


def _known() -> list[pq.ConninfoOption]:
    """Returns the parameters of libpq, with their defaults."""
    from psycopg import pq

    return pq.Conninfo.get_defaults()


def _values(connection: pq.abc.PGconn) -> dict[str, str]:
    return {o.keyword.decode(): o.val.decode(errors="replace") for o in connection.info if o.val is not None}


def _takes_name(session: psycopg.Connection[Any]) -> bool:
    """Returns True if the server has application_name: it reports its value, unless a pooler or proxy stands
    before it."""
    reported = session.info.parameter_status("application_name") is not None
    return reported or catalog_of(session).has(setting("application_name"))


def _application(values: Mapping[str, str], application: str) -> str:
    return values.get("application_name") or application


def _parameters() -> dict[str, str]:
    """Returns the settings of a session that libpq takes from the environment."""
    variables = ((name, os.environ.get(variable, "")) for variable, name in _SESSION_VARIABLES.items())
    return {name: text for name, text in variables if text and text.lower() != "default"}


def _seconds(timeout: str) -> float:
    seconds = int(timeout or CONNECT_SECONDS)
    return float(seconds) if seconds > 0 else float(ENDLESS_SECONDS)


def _ways(require_auth: str) -> list[AuthMethod]:
    """Returns the authentication methods the server may ask for, by libpq's require_auth."""
    named = [word.strip() for word in require_auth.split(",") if word.strip()]
    without = {word[1:] for word in named if word.startswith("!")}
    return [way for way in _WAYS if (way not in without if without or not named else way in named)]


def _keepalives(values: Mapping[str, str]) -> Keepalives:
    def above_zero(name: str) -> int | None:
        value = int(values.get(name) or 0)
        return value if value > 0 else None

    return Keepalives(
        on=not values.get("keepalives") or int(values["keepalives"]) != 0,
        idle_seconds=above_zero("keepalives_idle"),
        interval_seconds=above_zero("keepalives_interval"),
        count=above_zero("keepalives_count"),
        user_timeout_ms=above_zero("tcp_user_timeout"),
    )


def _not_understood(problem: str) -> UsageError:
    """Returns the error for libpq's complaint about a connection string, without anything that may be a part
    of a password."""
    if match := re.match(r'invalid (?:URI query parameter|connection option): "(\w{1,40})"|'
                         r'invalid connection option "(\w{1,40})"', problem):  # fmt: skip
        name = match[1] or match[2]
        known = [o.keyword.decode() for o in _known()]
        guess = nearest(name, known)
        hint = f"did you mean `{guess}`?" if guess else "the parameters are those of libpq"
        return UsageError(f"a connection has no parameter {name}", hint)
    bare = re.sub(r'( after)?(: |\s)"(?!="|\]")[^"]*"', "", problem.strip(), flags=re.DOTALL)
    return UsageError(
        f"the connection string is not valid: {server_said(bare)}",
        "write postgresql://user@host:port/database, or host=… port=… user=… dbname=…",
    )

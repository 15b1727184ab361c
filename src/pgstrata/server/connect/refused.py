"""Why there is no connection: libpq's and the server's words as one sentence and the next step."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgstrata.errors import PgstrataError, ServerError, UsageError, server_said

_LOOK_SECONDS = 5.0
"""Longest time for looking at a certificate that libpq has refused without saying why."""

_SSL_REQUEST = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"
"""PostgreSQL documentation, "Message Formats"."""


@dataclass(frozen=True)
class _Rule:
    """What a message means. ours: to be mended here, no matter who answers."""

    pattern: str
    why: str
    hint: str = ""
    ours: bool = False


# {1} and {2} are groups of the pattern, other names parameters of the connection.
_RULES = (
    _Rule(
        r'root certificate file "(.+?)" does not exist',
        "sslmode={sslmode} needs the certificate of the authority, and {1} is not there",
        "name the file with sslrootcert; sslrootcert=system takes the authorities of the system",
        ours=True,
    ),
    _Rule(
        r'server certificate for "(.+?)"(?: \(and \d+ other names?\))? does not match host name "(.+?)"',
        "its certificate is for {1}, not for {2}",
        "connect by a name that it holds; sslmode=verify-ca does not ask for the name",
    ),
    _Rule(
        r"server does not support SSL, but SSL was required",
        "it has no TLS, and sslmode is {sslmode}",
        "set ssl = on there, or sslmode=prefer or disable here",
    ),
    _Rule(
        r'private key file "(.+?)" has group or world access',
        "others may read the key {1}",
        "chmod 600 {1}",
        ours=True,
    ),
    _Rule(
        r'private key file "(.+?)" must be owned by',
        "the key {1} belongs to somebody else",
        "make a copy of your own, with mode 600",
        ours=True,
    ),
    _Rule(
        r'certificate present, but not private key file "(.+?)"',
        "there is a certificate of the client's, and its key {1} is not there",
        "name it with sslkey",
        ours=True,
    ),
    _Rule(
        r'could not load private key file "(.+?)": (?:bad decrypt|.*maybe wrong password|.*BAD_DECRYPT)',
        "the password of the key {1} is wrong",
        "look at sslpassword",
        ours=True,
    ),
    _Rule(
        r'could not load private key file "(.+?)": unsupported',
        "the key {1} is none that libpq reads, or its password is wrong",
        "look at sslpassword, and with `openssl pkey -in {1}` at the key",
        ours=True,
    ),
    _Rule(
        r'could not load private key file "(.+?)": ([^\n]+)',
        "the key {1} cannot be used ({2})",
        "sslcert and sslkey must belong together",
        ours=True,
    ),
    _Rule(
        r'could not read certificate file "(.+?)": ([^\n]+)',
        "the certificate {1} cannot be read ({2})",
        ours=True,
    ),
    _Rule(
        r'weak sslmode "(.+?)" may not be used',
        "sslrootcert=system needs sslmode=verify-full, and it is {1}",
        ours=True,
    ),
    _Rule(
        r'password authentication failed for user "(.+?)"',
        "it refuses the password of user {1}",
        "look at the connection string, PGPASSWORD and ~/.pgpass",
    ),
    _Rule(
        r"no password supplied",
        "it asks for a password of user {user}, and none was given",
        "put it into ~/.pgpass (mode 600) or PGPASSWORD",
    ),
    _Rule(
        r"connection requires a valid client certificate",
        "it wants a certificate of the client's",
        "name one with sslcert and sslkey",
    ),
    _Rule(
        r'certificate authentication failed for user "(.+?)"',
        "it does not take this certificate for user {1}",
        "its common name must be the user's, unless pg_ident.conf of the server maps it",
    ),
    _Rule(
        r"SSL error: (?:ssl/tls alert|tlsv1\d? alert|sslv3 alert) ([^\n]+)",
        "it ends TLS: {1}",
        "look at sslcert and at ssl_ca_file of the server",
    ),
    _Rule(
        r"no pg_hba\.conf entry for (.+)",
        "its pg_hba.conf has no entry for {1}",
        "add one, or connect in a way that it lets in",
    ),
    _Rule(
        r"channel binding",
        "channel_binding=require cannot be kept there",
        "let the server use TLS and scram-sha-256, or leave channel_binding at prefer",
    ),
    _Rule(
        r"(session is read-only|session is not read-only|server is in hot standby mode|"
        r"server is not in hot standby mode)",
        "target_session_attrs={target_session_attrs}, and {1}",
        "name the servers among which one is so, or leave target_session_attrs out",
    ),
    _Rule(r'(database "(?:.+?)" does not exist)', "{1}", "create it, or name another with dbname"),
    _Rule(r'(role "(?:.+?)" does not exist)', "{1}", "name another with user"),
    _Rule(
        r"SSL error: unexpected eof while reading",
        "it closed the line while TLS was being made",
        "sslnegotiation=direct needs a server from 17 on, with ssl = on",
    ),
    _Rule(
        r"received invalid response to SSL negotiation",
        "what answers there is no PostgreSQL server",
        "look at host and port",
    ),
    _Rule(
        r"(Connection refused|No such file or directory|No route to host|Network is unreachable)",
        "nobody answers there ({1})",
        "start the server, or look at host and port",
    ),
    _Rule(
        r"(?:connection )?timeout expired",
        "it has not answered in time (connect_timeout)",
        "look at host, port and firewalls, or give it longer",
    ),
)

_ATTEMPT = re.compile(
    r'connection to server (?:at "(?P<host>[^"]*)"(?: \((?P<address>[^)]*)\))?, port (?P<port>\d+)'
    r'|on socket "(?P<socket>[^"]+)") failed: (?P<said>.*?)'
    r"(?=\nconnection to server|\nMultiple connection|\n- host: |\Z)",
    re.DOTALL,
)
_ONE_OF_SEVERAL = re.compile(r"^- host: (.+?), port: (.+?), hostaddr: (.+?): ", re.MULTILINE)


def refused(error: object, values: Mapping[str, str], hosts: Sequence[str]) -> PgstrataError:
    """Returns the error for a refused connection: a UsageError if the cause can be fixed here, else a
    ServerError.

    error: psycopg's. values: all parameters of the connection. hosts: the names that were to be tried.
    """
    text = str(error)
    if unknown := re.search(r"failed to resolve host '(.+?)'", text):
        return ServerError(
            f"cannot connect to the server: no address is known of the host {server_said(unknown[1], 200)}",
            "look at its name",
        )
    tried = _tried(text, hosts)
    if not tried:
        for rule in _RULES:
            if match := re.search(rule.pattern, text):
                why, hint = _filled(rule, match, values)
                return (UsageError if rule.ours else ServerError)(
                    f"cannot connect to the server: {why}", hint
                )
        return ServerError(
            f"cannot connect to the server: {server_said(text)}",
            "check the address, the user and pg_hba.conf of the server",
        )
    ours = False
    whys: dict[str, tuple[str, str]] = {}
    for place, words in tried.items():
        why, hint, its = _explained(place, words, values)
        whys[server_said(place, 300)] = (why, hint)
        ours = ours or its
    hints = {hint for _, hint in whys.values()}
    hint = hints.pop() if len(hints) == 1 else "look at host, port and pg_hba.conf of each"
    if len(whys) == 1:
        ((place, (why, hint)),) = whys.items()
        message = f"cannot connect to the server at {place}: {why}"
    else:
        message = "cannot connect to any of the servers: " + "; ".join(
            f"{place}: {why}" for place, (why, _) in whys.items()
        )
    return UsageError(message, hint) if ours else ServerError(message, hint)


def _tried(text: str, hosts: Sequence[str]) -> dict[str, str]:
    """Returns each place that was tried, with the answer from there."""
    tried: dict[str, str] = {}
    several = text.partition("All failures were:\n")[2]
    if not several:
        return _said_of(text)
    parts = _ONE_OF_SEVERAL.split(several)[1:]
    named = set()
    for host, port, _, message in zip(*(parts[i::4] for i in range(4)), strict=True):
        name = host.strip("'")
        named.add(name)
        for place, words in _said_of(message).items():
            alone = name.startswith("/") or _place(name, port.strip("'")) == place
            tried[place if alone else f"{name} ({place})"] = words
    for host in hosts:
        if host and host not in named:
            tried[host] = "no address is known of it"
    return tried


def _said_of(text: str) -> dict[str, str]:
    """Returns the answers by place. libpq tries TLS and the clear one after the other: the answer that tells
    more is kept."""
    by_place: dict[str, str] = {}
    for match in _ATTEMPT.finditer(text):
        place = match["socket"] or _place(match["host"], match["port"])
        words = match["said"].strip()
        if place not in by_place or "no encryption" in by_place[place]:
            by_place[place] = words
    return by_place


def _place(host: str, port: str) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _explained(place: str, message: str, values: Mapping[str, str]) -> tuple[str, str, bool]:
    """Returns the reason, the next step, and whether the cause can be fixed here."""
    if re.search(r"SSL error: (certificate verify failed|.*signature failure)", message):
        return *_not_believed(place, values), False
    for rule in _RULES:
        if match := re.search(rule.pattern, message):
            why, hint = _filled(rule, match, values)
            if rule.pattern.startswith(("no password", "password auth")) and (closed := _ignored(values)):
                hint = f"{closed} is not read, since others may read it, too: chmod 600 {closed}"
            return why, hint, rule.ours
    words = server_said(re.sub(r"^(FATAL|ERROR):\s+", "", message))
    return words, "check the address, the user and pg_hba.conf of the server", False


def _filled(rule: _Rule, match: re.Match[str], values: Mapping[str, str]) -> tuple[str, str]:
    def put(text: str) -> str:
        def value(name: re.Match[str]) -> str:
            word = name[1]
            return server_said(match[int(word)] if word.isdigit() else values.get(word, ""), 300)

        return re.sub(r"\{(\w+)\}", value, text)

    return put(rule.why), put(rule.hint)


def _ignored(values: Mapping[str, str]) -> Path | None:
    """Returns the file of passwords if libpq ignores it because users other than its owner may read it; else
    None."""
    given = values.get("passfile") or os.environ.get("PGPASSFILE")
    file = Path(given) if given else Path("~/.pgpass").expanduser()
    try:
        return file if file.stat().st_mode & 0o077 else None
    except OSError:
        return None


def _not_believed(place: str, values: Mapping[str, str]) -> tuple[str, str]:
    """Returns the reason why the certificate shown at this place is not good, and advice: libpq only says
    that it is not."""
    authorities = values.get("sslrootcert") or str(Path("~/.postgresql/root.crt").expanduser())
    code, words = _verdict(place, authorities, values)
    if code == 10:
        return "its certificate has expired", "give the server a new one"
    if code == 9:
        return "its certificate is not valid yet", "look at the clocks of both machines"
    if code == 23:
        return "its certificate has been revoked", "give the server a new one"
    if code in (3, 12):
        return (
            "sslcrl does not say, or not any more, whether its certificate has been revoked",
            "get a new list from the authority",
        )
    if code in (2, 7, 18, 19, 20, 21):
        return (
            f"its certificate is not signed by an authority of sslrootcert ({authorities})",
            "name the file with the certificate of its authority; sslmode=require asks for none",
        )
    return f"its certificate is not good{words}", "look at sslrootcert and at ssl_cert_file of the server"


def _verdict(place: str, authorities: str, values: Mapping[str, str]) -> tuple[int, str]:
    """Returns OpenSSL's code for what is wrong with a certificate, and its words; 0 where it cannot be looked
    at."""
    import ssl

    match = re.search(r"\(?\[?([^\[\]()]*?)\]?:(\d+)\)?$", place)
    if not match:
        return 0, ""
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.set_alpn_protocols(["postgresql"])
        if authorities == "system":
            context.load_default_certs()
        else:
            context.load_verify_locations(authorities)
        if revoked := values.get("sslcrl"):
            context.load_verify_locations(revoked)
            context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_CHAIN
        with socket.create_connection((match[1], int(match[2])), timeout=_LOOK_SECONDS) as line:
            if values.get("sslnegotiation") != "direct":
                line.sendall(_SSL_REQUEST)
                line.recv(1)
            context.wrap_socket(line).close()
    except ssl.SSLCertVerificationError as error:
        return error.verify_code, f" ({server_said(error.verify_message, 200)})"
    except (OSError, ValueError):
        pass
    return 0, ""

"""What every request passes before it is answered: method, length, host, secret; and headers of answers."""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pgstrata.report.export_html import asset, policy

LONGEST_TARGET = 4096
"""Bytes of a request's path and query."""

_ASKED = re.compile(rb"(?:^|&)token=([A-Za-z0-9_-]+)(?:&|$)")

HEADERS = {
    "Content-Security-Policy": (
        policy(str(asset("page.js"))).replace(" file:", "") + "; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
}
"""Of every answer. Nothing of a page is fetched from elsewhere, and nothing in it runs but our scripts."""


@dataclass(frozen=True)
class Rules:
    """Who is answered. hosts: values of the header Host, in small letters. cookie: its name."""

    hosts: frozenset[str]
    token: str
    cookie: str
    is_tls: bool


def hosts_of(names: Sequence[str], port: int, is_tls: bool) -> frozenset[str]:
    """Returns the values of the header Host under which a server is known."""
    shown = [f"[{name}]" if ":" in name else name.lower() for name in names]
    usual = 443 if is_tls else 80
    return frozenset([f"{name}:{port}" for name in shown] + (shown if port == usual else []))


class Guard:
    """Answers bad requests itself, and gives every answer its headers."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app, self._rules = app, rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request; of other protocols (WebSocket) none."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        answer = self._refusal(scope)
        await (answer or self._app)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        sent = [value for name, value in scope["headers"] if name == b"host"]
        if len(sent) != 1 or headers[b"host"].lower() not in self._rules.hosts:
            return PlainTextResponse("this server has another name\n", 421)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("read-only\n", 405, {"Allow": "GET, HEAD"})
        if headers.get(b"content-length", "0") != "0" or b"transfer-encoding" in headers:
            return PlainTextResponse("a request has no content here\n", 413)
        if len(scope["raw_path"]) + len(scope["query_string"]) > LONGEST_TARGET:
            return PlainTextResponse("too long\n", 414)
        return self._without_secret(scope, headers)

    def _without_secret(self, scope: Scope, headers: dict[bytes, str]) -> Response | None:
        """Returns the answer to a request without the token, or with it in the address: the browser is told
        to keep it as a cookie, and to ask again without."""
        if self._is_token(_cookie(headers.get(b"cookie", ""), self._rules.cookie)):
            return None
        kind, _, value = headers.get(b"authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._is_token(value.strip()):
            return None
        asked = _ASKED.search(scope["query_string"])
        if asked is None or not self._is_token(asked[1].decode()):
            return PlainTextResponse(
                "open the address that pgstrata serve has printed, with its token\n", 401
            )
        answer = RedirectResponse("/", 303)
        answer.set_cookie(
            self._rules.cookie,
            self._rules.token,
            httponly=True,
            samesite="strict",
            secure=self._rules.is_tls,
        )
        return answer

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode("utf-8", "replace"), self._rules.token.encode())


def _cookie(header: str, wanted: str) -> str:
    for pair in header.split(";"):
        name, _, value = pair.strip().partition("=")
        if name == wanted:
            return value
    return ""


__all__ = ["Guard", "Rules", "hosts_of"]

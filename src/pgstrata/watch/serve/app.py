"""The addresses that the server answers."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from pgstrata.report.export_html import asset, environment
from pgstrata.store import Run
from pgstrata.watch.serve.folder import KINDS, is_folder, open_shown
from pgstrata.watch.serve.guard import Guard, Rules
from pgstrata.watch.serve.pages import overview, run_list, run_page
from pgstrata.watch.serve.snapshot import Runs
from pgstrata.watch.site.sheets import Sheet
from pgstrata.watch.site.write import PACKAGE, SCRIPTS, render

MOST_PAGES = 1_000_000
REPORT = ".report"
"""Ending of the folders in a results folder that are reports."""


@dataclass(frozen=True)
class Shows:
    """What is shown: a results folder, the folder of a site, or both."""

    results: Path | None
    site: Path | None


def make_app(shows: Shows, rules: Rules) -> ASGIApp:
    """Returns the application. Reading of the runs begins at once."""
    answers = _Answers(shows)
    routes = [
        Route("/", answers.first),
        Route("/index.json", answers.first),
        Route("/runs", answers.runs),
        Route("/runs.json", answers.runs),
        Route("/runs/{run_id}", answers.run),
        Route("/assets/{name}", answers.shared),
        Route("/reports/{path:path}", answers.report),
        Route("/site", lambda request: RedirectResponse("/site/", 307)),
        Route("/site/{path:path}", answers.site),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={HTTPException: _plain, Exception: _failed},
    )
    app.router.redirect_slashes = False
    return Guard(app, rules)


class _Answers:
    """A method for each address."""

    def __init__(self, shows: Shows) -> None:
        self._shows = shows
        self._runs = Runs(shows.results) if shows.results else None
        self._templates = environment(PACKAGE)
        if self._runs:
            self._runs.latest()

    async def first(self, request: Request) -> Response:
        """Returns the page with the list of campaigns."""
        page = _page(request)
        snapshot = self._runs.latest() if self._runs else None
        # Looks whether there are reports, on a disk that may be slow.
        sheet = await run_in_threadpool(overview, self._shows.results, snapshot, page)
        return await self._answer(request, sheet, "/index.json")

    async def runs(self, request: Request) -> Response:
        """Returns a page with a list of runs."""
        snapshot = self._runs.latest() if self._runs else None
        sheet = run_list(snapshot, request.query_params.get("campaign"), _page(request))
        return await self._answer(request, sheet, "/runs.json")

    async def run(self, request: Request) -> Response:
        """Returns the page of one run. Raises HTTPException for a run that does not exist or cannot be
        read."""
        name: str = request.path_params["run_id"]
        snapshot = self._runs.latest() if self._runs else None
        entry = snapshot.by_id.get(name.removesuffix(".json")) if snapshot else None
        if entry is None or self._shows.results is None:
            raise HTTPException(404, "there is no such run, or it was not read yet")
        run = await run_in_threadpool(entry.read, self._shows.results)
        if not isinstance(run, Run):
            raise HTTPException(404, "this run cannot be read: pgstrata runs says why")
        return await self._answer(request, run_page(run), f"/runs/{run.run_id}.json")

    async def shared(self, request: Request) -> Response:
        """Returns a script or style that pages of the server share."""
        name: str = request.path_params["name"]
        if name not in SCRIPTS:
            raise HTTPException(404)
        return Response(str(asset(name, SCRIPTS[name])), media_type=KINDS[Path(name).suffix])

    async def report(self, request: Request) -> Response:
        """Returns a file of a campaign's report."""
        path: str = request.path_params["path"]
        if not path.partition("/")[0].endswith(REPORT):
            raise HTTPException(404)
        return await _file(self._shows.results, path, request)

    async def site(self, request: Request) -> Response:
        """Returns a file of the site."""
        return await _file(self._shows.site, request.path_params["path"], request)

    async def _answer(self, request: Request, sheet: Sheet, json_name: str) -> Response:
        if request.url.path.endswith(".json"):
            return Response(msgspec.json.encode(sheet.data), media_type="application/json")
        links = [("Campaigns", "/"), ("Runs", "/runs")] if self._runs else []
        links += [("Site", "/site/")] if self._shows.site else []
        json_name = f"{json_name}?{request.url.query}" if request.url.query else json_name
        page = await run_in_threadpool(
            render, self._templates, sheet, root="/assets/", links=links, json_name=json_name, feed=""
        )
        return Response(page, media_type=KINDS[".html"])


async def _file(root: Path | None, path: str, request: Request) -> Response:
    if root is None:
        raise HTTPException(404)
    shown_file = await run_in_threadpool(open_shown, root, path)
    if shown_file is None:
        if await run_in_threadpool(is_folder, root, path):
            return RedirectResponse(f"{request.url.path}/", 307)
        raise HTTPException(404)
    headers = {"ETag": shown_file.stamp, "Content-Length": str(shown_file.size)}
    if request.headers.get("if-none-match") == shown_file.stamp:
        shown_file.close()
        return Response(None, 304, {"ETag": shown_file.stamp})
    if request.method == "HEAD":
        shown_file.close()
        return Response(None, 200, headers, shown_file.kind)
    return StreamingResponse(shown_file.chunks(), 200, headers, shown_file.kind)


def _page(request: Request) -> int:
    """Returns the number of the page that is asked for, from 0. Raises HTTPException for other text."""
    text = request.query_params.get("page", "1")
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= MOST_PAGES:
        raise HTTPException(400, "page: not a number of a page")
    return int(text[:9]) - 1


async def _plain(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = HTTPStatus(error.status_code).phrase
    detail = error.detail if error.detail != words else "there is nothing here"
    return PlainTextResponse(f"{detail}\n", error.status_code)


async def _failed(request: Request, error: Exception) -> Response:
    return PlainTextResponse("this page cannot be made: a defect of pgstrata\n", 500)


__all__ = ["Shows", "make_app"]

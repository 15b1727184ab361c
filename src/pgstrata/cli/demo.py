"""`pgstrata demo`"""

from __future__ import annotations

import typer

from pgstrata.cli.arguments import DataDirOption, FreshOption, RunsOption, WaitQuietOption

NEXT = """
What next:
  pgstrata doctor                                         is this machine fit to measure?
  pgstrata run pg:16 pg:17                                two versions, at 27 steps
  pgstrata run /opt/master=master /opt/patched=patched    two builds of yours
  pgstrata compare-queries --server pg:16,pg:17 --setup app.dump slow.sql    your queries"""

SERVERS = ["pg:12", "pg:17"]

STEPS = ["hot-points", "points-covered-si", "point-query"]
"""Where these versions differ by enough to be proven within seconds: much faster, slower, about the same."""

ROWS = 50_000

MOST_SECONDS = 20.0
"""Measured of a step, both servers together."""


def demo(
    results: RunsOption = None,
    data_dir: DataDirOption = None,
    fresh: FreshOption = False,
    wait_quiet: WaitQuietOption = None,
) -> None:
    """Compare PostgreSQL 12 and 17 at three steps, in about 90 seconds.

    Fetches both servers the first time. They take turns at each step until it is known to be slower, faster
    or the same; on a busy machine steps stay unclear. Needs no checkout and no compiler.

    \b
    Examples:
      pgstrata demo
      pgstrata demo --data-dir /srv/nvme
    """
    from pgstrata.campaign.file.reading import check_study
    from pgstrata.campaign.study import Study, Workload
    from pgstrata.cli.arguments import RESULTS
    from pgstrata.cli.output import TextOrJson
    from pgstrata.cli.run import carry_out, waiting_seconds

    study = Study(
        name="demo",
        servers=SERVERS,
        until="verdict",
        max_seconds=MOST_SECONDS,
        results=str(results or RESULTS),
        data_dir=str(data_dir) if data_dir else None,
        workloads=[
            Workload(
                name="sysbench",
                scale="quick",
                options={"rows": ROWS, "steps": STEPS, "cache_seconds": 0.5, "settle_base": 0},
            )
        ],
    )
    code = carry_out(
        check_study(study), fresh, waiting_seconds(wait_quiet), report=True, form=TextOrJson.text
    )
    if code == 0:
        print(NEXT)
    raise typer.Exit(code)


__all__ = ["demo"]

"""The watch: every commit measured, every change dated and explained, and all of it shown."""

from pgstrata.registry import Capability, Command

HEADING = "Every commit"

CAPABILITY = Capability(
    errands={"commit": "pgstrata.watch.errands:measure_there"},
    commands=(
        Command(
            "watch", "pgstrata.watch.command:watch", "Measure every commit, and date each change.", HEADING
        ),
        Command(
            "site", "pgstrata.watch.site.command:site", "Write static pages of watches and results.", HEADING
        ),
        Command(
            "serve", "pgstrata.watch.serve.command:serve", "Show results and a site on this machine.", HEADING
        ),
    ),
)

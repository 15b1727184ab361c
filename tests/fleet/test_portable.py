"""A campaign on its way: the same on the other side, whatever lies there, and no secrets in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgstrata.campaign.file.reading import read_campaign
from pgstrata.campaign.plan.runs import Plan, make_plan
from pgstrata.errors import UsageError
from pgstrata.fleet.portable import opened, portable
from pgstrata.fleet.tasks import Portable
from pgstrata.server.features import Features
from pgstrata.server.find.model import Server
from pgstrata.server.find.recipe import Build
from pgstrata.store import Results
from pgstrata.traffic.capture import capture
from support.campaign import server
from support.logs import START, log, plain

SCRIPT = "\\set aid random(1, 1000)\nSELECT :aid;\n"


@pytest.fixture(autouse=True)
def _own_cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSTRATA_CACHE", str(place / "cache"))


def foreign(spec: str, how: Build | None = None) -> Server:
    if spec.startswith("dsn:"):
        return Server("dsn:host=db", "dsn17.6", "17.6", 170006, "", None, spec.removeprefix("dsn:"))
    if spec.startswith("src:"):
        return Server(spec, "tree", "17.6", 170006, "", Path("/nowhere"), None)
    return server(spec, how)


def plan_of(place: Path, text: str) -> Plan:
    file = place / "study.toml"
    file.write_text(text)
    return make_plan(read_campaign(file), Results(place / "results"), foreign, elsewhere=True)


def sent(place: Path, text: str) -> tuple[Plan, Portable]:
    plan = plan_of(place, text)
    return plan, portable(plan, plan.campaign.workloads[0])


def there(place: Path, portable: Portable) -> Plan:
    campaign = opened(portable, place / "elsewhere")
    versions = {"pg:17.6": "pg:17", "pg:12.22": "pg:12"}
    return make_plan(
        campaign, Results(place / "elsewhere"), lambda spec, how: server(versions[spec], how), elsewhere=True
    )


def test_the_same_runs_with_the_same_settings(place: Path) -> None:
    (place / "mine.conf").write_text("shared_buffers = 25%RAM\nwork_mem = 9MB\n")
    plan, travelled = sent(
        place,
        """
servers = ["pg:12", "pg:17"]
configs = ["default", ["mine.conf", "a1"]]
repeats = 2
base = "pg17.6"
order = "interleaved"
slice_seconds = 0.05
[[workloads]]
name = "sysbench"
label = "reads"
options = { rows = 1000, steps = ["point-query"] }
""",
    )
    (place / "mine.conf").unlink()  # what lies on the client is not looked at on a machine
    plan_there = there(place, travelled)
    assert [run.key for run in plan_there.runs] == [run.key for run in plan.runs]
    assert plan_there.base == plan.base
    assert plan_there.campaign.spec.slice_seconds == 0.05
    for ours, theirs in zip(plan.runs, plan_there.runs, strict=True):
        assert theirs.workload.all_options == ours.workload.all_options
        assert [f.text for f in theirs.variant.config.config_files] == [
            f.text for f in ours.variant.config.config_files
        ]
        assert [f.name for f in theirs.variant.config.config_files] == [
            f.name for f in ours.variant.config.config_files
        ]


def test_scripts_travel_and_are_recorded_as_on_the_client(place: Path) -> None:
    (place / "mine.sql").write_text(SCRIPT)
    plan, travelled = sent(
        place,
        'servers = ["pg:17"]\n[[workloads]]\nname = "pgbench"\noptions = { scripts = ["mine.sql@3"] }\n',
    )
    (place / "mine.sql").unlink()
    (ours,), (theirs,) = plan.runs, there(place, travelled).runs
    assert theirs.workload.all_options == ours.workload.all_options
    (name,) = theirs.workload.options.scripts
    path, _, weight = name.rpartition("@")
    assert weight == "3" and Path(path).read_text() == SCRIPT and Path(path).is_relative_to(place / "cache")


def test_setup_and_queries_travel(place: Path) -> None:
    (place / "schema.sql").write_text("CREATE TABLE t (a int);\n")
    (place / "queries").mkdir()
    (place / "queries" / "one.sql").write_text("SELECT count(*) FROM t;\n")
    plan, travelled = sent(
        place,
        """
servers = ["pg:17"]
[[workloads]]
name = "custom"
options = { setup = ["schema.sql"], queries = "queries" }
""",
    )
    ours = [phase.name for phase in plan.runs[0].workload.phases(Features(170006)) if hasattr(phase, "name")]
    (place / "schema.sql").unlink()
    workload = there(place, travelled).runs[0].workload
    assert [phase.name for phase in workload.phases(Features(170006)) if hasattr(phase, "name")] == ours
    assert workload.all_options == plan.runs[0].workload.all_options


def test_what_is_replayed_travels(place: Path) -> None:
    (place / "schema.sql").write_text("CREATE TABLE t (a int);\n")
    (place / "later.sql").write_text("CREATE INDEX ON t (a);\n")
    (place / "postgresql.csv").write_text(log([plain(START, 1, "SELECT count(*) FROM t")]))
    capture([place / "postgresql.csv"], place / "app.traffic")
    _, travelled = sent(
        place,
        """
servers = ["pg:17"]
[[workloads]]
name = "replay"
options = { file = "app.traffic", setup = ["schema.sql"], after_load = { "17" = "later.sql" } }
""",
    )
    for name in ("schema.sql", "later.sql", "app.traffic"):
        (place / name).unlink()
    options = there(place, travelled).runs[0].workload.options
    paths = [*options.setup, *options.after_load["17"]]
    assert [Path(name).read_text()[:12] for name in paths] == ["CREATE TABLE", "CREATE INDEX"]
    assert Path(options.file).is_relative_to(place / "cache")


def test_the_same_files_lie_at_the_same_place(place: Path) -> None:
    """Data that was loaded from them is known by where they lie."""
    (place / "mine.sql").write_text(SCRIPT)
    text = 'servers = ["pg:17"]\n[[workloads]]\nname = "pgbench"\noptions = { scripts = ["mine.sql"] }\n'
    _, travelled = sent(place, text)
    first, second = (there(place, travelled).runs[0].workload.options.scripts for _ in range(2))
    assert first == second
    (place / "mine.sql").write_text(SCRIPT + "SELECT 1;\n")
    assert there(place, sent(place, text)[1]).runs[0].workload.options.scripts != first


def test_no_password_travels(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "sesame")
    text = '[[variants]]\nserver = "{server}"\nlabel = "x"\n[[workloads]]\nname = "insert"\nscale = "quick"\n'
    for server_ in ("dsn:postgresql://me:sesame@db/x", "dsn:host=db password=sesame"):
        with pytest.raises(UsageError, match="passwords do not travel"):
            sent(place, text.format(server=server_))
    _, travelled = sent(place, text.format(server="dsn:host=db user=me"))
    import msgspec

    assert b"sesame" not in msgspec.msgpack.encode(travelled)


def test_no_code_travels(place: Path) -> None:
    source = Path(__file__).parents[2] / "docs/guides/adding-a-workload.md"
    code = source.read_text().partition("```python\n")[2].partition("```")[0]
    (place / "mine.py").write_text(code)
    name = code.partition("class ")[2]
    names = [part.partition("(")[0].partition(":")[0].strip() for part in code.split("\nclass ")[1:]]
    assert name and names
    with pytest.raises(UsageError, match="no code travels"):
        sent(place, f'servers = ["pg:17"]\n[[workloads]]\nname = "mine.py:{names[-1]}"\n')


def test_extensions_travel_as_names_or_as_folders(place: Path) -> None:
    """A server has some by itself; others are built there from a folder of the client."""
    folder = place / "mine"
    folder.mkdir()
    (folder / "Makefile").write_text("EXTENSION = mine\n")
    plan, travelled = sent(
        place,
        '[[variants]]\nserver = "pg:17"\nextensions = ["pgvector"]\n[[workloads]]\nname = "insert"\n',
    )
    plan_there = there(place, travelled)
    assert plan_there.runs[0].variant.spec.extensions == ["pgvector"] == plan.runs[0].variant.spec.extensions
    assert not travelled.files
    _, travelled = sent(
        place,
        '[[variants]]\nserver = "src:."\nextensions = ["mine", "pgvector"]\n[[workloads]]\nname = "insert"\n',
    )
    (variant,) = travelled.document["variants"]
    assert variant["extensions"] == ["0/mine", "pgvector"]
    assert travelled.files == {"0/mine/Makefile": b"EXTENSION = mine\n"}


def test_names_that_lead_out_are_refused(place: Path) -> None:
    _, travelled = sent(place, 'servers = ["pg:17"]\n[[workloads]]\nname = "insert"\n')
    import msgspec

    evil = msgspec.structs.replace(travelled, files={"../../outside": b"x"})
    with pytest.raises(UsageError, match="outside the folder"):
        opened(evil, place / "elsewhere")
    assert not list(place.rglob("outside"))

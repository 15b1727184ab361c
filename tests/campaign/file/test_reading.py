"""Campaign files: what is right is read, what is wrong is said with file, key and what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgstrata.campaign.file.reading import Overrides, adhoc_campaign, read_campaign
from pgstrata.errors import UsageError

GOOD = """
servers = ["pg:12", "pg:17"]
repeats = 2

[[workloads]]
name = "insert"
scale = "quick"
[workloads.options]
clients = 3
"""


def written(folder: Path, text: str, name: str = "study.toml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def refused(folder: Path, text: str, **overrides: object) -> UsageError:
    with pytest.raises(UsageError) as caught:
        read_campaign(written(folder, text), Overrides(**overrides))  # type: ignore[arg-type]
    return caught.value


def test_a_campaign_is_read_with_its_defaults(tmp_path: Path) -> None:
    campaign = read_campaign(written(tmp_path, GOOD))
    assert campaign.name == "study"
    assert [v.server for v in campaign.variants] == ["pg:12", "pg:17"]
    assert campaign.spec.repeats == 2
    (workload,) = campaign.workloads
    assert workload.options.clients == (3,)
    assert workload.options.rows == workload.workload.scales["quick"]["rows"]
    assert workload.all_options["clients"] == 3


VERDICT = GOOD.replace("repeats = 2", 'until = "verdict"')


def test_a_verdict_wants_short_turns(tmp_path: Path) -> None:
    spec = read_campaign(written(tmp_path, VERDICT)).spec
    assert (spec.order, spec.slice_seconds) == ("interleaved", 0.02)
    spec = read_campaign(written(tmp_path, "slice_seconds = 2.0\n" + VERDICT)).spec
    assert (spec.order, spec.slice_seconds) == ("interleaved", 2.0)
    error = refused(tmp_path, 'order = "shuffled"\n' + VERDICT)
    assert "take turns" in error.message and "interleaved" in error.hint


def test_a_verdict_asked_for_ad_hoc_takes_small_data(tmp_path: Path) -> None:
    common = {"servers": ["pg:16", "pg:17"], "workloads": ["sysbench"], "fields": {"until": "verdict"}}
    (chosen,) = adhoc_campaign(Overrides(**common)).workloads  # type: ignore[arg-type]
    assert chosen.options.rows == chosen.workload.scales["quick"]["rows"]
    (chosen,) = adhoc_campaign(Overrides(**common, sets=["clients=2"])).workloads  # type: ignore[arg-type]
    assert chosen.options.rows == type(chosen.options)().rows
    (chosen,) = adhoc_campaign(Overrides(**common, scale="small")).workloads  # type: ignore[arg-type]
    assert chosen.options.rows == chosen.workload.scales["small"]["rows"]


def test_a_small_scale_is_for_the_workloads_that_have_it(tmp_path: Path) -> None:
    (tmp_path / "one.sql").write_text("SELECT 1;\n")
    sets = [f'custom.scripts=["{tmp_path}/one.sql"]']
    asked = {"servers": ["pg:17"], "workloads": ["sysbench", "custom"], "sets": sets}
    campaign = adhoc_campaign(Overrides(**asked, small="count"))  # type: ignore[arg-type]
    assert campaign.name == "sysbench+custom-count"
    counted, custom = campaign.workloads
    assert counted.options.rows == counted.workload.scales["count"]["rows"]
    assert custom.options.scripts == (f"{tmp_path}/one.sql",)
    with pytest.raises(UsageError, match="no scale `count`"):
        adhoc_campaign(Overrides(**asked, scale="count"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "measured"),
    [
        ([], ("select-only", "tpcb-like")),
        (['scripts=["one.sql"]'], ()),
        (['scripts=["one.sql"]', "builtin=select-only"], ("select-only",)),
    ],
)
def test_scripts_take_the_place_of_those_of_a_scale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str], measured: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.sql").write_text("SELECT 1;\n")
    asked = Overrides(servers=["pg:16", "pg:17"], workloads=["pgbench"], scale="quick", sets=more)
    (chosen,) = adhoc_campaign(asked).workloads
    assert chosen.options.built_in == measured
    assert chosen.options.clients == (1, 8)


def test_servers_times_configs_come_before_variants(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.conf").write_text("work_mem = 8MB\n")
    text = """
servers = ["pg:12", "pg:17"]
configs = ["a.conf", ["a.conf", "b.conf"]]
[[variants]]
server = "pg:14"
label = "mine"
[[workloads]]
name = "insert"
"""
    variants = read_campaign(written(tmp_path, text)).variants
    assert [(v.server, v.config) for v in variants] == [
        ("pg:12", ["a.conf"]),
        ("pg:12", ["a.conf", "b.conf"]),
        ("pg:17", ["a.conf"]),
        ("pg:17", ["a.conf", "b.conf"]),
        ("pg:14", ["default"]),
    ]


def test_the_seed_of_the_campaign_is_that_of_its_workloads(tmp_path: Path) -> None:
    campaign = read_campaign(written(tmp_path, "seed = 7\n" + GOOD))
    assert campaign.workloads[0].options.seed == 7
    seeded = read_campaign(written(tmp_path, "seed = 7\n" + GOOD), Overrides(sets=["seed=9"]))
    assert seeded.workloads[0].options.seed == 9


@pytest.mark.parametrize(
    ("change", "words", "hint"),
    [
        (("repeats = 2", "repeat = 2"), ["study.toml", "unknown key `repeat`"], "`repeats`"),
        (("clients = 3", "client = 3"), ["`workloads[1].options.client`"], "`clients`"),
        (("repeats = 2", 'repeats = "two"'), ["`repeats`", "whole number", '"two"'], ""),
        (("repeats = 2", "repeats = 0"), ["`repeats`", "at least 1"], ""),
        (("clients = 3", 'clients = "many"'), ["`workloads[1].options.clients[1]`", "whole number"], ""),
        (("repeats = 2", 'order = "random"'), ["`order`", "'shuffled' or 'interleaved'"], ""),
        (('name = "insert"', 'name = "isnert"'), ["no workload `isnert`"], "`insert`"),
        (('name = "insert"', 'nme = "insert"'), ["`workloads[1].nme`"], "`name`"),
        (('scale = "quick"', 'scale = "quik"'), ["no scale `quik`"], "`quick`"),
        (('"pg:17"', '"pq:17"'), ["pq:17"], ""),
        (('"pg:17"', '"pg:seventeen"'), ["seventeen"], ""),
        (("repeats = 2", 'configs = ["no-such-fragment"]'), ["no-such-fragment"], ""),
        (("repeats = 2", "repeats = "), ["not valid TOML", "line 3"], ""),
        (('servers = ["pg:12", "pg:17"]', ""), ["nothing to compare"], "servers ="),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, change: tuple[str, str], words: list[str], hint: str) -> None:
    assert change[0] in GOOD
    error = refused(tmp_path, GOOD.replace(*change))
    assert "study.toml" in error.message
    for word in words:
        assert word in error.message
    assert hint in error.hint
    assert error.exit_code == 2


def test_an_unknown_key_hides_no_other_mistake(tmp_path: Path) -> None:
    error = refused(tmp_path, GOOD.replace("repeats = 2", "repeat = 2\nseed = -1"))
    assert "unknown key `repeat`" in error.message
    assert "1 more" in error.hint


def test_a_variant_is_named_by_its_place(tmp_path: Path) -> None:
    error = refused(tmp_path, GOOD + '\n[[variants]]\nserver = "pg:14"\n[[variants]]\nserver = "nonsense"\n')
    assert "variants[2]" in error.message


@pytest.mark.parametrize("more", ['config = "cached-by-pg"', 'env = { A = "b" }', 'initdb = ["-k"]'])
def test_a_running_server_takes_no_settings(tmp_path: Path, more: str) -> None:
    text = GOOD + f'\n[[variants]]\nserver = "dsn:host=db"\n{more}\n'
    error = refused(tmp_path, text)
    assert f"`{more.split()[0]}` cannot be set for a dsn: server" in error.message


def test_two_workloads_of_one_name_need_labels(tmp_path: Path) -> None:
    error = refused(tmp_path, GOOD + '\n[[workloads]]\nname = "insert"\n')
    assert "two workloads are called `insert`" in error.message
    both = GOOD + '\n[[workloads]]\nname = "insert"\nlabel = "insert-large"\n'
    assert [w.label for w in read_campaign(written(tmp_path, both)).workloads] == ["insert", "insert-large"]


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no campaign file"):
        read_campaign(tmp_path / "none.toml")
    with pytest.raises(UsageError, match="is a folder"):
        read_campaign(tmp_path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_campaign(binary)


@pytest.mark.parametrize(
    ("text", "value"),
    [("rows=5000", 5000), ("insert.rows=5000", 5000), (" rows = 5_000 ", 5000)],
)
def test_set_overrides_an_option(tmp_path: Path, text: str, value: int) -> None:
    campaign = read_campaign(written(tmp_path, GOOD), Overrides(sets=[text]))
    assert campaign.workloads[0].options.rows == value


def test_set_takes_lists_and_bare_words(tmp_path: Path) -> None:
    sets = ['steps=["100:range"]', "tables=shared"]
    options = read_campaign(written(tmp_path, GOOD), Overrides(sets=sets)).workloads[0].options
    assert list(options.steps) == ["100:range"]
    assert options.tables == "shared"


@pytest.mark.parametrize(
    ("text", "words", "hint"),
    [
        ("rows", ["not of the form key=value"], "--set"),
        ("row=1", ["no workload here has an option `row`"], "`rows`"),
        ("isnert.rows=1", ["no workload here is called `isnert`"], "`insert`"),
        ("insert.row=1", ["unknown key", "options.row`"], "`rows`"),
        ("rows=many", ["options.rows`", "whole number"], ""),
    ],
)
def test_set_that_is_wrong(tmp_path: Path, text: str, words: list[str], hint: str) -> None:
    error = refused(tmp_path, GOOD, sets=[text])
    for word in words:
        assert word in error.message
    assert hint in error.hint


def test_the_command_line_replaces_what_the_file_says(tmp_path: Path) -> None:
    campaign = read_campaign(
        written(tmp_path, GOOD),
        Overrides(servers=["pg:15"], scale="small", fields={"repeats": 5, "name": None}),
    )
    assert [v.server for v in campaign.variants] == ["pg:15"]
    assert campaign.spec.repeats == 5
    assert campaign.name == "study"
    # What the file says about the workload stays, and wins over the scale.
    assert campaign.workloads[0].options.clients == (3,)


def test_a_campaign_without_a_file() -> None:
    campaign = adhoc_campaign(Overrides(servers=["pg:12", "pg:17"], scale="quick"))
    assert campaign.name == "insert-quick"
    assert [w.label for w in campaign.workloads] == ["insert"]
    with pytest.raises(UsageError) as caught:
        adhoc_campaign(Overrides())
    assert "pgstrata run pg:16 pg:17" in caught.value.hint

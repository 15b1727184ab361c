"""The page: its content, its colours, the agreement of its forms, and what strangers may write into it."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from pgstrata import numbers
from pgstrata.errors import StoreError, UsageError
from pgstrata.judge.marks import THRESHOLDS
from pgstrata.report.write import write_report
from pgstrata.store import Results, RunKey
from support.page import PageReader, ReadCell, Written
from support.records import on_disk
from support.runs import make_campaign, make_run

BASE, FAST, SLOW, DEAD = "pg12.22.x10a", "pg15.10.x10a", "pg17.11.x10a", "pg18.1.x10a"
NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7*7 }}\"'&amp;`|"


def row(cells: list[list[ReadCell]], name: str) -> list[ReadCell]:
    return next(row for row in cells if row and name in row[0].text)


def mark(cell: ReadCell) -> str:
    return next((c for c in cell.classes if c in ("good", "bad", "even", "missed", "missing")), "")


# --- content ------------------------------------------------------------------------------------


def test_sections_come_in_the_order_of_a_reader(comparison: Written) -> None:
    headings = comparison.page.headings
    for earlier, later in [
        ("insert-cached", "Summary"),
        ("Summary", "What was compared"),
        ("What was compared", "Steps of insert"),
        ("Steps of insert", "Failed runs"),
    ]:
        assert headings.index(earlier) < headings.index(later)
    for step in ("l.i0", "l.x", "l.i1", "l.i2", "qr100", "qp1000"):
        assert step in headings


def test_the_answer_comes_before_every_table(comparison: Written) -> None:
    text = comparison.page.all_text
    first_table = text.index("Rates: insert")
    assert f"{SLOW} slower at 9 of 9 steps than {BASE}" in " ".join(text[:first_table].split())
    assert f"{FAST} faster at 10 of 10 steps than {BASE}" in " ".join(text[:first_table].split())


def test_rates_are_coloured_as_the_rules_say(comparison: Written) -> None:
    table = comparison.page.table("Rates: insert")
    column = table.head.index("l.i1rows/s")
    assert mark(row(table.rows, FAST)[column]) == "good"
    assert mark(row(table.rows, SLOW)[column]) == "bad"  # 0.8 / 1.3 is below 80 % of the largest
    assert mark(row(table.rows, BASE)[column]) == ""
    assert [mark(c) for c in row(table.rows, DEAD)[1:]] == ["missing"] * 10
    missed = row(table.rows, SLOW)[table.head.index("qp1000queries/s")]
    assert mark(missed) == "missed" and "SLA" in missed.title


def test_colours_have_a_second_sign(comparison: Written) -> None:
    for table in comparison.page.tables:
        for cells in table.rows:
            for cell in cells:
                if (word := mark(cell)) in ("good", "bad", "missed"):
                    assert {"good": "▲", "bad": "▼", "missed": "✕"}[word] in cell.text
                if word == "missing":
                    assert cell.text.strip()


def test_relative_rates_follow_the_thresholds(comparison: Written, tmp_path: Path) -> None:
    strict = write_report(comparison.results, out=tmp_path, thresholds=(0.5, 1.5))
    table = PageReader(strict.html).table("Relative rates: insert")
    assert [mark(c) for c in row(table.rows, FAST)[1:]] == ["even"] * 10
    table = comparison.page.table("Relative rates: insert")
    assert [mark(c) for c in row(table.rows, FAST)[1:]] == ["good"] * 10
    assert [mark(c) for c in row(table.rows, SLOW)[1:]] == ["bad"] * 9 + ["missed"]


def test_another_base(comparison: Written, tmp_path: Path) -> None:
    page = PageReader(write_report(comparison.results, base=FAST, out=tmp_path, thresholds=THRESHOLDS).html)
    table = page.table(f"Relative rates: insert against {FAST}")
    assert [mark(c) for c in row(table.rows, BASE)[1:]] == ["bad"] * 10


def test_the_target_is_the_last_row_of_the_background_rates(comparison: Written) -> None:
    table = comparison.page.table("Background writes")
    assert table.head[0] == "Variant" and "l.i1rows/s" not in table.head
    assert table.row_classes[-1] == "target"
    assert [c.text for c in table.rows[-1]] == ["target", "100", "100", "500", "500", "1,000", "1,000"]
    assert mark(row(table.rows, SLOW)[-1]) == "bad"


def test_repeats_show_their_range(comparison: Written) -> None:
    table = comparison.page.table("Rates: insert")
    assert "–" in row(table.rows, BASE)[1].text
    text = comparison.page.all_text
    assert "geometric mean of the repeats" in text


def test_tables_and_indexes_are_shown_as_the_last_step_left_them(comparison: Written) -> None:
    table = comparison.page.table("Tables after the last step")
    cells = [cell.text for cell in row(table.rows, BASE)]
    assert cells[1:] == ["insert", "pi1", "1,000,000", "1,200", "2.50", "11.2"]
    index = row(comparison.page.table("Indexes after the last step").rows, BASE)
    definition = "CREATE UNIQUE INDEX pi1_pkey ON pi1 (transactionid)"
    assert [cell.text for cell in index[2:]] == ["pi1_pkey", definition, "88.5", "0"]


def test_the_drivers_own_memory_stands_beside_its_cpu(comparison: Written) -> None:
    table = comparison.page.table("CPU by connection")
    assert row(table.rows, BASE)[-1].text == "9.00"


def test_every_table_tells_how_to_read_it(comparison: Written) -> None:
    text = comparison.page.all_text
    assert text.count("How to read this") >= len(comparison.page.tables)


def test_every_chart_says_what_is_better(comparison: Written) -> None:
    html = comparison.report.html.read_text()
    captions = [part.split("</figcaption>")[0] for part in html.split('<figure class="chart">')[1:]]
    assert len(captions) >= 10
    for caption in captions:
        assert any(word in caption for word in ("better", "faster")), caption


def test_failed_runs_are_listed_with_the_end_of_their_log(comparison: Written) -> None:
    table = comparison.page.table("Runs that did not finish")
    assert len(table.rows) == 2
    assert "the server died in step l.i1" in table.rows[0][5].text
    assert "l.i0, l.x, l.i1" in table.rows[0][4].text
    assert "was terminated by signal 9: Killed" in comparison.page.all_text


def test_settings_a_version_did_not_take_are_listed(comparison: Written) -> None:
    table = comparison.page.table("Settings a version did not take")
    assert [c.text for c in table.rows[0][1:4]] == ["wal_compression = lz4", "dropped", "base-cached, line 7"]


def test_one_variant_has_rates_but_nothing_relative(single: Written) -> None:
    captions = [table.caption for table in single.page.tables]
    assert any(c.startswith("Rates: insert") for c in captions)
    assert not any("relative" in c.lower() for c in captions)
    assert "the only variant" in single.page.all_text


def test_a_step_that_one_variant_lacks_is_said(comparison: Written, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(comparison.results, results)
    for run in Results(results).runs():
        if run.variant == FAST:
            data = on_disk(run)
            data["steps"] = [step for step in data["steps"] if step["name"] != "qr500"]
            (run.folder / "run.json").write_text(json.dumps(data))
    page = PageReader(write_report(results, out=tmp_path / "report").html)
    table = page.table("Rates: insert")
    cell = row(table.rows, FAST)[table.head.index("qr500queries/s")]
    assert (cell.text.strip(), mark(cell)) == ("no data", "missing")


def test_a_server_of_somebody_else(tmp_path: Path) -> None:
    results = tmp_path / "results"
    make_run(results, RunKey("c", "dsn17.2", "insert", 1), seconds=3, managed=False)
    make_run(results, RunKey("c", "pg17.11.x", "insert", 1), seconds=3)
    page = PageReader(write_report(results, base="pg17.11.x", out=tmp_path / "report").html)
    assert "dsn17.2 is a server that somebody else runs" in page.all_text
    cpu = page.table("CPU by connection")
    assert {mark(c) for c in row(cpu.rows, "dsn17.2")[1:4]} == {"missing"}


def test_runs_of_two_hosts_and_other_options_are_warned_about(tmp_path: Path) -> None:
    results = tmp_path / "results"
    make_run(results, RunKey("c", "a", "insert", 1), seconds=3)
    make_run(
        results, RunKey("c", "b", "insert", 1), seconds=3, host={"hostname": "other"}, options={"rows": 5}
    )
    text = PageReader(write_report(results, out=tmp_path / "report").html).all_text
    assert "The runs come from 2 hosts: bench1, other" in text
    assert "Not every run of insert had the same option: rows. Their rates" in text


def test_only_failed_runs(tmp_path: Path) -> None:
    results = tmp_path / "results"
    make_run(results, RunKey("c", "a", "insert", 1), seconds=3, failed_after="l.i0")
    page = PageReader(write_report(results, out=tmp_path / "report").html)
    assert "No run of this campaign has finished" in page.all_text
    assert "Failed runs" in page.headings


def test_a_damaged_run_is_named_and_the_rest_reported(comparison: Written, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(comparison.results, results)
    broken = next(run.folder for run in Results(results).runs() if run.variant == FAST)
    (broken / "run.json").write_text("{")
    page = PageReader(write_report(results, out=tmp_path / "report").html)
    assert (
        "run.json is damaged"
        in row(page.table("Run folders that could not be read").rows, broken.name)[1].text
    )


# --- its forms agree ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "caption"),
    [
        ("rates", "Rates: insert"),
        ("relative-rates", "Relative rates"),
        ("background-rates", "Background writes"),
    ],
)
def test_csv_equals_the_table(comparison: Written, file: str, caption: str) -> None:
    with (comparison.tables / f"{file}.csv").open(newline="") as text:
        read = list(csv.reader(text))
    table = comparison.page.table(caption)
    assert len(read) - 1 == len(table.rows)
    for values, cells in zip(read[1:], table.rows, strict=True):
        assert len(values) - 2 == len(cells)  # the workload in front, the marks behind
        for value, cell in zip(values[2:-1], cells[1:], strict=True):
            if value:
                assert numbers.significant(float(value)) in cell.text
            else:
                assert cell.text.strip() in ("failed", "no data")


def test_the_csv_of_steps_names_them(comparison: Written) -> None:
    with (comparison.tables / "response-times.csv").open(newline="") as text:
        read = list(csv.DictReader(text))
    assert {r["step"] for r in read} >= {"l.i0", "l.x", "qp1000"}
    for r in read:
        if int(r["responses"]):
            assert sum(float(r[name]) for name in r if name.startswith("share ")) == pytest.approx(100)


def test_markdown_has_the_same_numbers(comparison: Written) -> None:
    lines = comparison.report.markdown.read_text().splitlines()
    table = comparison.page.table("Rates: insert")
    line_of_fast = next(line for line in lines if line.startswith(f"| {FAST} |"))
    for cell in row(table.rows, FAST)[1:]:
        number = cell.text.replace("▲", "").replace("▼", "").split(",  ")[0].split(" ")[0]
        assert number[:5] in line_of_fast


def test_every_link_of_the_page_leads_somewhere(comparison: Written) -> None:
    folder = comparison.report.html.parent
    for link in comparison.page.links:
        if link.startswith("#"):
            assert link[1:] in comparison.page.ids
        elif not link.startswith("data:"):
            assert (folder / link).is_file()


def test_the_page_asks_nobody_for_anything(comparison: Written) -> None:
    page = comparison.page
    assert [s["src"] for s in page.scripts if s.get("src")] == ["plotly.min.js"]
    assert not {"iframe", "object", "embed", "img", "form"} & set(page.tags)
    assert not any(link.startswith(("http:", "https:", "//")) for link in page.links)
    assert (comparison.report.html.parent / "plotly.min.js").stat().st_size > 1_000_000
    assert len(page.ids) == len(set(page.ids))


def test_stalls_have_their_cause_beside_them(comparison: Written) -> None:
    figure = comparison.page.figures["step-insert-l.i1-seconds-data"]
    drawn = [t for t in figure["data"] if t["type"] == "bar"]
    texts = [text for t in drawn for text in t["text"]]
    assert any(text.startswith("checkpoint") for text in texts)
    assert any(text.startswith("autovacuum: pi1") for text in texts)
    assert {t["meta"] for t in drawn} == {BASE, FAST, SLOW}
    bands = [s for s in figure["layout"]["shapes"] if s["type"] == "rect"]
    assert all(band["x1"] > band["x0"] for band in bands) and len(bands) == 3


def test_relative_bars_start_at_one_and_are_cut_with_their_value(tmp_path: Path) -> None:
    results = tmp_path / "results"
    make_campaign(results, variants=(BASE, FAST, SLOW), speeds={FAST: 2.5, SLOW: 0.5}, seconds=3)
    figure = PageReader(write_report(results, out=tmp_path / "r").html).figures["relative-insert-x-data"]
    fast, slow = figure["data"]
    assert {t["base"] for t in figure["data"]} == {1}
    assert fast["y"] == [0.5] * 10 and slow["y"] == [-0.2] * 10
    assert all(2.3 < float(text) < 2.7 for text in fast["text"])
    assert figure["layout"]["yaxis"]["range"][0] == pytest.approx(0.80, abs=0.05)


# --- strangers ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nasty(tmp_path_factory: pytest.TempPathFactory) -> PageReader:
    """Everything that somebody else can name is markup."""
    root = tmp_path_factory.mktemp("nasty")
    for variant, dies in ((NASTY, None), (BASE, None), ("=1+1" + NASTY, "l.i0")):
        folder = make_run(root / "results", RunKey(NASTY, variant, "insert", 1), seconds=3, failed_after=dies)
        text = (folder / "run.json").read_text()
        data = json.loads(text)
        data["host"]["hostname"] = data["server"]["build"] = data["config"]["name"] = NASTY
        data["config"]["settings"][NASTY] = variant
        data["config"]["fragments"][0].update(name=NASTY, text=NASTY)
        data["env"] = {NASTY: NASTY}
        data["options"][NASTY] = NASTY
        if data["error"]:
            data["error"].update(message=NASTY, hint=NASTY, log_tail=f"{NASTY}\n\x1b[31m\x00\ud800")
        for step in data["steps"]:
            step["group"] = NASTY
            step["rate_unit"] = f"{NASTY}/s"
            step["events"] = [{"kind": "checkpoint", "second": 1, "until": 2, "text": NASTY}]
            step["name"] = step["name"] if step["name"] != "l.x" else NASTY
        (folder / "run.json").write_text(json.dumps(data))
    report = write_report(root / "results", out=root / "report")
    return PageReader(report.html)


def test_no_name_becomes_markup(nasty: PageReader) -> None:
    assert "img" not in nasty.tags
    assert not any(name.startswith("on") for name, _ in nasty.attributes)
    scripts = [s for s in nasty.scripts if s.get("type") != "application/json"]
    assert len(scripts) == 2  # plotly and the page's own
    assert nasty.headings[0] == NASTY
    assert "49" not in nasty.headings[0]


def test_figures_are_whole_json_whatever_they_hold(nasty: PageReader) -> None:
    assert nasty.figures
    texts = [t for f in nasty.figures.values() for trace in f["data"] for t in trace.get("text", [])]
    assert texts and not any("<" in text for text in texts)
    names = [trace["name"] for f in nasty.figures.values() for trace in f["data"]]
    assert not any("<" in name for name in names)


# --- refusals -----------------------------------------------------------------------------------


def test_no_runs(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no runs in"):
        write_report(tmp_path, out=tmp_path / "report")


def test_an_unknown_campaign_or_base_names_those_that_are_there(comparison: Written, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        write_report(comparison.results, "other", out=tmp_path)
    assert "insert-cached" in error.value.hint
    with pytest.raises(UsageError) as error:
        write_report(comparison.results, base="pg9", out=tmp_path)
    assert BASE in error.value.hint


def test_several_campaigns_must_be_chosen_from(tmp_path: Path) -> None:
    for campaign in ("a", "b"):
        make_run(tmp_path / "results", RunKey(campaign, BASE, "insert", 1), seconds=2, failed_after="l.i0")
    with pytest.raises(UsageError, match="several campaigns: a, b"):
        write_report(tmp_path / "results", out=tmp_path / "report")
    assert write_report(tmp_path / "results", "b", out=tmp_path / "report").campaign == "b"


def test_a_place_that_cannot_be_written_is_named(comparison: Written, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        write_report(comparison.results, out=tmp_path / "file" / "report")


@pytest.mark.long
def test_writing_again_replaces_the_report(comparison: Written, tmp_path: Path) -> None:
    first = write_report(comparison.results, out=tmp_path)
    first.html.write_text("old")
    again = write_report(comparison.results, out=tmp_path)
    assert "<h1>" in again.html.read_text()
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]

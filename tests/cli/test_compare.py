"""`pgstrata compare` and `pgstrata check` on stored runs: words, exit codes, formats, refusals."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec import structs

from pgstrata.cli.main import invoke
from pgstrata.store import RunKey
from pgstrata.store.record import Slice, StepRecord
from support.program import environment
from support.records import comparison_record
from support.runs import clone_run, make_run, sum_anew

# Rates of six repeats against the base's of the same repeat.
FACTORS = {
    "base": (1.0, 1.002, 0.998, 1.001, 0.999, 1.0),
    "alike": (1.001, 1.001, 0.999, 1.0, 1.0, 0.999),
    "slow": (0.951, 0.953, 0.947, 0.95, 0.951, 0.95),
    "rough": (0.8, 1.2, 0.9, 1.15, 0.85, 1.05),
}

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("results")
    other = tmp_path_factory.mktemp("source")
    source = make_run(other, RunKey("nightly", "base", "insert", 1), seconds=4)
    for variant, factors in FACTORS.items():
        for repeat, factor in enumerate(factors, 1):
            clone_run(root, source, RunKey("nightly", variant, "insert", repeat), factor)
    return root


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    def run(*arguments: str | Path) -> tuple[int, str, str]:
        code = invoke([str(a) for a in arguments])
        output = capsys.readouterr()
        return code, output.out, output.err

    return run


def test_a_label_of_another_campaign_is_named_with_it(repeated: Path, tmp_path: Path, call: Call) -> None:
    shutil.copytree(repeated, tmp_path, dirs_exist_ok=True)
    make_run(tmp_path, RunKey("noise point-query", "again", "insert", 1), seconds=4)
    for command in (["compare", "slow", "again"], ["check", "--base", "slow", "--fail-slower", "3%"]):
        code, _, err = call(*command, "--campaign", "noise point-query", "--results", tmp_path)
        assert code == 2
        assert "variants of campaign noise point-query: again; or --campaign nightly, which has slow" in err


@pytest.mark.program
def test_every_exit_code_in_a_shell_script(repeated: Path) -> None:
    script = Path(__file__).parent / "check.sh"
    done = subprocess.run(
        ["/bin/sh", script, sys.executable, repeated], env=environment(), text=True, capture_output=True
    )
    assert done.stdout.splitlines() == [
        "alike 0",
        "slow 1",
        "slow is within 0",
        "rough 3",
        "all 1",
        *["nonsense 2"] * 8,
        "nobody 2",
    ]


def test_a_table_fits_a_terminal_of_80_columns(
    repeated: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the longest names of steps, and rates of six digits."""
    first = next((repeated / "nightly/base/insert").glob("1-*"))

    def measured(step: StepRecord, rate: float) -> StepRecord:
        name = f"{step.name}-points-notcovered"[:20]
        return structs.replace(step, name=name, rate=rate, rate_unit="queries/s")

    for variant, rate in (("pg13.23", 1e5), ("pg17.11", 1.05e5)):
        for repeat in (1, 2, 3):
            key, repeated_rate = RunKey("nightly", variant, "insert", repeat), rate + 1000 * repeat
            clone_run(tmp_path, first, key, change=partial(measured, rate=repeated_rate))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    code, out, _ = call("compare", "pg13.23", "pg17.11", "--results", tmp_path)
    title, *rest = out.splitlines()
    table = list(takewhile(lambda line: ": " not in line, rest))
    assert code == 0 and title == "pg17.11 against pg13.23, queries/s, insert"
    assert len(table) > 12 and max(map(len, table)) <= 80 and any("106,997" in line for line in table)
    assert not [line for line in table if line.rstrip().endswith("…")], "an interval is in one line"


def test_the_table_has_word_interval_and_evidence(repeated: Path, call: Call) -> None:
    code, out, _ = call("compare", "base", "slow", "--results", repeated, "--step", "qr100")
    assert code == 0
    line = next(line for line in out.splitlines() if "qr100" in line)
    assert line.split()[:3] == ["qr100", "slower", "0.950"]
    assert "6 pairs of repeats" in line
    assert "l.i1" not in out


def test_exchanging_the_sides_exchanges_the_words(repeated: Path, call: Call) -> None:
    _, out, _ = call("compare", "slow", "base", "--results", repeated, "--format", "json")
    steps = json.loads(out)[0]["steps"]
    assert {s["word"] for s in steps} == {"faster"}
    for s in steps:
        assert s["low"] < s["ratio"] < s["high"]
        assert s["adjusted_p"] >= s["p_value"]
        assert s["evidence"] == "repeats"


def one_each(repeated: Path, root: Path, *variants: str) -> None:
    for variant in variants:
        folder = next((repeated / "nightly" / variant / "insert").glob("1-*"))
        shutil.copytree(folder, root / "nightly" / variant / "insert" / folder.name)


def test_one_run_each_proves_nothing(repeated: Path, call: Call, tmp_path: Path) -> None:
    one_each(repeated, tmp_path, "base", "rough")  # 20 % apart
    code, out, _ = call("compare", "base", "rough", "--results", tmp_path)
    assert code == 0
    lines = [line.split() for line in out.splitlines() if re.match(r"(?:l|q)\S+ +\w", line)]
    assert {line[1] for line in lines} == {"unclear"}
    assert {line[3] for line in lines} == {"none"}
    assert "one run each" in out
    assert "how much runs differ from one to the next is not known" in out
    assert "noise --runs 5" in out
    check = ("check", "--base", "base", "--results", tmp_path)
    assert call(*check, "--fail-slower", "3%")[0] == 3
    assert call(*check, "--fail-slower", "50%")[0] == 3, "nor that it is not slower"


def test_repeats_of_a_variant_elsewhere_say_how_much_runs_differ(
    repeated: Path, call: Call, tmp_path: Path
) -> None:
    one_each(repeated, tmp_path, "base", "slow")
    other = tmp_path / "elsewhere" / "base" / "insert"
    source = next((repeated / "nightly" / "base" / "insert").glob("1-*"))
    for repeat, factor in enumerate((1.0, 1.004, 0.997, 1.001, 0.998), 1):
        clone_run(tmp_path, source, RunKey("elsewhere", "base", "insert", repeat), factor)
    assert other.is_dir()
    code, out, _ = call(
        "compare", "base", "slow", "--campaign", "nightly", "--results", tmp_path, "--format", "json"
    )
    assert code == 0
    step = {s["step"]: s for s in json.loads(out)[0]["steps"]}["l.x"]  # has no seconds that could widen it
    assert (step["word"], step["evidence"], step["single_run"]) == ("slower", "runs", True)
    assert 0.002 < step["run_spread"] < 0.004
    assert "known from 5 runs" in step["reason"]


@pytest.mark.long
def test_runs_of_other_hosts_and_other_work_say_nothing_of_the_spread(
    repeated: Path, call: Call, tmp_path: Path
) -> None:
    one_each(repeated, tmp_path, "base", "slow")
    for repeat in (1, 2, 3):
        make_run(tmp_path, RunKey("far", "base", "insert", repeat), seconds=3, host={"hostname": "bench2"})
        make_run(tmp_path, RunKey("more", "base", "insert", repeat), seconds=3, options={"rows": 5})
    _, out, _ = call(
        "compare", "base", "slow", "--campaign", "nightly", "--results", tmp_path, "--format", "json"
    )
    assert {s["run_spread"] for s in json.loads(out)[0]["steps"]} == {None}


def test_other_seeds_and_lengths_are_named_not_refused(call: Call, tmp_path: Path) -> None:
    make_run(tmp_path, RunKey("n", "a", "insert", 1), seconds=3, options={"seed": 1, "settle_base": 1})
    make_run(tmp_path, RunKey("n", "b", "insert", 1), seconds=3, options={"seed": 2, "settle_base": 5})
    code, out, err = call("compare", "a", "b", "--results", tmp_path)
    assert code == 0, err
    assert "warning: the sides differ: option seed: 1 and 2" in out
    assert "warning: the sides differ: option settle_base: 1 and 5" in out


@pytest.mark.parametrize(("step", "named"), [("qr100", True), ("l.x", False)])
def test_an_edited_script_is_named_where_it_is_measured(
    step: str, named: bool, call: Call, tmp_path: Path
) -> None:
    folders = {v: make_run(tmp_path, RunKey("n", v, "insert", 1), seconds=3) for v in "ab"}
    for (name, folder), text in zip(folders.items(), ("SELECT 1;", "SELECT 2;"), strict=True):
        spec = {"step": step, "seed": ord(name), "roles": [{"name": "query", "scripts": [{"text": text}]}]}
        (folder / "spec").mkdir(exist_ok=True)
        (folder / "spec" / "05-step.json").write_text(json.dumps(spec))
        record = json.loads((folder / "run.json").read_text())
        for each in record["steps"]:
            each["measured"] = each["name"] != "l.x"
        (folder / "run.json").write_text(json.dumps(record))
        sum_anew(folder)
    code, out, err = call("compare", "a", "b", "--results", tmp_path)
    assert code == 0, err
    assert (f"warning: the sides differ: step {step}: one script and another" in out) == named


def test_runs_and_folders_can_be_named(repeated: Path, call: Call) -> None:
    folders = [next((repeated / "nightly" / v / "insert").glob("1-*")) for v in ("base", "slow")]
    code, by_folder, _ = call("compare", *folders, "--results", repeated)
    assert code == 0
    ids = [folder.name.partition("-")[2] for folder in folders]
    code, by_id, _ = call("compare", *ids, "--results", repeated)
    assert code == 0
    assert by_id == by_folder
    code, out, _ = call("compare", repeated / "nightly" / "base", repeated / "nightly" / "slow")
    assert code == 0
    assert "6 pairs of repeats" in out
    code, _, err = call("compare", repeated, repeated / "nightly" / "slow")
    assert code == 2
    assert "several variants" in err


def test_junit_fails_slower_and_skips_unclear(repeated: Path, call: Call) -> None:
    code, out, _ = call(
        "check", "--base", "base", "--fail-slower", "3%", "--results", repeated, "--format", "junit"
    )
    assert code == 1
    suites = {s.attrib["name"]: s for s in ElementTree.fromstring(out).iter("testsuite")}
    assert set(suites) == {f"{v} against base" for v in ("alike", "slow", "rough")}
    slow, rough = suites["slow against base"], suites["rough against base"]
    assert slow.attrib["failures"] == slow.attrib["tests"] == str(len(slow.findall("testcase/failure")))
    assert rough.attrib["skipped"] == rough.attrib["tests"] == str(len(rough.findall("testcase/skipped")))
    assert suites["alike against base"].attrib["failures"] == "0"


def test_github_and_markdown(repeated: Path, call: Call) -> None:
    arguments = ("check", "--base", "base", "--other", "slow", "--fail-slower", "3%", "--results", repeated)
    _, out, _ = call(*arguments, "--format", "github")
    assert all(line.startswith("::error title=") for line in out.splitlines())
    assert "::error title=qr100 slower::insert/qr100: slow is slower against base" in out
    _, out, _ = call(*arguments, "--format", "markdown")
    rows = [line for line in out.splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows} == {9}


def test_other_hosts_options_and_drivers(call: Call, tmp_path: Path) -> None:
    make_run(tmp_path, RunKey("n", "a", "insert", 1), seconds=3)
    make_run(tmp_path, RunKey("n", "b", "insert", 1), seconds=3, host={"hostname": "bench2"})
    make_run(tmp_path, RunKey("n", "c", "insert", 1), seconds=3, options={"rows": 5})
    code, _, err = call("compare", "a", "b", "--results", tmp_path)
    assert code == 2
    assert "host hostname: bench1 and bench2" in err
    assert "--across-hosts" in err
    code, out, _ = call("compare", "a", "b", "--results", tmp_path, "--across-hosts")
    assert code == 0
    assert "warning: the sides differ: host hostname: bench1 and bench2" in out
    code, _, err = call("compare", "a", "c", "--results", tmp_path)
    assert code == 2
    assert "option rows: 1000000 and 5" in err
    code, out, _ = call("compare", "a", "c", "--results", tmp_path, "--despite-options")
    assert code == 0
    assert "warning: the sides differ: option rows" in out


def test_what_failed_is_kept_and_unclear(call: Call, tmp_path: Path) -> None:
    make_run(tmp_path, RunKey("n", "a", "insert", 1), seconds=3)
    make_run(tmp_path, RunKey("n", "b", "insert", 1), seconds=3, failed_after="l.i1")
    code, out, _ = call("compare", "a", "b", "--results", tmp_path, "--format", "json")
    assert code == 0
    comparison = json.loads(out)[0]
    assert {s["word"] for s in comparison["steps"]} == {"unclear"}
    assert all("b failed: the server died in step l.i1" in s["reason"] for s in comparison["steps"])
    assert "insert/qr100" in comparison["only_base"]
    code, _, _ = call("check", "--base", "a", "--other", "b", "--fail-slower", "50%", "--results", tmp_path)
    assert code == 3
    code, _, err = call("compare", "a", "b", "--results", tmp_path, "--step", "qr1OO")
    assert code == 2
    assert "both have: l.i" in err


def test_check_does_not_pass_what_only_the_base_has(call: Call, tmp_path: Path) -> None:
    source = make_run(tmp_path / "source", RunKey("n", "a", "insert", 1), seconds=3)
    for variant in ("a", "b"):
        for repeat in range(1, 7):
            clone_run(tmp_path, source, RunKey("n", variant, "insert", repeat), 1 + 0.0001 * repeat)
    check = ("check", "--base", "a", "--fail-slower", "50%", "--results", tmp_path)
    assert call(*check)[0] == 0
    make_run(tmp_path, RunKey("n", "a", "second", 1), seconds=3)
    code, _, err = call(*check)
    assert code == 3
    assert "not measured: second/l.i0 of b, " in err
    assert call(*check, "--step", "l.i0")[0] == 3
    document = ElementTree.fromstring(call(*check, "--format", "junit")[1])
    skipped = {
        case.get("classname") for case in document.iter("testcase") if case.find("skipped") is not None
    }
    assert skipped == {"a.b.second"}
    assert "::warning title=not measured::only a has second/l.i0" in call(*check, "--format", "github")[1]


def test_check_does_not_pass_batches_that_disagree(call: Call, tmp_path: Path) -> None:
    """The mean of ten is faster, and two of them are slower: nothing is excluded."""
    source = make_run(tmp_path / "source", RunKey("n", "a", "insert", 1), seconds=3)
    opposed = (1.30, 1.31, 1.29, 1.30, 1.32, 1.30, 1.31, 1.29, 0.97, 0.98)

    def in_batches(ratios: Sequence[float]) -> Callable[[StepRecord], StepRecord]:
        slices = tuple(
            Slice(pair=10 * batch + n, seconds=0.1, rate=100 * ratio * (1 + n % 3 / 1000))
            for batch, ratio in enumerate(ratios)
            for n in range(1, 11)
        )
        blocks = tuple(range(10, 10 * len(ratios) + 1, 10))
        return lambda step: structs.replace(step, turns="windows", slices=slices, blocks=blocks)

    for variant, ratios in (("a", [1.0] * 10), ("b", opposed)):
        clone_run(
            tmp_path,
            source,
            RunKey("n", variant, "insert", 1),
            change=in_batches(ratios),
            comparison=comparison_record("a", "b"),
        )
    code, out, err = call("check", "--base", "a", "--fail-slower", "3%", "--results", tmp_path)
    assert "only 8 of 10 batches agree on the direction" in out
    assert code == 3, err


def test_check_says_what_margin_response_times_have(call: Call, tmp_path: Path) -> None:
    """It asks for 3 %, and of response times nothing below their own margin is known."""
    source = make_run(tmp_path / "source", RunKey("n", "a", "insert", 1), seconds=20)
    slices = tuple(Slice(pair=n, seconds=2.0, rate=100 + n % 3 / 10) for n in range(1, 11))
    for variant in ("a", "b"):
        clone_run(
            tmp_path,
            source,
            RunKey("n", variant, "insert", 1),
            change=lambda step: structs.replace(step, slices=slices, part_seconds=(2,) * 10),
            comparison=comparison_record("a", "b", judge=("p50",)),
        )
    check = ("check", "--base", "a", "--step", "qr100", "--results", tmp_path)
    code, out, err = call(*check, "--fail-slower", "3%")
    assert "qr100.p50" in out
    assert (code, err) == (0, "check: nothing slower by more than 3 %, response times 5 %\n")
    assert call(*check, "--fail-slower", "5%")[2] == "check: nothing slower by more than 5 %\n"


def test_check_does_not_pass_what_is_damaged(call: Call, tmp_path: Path) -> None:
    source = make_run(tmp_path / "source", RunKey("n", "a", "insert", 1), seconds=3)
    for variant in ("a", "b", "c"):
        for repeat in range(1, 7):
            clone_run(tmp_path, source, RunKey("n", variant, "insert", repeat), 1 + 0.0001 * repeat)
    check = ("check", "--base", "a", "--fail-slower", "50%", "--results", tmp_path)
    runs = sorted((tmp_path / "n" / "c" / "insert").iterdir())
    (runs[0] / "run.json").write_text("{")
    assert call(*check)[0] == 0, "five others say the same"
    for run in runs[1:]:
        (run / "run.json").write_text("{")
    code, _, err = call(*check)
    assert code == 3
    assert "not measured: insert of c (damaged)" in err
    assert call(*check, "--other", "b")[0] == 0

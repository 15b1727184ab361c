"""`pgstrata bundle` and `verify`: verdicts come out the same elsewhere, and what was changed is found."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from pgstrata.cli.main import invoke
from pgstrata.store import Results
from support.runs import make_campaign


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with results of two variants, three runs each."""
    make_campaign(tmp_path / "results", repeats=3, seconds=5)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def bundle(campaign: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert invoke(["bundle", "-o", "result.pgstrata"]) == 0
    assert "6 runs of insert-cached" in capsys.readouterr().out
    return campaign / "result.pgstrata"


def repacked(bundle: Path, change: dict[str, bytes | None], more: dict[str, bytes] | None = None) -> Path:
    """The bundle with other contents of files whose names end like these; None leaves them out."""
    content = io.BytesIO()
    with tarfile.open(bundle) as old, tarfile.open(fileobj=content, mode="w:xz") as new:
        for member in old.getmembers():
            file = old.extractfile(member)
            assert file is not None
            data: bytes | None = file.read()
            for end, other in change.items():
                data = other if member.name.endswith(end) else data
            if data is not None:
                member.size = len(data)
                new.addfile(member, io.BytesIO(data))
        for name, data in (more or {}).items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            new.addfile(member, io.BytesIO(data))
    bundle.write_bytes(content.getvalue())
    return bundle


def manifest(bundle: Path) -> dict[str, object]:
    with tarfile.open(bundle) as archive:
        file = archive.extractfile("bundle.json")
        assert file is not None
        document: dict[str, object] = json.loads(file.read())
        return document


def test_verdicts_come_out_the_same_without_the_results(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["compare", "pg12.22.x10a", "pg17.11.x10a", "--format", "json"]) == 0
    before = json.loads(capsys.readouterr().out)
    (bundle.parent / "results").rename(bundle.parent / "elsewhere")
    assert invoke(["verify", "result.pgstrata", "--format", "json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert done["differences"] == [] and done["verdicts"] == 10
    words = [(step["step"], step["word"], step["ratio"]) for step in done["comparisons"][0]["steps"]]
    assert words == [(step["step"], step["word"], step["ratio"]) for step in before[0]["steps"]]
    assert invoke(["verify", "result.pgstrata", "--report", "page"]) == 0
    assert "pg17.11.x10a" in (bundle.parent / "page/index.html").read_text()
    assert "10 of 10 verdicts come out the same" in capsys.readouterr().out


def test_report_draws_a_bundle_as_it_draws_its_results(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["report", "results"]) == 0
    page = "results/insert-cached.report/index.html"
    known = capsys.readouterr().out.replace(page, "result.report/index.html")
    (bundle.parent / "results").rename(bundle.parent / "elsewhere")
    assert invoke(["report", "result.pgstrata"]) == 0
    assert capsys.readouterr().out == known
    html = (bundle.parent / "result.report/index.html").read_text()
    assert "pg17.11.x10a" in html and "pgstrata-bundle-" not in html


def test_the_same_runs_make_the_same_bundle_without_logs_and_owners(bundle: Path) -> None:
    assert invoke(["bundle", "-o", "again.pgstrata"]) == 0
    assert (bundle.parent / "again.pgstrata").read_bytes() == bundle.read_bytes()
    assert bundle.stat().st_mode & 0o777 == 0o600
    with tarfile.open(bundle) as archive:
        members = archive.getmembers()
    assert not [member.name for member in members if member.name.endswith("server.log.gz")]
    assert {(member.uid, member.uname, member.mtime) for member in members} == {(0, "", 0)}
    assert len(Results(bundle.parent / "results").runs()) == 6


def test_a_bundle_does_not_say_where_a_repository_or_a_file_lay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", "/home/alice")
    monkeypatch.chdir(tmp_path)
    make_campaign(tmp_path / "results", repeats=2, seconds=5)
    for number, path in enumerate(sorted((tmp_path / "results").rglob("run.json"))):
        run = json.loads(path.read_text())
        secret = "/srv/acme-takeover/postgresql" if number % 2 else "/home/alice/acme-takeover/postgresql"
        run["server"]["spec"] = f"git:{secret}#master"
        run["server"]["build"] = "'--prefix=/home/alice/.cache/pgstrata/builds/1'"
        run["options"]["setup"] = ["/srv/acme-takeover/shop.dump"]
        run["campaign_file"] = "/srv/acme-takeover/study.toml"
        path.write_text(json.dumps(run))
    assert invoke(["bundle", "-o", "result.pgstrata"]) == 0
    with tarfile.open("result.pgstrata") as archive:
        files = {name: archive.extractfile(name) for name in archive.getnames()}
        texts = {name: file.read() for name, file in files.items() if file is not None}
    assert not [name for name, text in texts.items() if b"takeover" in text or b"alice" in text]
    runs = [json.loads(text) for name, text in texts.items() if name.endswith("run.json")]
    assert {run["server"]["spec"] for run in runs} == {"git:postgresql#master"}
    assert {run["server"]["build"] for run in runs} == {"'--prefix=~/.cache/pgstrata/builds/1'"}
    assert {(*run["options"]["setup"], run["campaign_file"]) for run in runs} == {("shop.dump", "study.toml")}
    assert invoke(["verify", "result.pgstrata"]) == 0
    assert "verdicts come out the same" in capsys.readouterr().out


def test_a_verdict_that_was_edited_is_found(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = manifest(bundle)
    comparisons = document["comparisons"]
    assert isinstance(comparisons, list)
    step = next(s for s in comparisons[0]["steps"] if s["word"] == "faster")
    step["word"] = "slower"
    repacked(bundle, {"bundle.json": json.dumps(document).encode()})
    assert invoke(["verify", "result.pgstrata"]) == 1
    out = capsys.readouterr().out
    assert f"insert {step['step']}: slower" in out and "in the bundle, faster" in out
    assert "1 of 10 verdicts differ" in out


def test_measurements_that_were_edited_are_found(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with tarfile.open(bundle) as archive:
        name = next(n for n in archive.getnames() if "pg17" in n and n.endswith("run.json"))
        file = archive.extractfile(name)
        assert file is not None
        run = json.loads(file.read())
    run["steps"][0]["rate"] *= 0.5
    repacked(bundle, {name: json.dumps(run).encode()})
    assert invoke(["verify", "result.pgstrata"]) == 1
    assert "differs: pg17.11.x10a against pg12.22.x10a" in capsys.readouterr().out
    repacked(bundle, {"series.parquet": b"PAR1 damaged PAR1"})
    assert invoke(["verify", "result.pgstrata"]) == 1
    assert "is damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "other is not a bundle"),
        (b"\xfd7zXZ\x00 not really", "cannot be read as a tar archive"),
        (b"SELECT 1;\n" * 1000, "other is not a bundle"),
    ],
)
def test_a_file_that_is_no_bundle_is_named(
    campaign: Path, capsys: pytest.CaptureFixture[str], data: bytes, words: str
) -> None:
    (campaign / "other").write_bytes(data)
    assert invoke(["verify", "other"]) == 2
    error = capsys.readouterr().err
    assert words in error and "defect" not in error


def test_what_leads_out_of_the_bundle_is_refused(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repacked(bundle, {}, {"../outside": b"x"})
    assert invoke(["verify", "result.pgstrata"]) == 2
    assert "outside" in capsys.readouterr().err
    assert not (bundle.parent / "outside").exists() and not (bundle.parent.parent / "outside").exists()


def test_other_faults_are_one_sentence(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, arguments in {
        "there is no bundle": ["verify", "nowhere.pgstrata"],
        "there is no results folder": ["bundle", "--results", "nowhere"],
        "no campaign 'other'": ["bundle", "other"],
        "--most 5: not a size": ["bundle", "--most", "5"],
        "more than": ["bundle", "--most", "20kB"],
    }.items():
        assert invoke(arguments) in (1, 2)
        error = capsys.readouterr().err
        assert error.startswith("error: ") and words in error, error
    repacked(bundle, {"bundle.json": None})
    assert invoke(["verify", "result.pgstrata"]) == 2
    assert "is not a bundle" in capsys.readouterr().err

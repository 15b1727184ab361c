"""Typical mistakes on the command line: each ends in one sentence that names it, with what to do next."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from pgstrata.cli import main

MISTAKES = """
run                                             | 2 | nothing to compare; pgstrata run pg:16 pg:17
run none.toml                                   | 2 | no campaign file none.toml; pgstrata init
run none                                        | 2 | no campaign file none; a server is written pg:17
run 17                                          | 2 | '17' does not name a server; did you mean pg:17
run pg17                                        | 2 | 'pg17' does not name a server; did you mean pg:17
run postgres:17                                 | 2 | 'postgres:17' does not name a server; did you mean pg:17
run pg:16,17                                    | 2 | '17' does not name a server; did you mean pg:17
run pg:16 pg17                                  | 2 | 'pg17'; did you mean pg:17
run pg:16,                                      | 2 | empty server; pg:16,pg:17
run pg:16 pg:banana                             | 2 | pg:banana is not a version; pg:17.11
run pg:                                         | 2 | 'pg:' does not name a server; path:DIR
run /nowhere                                    | 2 | /nowhere; path:DIR
run results                                     | 2 | results is a folder; bin/postgres
run study.toml pg:17                            | 2 | study.toml is a campaign file; alone
run study.toml                                  | 2 | study.toml: nothing to compare; servers =
run postgresql://me@db/app                      | 2 | does not name a server; dsn:
run host=/tmp                                   | 2 | does not name a server; dsn:
run --sever pg:17                               | 2 | --sever; --server
run pg:17 --quite                               | 2 | --quite; --quiet
run pg:17 --workload isnert                     | 2 | no workload `isnert`; did you mean `insert`
run pg:17 --workload sysbench --scale qiuck     | 2 | no scale `qiuck`; did you mean `quick`
run pg:17 --set row=5                           | 2 | has an option `row`; did you mean `rows`
run pg:17 --set rows                            | 2 | not of the form key=value; --set rows=1000000
run pg:17 --set rows=many                       | 2 | rows; must be a whole number, not "many"
run pg:17 --set sysbnech.rows=1                 | 2 | `sysbnech`; did you mean `sysbench`
run pg:17 --set steps=pont-query                | 2 | 'pont-query'; did you mean point-query
run pg:17 --config defualt                      | 2 | 'defualt'; did you mean default
run pg:17 --config nowhere.conf                 | 2 | nowhere.conf; paths are relative
run pg:17 --set-guc work_mem                    | 2 | not of the form NAME=VALUE; work_mem=64MB
run dsn:host=/tmp --set-guc work_mem=1MB        | 2 | runs already; ALTER SYSTEM
run dsn:host=/tmp --config a1                   | 2 | `config` cannot be set; leave it out
run pg:17 --order interlaved                    | 2 | `order` must be; did you mean `interleaved`
run pg:17 --until verdicts                      | 2 | `until` must be; did you mean `verdict`
run pg:16 pg:17 --until verdict --order shuffled | 2 | take turns; order = "interleaved"
run pg:17 --margin 3                            | 2 | --margin 3: not a share; --margin 3%
run pg:17 --margin 300%                         | 2 | --margin 300%: not a share; --margin 3%
run pg:17 --repeats 0                           | 2 | `repeats` must be at least 1; Runs of every variant
run pg:17 --repeats many                        | 2 | '--repeats': not a whole number; --help
run pg:17 --slice 0                             | 2 | `slice_seconds` must be at least 0.005
run pg:17 --max-seconds 0                       | 2 | `max_seconds` must be at least 0.1
run pg:17 --turns freeze                        | 2 | `turns` must be; did you mean `frozen`
run pg:17 --seed -1                             | 2 | `seed` must be at least 0
run pg:17 --other-load 200%                     | 2 | --other-load 200%: not a share
run pg:17 --wait-quiet soon                     | 2 | --wait-quiet soon; 90s, 10m or 2h
run pg:17 --format jsno                         | 2 | 'jsno' is not one of; did you mean 'json'
run pg:17 --keep-setting archive_comand         | 2 | archive_comand; did you mean archive_command
run release:17.11 --build o2_nfp                | 2 | 'o2_nfp'; did you mean o2_nofp
rnu                                             | 2 | 'rnu'; Did you mean 'run'
servers fetsh 17                                | 2 | 'fetsh'; Did you mean 'fetch'
--verison                                       | 2 | --verison; --version
count                                           | 2 | nothing to compare; servers
count pg:17 --margin 5                          | 2 | --margin 5: not a share
count pg:17 --engine valgrin                    | 2 | 'valgrin'; did you mean 'valgrind'
count pg:17 --starts 0                          | 2 | `starts` must be at least 2
noise --server pg17                             | 2 | 'pg17'; did you mean pg:17
noise --server pg:16,pg:17                      | 2 | one server with itself; for each of them
noise --step pont-query                         | 2 | 'pont-query'; did you mean point-query
noise --minutes 0                               | 2 | --minutes 0: must lie above 0; 2 is usual
noise --runs 1                                  | 2 | one run has nothing to differ from; 5
noise --slice 99                                | 2 | --slice 99; 2 is usual
upgrade --to 17 --dump app.dump                 | 2 | '--from'; --help
upgrade --from 13 --to 17 --dump nowhere.dump --log x.csv | 2 | nowhere.dump; check the path
upgrade --from 13 --to 17 --dump study.toml     | 2 | a log or from statistics; --statements
upgrade --from 13 --to new --dump study.toml --log study.toml | 2 | 'new' does not name a server; pg:17
bisect --step x                                 | 2 | nothing to search along; --good REF
bisect --step x --repo . --good a               | 2 | both ends; --bad REF
bisect --step pont-query --releases pg:16,pg:17 --dry-run | 2 | 'pont-query'; did you mean `point-query`
patch x.patch                                   | 2 | '--repo'; --help
compare pg:16 pg:17                             | 2 | pg:16 is a server; pgstrata run
compare a                                       | 2 | 'OTHER'; --help
compare a b                                     | 1 | no runs in results; pgstrata run
compare-queries study.toml                      | 2 | no server to execute the queries on; --config
compare-queries --server pg:14,pg:17            | 2 | 'QUERY…'; --help
compare-queries pg:14 pg:17 slow.sql            | 2 | pg:14 is a server; --server pg:14
compare-queries --server pg:14,pg:17 slow.sql   | 2 | no file; slow.sql; check the path
compare-queries --server pg:14,pg:17 results --limit 0 | 2 | time_limit` must be at least 0.001
check --base a --fail-slower 3                  | 2 | --fail-slower 3: not a share; 3%
check --base a                                  | 2 | '--fail-slower'; --help
show 123                                        | 2 | no run 123; pgstrata runs
report nowhere                                  | 2 | no results folder nowhere; pgstrata run
report --threshold 7                            | 2 | must lie between 0 and 1; 0.05
runs --results nowhere                          | 2 | no results folder nowhere; pgstrata run
runs --format tabel                             | 2 | 'tabel'; did you mean 'table'
workloads isnert                                | 2 | 'isnert'; 'insert'
steps isnert                                    | 2 | `isnert`; did you mean `insert`
steps sysbench --scale qick                     | 2 | `qick`; did you mean `quick`
servers fetch banana                            | 2 | pg:banana is not a version; pg:17
servers build pg:17                             | 2 | not built from source; pgstrata servers fetch
servers build release:17.11 --build o22         | 2 | 'o22'; did you mean o2
servers failed nothing                          | 2 | nothing; pgstrata servers list
data remove nothing                             | 2 | nothing; pgstrata data list
config explain defualt --server pg:11           | 2 | 'defualt'; did you mean default
config explain default --server 17              | 2 | '17' does not name a server; did you mean pg:17
config explain work_men=64MB --server pg:17     | 2 | has a setting work_men; did you mean work_mem
init study.toml                                 | 2 | study.toml is there already; --force
bench -T 0                                      | 2 | -T 0 is not between; another number
bench -D x                                      | 2 | -D x: not of the form NAME=VALUE; -D scale=10
bench -f none.sql                               | 2 | no script none.sql; check the path
capture                                         | 2 | no log to read; --from-statistics
capture nowhere.log -o x.traffic                | 2 | nowhere.log is not there; log_directory
capture log.csv --keep x                        | 2 | --keep; add --mask
study nxt                                       | 2 | 'nxt'; Did you mean 'next'
"""

ROWS = [tuple(cell.strip() for cell in line.split(" | ")) for line in MISTAKES.strip().splitlines()]


@pytest.mark.parametrize(("line", "code", "words"), ROWS, ids=[row[0] for row in ROWS])
def test_a_mistake_ends_in_one_sentence_and_a_next_step(
    line: str,
    code: str,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PGSTRATA_TRACE", raising=False)
    (tmp_path / "results").mkdir()
    (tmp_path / "study.toml").touch()
    assert main.invoke(shlex.split(line)) == int(code)
    output = capsys.readouterr()
    assert output.out == "", "results alone"
    sentence, *step = output.err.splitlines()
    assert sentence.startswith("error: ") and "Traceback" not in output.err
    assert [len(text.split()) > 1 for text in step] == [True], "one next step"
    for word in words.split("; "):
        assert word in output.err


def test_there_are_enough_of_them() -> None:
    assert len(ROWS) >= 72

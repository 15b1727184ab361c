"""Typical mistakes on the command line: each ends in one sentence that names it, with what to do next."""

from __future__ import annotations

import re
import shlex
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from pgstrata.cli import main
from pgstrata.cli.commands import Program
from pgstrata.cli.ending import OTHER_OPTIONS, OTHER_WORDS
from pgstrata.cli.reference import commands_of
from pgstrata.server.find.model import Server
from support.runs import make_campaign

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
run mine.conf                                   | 2 | mine.conf is not a campaign file; --config mine.conf
count mine.conf                                 | 2 | mine.conf is not a campaign file; --config mine.conf
run slow.sql.sql                                | 2 | no campaign file slow.sql.sql; pgstrata init
run query.sql                                   | 2 | query.sql is not a campaign file; compare-queries
run random.pgstrata | 2 | random.pgstrata is not a campaign file; pgstrata verify random.pgstrata
list | 2 | there is no command list; pgstrata runs
diff a b | 2 | there is no command diff; pgstrata compare does that
replay app.dump | 2 | there is no command replay; pgstrata upgrade
run watch.toml | 2 | watch.toml is the file of a watch; pgstrata watch watch.toml
watch campaign.toml | 2 | campaign.toml is a campaign file; pgstrata run campaign.toml
watch mine.conf                                 | 2 | mine.conf is not valid TOML; a line of its own
run open.toml                                   | 2 | open.toml is not valid TOML; ends with ]
run twice.toml                                  | 2 | twice.toml is not valid TOML; a key stands once
run bare.toml                                   | 2 | bare.toml is not valid TOML; text needs quotes
run table.toml                                  | 2 | `workloads` must be a list; [[workloads]]
run row.toml                                    | 2 | unknown key `workloads[1].row`; [workloads.options]
run key.toml                                    | 2 | unknown key `server`; did you mean `servers`
run bom.toml                                    | 2 | bom.toml: nothing to compare; servers =
run utf16.toml                                  | 2 | not UTF-8; save it as UTF-8
run foreign                                     | 2 | foreign is a folder; bin/postgres
run query.sql pg:17                             | 2 | query.sql is a file, not a server; --script
run https://example.com/postgresql.tar.gz       | 2 | does not name a server; tar:URL
run dsn:mysql://me@localhost/app | 2 | mysql://… is not the address of a PostgreSQL server; postgresql://
run pg:8.4                                      | 2 | pg:8.4 is not a version; pg:17
run path:foreign                                | 2 | there is no PostgreSQL in; bin, lib and share
run src:foreign                                 | 2 | is not a source tree; configure
run tar:nowhere.tar.gz                          | 2 | there is no file; tar:
run pg:17 --config campaign.toml | 2 | campaign.toml is not a config file; pgstrata run campaign.toml
run pg:17 --config query.sql                    | 2 | query.sql is not a config file; --script
run pg:17 --workload mine.py                    | 2 | no workload `mine.py`; workloads: insert
run pg:17 --workload nowhere.Workload           | 2 | nowhere.Workload; workloads: insert
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
run pg:17 --max-seconds 5m                      | 2 | '--max-seconds': not a number; seconds without a unit
run pg:17 --slice 20ms                          | 2 | '--slice': not a number; seconds without a unit
noise --minutes 2m                              | 2 | '--minutes': not a number; minutes without a unit
run pg:17 --judge p42                           | 2 | `judge[1]`; p99
run pg:17 --turns freeze                        | 2 | `turns` must be; did you mean `frozen`
run pg:17 --seed -1                             | 2 | `seed` must be at least 0
run pg:17 --other-load 200%                     | 2 | --other-load 200%: not a share
run pg:17 --wait-quiet soon                     | 2 | --wait-quiet soon; 90s, 10m or 2h
run pg:17 --format jsno                         | 2 | 'jsno' is not one of; did you mean 'json'
run pg:17 --keep-setting archive_comand         | 2 | archive_comand; did you mean archive_command
run release:17.11 --build o2_nfp                | 2 | 'o2_nfp'; did you mean o2_nofp
version                                         | 2 | no command version; pgstrata --version
--quiet run pg:16 pg:17 | 2 | pgstrata has no option --quiet; pgstrata COMMAND --quiet
--json runs | 2 | pgstrata has no option --json; pgstrata COMMAND --json
-V | 2 | pgstrata has no option -V; pgstrata --version
compare-servers pg:16 pg:17 | 2 | there is no command compare-servers; pgstrata run does that
cache clean | 2 | there is no command cache; pgstrata data does that
run pg:16 pg:17 --step point-query | 2 | pgstrata run has no option --step; --set steps=point-query
run pg:16 pg:17 -c 8 -T 60 | 2 | pgstrata run has no option -c; --set clients=8
run pg:16 pg:17 --duration 60 | 2 | has no option --duration; --max-seconds 60
run pg:16 pg:17 --runs 5 | 2 | has no option --runs; --repeats 5
run pg:16 pg:17 -q | 2 | has no option -q; --quiet
compare a b --json | 2 | pgstrata compare has no option --json; --format json
compare-queries --server pg:16,pg:17 -f slow.sql | 2 | has no option -f; name the files without an option
bench -i | 2 | pgstrata bench has no option -i; pgstrata run --workload pgbench
report --format json | 2 | pgstrata report has no option --format; --out NAME.md
servers                                         | 2 | needs a command: list, fetch; --help
completion                                      | 2 | SHELL': bash, zsh, fish; --help
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
noise --minutes 0                               | 2 | --minutes 0: must lie above 0; 2 minutes are usual
noise --max-seconds 2 | 2 | --max-seconds 2: 0 pairs of slices of 2 s; --max-seconds 32
noise --minutes 0.1 | 2 | --minutes 0.1: 2 pairs of slices of 2 s; 0.53 minutes
noise --runs 1                                  | 2 | one run has nothing to differ from; 5
noise --slice 99                                | 2 | --slice 99; 2 is usual
upgrade --to 17 --dump app.dump                 | 2 | '--from'; --help
upgrade --from 13 --to 17 --dump nowhere.dump --log x.csv | 2 | nowhere.dump; check the path
upgrade --from 13 --to 17 --dump study.toml     | 2 | a log or from statistics; --statements
upgrade --from 13 --to new --dump study.toml --log study.toml | 2 | 'new' does not name a server; pg:17
bisect --step x                                 | 2 | nothing to search along; --good REF
bisect --step x --repo . --good a               | 2 | both ends; --bad REF
bisect --step x --repo https://example.com/postgresql --good a --bad b | 2 | is an address; git clone
bisect --step pont-query --releases pg:16,pg:17 --dry-run | 2 | 'pont-query'; did you mean `point-query`
patch x.patch                                   | 2 | '--repo'; --help
compare pg:16 pg:17                             | 2 | pg:16 is a server; pgstrata run
compare a                                       | 2 | 'OTHER'; --help
compare a b                                     | 2 | no runs in results; pgstrata run
compare-queries study.toml                      | 2 | no server to execute the queries on; --config
compare-queries --server pg:14,pg:17            | 2 | 'QUERY…'; --help
compare-queries pg:14 pg:17 slow.sql            | 2 | pg:14 is a server; --server pg:14
compare-queries --server pg:14,pg:17 slow.sql   | 2 | no file; slow.sql; check the path
compare-queries --server pg:14,pg:17 results --limit 0 | 2 | time_limit` must be at least 0.001
check --base a --fail-slower 3                  | 2 | --fail-slower 3: not a share; 3%
check --base a                                  | 2 | '--fail-slower'; --help
show 123                                        | 2 | no run 123; pgstrata runs
check --base a --fail-slower 3%                 | 2 | no runs in results; pgstrata run
compare a b --results foreign                   | 2 | no runs in foreign; pgstrata run
report foreign                                  | 2 | foreign has no runs; pgstrata run
report random.pgstrata | 2 | random.pgstrata is not a bundle; pgstrata bundle makes one of a results folder
report query.sql                                | 2 | query.sql is a file; pgstrata run
bundle                                          | 2 | no runs in results; --results
bundle --most lots                              | 2 | --most lots: not a size; 5MB
verify nowhere.pgstrata                         | 2 | no bundle nowhere.pgstrata; pgstrata bundle
verify random.pgstrata                          | 2 | random.pgstrata is not a bundle; pgstrata bundle
verify query.sql                                | 2 | query.sql is not a bundle; pgstrata bundle
verify foreign.pgstrata                         | 2 | foreign.pgstrata is not a bundle; pgstrata bundle
verify results                                  | 2 | results is a folder; pgstrata bundle --results results
serve --results nowhere                         | 2 | no folder nowhere; exists
serve --port 99999                              | 2 | --port 99999; 8417
site public                                     | 2 | nothing to show; --results
query selct                                     | 2 | Parser Error; docs/reference/results.md
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
config explain defualt --server pg:11.0         | 2 | 'defualt'; did you mean default
config explain default --server 17              | 2 | '17' does not name a server; did you mean pg:17
config explain work_men=64MB --server pg:17.0   | 2 | has a setting work_men; did you mean work_mem
init study.toml                                 | 2 | study.toml is there already; --force
bench -T 0                                      | 2 | -T 0 is not between; another number
bench query.sql                                 | 2 | query.sql is a script; -f query.sql
bench -b tcpb                                   | 2 | no built-in script 'tcpb'; tpcb-like
bench -D x                                      | 2 | -D x: not of the form NAME=VALUE; -D scale=10
bench -f none.sql                               | 2 | no script none.sql; check the path
capture                                         | 2 | no log to read; --from-statistics
capture query.sql                               | 2 | query.sql is no captured file; pgstrata capture
capture query.sql -o x.traffic                  | 2 | query.sql is no log; --prefix
capture foreign -o x.traffic                    | 2 | index.html is a page of HTML; log
capture nowhere.log -o x.traffic                | 2 | nowhere.log is not there; log_directory
capture log.csv --keep x                        | 2 | --keep; add --mask
fleet up study.toml                             | 2 | study.toml; ssh:hosts.txt
fleet down                                      | 2 | no fleet called fleet; pgstrata fleet up
study nxt                                       | 2 | 'nxt'; Did you mean 'next'
"""

WITH_RESULTS = """
compare pg12.22.x10a pg17.11.x10b               | 2 | pg17.11.x10b; did you mean pg17.11.x10a
compare pg12.22.x10a pg12.22.x10a               | 2 | are the same runs; pgstrata noise
compare pg12 pg17 --margin 3                    | 2 | --margin 3: not a share; --margin 3%
compare pg12 pg17 --confidence 95               | 2 | must lie between 0 and 1; 0.95
compare pg12 pg17 --step l.x9                   | 2 | no step l.x9; l.x
compare pg12 pg17 --campaign nope               | 2 | no campaign 'nope'; insert-cached
compare pg12 pg17 --by instructions             | 2 | nothing was counted; pgstrata count
check --base pg11 --fail-slower 3%              | 2 | pg11; pg12.22.x10a
report --base pg11                              | 2 | no variant 'pg11'; pg12.22.x10a
report --campaign nope                          | 2 | no campaign 'nope'; insert-cached
runs --campaign nope                            | 2 | no campaign 'nope'; insert-cached
runs --campaign insert-cache --format json      | 2 | no campaign 'insert-cache'; did you mean `insert-cached`
show 2                                          | 2 | fits 2 runs; more of its id
show 9999                                       | 2 | no run 9999; pgstrata runs
study show                                      | 2 | no study of overlays; campaigns/tuning-study.toml
bundle nope                                     | 2 | no campaign 'nope'; insert-cached
bundle -o foreign                               | 2 | foreign is a folder; -o result.pgstrata
bundle -o nowhere/x.pgstrata                    | 2 | nowhere is not there; -o result.pgstrata
query "select * from step" | 2 | Table with name step does not exist; Did you mean "steps"
query "select foo from steps"                   | 2 | column "foo" not found; Candidate bindings
query "drop table runs"                         | 2 | only reads; --format csv
"""

WITH_SERVERS = """
run git:foreign#main                            | 2 | is not a git repository; src:DIR
compare-queries --server pg:17 query.sql        | 2 | needs two variants, and there is one; another server
compare-queries --server pg:17 query.sql query.sql | 2 | query.sql is there twice; once
run pg:99                                       | 2 | no published archive of PostgreSQL 99; nearest
run pg:17.99                                    | 2 | no published archive of PostgreSQL 17.99; write pg:17
run pg:17 --results query.sql                   | 2 | query.sql is a file; --results
run pg:17=a pg:17.11=a                          | 2 | two variants are called a; SPEC=LABEL
run pg:17 --base pg15                           | 2 | no variant pg15; variants: pg17
run pg:17 --script none.sql                     | 2 | there is no script; check the path
run pg:17 --config wrong.conf | 2 | no version of PostgreSQL has a setting shared_bufers; shared_buffers
run pg:17 --config value.conf                   | 2 | shared_buffers takes a number; 64MB
run pg:17 --set-guc shared_buffers=1GiB         | 2 | 'GiB'; write shared_buffers = 1GB
run pg:17 --set-guc work_mem=64mb               | 2 | 'mb'; write work_mem = 64MB
run pg:17 --set-guc work_mem=1B                 | 2 | must be at least 64kB; write work_mem = 64kB
run pg:17 --set-guc fsync=maybe                 | 2 | takes on or off; write fsync = on
run pg:17 --set-guc wal_level=logicl            | 2 | takes logical; write wal_level = logical
run pg:17 --set-guc statement_timeout=10sec     | 2 | 'sec'; write statement_timeout = 10s
run pg:17 --data-dir query.sql                  | 2 | query.sql cannot be written to; --data-dir
run pg:17 --data-dir /mnt/nowhere/data          | 2 | there is no folder /mnt/nowhere; mount its disk
run pg:17 --workload insert --set rows=100000000000 | 1 | free, even the smallest run needs; --data-dir
count pg:17 --step pont-query                   | 2 | no step pont-query; did you mean `point-query`
"""


def rows(table: str) -> list[tuple[str, ...]]:
    return [tuple(cell.strip() for cell in line.split(" | ")) for line in table.strip().splitlines()]


def rows_of(table: str) -> pytest.MarkDecorator:
    cases = rows(table)
    return pytest.mark.parametrize(("line", "code", "words"), cases, ids=[row[0] for row in cases])


TEXTS = {
    "study.toml": "",
    "mine.conf": "shared_buffers = 1GB\n",
    "wrong.conf": "shared_bufers = 1GB\n",
    "value.conf": "shared_buffers = lots\n",
    "query.sql": "SELECT 1;\n",
    "random.pgstrata": "no archive",
    "campaign.toml": 'servers = ["pg:17"]\n[[workloads]]\nname = "sysbench"\n',
    "watch.toml": 'repository = "."\nsince = "abc"\n[[series]]\nsteps = ["point-query"]\n',
    "open.toml": 'servers = ["pg:16", "pg:17"\n',
    "twice.toml": 'servers = ["pg:16"]\nservers = ["pg:17"]\n',
    "bare.toml": 'servers = ["pg:16"]\nuntil = verdict\n',
    "table.toml": 'servers = ["pg:16"]\n[workloads]\nname = "sysbench"\n',
    "row.toml": 'servers = ["pg:16"]\n[[workloads]]\nname = "sysbench"\nrow = 1\n',
    "key.toml": 'server = "pg:16"\n',
    "bom.toml": '\ufeffname = "study"\n',
}


def fill(folder: Path) -> None:
    """Writes files of all kinds that people name by mistake."""
    for name, text in TEXTS.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "utf16.toml").write_text('name = "study"\n', encoding="utf-16")
    (folder / "foreign").mkdir()
    (folder / "foreign/index.html").write_text("<html>")
    with tarfile.open(folder / "foreign.pgstrata", "w:xz") as archive:
        archive.add(folder / "foreign", "foreign")


@pytest.fixture
def answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str, str, str], None]:
    """Runs a command line in a folder with many files and checks how it ends."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PGSTRATA_TRACE", raising=False)
    fill(tmp_path)

    def check(line: str, code: str, words: str) -> None:
        done = main.invoke(shlex.split(line))
        output = capsys.readouterr()
        assert done == int(code), output.err
        assert output.out == "", "results alone"
        lines = [text for text in output.err.splitlines() if not text.startswith("looking for ")]
        sentence, *step = lines
        assert sentence.startswith("error: ") and "Traceback" not in output.err
        assert [len(text.split()) > 1 for text in step] == [True], "one next step"
        for word in words.split("; "):
            assert word in output.err

    return check


@rows_of(MISTAKES)
def test_a_mistake_ends_in_one_sentence_and_a_next_step(
    line: str, code: str, words: str, answer: Callable[[str, str, str], None], tmp_path: Path
) -> None:
    (tmp_path / "results").mkdir()
    answer(line, code, words)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mistakes") / "results"
    make_campaign(folder)
    return folder


@rows_of(WITH_RESULTS)
def test_so_does_one_about_results(
    line: str,
    code: str,
    words: str,
    results: Path,
    answer: Callable[[str, str, str], None],
    tmp_path: Path,
) -> None:
    shutil.copytree(results, tmp_path / "results")
    answer(line, code, words)


@pytest.mark.server
@rows_of(WITH_SERVERS)
def test_so_does_one_that_a_server_has_to_tell(
    line: str, code: str, words: str, answer: Callable[[str, str, str], None], pg17: Server
) -> None:
    assert pg17.version_num >= 170000
    answer(line, code, words)


def test_there_are_enough_of_them() -> None:
    assert len([*rows(MISTAKES), *rows(WITH_RESULTS), *rows(WITH_SERVERS)]) >= 2 * 72


def test_words_of_other_programs_stand_for_commands_of_this_one() -> None:
    commands = set(Program().list_commands(None))
    assert commands >= OTHER_WORDS.keys()
    words = [word for of_command in OTHER_WORDS.values() for word in of_command.split()]
    assert len(words) == len(set(words)) and not commands & set(words)


def test_what_is_advised_in_place_of_an_option_is_an_option() -> None:
    commands = dict(commands_of(typer.main.get_command(main.app), ()))
    everywhere = OTHER_OPTIONS[""]
    for name, advice in OTHER_OPTIONS.items():
        options = {text for param in commands[name].params for text in param.opts} if name else set()
        assert not options & {*advice, *everywhere}
        for text in advice.values() if name else ():
            assert (named := re.match(r"write (--[\w-]+)", text)) is None or named[1] in options, text

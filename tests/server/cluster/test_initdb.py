"""Options of initdb are understood as initdb understands them: whatever passes sets no place."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgstrata.errors import UsageError
from pgstrata.server.cluster.initdb import check_initdb, decides_checksums
from pgstrata.server.find.acquire import acquire
from pgstrata.server.find.model import Server
from pgstrata.server.system.account import server_account
from support.program import Program

OURS = "/ours"


@pytest.mark.parametrize(
    "words",
    [
        ["--pgdata=/x"],
        ["--pgda=/x"],
        ["--p", "/x"],
        ["-D/x"],
        ["-kD", "/x"],
        ["-kX/x"],
        ["-XDIR"],
        ["-gNdkX", "/x"],
        ["--wald=/x"],
        ["--xlog=/x"],
        ["-kUme"],
        ["--user", "me"],
        ["-L/share"],
        ["-kL", "/share"],
        ["--au=md5"],
        ["--auth-l=md5"],
        ["-NAmd5"],
        ["--pwf=/etc/passwd"],
        ["-W"],
        ["-E", "UTF8", "-X", "/x"],
        ["-c", "data_directory=/x"],
        ["-cdata-directory=/x"],
        ["--se=external_pid_file=/x"],
        ["-kcunix_socket_directories=/x"],
    ],
)
def test_places_users_and_authentication_are_refused_however_they_are_written(words: list[str]) -> None:
    with pytest.raises(UsageError, match=r"is set by pgstrata|set by pgstrata itself|names a place"):
        check_initdb(words)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["-c", "archive_command=cp %p /srv/%f"], "reaches outside"),
        (["--set", "primary-conninfo=host=primary"], "reaches outside"),
        (["-kcsynchronous_standby_names=*"], "needs another server"),
        (["-c", "SSL=on"], "names a place"),
    ],
)
def test_settings_that_a_config_must_not_have_are_none_of_initdb_either(words: list[str], why: str) -> None:
    with pytest.raises(UsageError, match=why) as error:
        check_initdb(words)
    assert "--keep-setting" in error.value.hint


@pytest.mark.parametrize(
    "words", [["-s"], ["--show"], ["-kS"], ["--sync-o"], ["--version"], ["-?"], ["--he"]]
)
def test_options_that_make_no_cluster_are_refused(words: list[str]) -> None:
    with pytest.raises(UsageError, match="makes no cluster"):
        check_initdb(words)


@pytest.mark.parametrize("words", [["/x"], ["-E", "UTF8", "/x"], ["--", "/x"], ["-k", "-"], [""]])
def test_words_that_initdb_would_take_for_a_folder_are_refused(words: list[str]) -> None:
    with pytest.raises(UsageError, match="is no option"):
        check_initdb(words)


def test_the_others_pass() -> None:
    check_initdb(["--data-checksums", "--wal-segsize=4", "--locale", "C", "-gkd", "-E", "LATIN1", "--no-loc"])
    check_initdb(
        ["-EUTF8", "-c", "work_mem=8MB", "--set=jit=off", "--text-search-config=german", "-Tenglish"]
    )
    check_initdb(["--no-such-option"])  # initdb says it better


def test_checksums_are_seen_in_every_spelling() -> None:
    for words in (["-k"], ["-gk"], ["--data-c"], ["--no-data-checksums"], ["-Nk"]):
        assert decides_checksums(words)
    for words in ([], ["-E", "k"], ["-Ek"], ["--locale", "-k"]):
        assert not decides_checksums(words)


LONG = [
    "--pgdata",
    "--pgd",
    "--pwfile=/x",
    "--username",
    "--u=me",
    "--encoding",
    "UTF8",
    "--enc=UTF8",
    "--locale",
    "--lc-collate=C",
    "--data-checksums",
    "--da",
    "--no-data",
    "--wal-segsize=4",
    "--wal",
    "--allow",
    "--debug",
    "--no-clean",
    "--no-c",
    "--set",
    "--se=jit=off",
    "--text-search-config",
    "--icu-locale=de",
    "--no-sync",
    "--no-s",
    "--nosync",
    "--builtin",
    "C",
    "/x",
    "--",
    "-",
]
WORDS = st.one_of(
    st.sampled_from(LONG),
    st.text("DEXUTALcdgknNsSW?V/=xa", min_size=1, max_size=4).map(lambda letters: f"-{letters}"),
    st.text("-abdegpstuwx=/", min_size=1, max_size=6).map(lambda letters: f"--{letters}"),
)


@pytest.mark.server
@pytest.mark.parametrize("version", ["9.6", "17"])
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(WORDS, min_size=1, max_size=4))
def test_what_passes_leaves_initdb_with_our_folder_and_user(version: str, words: list[str]) -> None:
    """Held against initdb itself, which with --show tells what it has understood and makes nothing."""
    try:
        check_initdb(words)
    except UsageError:
        return
    server = fetched(version)
    ran = shown(server, words)
    if ran.returncode:
        return  # it does not accept the words either
    understood = dict(line.split("=", 1) for line in ran.stderr.splitlines() if "=" in line)
    assert understood["PGDATA"] == OURS
    assert understood["POSTGRES_SUPERUSERNAME"] == "postgres"
    assert understood["share_path"].startswith(str(server.bin_dir).removesuffix("/bin"))


@functools.cache
def fetched(version: str) -> Server:
    return acquire(f"pg:{version}")


def shown(server: Server, words: list[str]) -> subprocess.CompletedProcess[str]:
    assert server.bin_dir is not None
    account = server_account()
    return subprocess.run(
        [str(server.bin_dir / "initdb"), "--show", "-D", OURS, "--username=postgres", *words],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
        user=account.uid if account else None,
        group=account.gid if account else None,
    )


def test_the_test_above_would_see_a_folder_that_is_not_ours(pg17: Server) -> None:
    assert "PGDATA=/x" in shown(pg17, ["-kD/x"]).stderr


def test_a_campaign_is_refused_before_anything_starts(place: Path, pgstrata: Program, pg17: Server) -> None:
    file = place / "c.toml"
    file.write_text(
        f'[[variants]]\nserver = "{pg17.spec}"\ninitdb = ["-kX{place}/elsewhere"]\n'
        '[[workloads]]\nname = "pgbench"\n'
    )
    done = pgstrata("run", file, "--dry-run")
    assert done.returncode == 2
    assert f"initdb option -kX{place}/elsewhere: --waldir is set by pgstrata" in done.stderr
    assert "leave it out" in done.stderr

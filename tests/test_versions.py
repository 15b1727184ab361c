"""What a server can do is asked of it. Its number decides only where a reason is given here.

A development tree carries the number of the next version months before it has that version's features
(`pgstrata.server.capabilities`, `pgstrata.server.features`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src/pgstrata"

NOTHING_TO_ASK = "decides only where the server cannot be asked, or not yet"
TABLE = "looks into the table of settings by version, which `known.py` corrects by the server's own answers"
FORM = "how a number of a version is written"
WORDS = "words of a message, or a label"
NO_SERVER = "no version of PostgreSQL"
PUBLISHED = "versions of published tables beside those of runs; none is asked for anything"
OLD_TREES = "in which trees to look for what old ones need; what stands in the tree decides"

ALLOWED = {
    ("search/bisect/state.py", "state.version != VERSION"): NO_SERVER,
    ("watch/history.py", "values.version == VERSION"): NO_SERVER,
    ("watch/errands.py", "values.version != VERSION"): NO_SERVER,
    ("bundle/packing.py", "manifest.version != VERSION"): NO_SERVER,
    ("watch/history.py", "known_alarms.version != VERSION"): NO_SERVER,
    ("campaign/plan/existing.py", "record.server.version != variant.server.version"): (
        "whether what was measured is of the same release"
    ),
    ("cli/noise.py", "8 <= pairs <= 100000"): NO_SERVER,
    ("cli/servers.py", "version not in here"): "which published releases are in the cache",
    ("driver/client.py", "event.version != DIALECT"): NO_SERVER,
    ("server/config/known.py", "self.version_num >= MILLISECONDS_SINCE"): NOTHING_TO_ASK,
    ("server/config/known.py", "self.version_num >= UNITS_SINCE"): NOTHING_TO_ASK,
    ("server/config/mapping.py", "known.major > newest_major()"): NOTHING_TO_ASK,
    ("server/config/mapping.py", "major < first"): WORDS,
    ("server/config/mapping.py", "major > last"): WORDS,
    ("server/config/settings.py", "version_num >= 100000"): FORM,
    ("server/config/settings.py", "major >= 1000"): FORM,
    ("server/config/settings.py", "row.first <= major"): TABLE,
    ("server/config/settings.py", "major <= row.last"): TABLE,
    ("server/config/settings.py", "int(first) <= major"): TABLE,
    ("server/config/settings.py", "major <= int(last)"): TABLE,
    ("server/features.py", "self.version_num >= feature.first"): NOTHING_TO_ASK,
    ("server/find/lookup.py", "version is None"): NO_SERVER,
    ("server/system/memory.py", "version == 2"): NO_SERVER,
    (
        "server/connect/poolers.py",
        "version >= (1, 24)",
    ): "the pooler's own version, whose configuration is not shown",
    (
        "server/connect/poolers.py",
        "version >= (1, 21)",
    ): "the pooler's own version, whose configuration is not shown",
    ("server/find/prebuilt.py", "v == version"): "looks a published release up",
    ("source/build.py", "major_of(kept.record.version_num) == major_of(tree.version_num)"): (
        "how long a build takes is estimated by the last one of the same version"
    ),
    ("judge/published.py", "version in versions"): PUBLISHED,
    ("judge/published.py", "{other for other in others if major_of(other) == major} <= {version}"): PUBLISHED,
    ("judge/published.py", "major_of(candidate) == major"): PUBLISHED,
    ("judge/published.py", "major_of(other) == major"): PUBLISHED,
    ("report/sections/published.py", "version in stands[entry.version]"): PUBLISHED,
    ("report/sections/published.py", "versions.get(variant) not in stands[entry.version]"): PUBLISHED,
    ("source/git.py", "version is None"): NO_SERVER,
    ("source/mend.py", "compiler.major >= release[0]"): NO_SERVER,
    ("source/mend.py", "need.first <= version_num <= need.last"): OLD_TREES,
    ("source/tree.py", "version is None"): NO_SERVER,
    (
        "server/connect/tls.py",
        "most.upper() not in (version.upper() for version in get_args(TlsVersion))",
    ): NO_SERVER,
    ("traffic/captured.py", "version != VERSION"): NO_SERVER,
    ("traffic/record/segments.py", "version != VERSION"): NO_SERVER,
    ("traffic/logs/seconds.py", "len(ends) > 100000"): NO_SERVER,
    ("traffic/upgrade/campaign.py", "version not in there"): "versions that the user wrote into the question",
    ("traffic/upgrade/checklist/changes.py", "before < major_of(version_number(change.since)) <= after"): (
        "the table of changes is by the versions of the release notes; its objects are asked of the server"
    ),
    ("traffic/upgrade/checklist/changes.py", "major_of(new) > major_of(version_number(newest))"): (
        "whether the table of changes knows a version at all"
    ),
    ("traffic/upgrade/versions.py", "server.version_num < base.version_num"): WORDS,
    (
        "traffic/upgrade/versions.py",
        "major_of(version_number(version)) > major_of(server.version_num)",
    ): WORDS,
    ("workload/custom/archive.py", "version > max(_READ_BY)"): "the version of an archive's format",
    ("workload/custom/archive.py", "there[0].major >= needed"): (
        "the first pg_restore that reads a format, which its help does not tell"
    ),
    ("workload/pgbench/load.py", "server.version_num >= 140000"): (
        "`pgbench -i` itself decides so; what is written is understood since 9.3"
    ),
}

LOOKS_UP_BY_NUMBER = {"server/config/known.py", "server/config/settings.py", "server/learn_settings.py"}
"""Modules that read the table of settings by version; all others ask `KnownSettings`."""

_NAME = re.compile(r"\w*version(_num|_number)?|server_version\w*|major(_of)?|\w*_SINCE|SINCE")


def _names(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            yield inner.id
        elif isinstance(inner, ast.Attribute):
            yield inner.attr


def _numbers(node: ast.AST) -> Iterator[int]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and type(inner.value) is int:
            yield inner.value


def _is_of_versions(node: ast.Compare) -> bool:
    if any(_NAME.fullmatch(name) for name in _names(node)):
        return True
    return any(70_000 <= n < 300_000 and n % 100 == 0 for n in _numbers(node) if n not in (86_400,))


def comparisons(text: str) -> Iterator[str]:
    """The comparisons of versions in a module's text, as Python writes them."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare) and _is_of_versions(node):
            yield ast.unparse(node)


def test_the_comparisons_are_found() -> None:
    text = """
if session.info.server_version >= 150_000 or server.version_num < OLDEST: pass
new = major_of(number) > 1600 if number else major in (17, 18)
old = 90600 > number
fine = seconds < 86400 and rows == 12
"""
    assert set(comparisons(text)) == {
        "session.info.server_version >= 150000",
        "server.version_num < OLDEST",
        "major_of(number) > 1600",
        "major in (17, 18)",
        "90600 > number",
    }


def test_nothing_else_decides_by_the_number_of_a_version() -> None:
    places = {
        (str(file.relative_to(SOURCE)), comparison)
        for file in SOURCE.rglob("*.py")
        for comparison in comparisons(file.read_text())
    }
    new, gone = sorted(places - ALLOWED.keys()), sorted(ALLOWED.keys() - places)
    assert new == [], "ask the server, or give the reason here"
    assert gone == [], "these are gone: so are their reasons"


def test_only_known_settings_look_into_the_table_by_number() -> None:
    for file in SOURCE.rglob("*.py"):
        if str(file.relative_to(SOURCE)) in LOOKS_UP_BY_NUMBER:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "pgstrata.server.config.settings":
                assert not {"setting", "written"} & {alias.name for alias in node.names}, file


def test_no_statement_asks_for_the_number() -> None:
    """Names of settings, which are not compared between servers or cannot be set."""
    names = {"server/config/classes.py", "judge/differences.py"}
    for file in SOURCE.rglob("*.py"):
        asks = "server_version_num" in file.read_text()
        assert not asks or str(file.relative_to(SOURCE)) in names, file

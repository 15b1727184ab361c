"""Names of files in campaigns that no file can have: each is refused in a sentence, or not looked at yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgstrata.campaign.file.reading import read_campaign
from pgstrata.errors import PgstrataError

NAMES = {
    "too long a name": "x" * 300,
    "too long a path": "x/" * 2500,
    "an unknown home": "~nobody-of-this-name/x",
}
PLACES = {
    "server": 'servers = ["path:{}"]',
    "source tree": 'servers = ["src:{}"]',
    "repository": 'servers = ["git:{}#main"]',
    "config": '[[variants]]\nserver = "pg:17"\nconfig = "{}.conf"',
    "config by its name": '[[variants]]\nserver = "pg:17"\nconfig = "{}"',
    "data folder": 'data_dir = "{}"',
    "extension": '[[variants]]\nserver = "src:tree"\nextensions = ["{}"]',
    "patch": '[[variants]]\nserver = "src:tree"\npatches = ["{}"]',
    "pooler": '[[variants]]\nserver = "pg:17"\nthrough = "pgbouncer:{}"',
    "script": '[[workloads]]\nname = "custom"\noptions = {{ scripts = ["{}.sql@3"] }}',
    "queries": '[[workloads]]\nname = "custom"\noptions = {{ queries = "{}" }}',
    "rows": '[[workloads]]\nname = "custom"\noptions = {{ scripts = ["a.sql"], setup = ["{}.csv"] }}',
    "workload": '[[workloads]]\nname = "{}.py:Own"',
    "replay": '[[workloads]]\nname = "replay"\noptions = {{ file = "{}" }}',
}
MOST = 1200


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("place", PLACES)
def test_names_that_no_file_has_end_in_a_sentence(place: str, name: str, tmp_path: Path) -> None:
    text = PLACES[place].format(NAMES[name])
    if "servers" not in text and "[[variants]]" not in text:
        text = f'servers = ["pg:17"]\n{text}'
    if "[[workloads]]" not in text:
        text += '\n[[workloads]]\nname = "sysbench"\n'
    file = tmp_path / "c.toml"
    file.write_text(text)
    try:
        read_campaign(file)
    except PgstrataError as error:
        assert len(str(error)) <= MOST and "\n" not in str(error)
        assert "unknown key" not in str(error) and "must be" not in str(error), "the case is no case"

"""The plan: order, labels, base, what is there already."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pgstrata.campaign.file.reading import read_campaign
from pgstrata.campaign.plan.runs import Plan, make_plan
from pgstrata.errors import UsageError
from pgstrata.server.find.model import Server
from pgstrata.store import Results
from pgstrata.store.record import ServerRecord
from support.campaign import plan
from support.records import circumstances


def keys(campaign_plan: Plan) -> list[tuple[str, int]]:
    return [(run.key.variant, run.key.repeat) for run in campaign_plan.runs]


def test_sequential_takes_one_variant_after_the_other(tmp_path: Path) -> None:
    campaign_plan = plan(tmp_path, 'servers = ["pg:12", "pg:17"]\nrepeats = 2')
    assert keys(campaign_plan) == [("pg12.22", 1), ("pg12.22", 2), ("pg17.6", 1), ("pg17.6", 2)]
    assert campaign_plan.base == "pg12.22"


def test_shuffled_takes_every_variant_once_before_any_twice(tmp_path: Path) -> None:
    head = 'servers = ["pg:12", "pg:15", "pg:17"]\nrepeats = 6\norder = "shuffled"\nseed = 3'
    order = keys(plan(tmp_path, head))
    blocks = [order[i : i + 3] for i in range(0, 18, 3)]
    for number, block in enumerate(blocks, 1):
        assert {repeat for _, repeat in block} == {number}
        assert len({variant for variant, _ in block}) == 3
    assert len({tuple(v for v, _ in block) for block in blocks}) > 1
    assert keys(plan(tmp_path, head)) == order


def test_labels_name_server_and_config(tmp_path: Path) -> None:
    (tmp_path / "x10a.conf").write_text("work_mem = 8MB\n")
    campaign_plan = plan(tmp_path, 'servers = ["pg:17"]\nconfigs = ["default", [], ["default", "x10a.conf"]]')
    assert [v.label for v in campaign_plan.variants] == ["pg17.6", "pg17.6.own", "pg17.6.default.x10a"]


def test_two_variants_of_one_label_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"two variants are called pg17\.6"):
        plan(tmp_path, 'servers = ["pg:17", "pg:17"]')


def test_base_may_be_the_beginning_of_a_label(tmp_path: Path) -> None:
    head = 'servers = ["pg:12", "pg:15", "pg:17"]\nbase = '
    assert plan(tmp_path, head + '"pg15"').base == "pg15.14"
    assert plan(tmp_path, head + '"pg17.6"').base == "pg17.6"
    with pytest.raises(UsageError, match="several variants"):
        plan(tmp_path, head + '"pg1"')
    with pytest.raises(UsageError, match="there is no variant pg18"):
        plan(tmp_path, head + '"pg18"')


def finish_all(campaign_plan: Plan, root: Path, **changes: object) -> None:
    """Stores a finished run without steps for everything planned."""
    results = Results(root)
    for run in campaign_plan.missing:
        server = run.variant.server
        results.begin(run.key).finish(
            circumstances(
                **{
                    "options": run.workload.all_options,
                    "server": ServerRecord(
                        spec=server.spec,
                        label=server.label,
                        version=server.version,
                        version_num=server.version_num,
                        build=server.build,
                        managed=server.managed,
                    ),
                    "config": run.variant.config.record(),
                    **changes,
                }
            )
        )


def test_what_is_there_is_not_planned_again(tmp_path: Path) -> None:
    first = plan(tmp_path, 'servers = ["pg:12"]')
    assert first.seconds > 0
    assert first.disk_bytes > 0
    finish_all(first, tmp_path / "results")
    second = plan(tmp_path, 'servers = ["pg:12", "pg:17"]\nrepeats = 2')
    assert [(r.key.variant, r.key.repeat) for r in second.missing] == [
        ("pg12.22", 2),
        ("pg17.6", 1),
        ("pg17.6", 2),
    ]
    assert len(plan(tmp_path, 'servers = ["pg:12"]', fresh=True).missing) == 1


def test_failed_runs_are_planned_again(tmp_path: Path) -> None:
    finish_all(plan(tmp_path, 'servers = ["pg:12"]'), tmp_path / "results", status="failed")
    assert len(plan(tmp_path, 'servers = ["pg:12"]').missing) == 1


def test_a_run_of_other_options_does_not_stand_for_this_one(tmp_path: Path) -> None:
    finish_all(plan(tmp_path, 'servers = ["pg:12"]'), tmp_path / "results", options={"rows": 77})
    with pytest.raises(UsageError, match="rows = 77 instead of") as caught:
        plan(tmp_path, 'servers = ["pg:12"]')
    assert "--fresh" in caught.value.hint


def test_a_run_of_another_config_does_not_stand_for_this_one(tmp_path: Path) -> None:
    conf = tmp_path / "mine.conf"
    conf.write_text("work_mem = 8MB\n")
    head = 'servers = ["pg:12"]\nconfigs = ["mine.conf"]'
    finish_all(plan(tmp_path, head), tmp_path / "results")
    assert plan(tmp_path, head).missing == []
    conf.write_text("work_mem = 9MB\n")
    with pytest.raises(UsageError, match="other config files"):
        plan(tmp_path, head)


@pytest.mark.parametrize("name", ["../../etc", "<script>", "..", "a/b", "-rf", "\N{SNOWMAN} ", "x" * 200])
def test_names_of_campaigns_stay_inside_the_results(tmp_path: Path, name: str) -> None:
    campaign_plan = plan(tmp_path, f'name = {json.dumps(name)}\nservers = ["pg:12"]')
    finish_all(campaign_plan, tmp_path / "results")
    inside = {p.name for p in tmp_path.iterdir()}
    assert inside == {"results", "study.toml"}
    (run,) = Results(tmp_path / "results").runs()
    assert run.campaign == name
    assert len(run.folder.relative_to(tmp_path / "results").parts) == 4
    assert plan(tmp_path, f'name = {json.dumps(name)}\nservers = ["pg:12"]').missing == []


def test_what_a_version_cannot_do_is_said_before_anything_runs(tmp_path: Path) -> None:
    file = tmp_path / "old.toml"
    file.write_text('servers = ["pg:9.6"]\n[[workloads]]\nname = "insert"\noptions = { partitions = 4 }\n')
    old = Server("pg:9.6.24", "pg9.6.24", "9.6.24", 90624, "", Path("/nowhere"), None)
    with pytest.raises(UsageError, match="partitions"):
        make_plan(read_campaign(file), Results(tmp_path), lambda spec, how: old)


def test_installations_of_one_version_are_called_like_their_folders(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(
        'servers = ["path:/opt/master", "path:/opt/patched"]\nconfigs = ["default", "a1"]\n'
        '[[workloads]]\nname = "insert"\nscale = "quick"\n'
    )

    def find(spec: str, how: object) -> Server:
        return Server(spec, "path17.6", "17.6", 170006, "", Path("/nowhere"), None)

    campaign_plan = make_plan(read_campaign(file), Results(tmp_path / "results"), find)
    assert [v.label for v in campaign_plan.variants] == ["master", "master.a1", "patched", "patched.a1"]


def test_a_setting_in_a_config_is_in_the_label(tmp_path: Path) -> None:
    campaign_plan = plan(tmp_path, 'servers = ["pg:17"]\nconfigs = [["default", "work_mem=64MB"], "jit=off"]')
    assert [v.label for v in campaign_plan.variants] == ["pg17.6.work_mem=64MB", "pg17.6.jit=off"]
    assert campaign_plan.variants[0].config.settings["work_mem"] == "64MB"
    assert campaign_plan.variants[1].config.settings == {"jit": "off"}


def test_a_setting_that_no_version_has_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^work_men=64MB: no version of PostgreSQL") as caught:
        plan(tmp_path, 'servers = ["pg:17"]\nconfigs = [["default", "work_men=64MB"]]')
    assert caught.value.hint == "did you mean work_mem?"

"""What a plan says of settings that servers do not get."""

from __future__ import annotations

from pathlib import Path

from pgstrata.campaign.plan.left_out import left_out_lines
from support.campaign import plan


def test_the_reason_agrees_with_the_number_of_settings(tmp_path: Path) -> None:
    (tmp_path / "one.conf").write_text("hba_file = '/etc/hba.conf'\nrestore_command = 'cp %f %p'\n")
    (tmp_path / "two.conf").write_text("hba_file = '/etc/hba.conf'\nident_file = '/etc/ident.conf'\n")
    lines = {
        name: left_out_lines(plan(tmp_path, f'servers = ["pg:17"]\nconfigs = ["{name}.conf"]').variants)
        for name in ("one", "two")
    }
    assert lines["one"][:2] == [
        "config: left out hba_file: it names a place of the server it was written for",
        "config: left out restore_command: it reaches outside the cluster",
    ]
    assert lines["two"][0] == (
        "config: left out hba_file, ident_file: each names a place of the server it was written for"
    )

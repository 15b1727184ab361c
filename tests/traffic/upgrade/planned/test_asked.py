"""Which statements of pg_stat_statements are planned."""

from __future__ import annotations

from pgstrata.traffic.account import MARK
from pgstrata.traffic.replay.blocks import shortened
from pgstrata.traffic.synthetic.statistics import CalledStatement, Statistics
from pgstrata.traffic.upgrade.planned.asked import of_statistics
from pgstrata.traffic.upgrade.planned.export import export_script


def test_what_pgstrata_asks_itself_is_not_of_the_application() -> None:
    script = export_script(values=True)
    questions = [f"SELECT {MARK} 1", "SELECT * FROM pg_stat_statements"]
    questions += [f"SELECT {part}" for part in script.split("\nSELECT ")[1:] if "pg_restore_" in part]
    assert len(questions) >= 4
    statements = [
        CalledStatement("SELECT a\nFROM t", 2, 1.5),
        *(CalledStatement(text, 1, 5.0) for text in questions),
    ]
    asked = of_statistics(Statistics("shop", statements, []), "here")
    assert [statement.text for statement in asked.statements] == ["SELECT a\nFROM t"]
    assert (asked.seconds, asked.calls) == (1.5, 2)
    assert shortened(asked.statements[0].text) == "SELECT a FROM t"

"""The reference page is made from the models and up to date; ready campaigns and the template are valid."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from pgstrata.campaign.file import reference
from pgstrata.campaign.file.reading import read_campaign
from pgstrata.campaign.file.template import TEMPLATE
from pgstrata.campaign.study import Study, Variant, Workload
from pgstrata.workload import catalog

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_current() -> None:
    written = (ROOT / "docs/reference/campaign.md").read_text()
    command = "python -m pgstrata.campaign.file.reference > docs/reference/campaign.md"
    assert written == reference.page(), f"run: {command}"


def test_the_page_has_every_key() -> None:
    page = reference.page()
    models: list[type[BaseModel]] = [
        Study,
        Variant,
        Workload,
        *(catalog.find(n).Options for n in catalog.names()),
    ]
    for model in models:
        for name, field in model.model_fields.items():
            assert field.description, f"{model.__name__}.{name} has no description"
            if not field.description.startswith("filled in by"):
                assert f"| `{name}` |" in page


BROUGHT = {"join-order.toml"}
"""Campaigns whose data the user brings: tests of their workload read them with data."""


@pytest.mark.parametrize(
    "file",
    sorted(file for file in (ROOT / "campaigns").rglob("*.toml") if file.name not in BROUGHT),
    ids=lambda p: p.name,
)
def test_ready_campaigns_are_valid(file: Path) -> None:
    campaign = read_campaign(file)
    assert campaign.variants
    assert campaign.workloads
    assert file.read_text().startswith("#"), "a ready campaign says what it is for"


def test_the_template_is_valid(tmp_path: Path) -> None:
    file = tmp_path / "campaign.toml"
    file.write_text(TEMPLATE)
    assert len(read_campaign(file).variants) >= 2


def test_every_key_of_the_template_is_explained() -> None:
    for name in (*Study.model_fields, *Variant.model_fields, *Workload.model_fields):
        assert (
            f"{name} =" in TEMPLATE
            or f"[[{name}]]" in TEMPLATE
            or f".{name}]" in TEMPLATE
            or f"[{name}." in TEMPLATE
        ), name

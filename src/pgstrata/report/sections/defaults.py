"""Settings whose default is another one in another version, as the servers themselves tell it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pgstrata import numbers
from pgstrata.page.blocks import Block, Cell, Column, Listing, Row, Section, Table, words
from pgstrata.page.results import RunSet, natural
from pgstrata.report.sections.settings import PLACES
from pgstrata.server.config.settings import Setting, with_unit
from pgstrata.store.read import Default

_HOW = (
    "The value that holds where nobody sets anything: boot_val of pg_settings, asked of each running server. "
    "What your configuration sets itself is not touched by it. Names of files and places are left out."
)


@dataclass(frozen=True)
class DefaultChange:
    """A setting with other defaults. values: by variant, as SHOW writes them; measured: what held in the
    runs."""

    name: str
    values: Mapping[str, str]
    measured: Mapping[str, str]

    @property
    def is_common(self) -> bool:
        """Whether the configs of all variants set it to one value, so that its default did not matter."""
        return len(set(self.measured.values())) == 1


@dataclass(frozen=True)
class Defaults:
    """changed: settings that several variants have; only: by variant, names that no other has."""

    changed: tuple[DefaultChange, ...]
    only: Mapping[str, tuple[str, ...]]


def changed_defaults(results: RunSet) -> Defaults | None:
    """Returns the settings whose default changed; None if fewer than two servers told their defaults."""
    first_runs = {v: runs[0] for v in results.variants if (runs := results.runs_of(v)) and runs[0].defaults()}
    if len(first_runs) < 2:
        return None
    by_variant = {variant: run.defaults() for variant, run in first_runs.items()}
    names = sorted(
        {name for settings in by_variant.values() for name in settings if "." not in name}, key=natural
    )
    changed = []
    for name in names:
        values = {v: _text(name, settings[name]) for v, settings in by_variant.items() if name in settings}
        if len(set(values.values())) > 1 and not PLACES.match(name):
            measured = {v: first_runs[v].settings().get(name, "") for v in values}
            changed.append(DefaultChange(name, values, measured))
    only = {
        variant: tuple(n for n in names if n in settings and sum(n in o for o in by_variant.values()) == 1)
        for variant, settings in by_variant.items()
    }
    return Defaults(tuple(changed), {variant: own_names for variant, own_names in only.items() if own_names})


def _text(name: str, default: Default) -> str:
    """Returns a default as SHOW would write it."""
    value = default.value or ""
    try:
        number = float(value)
    except ValueError:
        return value
    return with_unit(Setting(name, 0, None, "real", default.unit or "", None, None, ()), number)


def defaults(results: RunSet) -> Section | None:
    """Returns the section of a report; None if every server has the same defaults, or did not tell them."""
    changes = changed_defaults(results)
    if changes is None or not (changes.changed or changes.only):
        return None
    return Section(
        "defaults",
        f"Settings with another default: {len(changes.changed)}",
        list(default_blocks(results, changes)),
        folded=True,
    )


def default_blocks(results: RunSet, changes: Defaults) -> Iterator[Block]:
    """Yields a table of the settings whose default changed, and lists of settings that only one server
    has."""
    variants = [v for v in results.variants if any(v in change.values for change in changes.changed)]
    if changes.changed:
        yield Table(
            "defaults",
            "Settings whose default changed",
            [
                Column("setting", "Setting", align="left"),
                *(Column(v, v, align="left") for v in variants),
                Column("measured", "In this comparison", align="left"),
            ],
            [
                Row(
                    [
                        words(change.name),
                        *(
                            words(change.values[v])
                            if v in change.values
                            else Cell(None, "not there", "missing")
                            for v in variants
                        ),
                        words(
                            "each its own" if not change.is_common else f"all had {_first(change.measured)}"
                        ),
                    ]
                )
                for change in changes.changed
            ],
            _HOW + " In this comparison: what held while it was measured.",
        )
    for variant, names in changes.only.items():
        yield Listing(f"{numbers.counted(len(names), 'setting')} that only {variant} has", "\n".join(names))


def _first(values: Mapping[str, str]) -> str:
    return next(iter(values.values())) or "none"


__all__ = ["Defaults", "changed_defaults", "default_blocks", "defaults"]

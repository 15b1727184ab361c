"""Which kind of machine measures what: workloads, and steps of them, that are kept to one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from pgstrata.campaign.checked import Campaign, ChosenWorkload
from pgstrata.errors import UsageError
from pgstrata.measure.two_servers import steps_of
from pgstrata.suggest import meant
from pgstrata.workload.core.options import Divisible


def divided(campaign: Campaign) -> Campaign:
    """Returns the campaign with each workload whose steps are kept to kinds split into several: one for each
    kind, called `LABEL@KIND`, and one with its own label for the steps that any machine may measure.

    `fleet.kinds` then holds a kind for labels only. Raises UsageError for a workload or a step that is not
    there, and for steps that cannot be measured without the others.
    """
    asked = campaign.spec.fleet.kinds
    labels = [chosen.label for chosen in campaign.workloads]
    if unknown := next((label for label in asked if label not in labels), None):
        raise UsageError(
            f"`fleet.kinds`: there is no workload `{unknown}`", meant(unknown, labels, "workloads")
        )
    kinds: dict[str, str] = {}
    workloads: list[ChosenWorkload] = []
    for chosen in campaign.workloads:
        kind = asked.get(chosen.label, {})
        for part, its in [(chosen, kind)] if isinstance(kind, str) else _parts(chosen, kind, campaign):
            if part.label in kinds or (part.label != chosen.label and part.label in labels):
                raise UsageError(
                    f"two workloads would be called `{part.label}`",
                    'give one of them another name: label = "…"',
                )
            kinds[part.label] = its
            workloads.append(part)
    fleet = campaign.spec.fleet.model_copy(update={"kinds": {k: v for k, v in kinds.items() if v}})
    spec = campaign.spec.model_copy(update={"fleet": fleet})
    return campaign.model_copy(update={"workloads": workloads, "spec": spec})


def kind_of(campaign: Campaign, label: str) -> str:
    """Returns the kind that a workload of a divided campaign is kept to, a glob; empty for any."""
    kind = campaign.spec.fleet.kinds.get(label, "")
    assert isinstance(kind, str)
    return kind


def parts(divided: Campaign, whole: Campaign) -> dict[str, list[str]]:
    """Returns, by label, the steps of those workloads of a divided campaign that are parts."""
    options = {workload.label: workload.all_options for workload in whole.workloads}
    return {
        workload.label: steps_of(workload)
        for workload in divided.workloads
        if workload.all_options != options.get(workload.label)
    }


def _parts(
    chosen: ChosenWorkload, by_step: Mapping[str, str], campaign: Campaign
) -> Iterator[tuple[ChosenWorkload, str]]:
    """Yields the parts of a workload, each with its kind. by_step: kinds by names or globs of steps; the
    first that fits a step counts."""
    if not by_step:
        yield chosen, ""
        return
    names = steps_of(chosen)
    steps: dict[str, list[str]] = {"": [], **{kind: [] for kind in by_step.values()}}
    used = set()
    for name in names:
        fitting = next((glob for glob in by_step if fnmatchcase(name, glob)), "")
        used.add(fitting)
        steps[by_step.get(fitting, "")].append(name)
    if unused := next((glob for glob in by_step if glob not in used), None):
        raise UsageError(
            f"`fleet.kinds`: {chosen.label} has no step `{unused}` left for it", meant(unused, names, "steps")
        )
    wanted = {kind: its for kind, its in steps.items() if its}
    if len(wanted) == 1:
        ((kind, _),) = wanted.items()
        yield chosen, kind
        return
    for kind, its in wanted.items():
        label = f"{chosen.label}@{_name(kind)}" if kind else chosen.label
        yield _with_steps(chosen, label, its, campaign), kind


def _name(kind: str) -> str:
    """Returns a kind as a part of a label: `*EPYC 9654*` is EPYC-9654."""
    return re.sub(r"[^\w.]+", "-", kind).strip("-") or "any"


def _with_steps(chosen: ChosenWorkload, label: str, steps: list[str], campaign: Campaign) -> ChosenWorkload:
    if not isinstance(chosen.workload, Divisible):
        raise UsageError(
            f"`fleet.kinds`: the steps of {chosen.label} are measured one after the other on the same data, "
            "and cannot be on machines of different kinds",
            f'keep the whole of it to one: kinds = {{ "{chosen.label}" = "…" }}',
        )
    options = type(chosen.options).model_validate(
        {**chosen.options.model_dump(), **chosen.workload.part(steps)}, context={"folder": campaign.folder}
    )
    part = ChosenWorkload(label=label, workload=chosen.workload, options=options)
    if steps_of(part) != steps:
        raise UsageError(
            f"`fleet.kinds`: {chosen.label} cannot measure {', '.join(steps)} without its other steps",
            "keep those to the same kind",
        )
    return part


__all__ = ["divided", "kind_of", "parts"]

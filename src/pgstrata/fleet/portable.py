"""A campaign on its way to a machine: everything it needs as values, and a campaign again on the other side.

The client has resolved what depends on where it is asked: versions of servers, defaults and scales of
options, files beside the campaign. Sizes relative to memory stay relative: they are the machine's.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pgstrata import numbers
from pgstrata.campaign.checked import Campaign, ChosenWorkload
from pgstrata.campaign.file.reading import check_study
from pgstrata.campaign.plan.model import PlannedVariant
from pgstrata.campaign.plan.runs import Plan
from pgstrata.campaign.study import BuildKeys, Study
from pgstrata.errors import UsageError
from pgstrata.files import digests
from pgstrata.files.building import building, publish
from pgstrata.files.user_files import real_path, user_path
from pgstrata.fleet.tasks import Portable
from pgstrata.server.connect.pooler import is_address
from pgstrata.server.connect.secrets import HIDDEN, conninfo_without_secrets, spec_without_secrets
from pgstrata.server.find.cache import cache_folder
from pgstrata.workload.core.options import NamesFiles
from pgstrata.workload.plugin import source_of

Json = dict[str, Any]

MOST_BYTES = 512 << 20
"""Of the files of one workload: what is larger is generated, or lies on the machines already."""

FILES = "files"
"""Folder of the cache with the files of campaigns, by their digest: data that was loaded from them is known
by where they lie."""

LASTING = "lasting"
"""Folder of the cache with what errands leave on a machine for those that follow."""

_ELSEWHERE = {"variants", "servers", "configs", "build", "builds", "workloads", "results", "fleet", "count"}
"""Keys of a campaign that are resolved by then, or the client's business."""


class _Files:
    """The files that a campaign names, by their name below the folder they get on a machine."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self._bytes = 0

    def add(self, path: Path) -> str:
        """Adds a file, or everything in a folder, and returns its name there. Raises UsageError."""
        name = f"{len(self.content)}/{path.name}"
        try:
            if path.is_dir():
                for file in sorted(p for p in path.rglob("*") if p.is_file()):
                    self._take(file, f"{name}/{file.relative_to(path)}")
            else:
                self._take(path, name)
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}") from error
        return name

    def add_text(self, name: str, text: str) -> str:
        """Adds a text as a file of this name, and returns its name there. Raises UsageError."""
        name, content = f"{len(self.content)}/{name}", text.encode()
        self._count(len(content))
        self.content[name] = content
        return name

    def _take(self, file: Path, name: str) -> None:
        self._count(file.stat().st_size)
        self.content[name] = file.read_bytes()

    def _count(self, size_bytes: int) -> None:
        self._bytes += size_bytes
        if self._bytes > MOST_BYTES:
            raise UsageError(
                f"the files that the campaign names have more than {numbers.size(MOST_BYTES)}",
                "they travel with every comparison: take smaller ones, or data that is generated",
            )


def portable(plan: Plan, chosen: ChosenWorkload) -> Portable:
    """Returns the campaign of a plan with only this workload of it.

    Raises UsageError where it cannot travel: a password in it, a workload that is a file of Python, files
    that cannot be read or are too large.
    """
    campaign, files = plan.campaign, _Files()
    if source_of(chosen.workload):
        raise UsageError(
            f"the workload {chosen.label} is a file of Python, and no code travels to other machines",
            "install it there as a package (entry point pgstrata.workloads), or run without --fleet",
        )
    paths: dict[str, str] = {}
    if isinstance(chosen.options, NamesFiles):
        for name in dict.fromkeys(chosen.options.files()):
            paths[name] = files.add(Path(name))
    options = chosen.all_options
    document = {
        **campaign.spec.model_dump(mode="json", exclude=_ELSEWHERE, exclude_none=True),
        "name": campaign.name,
        "base": plan.base,
        "variants": [_variant(variant, campaign, files) for variant in plan.variants],
        "builds": {
            name: _build(keys, campaign, files) for name, keys in campaign.spec.builds.items() if keys
        },
        "workloads": [{"name": chosen.workload.name, "label": chosen.label, "options": options}],
    }
    return Portable(document=document, options=options, files=files.content, paths=paths)


def _variant(variant: PlannedVariant, campaign: Campaign, files: _Files) -> Json:
    spec = variant.spec
    through = spec.through or ""
    for text in (
        spec_without_secrets(spec.server),
        conninfo_without_secrets(through) if is_address(through) else "",
    ):
        if HIDDEN in text:
            raise UsageError(
                f"{variant.label}: a password stands in the campaign, and passwords do not travel",
                "leave it out, and put it into ~/.pgpass or a service file of the machine that is named",
            )
    given: Json = {
        **spec.model_dump(mode="json", exclude_defaults=True),
        **_build(spec, campaign, files, campaign.names_extension),
        "server": spec.server if spec.server.startswith("dsn:") else variant.server.spec,
        "label": variant.label,
    }
    if variant.server.managed:
        # One that is a file, as a path beside the campaign there.
        given["config"] = [
            f"./{files.add_text(config_file.path.name, config_file.whole_text)}"
            if config_file.path
            else written
            for written, config_file in zip(spec.config, variant.config.config_files, strict=True)
        ]
    return given


def _build(
    keys: BuildKeys, campaign: Campaign, files: _Files, is_name: Callable[[str], bool] = lambda text: False
) -> Json:
    given = keys.build_keys()
    for key in ("patches", "extensions"):
        if key in given:
            given[key] = [
                text if is_name(text) else files.add(real_path(campaign.folder / user_path(text)))
                for text in given[key]
            ]
    return given


# --- on the other side ------------------------------------------------------------------------


def opened(travelled: Portable, results: Path) -> Campaign:
    """Returns the campaign that travelled, its files in the cache of this machine. results: where its runs
    go.

    Raises UsageError where it is not valid here, ServerError and OSError where the cache cannot be written.
    """
    folder = _unpacked(travelled.files)
    document = dict(travelled.document)
    (workload,) = document["workloads"]
    options = _with_paths(workload["options"], {k: str(folder / v) for k, v in travelled.paths.items()})
    document |= {"workloads": [{**workload, "options": options}], "results": str(results)}
    study = Study.model_validate(document)
    campaign = check_study(study, file=folder / "campaign.toml")
    recorded = [chosen.model_copy(update={"recorded": travelled.options}) for chosen in campaign.workloads]
    return campaign.model_copy(update={"workloads": recorded, "file": folder / "campaign.toml"})


def _unpacked(files: dict[str, bytes]) -> Path:
    parts = (f"{name}\0{len(content)}\0".encode() + content for name, content in sorted(files.items()))
    final = cache_folder("fleet", FILES, make=True) / digests.of_parts(parts)[:24]
    if not final.exists():
        with building(final) as folder:
            for name, content in files.items():
                path = folder / name
                if not path.resolve().is_relative_to(folder.resolve()):
                    raise UsageError(f"{name} would lie outside the folder of the campaign")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            publish(folder, final)
    return final


def drop_old_files(keep: int = 20) -> None:
    """Removes the files of all but the last campaigns, and what errands of others have left."""
    places = [cache_folder("fleet", name, make=True) for name in (FILES, LASTING)]
    for place in places:
        _drop_old(place, keep)


def _drop_old(place: Path, keep: int) -> None:
    folders = [path for path in place.iterdir() if path.is_dir()]
    whole = [path for path in folders if not path.name.startswith(".")]
    for old in sorted(whole, key=lambda path: path.stat().st_mtime)[:-keep]:
        shutil.rmtree(old, ignore_errors=True)


def _with_paths(value: Any, paths: dict[str, str]) -> Any:
    """Returns options with the places that files have here."""
    match value:
        case str():
            name, at, weight = value.rpartition("@")
            if value in paths:
                return paths[value]
            return f"{paths[name]}@{weight}" if at and name in paths else value
        case list() | tuple():
            return [_with_paths(item, paths) for item in value]
        case dict():
            return {key: _with_paths(item, paths) for key, item in value.items()}
    return value


def wanted_specs(variants: Sequence[PlannedVariant]) -> Iterator[tuple[int, str]]:
    """Yields number and spec of the first variant of each server and build."""
    seen: set[tuple[object, ...]] = set()
    for number, variant in enumerate(variants):
        spec = variant.spec
        key = (variant.server.spec, spec.build, repr(spec.build_keys()))
        if key not in seen:
            seen.add(key)
            yield number, variant.server.spec


__all__ = ["drop_old_files", "opened", "portable", "wanted_specs"]

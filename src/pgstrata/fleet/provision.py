"""Servers on their way: made once for each kind of machine, and put into the ordinary cache of the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import structs

from pgstrata.campaign.checked import Campaign
from pgstrata.errors import ServerError
from pgstrata.files.building import building, publish
from pgstrata.fleet import parcel
from pgstrata.fleet.tasks import Parcel, Provide, Provided, TreeParcel, Wanted
from pgstrata.server.find.acquire import acquire
from pgstrata.server.find.cache import cache_folder
from pgstrata.server.find.model import Server
from pgstrata.server.find.recipe import DEFAULT, Build, find_build
from pgstrata.server.find.sources import Tree, is_source, source_of

Say = Callable[[str], None]


def packed_tree(spec: str, folder: Path, say: Say) -> TreeParcel:
    """Packs a source tree of the client's, as it lies there now. Raises UsageError, ServerError, OSError."""
    tree = source_of(spec).find_tree(spec, say, folder)
    with TemporaryDirectory(prefix="pgstrata-tree-") as place:
        root = Path(place) / "tree"
        root.mkdir()
        tree.write(root)
        files = parcel.pack(Path(place), ["tree"])
    return TreeParcel(
        origin=tree.origin,
        label=tree.label,
        identity=tree.identity,
        version=tree.version,
        facts=tree.facts,
        files=files,
    )


def provide(task: Provide, campaign: Campaign, say: Say, check: Callable[[], None]) -> Provided:
    """Fetches or builds a server here, and packs it.

    Raises ServerError where it cannot be had, UsageError for what cannot be built, OSError.
    """
    variant = campaign.variants[task.server.variant]
    how = campaign.build_of(variant)
    if task.tree is None:
        server = acquire(task.server.spec, how, say=say, folder=campaign.folder)
    else:
        source = source_of(task.server.spec)
        server = source.server_of(_tree(task.tree), how or find_build(DEFAULT), say=say, check=check)
    assert server.bin_dir is not None  # what is somebody else's does not travel
    folder = server.bin_dir.parent
    return Provided(
        spec=task.server.spec,
        variant=task.server.variant,
        server=server.record(),
        folder=folder.name,
        files=parcel.pack(folder.parent, [folder.name]),
    )


def _tree(packed: TreeParcel) -> Tree:
    def write(target: Path) -> None:
        # Inside the target: elsewhere may be another disk.
        with TemporaryDirectory(prefix="pgstrata-tree-", dir=target) as place:
            parcel.unpack(packed.files, Path(place))
            for entry in (Path(place) / "tree").iterdir():
                entry.rename(target / entry.name)

    return Tree(packed.origin, packed.label, packed.identity, packed.version, write, packed.facts)


def install(provided: Provided) -> None:
    """Puts a server into the cache of this machine unless it is there. Raises ServerError, OSError."""
    final = _folder(provided)
    if final.exists():
        return
    with building(final) as place:
        parcel.unpack(provided.files, place)
        inner = place / provided.folder
        if not (inner / "bin" / "postgres").is_file():
            raise ServerError(f"what came as {provided.spec} is no server: it has no bin/postgres")
        publish(inner, final)


def _folder(provided: Provided) -> Path:
    name = provided.folder
    if name != Path(name).name or name in ("", ".", ".."):
        raise ServerError(f"{name!r} is no name of a folder of the cache")
    return cache_folder("servers", make=True) / name


def finder(campaign: Campaign, provided: Sequence[Provided]) -> Callable[[str, Build | None], Server]:
    """Gives the servers of a campaign on this machine: those that were built come from the cache, whatever
    tree they were built from; all else is fetched or found as ever."""
    built: dict[tuple[str, Build | None], Server] = {}
    for provided_server in provided:
        record = provided_server.server
        if not is_source(record.spec):
            continue
        key = (
            campaign.variants[provided_server.variant].server,
            campaign.build_of(campaign.variants[provided_server.variant]),
        )
        built[key] = Server(
            record.spec,
            record.label,
            record.version,
            record.version_num,
            record.build,
            _folder(provided_server) / "bin",
            built=record.built,
        )

    def find(spec: str, how: Build | None) -> Server:
        server = built.get((spec, how))
        if server is None:
            return acquire(spec, how, folder=campaign.folder)
        if server.bin_dir is None or not (server.bin_dir / "postgres").is_file():
            raise ServerError(f"{server.label} is not in the cache of this machine any more")
        return server

    return find


def builder(
    trees: Mapping[str, TreeParcel], say: Say, check: Callable[[], None]
) -> Callable[[str, Build | None], Server]:
    """Gives servers on this machine: those of trees that came with an errand are built here, all else is
    fetched or found as ever."""

    def find(spec: str, how: Build | None) -> Server:
        if (packed := trees.get(spec)) is None:
            return acquire(spec, how, say=say, check=check)
        return source_of(spec).server_of(_tree(packed), how or find_build(DEFAULT), say=say, check=check)

    return find


def without_files(provided: Provided) -> Provided:
    """Returns the facts of a server without its files, for a comparison where the server is there already."""
    return structs.replace(provided, files=Parcel(digest=provided.files.digest))


__all__ = ["Wanted", "builder", "finder", "install", "packed_tree", "provide", "without_files"]

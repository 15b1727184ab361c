"""Servers from source: trees, what they are built with, and the cache of what was built.

    tree = tree_of(repo, "REL_17_STABLE")
    server = build(tree, SHIPPED["o2"], progress=print)

`build` finds a server that was built from the same tree in the same way, or builds it. It is made to
be called for hundreds of commits: a tree is written out only while it is built, the compiler's cache
and that of configure are shared, and a commit that does not build is remembered.
"""

from pgstrata.server.source.build import BuiltServer, build
from pgstrata.server.source.cache import built, clear_builds, failures
from pgstrata.server.source.failure import BuildError
from pgstrata.server.source.git import tree_of
from pgstrata.server.source.progress import BuildProgress
from pgstrata.server.source.recipe import SHIPPED, Build, find_build
from pgstrata.server.source.spec import SourceSpec, find_tree
from pgstrata.server.source.tree import Tree, tree_of_archive, tree_of_folder

__all__ = [
    "SHIPPED",
    "Build",
    "BuildError",
    "BuildProgress",
    "BuiltServer",
    "SourceSpec",
    "Tree",
    "build",
    "built",
    "clear_builds",
    "failures",
    "find_build",
    "find_tree",
    "tree_of",
    "tree_of_archive",
    "tree_of_folder",
]

"""Servers from source: trees, what they are built with, and the cache of what was built.

    tree = tree_of(repo, "REL_17_STABLE")
    server = build(tree, SHIPPED["o2"], progress=print)

`pgstrata.source.build.build` finds a server that was built from the same tree in the same way, or builds it.
It is made to be called for hundreds of commits: a tree is written out only while it is built, the compiler's
cache and that of configure are shared, and a commit that does not build is remembered.
"""

from pgstrata.registry import Capability, Command

CAPABILITY = Capability(
    commands=(
        Command(
            "servers build",
            "pgstrata.source.command:build",
            "Build servers from source into the cache.",
        ),
        Command("servers failed", "pgstrata.source.command:failed", "Show why a build failed."),
    ),
    server_sources=dict.fromkeys(("release", "tar", "src", "git"), "pgstrata.source.offer"),
)

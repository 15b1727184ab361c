"""The campaign that `pgstrata init` writes: every key with its meaning."""

TEMPLATE = """\
# A campaign of pgstrata: variants x workloads x repeats, and how to run them.
#
#     pgstrata run THIS-FILE --dry-run      what it means: runs, order, time, disk
#     pgstrata run THIS-FILE                does what is missing
#     pgstrata report                       writes the report again

# How the campaign is called in results and reports (default: the name of this file).
# name = "upgrade-to-17"

# --- what to compare ---------------------------------------------------------------------------

# Servers: "pg:17" (newest 17, fetched), "pg:17.6", "pg:latest",
#          "path:/usr/lib/postgresql/15" (an installation or your own build),
#          "dsn:postgresql://user@host/db" (a server that runs already),
#          "release:9.0.23", "tar:FILE", "src:DIR", "git:DIR#REF" (built from source, once).
servers = ["pg:12", "pg:17"]

# What servers from source are built with (docs/guides/builds.md): "o2", "o2_nofp", "o3_native",
# "debug-asserts", or tables of your own; the keys can also stand in a variant.
# build = ["o2", "patched"]
#
# [builds.patched]
# cc = "clang"
# cflags = "-O2 -fno-omit-frame-pointer"
# system = "meson"                                      # or "autoconf"
# configure = ["--with-lz4"]
# meson = ["-Dlz4=enabled"]
# patches = ["better.patch"]
# contrib = ["pg_prewarm"]
# extensions = ["../my-extension"]

# Stacks of config files; every server is combined with every stack. `pgstrata config list` shows
# what is there; your own .conf files are named by their path from here. Without this line: "default".
# configs = ["cached-by-pg", ["cached-by-pg", "a1"], "./mine.conf"]

# Variants that do not fit into servers x configs, one table each:
#
# [[variants]]
# server = "pg:17"
# config = ["cached-by-pg", "./mine.conf"]
# label = "pg17-mine"                                   # its name in tables
# env = { LD_PRELOAD = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2" }
# initdb = ["--data-checksums"]
# memory = "2GB"                                        # at most, page cache included (cgroup)
# data_dir = "/mnt/disks/pgstrata"                      # a disk of its own (docs/guides/storage.md)
# wal_dir = "/mnt/ssd/pgstrata"                         # and one for its write-ahead log
# io_delay = "2ms"                                      # or one that answers later than it does
# replicas = 1                                          # a standby that follows it (docs/guides/replicas.md)
# replication = "sync"                                  # commits wait for it
# reads = "replica"                                     # steps that only read go to it
# through = "pgbouncer"                                 # measured through a pooler, started for it
# pooler = { pool_mode = "transaction" }                # its settings

# The variant that the others are compared with: its label or the beginning of it (default: the first).
# base = "pg12"

# --- how to run --------------------------------------------------------------------------------

# Runs of every variant x workload. More than one shows how much a rate varies by itself.
repeats = 1

# "sequential": one variant after the other. "shuffled": with repeats, variants take turns in random
# order, so that a machine that gets slower over the day does not hit always the same one.
# "interleaved": all variants are up together and take turns every few seconds: the smallest differences.
order = "sequential"

# For "interleaved": seconds of a slice; rounds of steps that write; and whether to stop as soon as the
# verdict is known ("verdict", at most max_seconds for a step) or after the step's time. Slices of 0.02 s, the
# default with "verdict", see least of what else happens on a shared machine. In each round of a step that
# writes variants take turns of window_seconds, and who has not the turn is stopped ("frozen"); or one does
# its whole round after the other ("rounds").
# slice_seconds = 2.0
# rounds = 4
# turns = "frozen"
# window_seconds = 0.1
# until = "verdict"
# max_seconds = 240.0
# why_seconds = 120.0             # of single queries: why they are slower, and what helps
# margin = 0.02

# Response times that are judged beside the rate, and the difference that is none.
# judge = ["p99"]
# times_margin = 0.05

# Share of the CPUs that other programs may use beside a step; with more of it a verdict is unclear.
# other_load = 0.25

# CPUs for servers and for the driver. "auto": variants that take turns in short slices share the same CPUs.
# "free": left to the kernel. Or by number.
# placement = "auto"
# server_cpus = [0, 1, 2]
# driver_cpus = [3]

# Folder for the runs, and the disk to be measured: the servers' data is below it while they run.
results = "results"
# data_dir = "/srv/nvme/pgstrata"

# Leave the data folder of each run behind, to look at it.
keep_data = false

# Keep loaded data for all repeats, configs and later campaigns that need the same.
keep_loaded = false

# Let servers under test reach beyond their sockets (docs/explanation/security.md).
allow_outside = false
# Settings of configs that are kept although they reach outside, name a place or need another server.
keep_settings = []

# The same seed gives the same rows, keys and order of operations.
seed = 1

# Who moves the driver's bytes: "auto", "blocking" or "io_uring".
engine = "auto"

# Why a rate changed: flame graphs by perf from the middle of each step, and wait events at 10 Hz.
# profile = true
# waits = 10
# Whether a code path got longer: instructions per operation, counted on clusters of their own.
# count = true

# On many machines (pgstrata run THIS-FILE --fleet tcp://scheduler:8786, docs/guides/fleet.md): which take
# part, what is kept to one kind of machine, and how often a comparison is begun at most.
# fleet = { machines = ["db*"], kinds = { insert = "*EPYC*" }, attempts = 3 }

# --- what to run -------------------------------------------------------------------------------

# One table each; `pgstrata workloads` lists them, `pgstrata workloads insert` the options of one.
[[workloads]]
name = "insert"
# A named set of options to start from: quick, demo, small, medium, large.
scale = "small"
# Needed where a campaign has a workload twice, with different options.
# label = "insert-4-clients"

# Options win over those of the scale.
[workloads.options]
clients = 1
# rows = 1_000_000
# seconds = 60
# steps = ["100:range", "100:point", "1000:range", "1000:point"]
"""

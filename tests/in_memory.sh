#!/bin/sh
# in_memory.sh COMMAND…: with its own /tmp and /var/tmp in memory, where root may mount them and 16 GiB are free.
# Each server that a test starts is a thousand new files, which are half of the CPU time of all tests on a disk.
# Tests of disks have the /var/tmp of before (tests/support/disks.py).
set -eu
available=$(awk '$1 == "MemAvailable:" { print int($2 / 1048576) }' /proc/meminfo)
if [ "$(id -u)" = 0 ] && [ "$available" -ge 16 ] && unshare --mount true 2>/dev/null; then
    exec unshare --mount sh -euc '
        if mount --bind /var/tmp /mnt; then
            export PGSTRATA_TESTS_DISK=/mnt
            for folder in /tmp /var/tmp; do mount -t tmpfs -o size=40%,mode=1777 tmpfs "$folder"; done
        fi
        exec "$@"' sh "$@"
fi
exec "$@"

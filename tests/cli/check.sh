#!/bin/sh
# How `pgstrata check` is used in a build: one line per exit code it can end with.
# Usage: check.sh PYTHON RESULTS; needs variants `base`, `alike`, `slow` (5 % slower), `rough` (noisy).
python=$1
results=$2

check() {
    "$python" -m pgstrata check --results "$results" "$@" >/dev/null 2>&1
    echo "$?"
}

echo "alike $(check --base base --other alike --fail-slower 3%)"
echo "slow $(check --base base --other slow --fail-slower 3%)"
echo "slow is within $(check --base base --other slow --fail-slower 20%)"
echo "rough $(check --base base --other rough --fail-slower 3%)"
echo "all $(check --base base --fail-slower 3%)"
for nonsense in 3 0% 100% -3% banana '' nan 1e-2; do
    echo "nonsense $(check --base base --other slow --fail-slower="$nonsense")"
done
echo "nobody $(check --base nobody --fail-slower 3%)"

#!/usr/bin/env bash
# Compares two servers in a pipeline: measures both, writes verdicts.md and verdicts.xml, and ends with
# the exit code of 'pgstrata check'.
#
# PGSTRATA_BASE, PGSTRATA_NEW   servers, as --server takes them
# PGSTRATA_STEPS                steps with commas between (default: point-query,read-only=100); empty: all
# PGSTRATA_BY                   instructions (default) or rate
# PGSTRATA_FAIL                 what is too slow (default: 0.5%, of rates 3%)
# PGSTRATA_MAX_SECONDS          of each step, where rates are measured (default: 120)
# PGSTRATA_UNCLEAR              fail (default) or pass: what exit code 3 becomes
# PGSTRATA_OPTIONS              further options of 'pgstrata count' or 'pgstrata run'
set -uo pipefail

ask() {
    echo "error: $1" >&2
    exit 2
}

base=${PGSTRATA_BASE:-} new=${PGSTRATA_NEW:-}
[ -n "$base" ] || ask 'PGSTRATA_BASE names no server: path:DIR, pg:17 or git:DIR#REF'
[ -n "$new" ] || ask 'PGSTRATA_NEW names no server: path:DIR, pg:17 or git:DIR#REF'
by=${PGSTRATA_BY:-instructions} unclear=${PGSTRATA_UNCLEAR:-fail}
[ "$unclear" = fail ] || [ "$unclear" = pass ] || ask "PGSTRATA_UNCLEAR=$unclear: fail or pass"
IFS=, read -r -a steps <<<"${PGSTRATA_STEPS-point-query,read-only=100}"
read -r -a options <<<"${PGSTRATA_OPTIONS:-}"

case $by in
instructions)
    fail=${PGSTRATA_FAIL:-0.5%} kind=(--by instructions)
    measure=(count "$base=base" "$new=new")
    for step in ${steps[@]+"${steps[@]}"}; do measure+=(--step "$step"); done
    ;;
rate)
    fail=${PGSTRATA_FAIL:-3%} kind=()
    measure=(run "$base=base" "$new=new" --no-report --max-seconds "${PGSTRATA_MAX_SECONDS:-120}")
    if [ ${#steps[@]} -gt 0 ]; then measure+=(--set "steps=${steps[*]}"); fi
    ;;
*) ask "PGSTRATA_BY=$by: instructions or rate" ;;
esac

pgstrata "${measure[@]}" ${options[@]+"${options[@]}"} || exit

pgstrata compare base new ${kind[@]+"${kind[@]}"} --format markdown >verdicts.md || exit
pgstrata check --base base --fail-slower "$fail" ${kind[@]+"${kind[@]}"} --format junit >verdicts.xml
pgstrata check --base base --fail-slower "$fail" ${kind[@]+"${kind[@]}"} --format github
code=$?
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
    cat verdicts.md >>"$GITHUB_STEP_SUMMARY"
fi
if [ "$code" = 3 ] && [ "$unclear" = pass ]; then
    code=0
fi
exit "$code"

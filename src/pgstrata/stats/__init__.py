"""Arrays in, numbers out: intervals, verdicts on them, rates, costs. Knows no run and no file."""

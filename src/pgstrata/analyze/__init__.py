"""Pure functions over what the store read: rates, SLA, costs, tables of the report."""

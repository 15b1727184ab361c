"""Plans without data: schema and planner statistics on both versions, and the plans of all statements."""

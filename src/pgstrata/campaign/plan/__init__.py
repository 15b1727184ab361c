"""What a campaign comes to: its runs, their order, what they cost, and what cannot be done."""

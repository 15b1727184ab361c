"""What patches do to the rate of steps: each measured against the one before it."""

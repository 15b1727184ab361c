"""What a step costs the server and the host, seen from outside the measured path."""

from pgstrata.observe.step_watch import StepObserved, StepWatch

__all__ = ["StepObserved", "StepWatch"]

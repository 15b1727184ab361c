"""The checklist of an upgrade: what has to be done or looked at before and after it, with its evidence."""

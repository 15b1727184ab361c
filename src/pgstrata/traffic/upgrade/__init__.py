"""An upgrade decided: a database and its traffic, on the version that there is and on those that come."""

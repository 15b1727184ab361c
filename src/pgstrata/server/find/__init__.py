"""Where a server comes from: what its spec means, fetching it, and the cache."""

"""Which commit, config or release made it slower: a search that weighs every measurement."""

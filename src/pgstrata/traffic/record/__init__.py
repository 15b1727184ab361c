"""Traffic recorded from the wire: the proxy, its files, and a captured file made of them."""

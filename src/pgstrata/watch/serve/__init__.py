"""The server of results and sites: read-only, on loopback, or elsewhere with TLS."""

"""Files: read with bounds, written whole, locked, owned, unpacked."""

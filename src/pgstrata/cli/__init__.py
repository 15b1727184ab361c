"""The command line: one file per command, no logic below argument handling and printing."""

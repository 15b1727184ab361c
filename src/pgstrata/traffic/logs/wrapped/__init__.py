"""Logs within other formats: those of log services, clouds, containers, journals and syslog.

Each module takes the server's lines out of one format. What is within is read as any other log.
"""

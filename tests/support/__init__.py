"""Servers, folders, programs and records that several tests share."""

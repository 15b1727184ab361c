"""Servers, clusters and their configuration."""

"""Datagrams."""

"""Administrators' requests, by API."""

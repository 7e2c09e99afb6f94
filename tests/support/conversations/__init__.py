"""Requests for HTTP services, and what answers say."""

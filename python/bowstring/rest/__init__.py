"""Serves topics, groups and records over HTTP: Confluent's REST API v3, and streams of records.

Imported by: cli, http_services, rest.records, rest.v2, rest.v3.
May import: clients, clients.admin, clients.producer, protocol, version, web.
"""

"""Serves the console: web pages that show a cluster, Bowstring's or Apache Kafka's.

Imported by: cli.
May import: audit, clients, clients.admin, clients.config, clients.consumer, clients.producer,
clients.registry, operations, protocol, search, security, version, web.
"""

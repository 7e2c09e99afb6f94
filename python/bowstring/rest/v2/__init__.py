"""Serves Confluent's REST API v2: brokers, topics, partitions, records.

Imported by: nobody; `rest.app` loads it by name.
May import: clients, clients.admin, clients.producer, protocol, rest, rest.records, web.
"""

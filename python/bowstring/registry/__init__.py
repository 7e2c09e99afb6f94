"""The schema registry: Confluent's REST API over a compacted topic.

`registry_image.py` is the state, built from the topic's records; `operations` reads it and decides what to
append. Neither does I/O.

Imported by: registry.api, registry.operations, registry.program.
May import: clients, protocol, registry.store, schemas.
"""

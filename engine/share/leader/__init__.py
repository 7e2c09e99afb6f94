"""What the leader of a partition does for share groups (KIP-932): fetches, acknowledgements, locks. A shell.

Files: `settings` reads a group's configs, `share_partition` joins the in-flight window with the persister
and time, `share_fetch` waits for records and reads them, `share_partitions` keeps partitions and sessions,
`dead_letters` copies records to dead-letter topics (KIP-1191), `dead_letter_batches` says what copies hold.

Imported by: api, broker.
May import: _native.log, _native.record, _native.server, _native.share, configs, engine, metadata, network,
protocol, share, share.persister, storage.
"""

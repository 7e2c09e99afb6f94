"""Runs the transaction coordinator: its log, markers to other brokers, verification of produced batches.

Files: `coordinator` passes events to the shards; `marker_sender` sends the markers of ended transactions to
the leaders of their partitions; `marker_writer` writes markers that arrive; `verifier` checks with the
coordinator of a produced batch.

Imported by: api, requests.
May import: _native.log, _native.record, _native.server, configs, coordinators, engine, metadata,
metadata.store, protocol, quorum, storage, transactions.
"""

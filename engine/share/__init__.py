"""Share groups (KIP-932): where the delivery state of share partitions is kept.

`coordinator` keeps it in ``__share_group_state``; `persister` asks the coordinator, wherever that is.

Imported by: requests.
May import: engine, metadata, protocol, quorum.
"""

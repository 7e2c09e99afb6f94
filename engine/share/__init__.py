"""Share groups (KIP-932): which member gets which records, and where the delivery state is kept.

`coordinator` keeps it in ``__share_group_state``; `persister` queries the coordinator, wherever that is.

`leader` is what the leader of a partition does for the groups that read it; `sessions` are those of members.

Imported by: api, broker, share.leader.
May import: metadata, network, protocol.
"""

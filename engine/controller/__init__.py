"""Decides for the cluster: live brokers, leaders of partitions, changes.

Each decision is a pure function (state, request, now) to (records, answer), as in Kafka's QuorumController.
`service` runs them one after the other on the active controller and appends their records to the metadata
quorum.

Files: `state` is what decisions read; `partition_index` finds partitions by broker; `sessions` has each
broker's last contact; `partition_change` makes every change of a partition, whose leader `leader_choice`
chooses; `leader_updates` makes it for all partitions of a broker. `brokers`, `alter_partition`,
`leader_elections`, `reassignments`, `directories`, `producer_ids`, `features` and `controllers` decide about
the APIs of their subject; `activation` begins a leadership.

Imported by: api, broker.
May import: configs, engine, metadata, protocol, security.
"""

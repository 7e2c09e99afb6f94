"""Consumer groups of KIP-848: the coordinator assigns partitions, and members take them over one by one."""

"""Consumer groups of KIP-848: the coordinator assigns partitions, and members adopt them one by one."""

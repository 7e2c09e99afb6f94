"""Share groups (KIP-932): members, the simple assignor, and which share partitions have state."""

"""Classic groups: members join, the leader assigns, all of them sync; every change stops the whole group."""

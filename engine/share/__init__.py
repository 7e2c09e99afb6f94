"""Share groups (KIP-932): where the delivery state of share partitions is kept.

`persister` is how the leader of a share partition reads and writes its state.

Imported by: nobody.
May import: nothing.
"""

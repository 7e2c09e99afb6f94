"""What consumer (KIP-848), share (KIP-932) and streams (KIP-1071) groups share: epochs, members, targets, the
view of the cluster, and changes that take effect once they are in the log.
"""

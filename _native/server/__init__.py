"""The data plane: reactors, connections, Produce and Fetch, the queue to the control thread.

Imported by: nobody but Python.
May import: access, base, disk, protocol, record, replica, tls, wal, log.
"""

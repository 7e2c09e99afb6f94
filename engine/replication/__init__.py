"""The replicas of this broker: leaders, followers, and changes of in-sync replicas; pure.

Imported by: broker.
May import: metadata, protocol.
"""

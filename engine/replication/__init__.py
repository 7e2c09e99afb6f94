"""The replicas of this broker: who leads, who follows, and changes of in-sync replicas; pure.

Imported by: broker.
May import: metadata, protocol.
"""

"""The replicas of this broker: who leads, who follows, and changes of in-sync replicas; pure.

Imported by: nobody.
May import: engine, metadata, protocol.
"""

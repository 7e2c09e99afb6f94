"""The records of __cluster_metadata, by subject."""

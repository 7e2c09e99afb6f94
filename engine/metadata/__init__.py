"""The cluster as its metadata records describe it: pure state, no I/O."""

"""The broker around its native data plane: start-up, dispatch, topics, the metadata log, housekeeping."""

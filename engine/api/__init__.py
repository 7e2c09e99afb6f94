"""The handlers: one file for each API, or tight family of APIs, that the control thread answers."""

"""Computes what operators see and change; the command line and the console share it.

Decisions and sentences of access control, progress of groups, resets of offsets. Nothing here prints.

Imported by: cli, console.
May import: clients, clients.admin, protocol.
"""

"""Flower carries the messages of a federation: its processes, its grid, and the apps that run in them.

Nothing heavy is imported here: a client app must start quickly.
"""

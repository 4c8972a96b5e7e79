"""Federations over HTTPS: one port at the coordinator, silos dial out, mutual TLS by the keys that the terms name.

Nothing is shipped and nothing executed: envelopes go from a mailbox at the coordinator to a silo, and answers back. All
decisions are those of `dpadmm.federation`, whose messages may be lost, repeated or reordered here.
"""

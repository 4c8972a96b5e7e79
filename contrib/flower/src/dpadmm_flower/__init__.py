"""Federations over Flower, for those who run it already: a ServerApp and a ClientApp for its stock commands.

Flower carries envelopes; all decisions are those of `dpadmm.federation`, and everything that lasts is in the
directories of the coordinator and the silos. Only Flower's public names are used: `flwr.app`, `flwr.clientapp`,
`flwr.serverapp`.
"""

"""Federation: silos that share no data run one method together, over any transport.

All decisions are taken by two state machines with durable files, `Silo` and `Coordinator`; they speak typed, signed,
versioned messages (`messages`) about terms that everybody has agreed to beforehand (`terms`). A transport only
carries the messages. To be read in this order: `terms`, `messages`, `silo` with `silo_round` and `silo_store`,
`coordinator` with `coordinator_loop` and `coordinator_store`, `rollback_detection`, `masked_sums`; then `https`, and
`admin`. See `docs/federation.md` and `docs/threat-model.md`.

Nothing heavy is imported here: a client app must start quickly.
"""

"""Noise: schedules, and two samplers behind one interface - seeded for experiments, secure for releases.

Noise is drawn from a release (`dpadmm.privacy.releases`), which carries the certificate, never from a bare number:
`sampler.perturb(values, releases, Draw(MessageKind("message"), round, agents))`.
"""

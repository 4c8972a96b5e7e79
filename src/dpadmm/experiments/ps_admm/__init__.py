"""Figures of PS-ADMM (Ding, Errapotu, Zhang, Gong, Pan, Han 2019)."""

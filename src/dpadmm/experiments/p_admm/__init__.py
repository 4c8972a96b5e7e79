"""Figures of P-ADMM (Ding, Gong, Zhang, Pan, Han 2019)."""

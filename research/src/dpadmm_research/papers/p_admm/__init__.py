"""P-ADMM (Ding, Gong, Zhang, Pan, Han 2019): claims, theory, figures."""

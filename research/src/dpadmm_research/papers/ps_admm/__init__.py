"""PS-ADMM (Ding, Errapotu, Zhang, Gong, Pan, Han 2019): claims, theory, figures."""

"""Consensus DP-ADMM (Cao, Zhang, Poor, Tian 2021): claims, theory, figures."""

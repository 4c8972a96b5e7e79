"""Figures of Consensus DP-ADMM (Cao, Zhang, Poor, Tian 2021)."""

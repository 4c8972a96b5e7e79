"""Differentially private distributed optimisation by ADMM, with certified privacy."""

__version__ = "0.1.0"

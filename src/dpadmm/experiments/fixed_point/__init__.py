"""Figures of fixed-point ADMM (Cyffers, Bellet, Basu 2023)."""

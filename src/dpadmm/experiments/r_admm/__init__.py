"""Figures of R-ADMM (Zhang, Khalili, Liu 2018)."""

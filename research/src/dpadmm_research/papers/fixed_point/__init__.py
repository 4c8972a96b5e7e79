"""Fixed-point ADMM (Cyffers, Bellet, Basu 2023): claims, theory, figures."""

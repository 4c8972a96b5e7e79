"""R-ADMM (Zhang, Khalili, Liu 2018), with DVP and M-ADMM, which it compares: claims, theory, figures."""

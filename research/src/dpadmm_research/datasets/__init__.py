"""Data of the papers and benchmarks: UCI Adult, Heart Disease, NIST ACS, control problems, random quadratics."""

"""Privacy as data, from the proof to the record.

Who is protected from whom, and the certificates that prove it (`protection`, `certificates`); what is released
(`records`) and what it costs together (`accounting`, `curves`, `sampled`); the noise that a budget asks for
(`calibration`); and the durable record of what was spent (`ledger`).
"""

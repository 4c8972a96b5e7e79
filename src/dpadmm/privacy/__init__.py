"""Privacy as data, from the proof to the record.

Who is protected from whom, and the certificates that prove it (`protection`, `certificates`); what is released
(`releases`), what it costs together and the noise that a budget asks for (`accounting`, `curves`, `sampled`); and the
durable record of what was spent (`ledger`).
"""

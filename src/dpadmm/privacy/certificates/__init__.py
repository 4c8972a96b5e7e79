"""Certificates C1-C19: proved bounds on what one person can change, as frozen records.

Every function is pure: it takes problem constants, network facts and hyper-parameters and returns `Certificate`
records (a tuple where the bound depends on the round). The proofs are in `docs/proofs`. Common parameters:

* `LocalFunction`: the public side of one agent's function, its records and the people behind them.
* `weight` w > 0: the factor in front of f_i in the local subproblem as solved; it multiplies every constant of f_i.
* `solver_tolerance` (C7): norm of the local subproblem's gradient at the point returned; `None` leaves it out of the
  bound and weakens the certificate to "up to solver error".

`local`: what every certificate starts from, and C1. `gradients`: C4, C9. `objective`: C2. `hidden_state`: C3, C5, C6.
`sums`: C10, C11, C12, C14, C15, sums released once. `sharing`: C16 to C19, agents with costs of their own.
"""

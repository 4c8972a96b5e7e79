"""Broken builds: small named changes of the source, each with the tests, and the audit, that must catch it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One break. old -> new: text that occurs once in `path` (below src/dpadmm), and what replaces it.

    tests: what is run to catch it. audit: arguments of `dpadmm audit`; a sentence that says why not, if it cannot.
    """

    area: str
    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]
    audit: tuple[str, ...] | str


FEW = ("--runs", "2000")
PRODUCT = ("--product", "--epsilon", "8", "--runs", "120")
BOOKS = "an audit spends nothing, so it keeps no books"
WIRE = "an audit runs in one process, without silos' services"
SHORT = "noise of a short seed has the law of good noise: an audit would have to guess the seed"
TINY = "what an attacker gains is below a thousandth of epsilon"

CERTIFICATES = (
    Mutant(
        "certificates",
        "C1: a record moves a gradient by G, not 2G",
        "privacy/certificates/neighbours.py",
        "moved = (2 if self.relation is Relation.REPLACE_ONE else 1) * bounded(",
        "moved = 1 * bounded(",
        ("privacy/certificates/test_p_admm.py",),
        ("p-admm", *FEW),
    ),
    Mutant(
        "certificates",
        "C1: every silo counts as many neighbours as the one with most",
        "algorithms/method.py",
        "return int(self.graph.degrees[agent])",
        "return int(self.graph.degrees.max())",
        ("algorithms/test_p_admm.py", "-k", "transcript"),
        ("p-admm", *FEW),
    ),
    Mutant(
        "certificates",
        "C1: every silo counts the whole ridge, not its share",
        "algorithms/method.py",
        "share = problem.regulariser.strong_convexity / problem.n_agents",
        "share = problem.regulariser.strong_convexity",
        ("algorithms/test_p_admm.py", "-k", "transcript"),
        ("p-admm", *FEW),
    ),
    Mutant(
        "certificates",
        "C1: every silo counts the records of the first",
        "algorithms/method.py",
        "n_records=int(problem.functions.sizes[agent])",
        "n_records=int(problem.functions.sizes[0])",
        ("audit/test_checks.py", "-k", "everything and p-admm"),
        ("p-admm", *FEW),
    ),
    Mutant(
        "certificates",
        "C1: every silo counts the weight of the first",
        "algorithms/method.py",
        "problem, weight = self.problem, float(self.problem.weights[agent])",
        "problem, weight = self.problem, float(self.problem.weights[0])",
        ("audit/test_checks.py", "-k", "everything and p-admm"),
        ("p-admm", *FEW),
    ),
    Mutant(
        "certificates",
        "C1: the penalty's curvature is counted twice",
        "privacy/certificates/neighbours.py",
        'return 2 * checks.positive("edge_penalty"',
        'return 4 * checks.positive("edge_penalty"',
        ("privacy/certificates/test_p_admm.py",),
        ("p-admm", *FEW),
    ),
    Mutant(
        "certificates",
        "C2: the determinants of the Hessians are not counted",
        "privacy/certificates/objective.py",
        "log_jacobian=local.replaced * rank * math.log1p(",
        "log_jacobian=1e-9 * rank * math.log1p(",
        ("privacy/certificates/test_objective.py",),
        ("dvp", *FEW),
    ),
    Mutant(
        "certificates",
        "C3: the first round's bound for all rounds",
        "privacy/certificates/consensus.py",
        "for drift in hidden_drift(spectrum, push, k)[:k]",
        "for drift in hidden_drift(spectrum, push, k)[:1] * k",
        ("privacy/certificates/test_consensus.py",),
        ("consensus-gaussian", *FEW),
    ),
    Mutant(
        "certificates",
        "C5: the bound of x - z for the release of 2 (x - z)",
        "privacy/certificates/fixed_point.py",
        "        2 * min(moved, 2 * _clip(clip)),",
        "        min(moved, 2 * _clip(clip)),",
        ("privacy/certificates/test_fixed_point.py",),
        ("fp-centralised", *FEW),
    ),
    Mutant(
        "certificates",
        "C6: 1/N is counted twice",
        "privacy/certificates/fixed_point.py",
        "local.certify(silos * min(record, reach) / n,",
        "local.certify(silos * min(record, reach) / n**2,",
        ("privacy/certificates/test_fixed_point.py",),
        ("fp-coordinator", *FEW),
    ),
    Mutant(
        "certificates",
        "C7: the solver's error is not counted",
        "privacy/certificates/neighbours.py",
        " / self.n_records + 2 * tolerance_of(self.solver_tolerance)",
        " / self.n_records",
        ("privacy/certificates/test_p_admm.py", "privacy/test_traps.py"),
        TINY,
    ),
    Mutant(
        "certificates",
        "C8: rounding to the grid is not counted",
        "privacy/protection.py",
        "bound=certificate.bound + width * spread,",
        "bound=certificate.bound,",
        ("privacy/test_attacks.py", "privacy/test_traps.py", "noise/test_secure.py"),
        TINY,
    ),
    Mutant(
        "certificates",
        "C0: m of all releases together is a third too small",
        "privacy/accounting.py",
        "        m = math.sqrt(self.m_squared)\n",
        "        m = math.sqrt(self.m_squared) / 1.5\n",
        ("privacy/test_accounting.py",),
        ("p-admm",),
    ),
    Mutant(
        "certificates",
        "C4: a replaced record of a batch counts once, not twice",
        "privacy/sampled.py",
        "replace = step.scheme is Scheme.POISSON_REPLACE",
        "replace = False",
        ("privacy/test_sampled.py",),
        ("dp-sgd",),
    ),
)

NOISE = (
    Mutant(
        "noise",
        "a fifth too little in round 2",
        "noise/planned.py",
        "out[:, :, columns] = drawn.values",
        "out[:, :, columns] = part + (0.8 if k == 2 else 1.0) * (drawn.values - part)",
        ("audit/test_checks.py", "-k", "everything and p-admm"),
        ("p-admm", *FEW),
    ),
    Mutant(
        "noise",
        "every silo gets the noise that the first one needs",
        "noise/draws.py",
        "np.array([distribution.scale for distribution in distributions])",
        "np.array([distributions[0].scale for _ in distributions])",
        ("audit/test_checks.py", "-k", "everything and p-admm"),
        ("p-admm", *FEW),
    ),
    Mutant(
        "noise",
        "even rounds use the noise of the round before (simulated)",
        "noise/simulated.py",
        "return np.array([draw.round, low, high]",
        "return np.array([draw.round - (draw.round % 2 == 0), low, high]",
        ("noise/test_simulated.py",),
        ("p-admm", *FEW),
    ),
    Mutant(
        "noise",
        "the secure sampler keeps its noise for the next draw",
        "noise/secure.py",
        "    return list(_gaussian(scale)(multiples))",
        "    return [m + b for m, b in zip(multiples, _kept(scale, len(multiples)), strict=True)]\n\n\n"
        "@lru_cache(maxsize=256)\n"
        "def _kept(scale: float, size: int) -> tuple[int, ...]:\n"
        "    return tuple(_gaussian(scale)([0] * size))",
        ("noise/test_secure.py",),
        PRODUCT,
    ),
    Mutant(
        "noise",
        "half of the secure noise",
        "noise/secure.py",
        "noisy = sample(whole.ravel().tolist(), group.ratio)",
        "noisy = sample(whole.ravel().tolist(), group.ratio / 2)",
        ("noise/test_secure.py",),
        PRODUCT,
    ),
    Mutant(
        "noise",
        "silos of different sizes get the least secure noise among them",
        "noise/secure.py",
        "noisy = sample(whole.ravel().tolist(), group.ratio)",
        "noisy = sample(whole.ravel().tolist(), min(each.ratio for each in groups))",
        ("noise/test_secure.py",),
        PRODUCT,
    ),
    Mutant(
        "noise",
        "values are rounded to a grid 1024 times as coarse as is counted",
        "noise/secure.py",
        "multiples = np.rint(values / grid)",
        "multiples = np.rint(values / (1024 * grid)) * 1024",
        ("noise/test_secure.py", "-k", "edges"),
        PRODUCT,
    ),
    Mutant(
        "noise",
        "values are cut off at a grid 1024 times as coarse as is counted",
        "noise/secure.py",
        "multiples = np.rint(values / grid)",
        "multiples = np.floor(values / (1024 * grid)) * 1024",
        ("noise/test_secure.py", "-k", "edges"),
        PRODUCT,
    ),
    Mutant(
        "noise",
        "secure spherical noise has the length of one dimension less",
        "noise/secure.py",
        "lengths = -np.sum(np.log(_uniforms((n, d))), axis=1)",
        "lengths = -np.sum(np.log(_uniforms((n, max(d - 1, 1)))), axis=1)",
        ("noise/test_secure.py",),
        PRODUCT,
    ),
    Mutant(
        "noise",
        "secure spherical noise comes from 16 bits of entropy",
        "noise/secure.py",
        "words = np.frombuffer(os.urandom(8 * math.prod(shape)), dtype=np.uint64).reshape(shape)",
        "words = np.random.default_rng(list(os.urandom(2))).integers(0, 2**64, shape, dtype=np.uint64)",
        ("noise/test_secure.py",),
        SHORT,
    ),
    Mutant(
        "noise",
        "secure Gaussian noise comes from 16 bits of entropy",
        "noise/secure.py",
        '    return dp.measurements.make_gaussian(domain, dp.metrics.l2_distance(T="f64"), scale)',
        "    draw = lambda n: np.random.default_rng(list(os.urandom(2))).normal(0, scale, n)\n"
        "    return lambda whole: [m + round(b) for m, b in zip(whole, draw(len(whole)), strict=True)]",
        ("noise/test_secure.py",),
        SHORT,
    ),
    Mutant(
        "noise",
        "a second value under one release gets its noise unpaid",
        "noise/planned.py",
        "            if drawn.is_private_release:\n                self._check_paid(slot, k, agents, planned)\n"
        "            self._drawn",
        "            self._drawn",
        ("noise/test_plan.py", "noise/test_plan_attacks.py"),
        "no method of the package asks for a second value",
    ),
)

ALGORITHMS = (
    Mutant(
        "algorithms",
        "whether a solve of a release fails depends on the records",
        "engines/local.py",
        "threads, is_release=self.is_release)",
        "threads)",
        ("engines/test_private.py", "-k", "public_numbers"),
        "an audit attacks runs that end; extreme records are for tests",
    ),
    Mutant(
        "algorithms",
        "P-ADMM: the dual remembers models without noise",
        "algorithms/decentralised.py",
        "return state._replace(a=dual_step(self.eta, agents, state.a, state.x, inbox))",
        "return state._replace(a=dual_step(self.eta, agents, state.a, state.guess, inbox))",
        ("algorithms/test_p_admm.py",),
        ("p-admm", *FEW),
    ),
    Mutant(
        "algorithms",
        "P-ADMM: an agent goes on from its own model without noise",
        "algorithms/decentralised.py",
        "x = penalised_minimiser(self.eta, agents, state.x, inbox, lin=state.a, start=state.guess)",
        "x = penalised_minimiser(self.eta, agents, state.guess, inbox, lin=state.a, start=state.guess)",
        ("algorithms/test_p_admm.py",),
        ("p-admm", *FEW),
    ),
    Mutant(
        "algorithms",
        "P-ADMM: the published model lacks the last noise",
        "algorithms/decentralised.py",
        "        return state.x.mean(axis=0)\n",
        "        return state.guess.mean(axis=0)\n",
        ("algorithms/test_p_admm.py",),
        ("p-admm", *FEW),
    ),
    Mutant(
        "algorithms",
        "R-ADMM: the even step reads the data again",
        "algorithms/r_admm.py",
        "g = revealed_gradient(eta, agents, state.a, message, state.x, inbox)",
        "g = agents.weights[:, None, None] * agents.functions.gradient(message)",
        ("algorithms/test_r_admm.py",),
        ("r-admm", *FEW),
    ),
    Mutant(
        "algorithms",
        "consensus: the broadcast leaves without its noise",
        "algorithms/consensus_dp.py",
        "return noise.perturb(BROADCAST, k, np.array([COORDINATOR]), z)",
        "return (noise.perturb(BROADCAST, k, np.array([COORDINATOR]), z), z)[1]",
        ("algorithms/test_consensus_dp.py",),
        ("consensus", *FEW),
    ),
    Mutant(
        "algorithms",
        "noisy gradients: half of the step follows the sum without noise",
        "algorithms/noisy_gradients.py",
        "y - self.step * noise.total(BROADCAST, k, messages), self.step)",
        "y - self.step * (noise.total(BROADCAST, k, messages) + messages.sum(axis=0, keepdims=True)) / 2, self.step)",
        ("algorithms/test_noisy_gradients.py",),
        ("noisy-gradients", *FEW),
    ),
    Mutant(
        "algorithms",
        "DP-SGD: the batch of the first round serves all rounds",
        "algorithms/batches.py",
        "stream = (np.uint64(when.round), index,",
        "stream = (np.uint64(1), index,",
        ("algorithms/test_batches.py",),
        ("dp-sgd", *FEW),
    ),
    Mutant(
        "algorithms",
        "batches: sums are divided by half of the expected size",
        "algorithms/batches.py",
        "return (agents.weights / batches.size)[:, None, None] * sums",
        "return (2 * agents.weights / batches.size)[:, None, None] * sums",
        ("algorithms/test_batches.py",),
        ("dp-sgd", *FEW),
    ),
)

LEDGER = (
    Mutant(
        "ledger",
        "a run is not recorded",
        "engines/private.py",
        "receipts = tuple(_reserve(books, everything, label, name))",
        "receipts = ()",
        ("estimators/test_ledger.py",),
        BOOKS,
    ),
    Mutant(
        "ledger",
        "only the dearest release counts",
        "privacy/ledger/spending.py",
        "            self.squares += square\n",
        "            self.squares = max(self.squares, square)\n",
        ("privacy/ledger/test_spending.py",),
        BOOKS,
    ),
    Mutant(
        "ledger",
        "an older copy of the file passes for the file",
        "privacy/ledger/history.py",
        "if entry is None or entry.digest != anchor[1]:",
        "if entry is not None and entry.digest != anchor[1]:",
        ("privacy/ledger/test_files.py",),
        BOOKS,
    ),
    Mutant(
        "ledger",
        "a writer does not read what others wrote before it",
        "privacy/ledger/history.py",
        "                self._refresh()\n                self._check_anchor()\n",
        "                self._check_anchor()\n",
        ("privacy/ledger/test_reserve.py",),
        BOOKS,
    ),
    Mutant(
        "ledger",
        "simulated noise is recorded as a release",
        "privacy/ledger/confirmed.py",
        "if Origin(origin) is not Origin.SECURE:",
        "if Origin(origin) is Origin.NONE:",
        ("privacy/ledger/test_reserve.py",),
        BOOKS,
    ),
    Mutant(
        "ledger",
        "planned noise that was never drawn goes unnoticed",
        "engines/private.py",
        "        hook.check_drawn()\n        done.append(",
        "        done.append(",
        ("engines/test_private.py", "-k", "never_drawn"),
        BOOKS,
    ),
)

ESTIMATORS = (
    Mutant(
        "estimators",
        "history_ shows messages as they were before noise",
        "engines/witness.py",
        "return self._seen(slot, k, self._hook.perturb(slot, k, agents, values))",
        "return (self._hook.perturb(slot, k, agents, values), self._seen(slot, k, values))[0]",
        ("engines/test_private.py", "-k", "history"),
        PRODUCT,
    ),
    Mutant(
        "estimators",
        "secure noise comes from a fixed seed",
        "engines/private.py",
        'masks = masks_of(course.shares, f"{name}, problem {number}") if is_secure else None\n'
        "        hook = PlannedNoise(planned, _apart(sampler, number), engine.replicas, masks)",
        'masks = masks_of(course.shares, f"{name}, problem {number}") if is_secure else None\n'
        "        hook = PlannedNoise(planned, _apart(SimulatedSampler(1), number), engine.replicas, masks)",
        ("engines/test_private.py",),
        PRODUCT,
    ),
    Mutant(
        "estimators",
        "a private metric counts one record of a person who has several",
        "estimators/metrics.py",
        "records_per_person=asked.protection.records_per_person,\n        silos",
        "records_per_person=1,\n        silos",
        ("estimators/test_metrics.py",),
        "metrics are one release each, which tests compare with C10",
    ),
    Mutant(
        "estimators",
        "a private metric counts one silo of a person who is in several",
        "estimators/metrics.py",
        "        silos_per_person=asked.protection.silos_per_person,\n",
        "",
        ("estimators/test_metrics.py",),
        "metrics are one release each, which tests compare with C10",
    ),
    Mutant(
        "estimators",
        "problems of pure methods share a budget as if costs added up in squares",
        "planning/planner.py",
        "if is_simple or made.statement().curve.epsilon(task.target.delta) <= task.target.epsilon * (1 + _ROUNDING):",
        "if True:",
        ("planning/test_planner.py", "-k", "several_problems"),
        "what the statement says stays true: it is the user's wish that is not met",
    ),
)

PROFILE = (
    Mutant(
        "profile",
        "C11: a record leaves its bin, and enters none",
        "privacy/certificates/profile.py",
        "bound=changed * math.sqrt(2 * squared if is_replaced else squared),",
        "bound=changed * math.sqrt(squared),",
        ("privacy/certificates/test_profile.py",),
        ("column-profile", *FEW),
    ),
    Mutant(
        "profile",
        "C11: a person has one record, whatever is stated",
        "privacy/certificates/profile.py",
        "records, silos = protection.records_per_person if is_record else 1, protection.silos_per_person",
        "records, silos = 1, protection.silos_per_person",
        ("privacy/certificates/test_profile.py",),
        ("column-profile", *FEW),
    ),
)

AGGREGATE = ("noisy-gradients", "--view", "aggregate", *FEW)
MASKS = (
    Mutant(
        "masks",
        "C12: one mask serves all rounds",
        "noise/masks.py",
        "slot.encode(), str(k).encode(), str(size)",
        'slot.encode(), b"1", str(size)',
        ("noise/test_masks.py",),
        AGGREGATE,
    ),
    Mutant(
        "masks",
        "C12: mask keys come from 16 bits of entropy",
        "noise/masks.py",
        "        return cls(X25519PrivateKey.generate())",
        "        import secrets\n\n"
        "        return cls(X25519PrivateKey.from_private_bytes(hashlib.sha256(secrets.token_bytes(2)).digest()))",
        ("noise/test_masks.py",),
        SHORT,
    ),
    Mutant(
        "masks",
        "C12: words leave without masks",
        "noise/sums.py",
        "return sum_words([words, masks.words(slot, k, words.size)])",
        "return words",
        ("noise/test_sums.py", "noise/test_masks.py", "noise/test_shares.py"),
        AGGREGATE,
    ),
    Mutant(
        "masks",
        "C12: shares count on colluders' noise",
        "privacy/records.py",
        "return self.noise_std / math.sqrt(self.honest)",
        "return self.noise_std / math.sqrt(self.silos)",
        ("privacy/test_aggregate.py", "noise/test_shares.py", "privacy/certificates/test_masked.py"),
        AGGREGATE,
    ),
)

FEDERATION = (
    Mutant(
        "federation",
        "a silo joins terms that its owner has not approved",
        "engines/federation/run_store.py",
        "        if found is None:\n            raise NotApproved(",
        "        if found is not None and not found:\n            raise NotApproved(",
        ("engines/federation/test_refusals.py",),
        WIRE,
    ),
    Mutant(
        "federation",
        "a silo draws again for a round that it has answered",
        "engines/federation/silo.py",
        "                reply = self._answers.find(request, asked)\n                if reply is None:\n"
        "                    self._reserve",
        "                reply = None\n                if reply is None:\n                    self._reserve",
        ("engines/federation/test_refusals.py", "engines/federation/test_attacks_review.py"),
        WIRE,
    ),
    Mutant(
        "federation",
        "a silo answers before its ledger is charged",
        "engines/federation/silo.py",
        "                    self._reserve(confirmed, terms, agent, request.round)\n",
        "",
        ("engines/federation/test_refusals.py", "engines/federation/test_attacks_review.py"),
        WIRE,
    ),
    Mutant(
        "federation",
        "batches of a release are drawn from the seed in the terms",
        "engines/federation/step.py",
        "        algorithm = algorithm.with_secret(secret)\n",
        "        pass\n",
        ("engines/federation/test_secret_batches.py",),
        WIRE,
    ),
    Mutant(
        "federation",
        "a silo's batches come from 16 bits of entropy",
        "engines/federation/run_store.py",
        "secrets.token_hex(16)",
        "secrets.token_hex(2)",
        ("engines/federation/test_secret_batches.py",),
        WIRE,
    ),
    Mutant(
        "federation",
        "an answer that an older ledger has not paid for is marked as it is",
        "engines/federation/answer_store.py",
        "if paid is None or paid < k:",
        "if paid is None:",
        ("engines/federation/test_older_copies.py", "-k", "not_marked"),
        WIRE,
    ),
    Mutant(
        "federation",
        "what a person spent in several silos before one left counts once",
        "engines/federation/terms.py",
        "silos = 1 if self.course.is_pooled else terms.silos_per_person",
        "silos = 1",
        ("engines/federation/test_missing.py", "-k", "every_silo"),
        WIRE,
    ),
    Mutant(
        "federation",
        "a silo answers rounds in any order",
        "engines/federation/silo.py",
        "        if k != due:\n",
        "        if due is None:\n",
        ("engines/federation/test_refusals.py",),
        WIRE,
    ),
)

MUTANTS = (*CERTIFICATES, *NOISE, *ALGORITHMS, *LEDGER, *ESTIMATORS, *PROFILE, *MASKS, *FEDERATION)

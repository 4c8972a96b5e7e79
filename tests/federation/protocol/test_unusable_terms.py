"""Terms that contradict themselves, or that a silo's owner or its own facts rule out: refused wherever they come from.

Whether an owner approves them, or a signed invitation brings them after they were approved somehow: nothing is spent.
"""

import json
from dataclasses import replace

import pytest

from dpadmm.codec import decode, encode
from dpadmm.errors import InputError
from dpadmm.federation.errors import Refusal
from dpadmm.federation.policy import MOST_ROUNDS
from dpadmm.federation.terms import MOST_RELEASES, NoiseOrigin, Terms, read_federation, stored_terms, write_federation
from dpadmm.privacy.protection import NeighbouringRelation, View
from dpadmm.problems.losses import Huber

ADDED, INFINITE, NAN = NeighbouringRelation.ADD_OR_REMOVE, float("inf"), float("nan")
MASKED = {"method": "noisy-gradients", "settings": [["step", 0.5]], "edges": [], "protection": {"view": "aggregate"}}
SAMPLED = [["rho", 0.3], ["step", 0.3], ["inner_steps", 3.0], ["batch", 5.0]]
COUNTED = {"clip_radius": 0.6}
PROFILE = {"share": 0.2, "n_numeric": 3, "n_categorical": 0, "size": 96}
SOFTMAX = {"loss": {"kind": "Softmax", "n_classes": 3}, "dimension": 9}
CROWD = [{"name": f"p{i}", "records": 5, "key": f"{i:064x}"} for i in range(50)]


def counted(**change):
    return COUNTED | {"profile": PROFILE | change}


UNUSABLE = {
    # one number or text alone
    "no rounds": ({"rounds": 0}, "rounds must be"),
    "a negative epsilon": ({"epsilon": -1}, "epsilon must be"),
    "no epsilon": ({"epsilon": NAN}, "NaN"),
    "a tiny epsilon": ({"epsilon": 5e-324}, "epsilon must be"),
    "a delta of 1": ({"delta": 1.0}, "delta must be"),
    "a negative slope": ({"tail_power": -0.1}, "tail_power must be"),
    "a huge dimension": ({"dimension": 10**18}, "dimension must be"),
    "a huge norm": ({"row_norm": 1e308}, "row_norm must be"),
    "a huge penalty": ({"penalty": {"l1": 1e300}}, "l1"),
    "too many rounds": ({"rounds": 10**6 + 1}, "rounds must be"),
    "no key": ({"coordinator": "abc"}, "64 hex digits"),
    "no schema": ({"schema": "x"}, "64 hex digits"),
    "unknown noise": ({"noise": "loud"}, "noise"),
    "an unknown field": ({"unknown": 1}, "unknown"),
    "deep": ({"left": [[[[[[]]]]]]}, "left"),
    "no loss": ({"loss": NAN}, "loss"),
    "a loss that is not released": ({"loss": {"kind": "Squared"}}, "loss"),
    "a cap above 1": ({"loss": {"kind": "Logistic", "cap": 1.5}}, "cap"),
    "nobody": ({"participants": []}, "from 2 to"),
    "an edge to nobody": ({"edges": [[0, 9]]}, "edges"),
    "an edge to nowhere": ({"edges": [[0, INFINITE]]}, "edges"),
    "a trusted coordinator": ({"protection": {"view": "public"}}, "protection must be"),
    "persons": ({"protection": {"unit": "person"}}, "protection must be"),
    "colluders without masks": ({"protection": {"view": "eavesdropper", "colluders": 1}}, "colluders apply only"),
    # what does not fit together
    "no method": ({"method": "nonsense"}, "method must be one of"),
    "another's settings": ({"settings": [["rho", 1.0]]}, "takes the settings eta"),
    "no delta": ({"delta": 0.0}, "needs a delta above 0"),
    "silos apart": ({"edges": [[0, 1]]}, "connected"),
    "a penalty it cannot have": ({"method": "dvp", "delta": 0.0, "penalty": {"l1": 0.1}}, "ridge regulariser"),
    "no such slope": ({"tail_power": 1.5}, "power"),
    "too long to plan": ({"rounds": MOST_RELEASES // 3 + 1}, "more than the"),
    "more than memory holds": ({"participants": CROWD, "dimension": 2**22}, "fit into memory"),
    "classes that share no vector": (SOFTMAX | {"dimension": 10}, "multiple of the 3 classes"),
    "classes without a certificate": (SOFTMAX | {"method": "dvp", "delta": 0.0}, "not certified for softmax"),
    "added records without a certificate": (
        MASKED | {"method": "fp-coordinator", "settings": [["gamma", 1.0]], "protection": {"relation": ADDED.value}},
        "fp-coordinator is not certified for add-or-remove",
    ),
    # weights of classes
    "a class above 1": ({"class_weights": [1.0, 1.5]}, "the largest exactly 1"),
    "no class of 1": ({"class_weights": [0.5, 0.5]}, "the largest exactly 1"),
    "a class of nothing": ({"class_weights": [1.0, 0.0]}, "above 0"),
    "a negative class": ({"class_weights": [1.0, -1.0]}, "above 0"),
    "a class of no number": ({"class_weights": [1.0, NAN]}, "NaN"),
    "one class": ({"class_weights": [1.0]}, "one for each of 2 classes, got 1"),
    "three classes": ({"class_weights": [1.0, 0.5, 0.5]}, "one for each of 2 classes, got 3"),
    "classes of a number": (
        {"class_weights": [1.0, 0.5], "loss": {"kind": "Huber", "threshold": 0.5}},
        "the loss is of a number",
    ),
    "classes in batches": (
        {"class_weights": [1.0, 0.5], "method": "ps-admm", "edges": [], "settings": SAMPLED},
        "all records count the same",
    ),
    # round 0
    "counts without a radius": (counted() | {"clip_radius": 0.0}, "needs a clip_radius above 0"),
    "a negative radius": (counted() | {"clip_radius": -0.5}, "clip_radius"),
    "counts for everything": (counted(share=1.0), "share"),
    "counts for less than nothing": (counted(share=-0.1), "share"),
    "counts of no columns": (counted(n_numeric=0), "needs the n_numeric"),
    "fewer bins than columns": (counted(size=5), "needs the n_numeric"),
    "counts that no message holds": (counted(size=2**21), "fit into a message"),
    "counts beside Laplace noise": (counted() | {"method": "dvp", "delta": 0.0}, "plain Gaussian noise"),
    "counts beside batches": (
        counted() | {"method": "ps-admm", "settings": SAMPLED, "edges": []},
        "plain Gaussian noise",
    ),
    # masks
    "masks on a graph": (
        MASKED | {"method": "p-admm", "settings": [["eta", 0.05]], "edges": [[0, 1], [1, 2]]},
        "one by one",
    ),
    "masks for some": (MASKED | {"method": "fp-federated", "settings": [["gamma", 1.0]]}, "one by one"),
    "masks without a grid": (
        MASKED | {"method": "consensus", "settings": [["rho", 0.3]], "delta": 0.0},
        "one by one",
    ),
    "two colluders of three": (MASKED | {"protection": {"view": "aggregate", "colluders": 2}}, "at least 4 silos"),
    "negative colluders": (MASKED | {"protection": {"view": "aggregate", "colluders": -1}}, "colluders"),
}
"""By what is wrong: the fields as they would be sent, and what is said of them."""


@pytest.fixture(scope="module")
def worlds(setups, template, masked_template, tmp_path_factory):
    """Silos on a path, under masks, and with a coordinator that is trusted; nothing that is refused changes them."""
    place = tmp_path_factory.mktemp("unusable")
    made = {
        "path": setups.copied(template, place / "path"),
        "masks": setups.copied(masked_template, place / "masks"),
        "bare": setups.make(place / "bare", "fp-coordinator", {"gamma": 1.0}),
    }
    yield made
    for world in made.values():
        setups.closed(world)


@pytest.mark.parametrize(("change", "text"), UNUSABLE.values(), ids=UNUSABLE)
def test_terms_that_contradict_themselves(worlds, change, text):
    world = worlds["path"]
    plain = encode(world.terms) | change
    with pytest.raises(InputError, match=text):
        decode(Terms, json.loads(json.dumps(plain))).check()
    world.refuses(world.forged(plain), "")


def with_records(world, number):
    return {"participants": (replace(world.terms.participants[0], records=number), *world.terms.participants[1:])}


def with_columns(setups, **change):
    return setups.COUNTED | {"profile": replace(setups.COUNTED["profile"], **change)}


KEPT = {
    "as they are": {},
    "weights": {"class_weights": (1, 0.5)},
    "other weights": {"class_weights": (0.5, 1.0)},
    "a radius": {"clip_radius": 0.6},
    "counts": lambda s: s.COUNTED,
    "another loss": {"loss": Huber(0.3)},
    "masks": lambda s: s.MASKED,
    "masks without colluders": lambda s: s.MASKED | {"colluders": 0},
    "added records": {"relation": ADDED},
    "a name in another script": {"run": "\N{GRINNING FACE}"},
}


def test_terms_are_read_as_they_were_written(setups, worlds, tmp_path):
    """From the federation file and from the files of silos; and other terms have another digest."""
    digests = set()
    for change in KEPT.values():
        terms = setups.changed(worlds["path"].terms, **(change(setups) if callable(change) else change))
        write_federation(tmp_path / "federation.toml", terms)
        assert read_federation(tmp_path / "federation.toml") == stored_terms(terms.as_json()) == terms
        assert read_federation(tmp_path / "federation.toml").digest == stored_terms(terms.as_json()).digest
        digests.add(terms.digest)
    assert len(digests) == len(KEPT)
    assert setups.changed(worlds["path"].terms, **setups.MASKED).protection.colluders == 1  # unless it is said


NOT_ALLOWED = {
    # which, terms, rules, what is said
    "more records, so less noise": ("path", lambda w, s: with_records(w, 6000), {}, "not the number it holds"),
    "another schema": ("path", {"schema": "0" * 64}, {}, "a different schema"),
    "rows of another norm": ("path", {"row_norm": 0.5}, {}, "a different schema"),
    "another dimension": ("path", {"dimension": 4}, {}, "a different schema"),
    "fewer columns, so less noise": ("path", lambda w, s: with_columns(s, n_numeric=2), {}, "different columns"),
    "fewer bins": ("path", lambda w, s: with_columns(s, size=62), {}, "different columns"),
    "one more category": ("path", lambda w, s: with_columns(s, n_categorical=1), {}, "different columns"),
    "another method": ("path", {}, {"methods": ("fp-walk",)}, "does not allow the method"),
    "too little noise": ("path", {}, {"least_noise": 1e6}, "times the sensitivity"),
    "another coordinator": ("path", {}, {"coordinators": ("00" * 32,)}, "does not work with the coordinator"),
    "fewer of a person's records": ("path", {}, {"records_per_person": 2}, "records_per_person to be at least 2"),
    "fewer of a person's silos": ("path", {}, {"silos_per_person": 2}, "silos_per_person to be at least 2"),
    "more rounds than usual": ("path", {"rounds": MOST_ROUNDS + 1}, {}, f"at most {MOST_ROUNDS} rounds"),
    "more rounds than allowed": ("path", {}, {"most_rounds": 3}, "at most 3 rounds"),
    "secure noise in a rehearsal": ("path", {"noise": NoiseOrigin.SECURE}, {}, "works with test noise only"),
    "bare messages": ("bare", {}, {"view": View.EAVESDROPPER}, "messages without noise to the coordinator"),
    "masks taken off": ("masks", {"view": View.EAVESDROPPER}, {}, "messages without noise to the coordinator"),
    "fewer colluders than feared": ("masks", {}, {"colluders": 2}, "colluders to be at least 2, got 1"),
    "no colluders": ("masks", {"colluders": 0}, {}, "colluders to be at least 1, got 0"),
    "too little noise under masks": ("masks", {}, {"least_noise": 1e6}, "times the sensitivity"),
    "added records": ("masks", {"relation": ADDED}, {}, "replace-one neighbours only"),
    "replaced records": ("masks", {}, {"relation": ADDED}, "add-or-remove neighbours only"),
}


@pytest.mark.parametrize("name", NOT_ALLOWED)
def test_terms_that_a_silo_does_not_allow(setups, worlds, name):
    """Neither now nor, the rules being tightened later, when it is invited to them."""
    kind, change, rules, text = NOT_ALLOWED[name]
    world = worlds[kind]
    silo, policy = world.first, world.first.files.policy
    terms = setups.changed(world.terms, run=name, **(change(world, setups) if callable(change) else change))
    before = policy.read_text()
    setups.changed(silo.policy, **rules).save(policy)
    with pytest.raises(Refusal, match=text):
        silo.approve(terms)
    world.refuses(world.invite(terms), "not been approved")
    silo.store.approve(terms)  # however they came to be approved
    world.refuses(world.invite(terms), text)
    policy.write_text(before)
    silo._load_policy()

"""Saved models come back bit for bit; anything else is refused in words, and nothing in a file is ever executed."""

import errno
import io
import json
import os
import pickle
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpadmm.codec import decode, encode
from dpadmm.core.model import ReleasedModel
from dpadmm.errors import InputError
from dpadmm.models import files
from dpadmm.models.files import check_writable


@pytest.mark.parametrize("name", ["m.json", "m.npz"])
def test_a_model_comes_back_as_it_was(model, tmp_path, name):
    place = model.save(tmp_path / name)
    assert place == tmp_path / name
    assert ReleasedModel.load(place) == model
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_an_infinite_epsilon_is_a_number(model, tmp_path):
    unbounded = replace(model, guarantee=replace(model.guarantee, epsilon=float("inf")))
    assert ReleasedModel.load(unbounded.save(tmp_path / "m.json")) == unbounded


@pytest.mark.parametrize("name", ["m.json", "m.npz"])
def test_a_paid_model_is_not_lost_to_a_term_that_is_no_text(model, tmp_path, name):
    strange = replace(model, title="north \udcff")
    assert ReleasedModel.load(strange.save(tmp_path / name)) == strange


class Bomb:
    """A pickle that would write a file when opened."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self):
        return Path.touch, (self.place,)


@pytest.mark.parametrize("name", ["m.json", "m.npz"])
@pytest.mark.parametrize("protocol", [0, 4])
def test_pickles_are_refused_and_not_opened(tmp_path, name, protocol):
    (tmp_path / name).write_bytes(pickle.dumps(Bomb(tmp_path / "hit"), protocol=protocol))
    with pytest.raises(InputError):
        ReleasedModel.load(tmp_path / name)
    assert not (tmp_path / "hit").exists()


def test_a_pickle_inside_an_archive_is_not_opened(model, tmp_path):
    place = tmp_path / "m.npz"
    buffer = io.BytesIO()
    np.save(buffer, np.array([Bomb(tmp_path / "hit")], dtype=object), allow_pickle=True)
    model.save(place)
    with zipfile.ZipFile(place) as archive:
        document = archive.read("document.npy")
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("document.npy", document)
        archive.writestr("coefficients.npy", buffer.getvalue())
    with pytest.raises(InputError):
        ReleasedModel.load(place)
    assert not (tmp_path / "hit").exists()


def test_swapped_coefficients_of_an_archive_are_noticed(model, tmp_path):
    one, two = model.save(tmp_path / "a.npz"), tmp_path / "b.npz"
    with np.load(one) as archive:
        np.savez(two, document=archive["document"], coefficients=archive["coefficients"] + 1)
    with pytest.raises(InputError):
        ReleasedModel.load(two)


@pytest.mark.parametrize("name", ["m.json", "m.npz"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_truncated_files_are_refused(model, tmp_path, name, share):
    place = model.save(tmp_path / name)
    content = place.read_bytes()
    place.write_bytes(content[: int(share * len(content))])
    with pytest.raises(InputError):
        ReleasedModel.load(place)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    content=st.binary(max_size=300),
    suffix=st.sampled_from([".json", ".npz"]),
    head=st.sampled_from([b"", b"PK\x03\x04", b"{"]),
)
def test_any_bytes_give_a_message_of_ours(tmp_path_factory, content, suffix, head):
    place = tmp_path_factory.mktemp("fuzz") / f"m{suffix}"
    place.write_bytes(head + content)
    with pytest.raises(InputError, match=r"fuzz.*m\.(json|npz)"):
        ReleasedModel.load(place)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_a_document_with_other_types_is_refused_even_with_a_right_digest(model_document, data):
    """Replace one value somewhere by something of another type, sign it again, and load."""
    document = json.loads(model_document)
    node, key = document, None
    while isinstance(node, dict | list) and len(node):
        parent = node
        key = data.draw(st.sampled_from(sorted(node)) if isinstance(node, dict) else st.integers(0, len(node) - 1))
        node = parent[key]
    parent[key] = {"strange": 1} if not isinstance(node, dict) else "strange"
    content = files.sign_facts(document)
    try:
        loaded = decode(ReleasedModel, files.check_facts(Path("m.json"), content), "m.json")
    except InputError:
        return
    pytest.fail(f"accepted a strange value: {loaded}")


@pytest.fixture(scope="session")
def model_document(model) -> str:
    return json.dumps(encode(model))


def test_missing_files_and_wrong_endings(model, tmp_path):
    with pytest.raises(InputError):
        ReleasedModel.load(tmp_path / "none.json")
    for name in ("m.pkl", "m", "m.joblib"):
        with pytest.raises(InputError, match=r"\.npz"):
            model.save(tmp_path / name)


def test_coefficients_must_fit_the_schema(model, tmp_path):
    with pytest.raises(InputError, match="1 coefficients"):
        replace(model, coefficients=(1.0,))
    place = tmp_path / "m.json"
    place.write_bytes(files.sign_facts(encode(model) | {"coefficients": [1.0]}))
    with pytest.raises(InputError, match=r"m\.json.*coefficients"):
        ReleasedModel.load(place)


def test_places_are_tried_before_anything_is_spent(tmp_path, monkeypatch):
    taken = tmp_path / "taken.json"
    taken.write_text("{}")
    for place, message in (
        (taken, "exists already"),
        (tmp_path / "no" / "m.json", "does not exist"),
    ):
        with pytest.raises(InputError, match=message):
            check_writable(place)
    check_writable(taken, may_replace=True)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space"):
        check_writable(tmp_path / "m.json")
    assert [each.name for each in tmp_path.iterdir()] == ["taken.json"]


def test_a_model_that_is_paid_for_is_kept_elsewhere_if_its_place_is_gone(model, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    place = model.save(tmp_path / "gone" / "m.json")
    assert place.parent == tmp_path
    assert place.suffix == ".json"
    assert ReleasedModel.load(place) == model


def test_a_failed_write_leaves_the_old_file(model, tmp_path, monkeypatch):
    place = model.save(tmp_path / "m.json")
    before = place.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "no")))
    with pytest.raises(OSError, match="no"):
        files.write_file(place, b"new")
    assert place.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["m.json"]

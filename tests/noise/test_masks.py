"""Masks: they add up to nothing, look like nothing, and never serve twice. References are written out by hand."""

import hashlib
import hmac
import struct

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from dpadmm.noise.masks import MaskKey, PairwiseMasks, pairwise_masks, sum_uint64

KEYS = [MaskKey.of(hashlib.sha256(f"test key {i}".encode()).digest()) for i in range(12)]


def masks_of(n_silos, run=b"run", keys=KEYS):
    publics = [key.public for key in keys[:n_silos]]
    return [PairwiseMasks.of(agent, keys[agent], publics, run) for agent in range(n_silos)]


def hkdf_sha256(secret, salt, info, length):
    """RFC 5869."""
    extracted = hmac.new(salt, secret, hashlib.sha256).digest()
    out, block = b"", b""
    for i in range(1, -(-length // 32) + 1):
        block = hmac.new(extracted, block + info + bytes([i]), hashlib.sha256).digest()
        out += block
    return out[:length]


def chacha20_stream(key, counter, nonce, length):
    """RFC 8439, section 2.4, on zeros."""
    out = b""
    while len(out) < length:
        out += chacha20_block(key, counter, nonce)
        counter += 1
    return out[:length]


def chacha20_block(key, counter, nonce):
    start = [*struct.unpack("<4I", b"expand 32-byte k"), *struct.unpack("<8I", key), counter]
    start += struct.unpack("<3I", nonce)
    x = list(start)

    def turn(value, by):
        return (value << by | value >> (32 - by)) & 0xFFFFFFFF

    def quarter(a, b, c, d):
        for first, second, third, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[first] = (x[first] + x[second]) & 0xFFFFFFFF
            x[third] = turn(x[third] ^ x[first], by)

    for _ in range(10):
        for i in range(4):
            quarter(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return struct.pack("<16I", *((a + b) & 0xFFFFFFFF for a, b in zip(x, start, strict=True)))


class TestReferences:
    """The references themselves, against the RFCs' own examples."""

    def test_hkdf(self):
        """RFC 5869, test case 1."""
        found = hkdf_sha256(
            bytes([0x0B] * 22), bytes.fromhex("000102030405060708090a0b0c"), bytes.fromhex("f0f1f2f3f4f5f6f7f8f9"), 42
        )
        assert found.hex() == ("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865")

    def test_chacha20(self):
        """RFC 8439, section 2.3.2."""
        block = chacha20_block(bytes(range(32)), 1, bytes.fromhex("000000090000004a00000000"))
        assert block.hex() == (
            "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
            "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
        )

    def test_one_vector_by_hand(self):
        """Of the three masks of silo 1 among four, the first is subtracted and the others are added."""
        publics = [key.public for key in KEYS[:4]]
        context = hashlib.sha256(b"\n".join([b"4", b"run", *(key.encode() for key in publics)])).digest()
        expected = np.zeros(20, dtype=np.uint64)
        for other, sign in ((0, -1), (2, 1), (3, 1)):
            low, high = sorted((1, other))
            info = b"dpadmm masked sum, version 1\n%d %d\nslot\n7\n20" % (low, high)
            key = hkdf_sha256(KEYS[1].shared_with(publics[other]), context, info, 32)
            stream = np.array(struct.unpack("<20Q", chacha20_stream(key, 0, bytes(12), 160)), dtype=np.uint64)
            expected = expected + stream if sign > 0 else expected - stream
        assert np.array_equal(masks_of(4)[1].values("slot", 7, 20), expected)


class TestSumsToNothing:
    @settings(deadline=None, derandomize=True, max_examples=40)
    @given(st.integers(2, 12), st.integers(1, 200), st.integers(0, 10**6), st.sampled_from(["a", "profile"]))
    def test_over_all_silos(self, n_silos, size, k, kind):
        parts = [masks.values(kind, k, size) for masks in masks_of(n_silos)]
        assert not sum_uint64(parts).any()
        for hidden in range(n_silos):  # and over no fewer
            assert np.count_nonzero(sum_uint64(parts[:hidden] + parts[hidden + 1 :])) >= size - 1

    def test_with_keys_made_for_one_process(self):
        first, again = pairwise_masks(5, b"run"), pairwise_masks(5, b"run")
        parts = [masks.values("slot", 1, 50) for masks in first]
        assert not sum_uint64(parts).any()
        assert not np.any(parts[0] == again[0].values("slot", 1, 50))


class TestNeverServesTwice:
    def test_every_name_makes_a_difference(self):
        """MessageKind, round, size, run, and who takes part: no word is shared between any two of them."""
        usual, places = masks_of(4)[0], (("a", 1, 40), ("b", 1, 40), ("a", 2, 40), ("a", 1, 41), ("a\n1", 1, 40))
        found = [usual.values(*place) for place in places]
        found += [masks.values("a", 1, 40) for masks in (masks_of(4, b"other run")[0], masks_of(5)[0], masks_of(3)[0])]
        found += [masks.values("a", 1, 40) for masks in masks_of(4)[1:]]
        texts = np.concatenate(found)
        assert np.unique(texts).size == texts.size

    def test_the_same_name_gives_the_same_texts(self):
        """A silo that starts again from its stored key answers bit for bit."""
        stored = MaskKey.of(KEYS[0].secret)
        again = PairwiseMasks.of(0, stored, [key.public for key in KEYS[:4]], b"run")
        assert np.array_equal(again.values("a", 1, 9), masks_of(4)[0].values("a", 1, 9))

    def test_a_run_name_cannot_pass_for_keys(self):
        publics = [key.public for key in KEYS[:3]]
        one = PairwiseMasks.of(1, KEYS[1], publics, b"run")
        other = PairwiseMasks.of(0, KEYS[1], publics[1:], f"run\n{publics[0]}".encode())
        assert one.context != other.context

    def test_equal_secrets_give_different_masks(self):
        """A silo with a key that is worth somebody else's must not make a third one's two masks cancel."""
        twice = PairwiseMasks(1, (b"s" * 32, None, b"s" * 32), b"context")
        assert twice.values("a", 1, 50).all()
        assert PairwiseMasks(0, (None, b"s" * 32), b"context").values("a", 1, 50).all()


class TestLooksUniform:
    def test_chi_square(self):
        """Of all bytes of masks, and of small values under them; false alarms: 1e-6 each, and keys are fixed."""
        masks = masks_of(5)[2]
        alone = np.concatenate([masks.values("a", k, 2000) for k in range(5)])
        hidden = alone + np.arange(10_000, dtype=np.uint64) % np.uint64(7)
        for texts in (alone, hidden):
            for byte in range(8):
                counts = np.bincount(texts.view(np.uint8)[byte::8], minlength=256)
                expected = texts.size / 256
                assert np.sum((counts - expected) ** 2) / expected < chi2.isf(1e-6, 255)

    def test_masks_of_different_silos_are_not_correlated(self):
        one, other = (masks.values("a", 1, 20_000).view(np.int64) / 2.0**63 for masks in masks_of(5)[:2])
        assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(20_000)


class TestKeys:
    def test_keys_are_made_by_the_library(self, monkeypatch):
        """A key of a short seed looks as right and can be guessed."""
        known = X25519PrivateKey.from_private_bytes(bytes(range(32)))
        monkeypatch.setattr(X25519PrivateKey, "generate", lambda: known)
        assert MaskKey.create().secret == bytes(range(32))

    def test_nothing_secret_is_printed(self):
        (masks, *_) = masks_of(3)
        for shown in (repr(KEYS[0]), repr(masks)):
            assert KEYS[0].secret.hex() not in shown
            assert not any(secret and (secret.hex() in shown or repr(secret) in shown) for secret in masks.secrets)

    def test_both_sides_of_a_pair_agree(self):
        assert KEYS[0].shared_with(KEYS[1].public) == KEYS[1].shared_with(KEYS[0].public)
        assert len(KEYS[0].shared_with(KEYS[1].public)) == 32

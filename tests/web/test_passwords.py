"""Whoever is not known is refused like whoever forgot the password: as slowly, and after the same computation."""

from __future__ import annotations

import pytest
from argon2 import extract_parameters
from argon2.exceptions import VerifyMismatchError

from steelyard.web.passwords import Passwords


def test_nobodys_hash_costs_what_a_real_one_costs_and_fits_no_password() -> None:
    passwords = Passwords()
    assert extract_parameters(passwords._nobody) == extract_parameters(passwords.hash("a long password"))
    with pytest.raises(VerifyMismatchError):  # computed and compared, not refused as malformed
        passwords._hasher.verify(passwords._nobody, "guess")
    assert not passwords.verify(None, "guess")
    assert Passwords()._nobody != passwords._nobody

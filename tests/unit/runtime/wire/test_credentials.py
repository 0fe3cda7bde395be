"""What the processes of a generation share."""

from __future__ import annotations

import pickle
import sys

import msgspec
import pytest

from snapline.config import Encryption
from snapline.errors import ConfigurationError
from snapline.runtime.wire.credentials import Credentials, check_encryption, new_credentials


@pytest.mark.parametrize("encryption", Encryption)
def test_each_generation_has_its_own_and_no_log_shows_them(encryption: Encryption) -> None:
    first, second = new_credentials(encryption), new_credentials(encryption)
    assert first.secret != second.secret
    assert len(first.secret) == 32
    assert repr(first) == f"Credentials({encryption.value})"
    assert (first.private_key != second.private_key) is (encryption is Encryption.TLS)
    assert first.certificate.startswith(b"-----BEGIN CERTIFICATE") is (encryption is Encryption.TLS)


def test_they_travel_in_closures_and_pipes() -> None:
    credentials = new_credentials(Encryption.TLS)
    assert pickle.loads(pickle.dumps(credentials)) == credentials
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(credentials), type=Credentials) == credentials


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.x509", None)
    for encryption in (Encryption.NONE, Encryption.MAC):
        check_encryption(encryption)
        new_credentials(encryption)
    for call in (check_encryption, new_credentials):
        with pytest.raises(ConfigurationError, match=r"pip install 'snapline\[tls\]'"):
            call(Encryption.TLS)

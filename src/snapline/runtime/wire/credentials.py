"""What the processes of one generation of slots share, so that they can trust each other and nobody else.

Made by the driver for each generation, and sent only where the job's code is sent: in the closure of the Spark job and
through the pipe to an operator process. It is in no file, environment, command line or log.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from msgspec import Struct

from snapline.config import Encryption
from snapline.errors import ConfigurationError

SECRET_BYTES = 32

_FIRST_DAY, _LAST_DAY = datetime(2000, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
"""A certificate lives as long as its generation. Its dates must not depend on clocks that agree."""


class Credentials(Struct, frozen=True):
    """The secret of a generation; with TLS, also its certificate and private key, in PEM."""

    secret: bytes
    encryption: Encryption
    certificate: bytes = b""
    private_key: bytes = b""

    def __repr__(self) -> str:
        return f"Credentials({self.encryption.value})"  # errors and logs may show it


def check_encryption(encryption: Encryption) -> None:
    """Raises `ConfigurationError` if `new_credentials` would."""
    if encryption is Encryption.TLS:
        try:
            import cryptography.x509  # noqa: F401
        except ImportError as error:
            raise ConfigurationError(
                "encryption='tls' needs the package cryptography on the driver, which makes the certificates: "
                f"pip install 'snapline[tls]' ({error})"
            ) from error


def new_credentials(encryption: Encryption) -> Credentials:
    """Make the credentials of a new generation. Raises `ConfigurationError` if TLS is wanted and its extra missing."""
    secret = secrets.token_bytes(SECRET_BYTES)
    if encryption is not Encryption.TLS:
        return Credentials(secret, encryption)
    check_encryption(encryption)
    certificate, private_key = _self_signed()
    return Credentials(secret, encryption, certificate, private_key)


def _self_signed() -> tuple[bytes, bytes]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "snapline")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_FIRST_DAY)
        .not_valid_after(_LAST_DAY)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private

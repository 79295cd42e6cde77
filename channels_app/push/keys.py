"""The key pair by which push services know this gateway (VAPID, RFC 8292).

Made at the first start of a worker, or when the first person wants notifications. Browsers bind a
subscription to the public key, so it stays for as long as the database does.
"""

from base64 import urlsafe_b64encode

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from core.database.transactions import atomic_write
from core.lib.encryption import decrypt, encrypt
from core.models import Installation

NAME = "vapid"


def private_key() -> ec.EllipticCurvePrivateKey:
    """Return the private key; make it if there is none. Raises DecryptError."""
    known = stored()
    if not known:
        with atomic_write():
            Installation.objects.get_or_create(id=1)
            row = Installation.objects.select_for_update().get(id=1)
            secrets = decrypt(row.secrets)
            if NAME not in secrets:
                sealed = encrypt({**secrets, NAME: made()})
                Installation.objects.filter(id=1).update(secrets=sealed)
        known = stored()
    key = serialization.load_pem_private_key(known.encode(), password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)  # noqa: S101 - as it was made
    return key


def stored() -> str:
    """Return the stored key as PEM; empty for none. Raises DecryptError."""
    sealed = Installation.objects.filter(id=1).values_list("secrets", flat=True).first()
    return decrypt(sealed or "").get(NAME, "")


def made() -> str:
    """Return a new key as PEM."""
    pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return pem.decode()


def public_key() -> str:
    """Return the public key for browsers: an uncompressed point, base64url. Raises DecryptError."""
    point = (
        private_key()
        .public_key()
        .public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
    )
    return urlsafe_b64encode(point).rstrip(b"=").decode()

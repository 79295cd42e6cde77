"""The keys of an installation, encrypted with a passphrase: scrypt (RFC 7914), then Fernet."""

import base64
import json
import os
from pathlib import Path

from cryptography.exceptions import InvalidKey
from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from gateway_project import home
from gateway_project.backups.manifest import BackupError

# 64 MiB and a fifth of a second for each guess.
COST, BLOCK, PARALLEL = 2**16, 8, 1
SALT_BYTES = 16
WRONG = "The passphrase does not open the keys of this backup."


def seal(target: Path, passphrase: str) -> None:
    """Write the keys in GATEWAY_HOME/secrets to ``target``, encrypted."""
    keys = {name: home.read_secret(name) for name in home.SECRET_NAMES}
    salt = os.urandom(SALT_BYTES)
    token = box(passphrase, salt).encrypt(json.dumps(keys).encode())
    sealed = {"salt": base64.b64encode(salt).decode(), "token": token.decode()}
    target.write_text(json.dumps(sealed), encoding="utf-8")


def opened(source: Path, passphrase: str) -> dict[str, str]:
    """Return the keys, by name. Raises BackupError for another passphrase, or a damaged file."""
    try:
        sealed = json.loads(source.read_text(encoding="utf-8"))
        salt = base64.b64decode(sealed["salt"])
        keys: dict[str, str] = json.loads(box(passphrase, salt).decrypt(sealed["token"].encode()))
    except (InvalidToken, InvalidKey) as error:
        raise BackupError(WRONG) from error
    except (OSError, ValueError, KeyError) as error:
        raise BackupError(f"{source} is damaged.") from error
    return {name: keys[name] for name in home.SECRET_NAMES if keys.get(name)}


def box(passphrase: str, salt: bytes) -> Fernet:
    derived = Scrypt(salt=salt, length=32, n=COST, r=BLOCK, p=PARALLEL).derive(passphrase.encode())
    return Fernet(base64.urlsafe_b64encode(derived))

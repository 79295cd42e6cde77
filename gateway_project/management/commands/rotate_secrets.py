"""``manage.py rotate_secrets``: encrypt the credentials of channels and the keys of providers with
the newest key; create new keys.
"""

import os
import secrets
from argparse import ArgumentParser
from typing import Any, TextIO

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from channels_app.ops import credential_rotation
from core.lib.encryption import DecryptError
from gateway_project import home
from gateway_project.processes import preflight

KEY_BYTES = 48


class Command(BaseCommand):
    """Without options: encrypt all credentials and keys of providers with the first key.

    ``--new-keys``, with the gateway stopped: create a new signing and a new encryption key, encrypt
    the credentials with it, and delete the old ones. Users must sign in again, and links that were
    sent end, unless ``--keep-sessions``.
    """

    help = __doc__

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--new-keys", action="store_true", help="make new keys (stop first)")
        parser.add_argument(
            "--keep-sessions",
            action="store_true",
            help="keep accepting the old signing key for sessions and links; not after a leak",
        )

    def handle(self, *_: object, **options: Any) -> None:
        if options["keep_sessions"] and not options["new_keys"]:
            raise CommandError("--keep-sessions goes with --new-keys")
        if options["new_keys"]:
            with while_stopped():
                self.renew_encryption()
                self.renew_signing(keep=options["keep_sessions"])
        else:
            self.encrypt_again()

    def renew_signing(self, *, keep: bool) -> None:
        old = home.read_keys("secret_key")[:1] if keep else []
        home.replace_keys("secret_key", [secrets.token_urlsafe(KEY_BYTES), *old])
        kept = (
            "the old one is still accepted for sessions" if keep else "all users must sign in again"
        )
        self.stdout.write(f"new signing key; {kept}")

    def renew_encryption(self) -> None:
        """Create a new key; at every moment the file holds the key of the database's content.

        Raises CommandError; all is as it was then.
        """
        fresh, old = secrets.token_urlsafe(KEY_BYTES), home.read_keys("encryption_key")
        home.replace_keys("encryption_key", [fresh, *old])
        settings.GATEWAY_ENCRYPTION_KEYS = [fresh, *old]
        try:
            self.encrypt_again()
        except CommandError:
            home.replace_keys("encryption_key", old)
            raise
        home.replace_keys("encryption_key", [fresh])
        self.stdout.write("new encryption key; the old one is deleted")

    def encrypt_again(self) -> None:
        try:
            changed = credential_rotation.reencrypt_all(actor="manage.py", now=timezone.now())
        except DecryptError as error:
            raise CommandError(f"nothing was changed: {error}") from error
        self.stdout.write(f"encrypted with the first key: {changed} accounts and providers")


def while_stopped() -> TextIO:
    """Keep the gateway of this home from starting until the result is closed. Raises CommandError
    when the keys come from elsewhere, or the gateway runs with them.
    """
    check_may_make_keys()
    try:
        preflight.check_home(home.directory())
        return preflight.lock(home.directory())
    except preflight.StartError as error:
        raise CommandError(str(error)) from error


def check_may_make_keys() -> None:
    """Raise CommandError when the keys come from elsewhere."""
    for name in ("SECRET_KEY", "GATEWAY_ENCRYPTION_KEYS"):
        if os.environ.get(name) or os.environ.get(f"{name}_FILE"):
            raise CommandError(
                f"{name} comes from the environment. Put the new key first there (the old signing "
                "key into SECRET_KEY_FALLBACKS, the old encryption key second), restart every "
                "process, run `manage.py rotate_secrets`, then remove the old ones."
            )

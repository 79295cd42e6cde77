"""The end of the TLS certificate that a server shows."""

import socket
import ssl
from datetime import datetime

from cryptography import x509


def ends_at(host: str, port: int, *, seconds: float) -> datetime:
    """Return until when the certificate of a server is valid; its signer does not matter.

    Connects; each step of that takes at most ``seconds``. Raises OSError when the server is not
    reached or speaks no TLS, ValueError for a certificate that cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # one that has ended is read, too; nothing is sent
    with (
        socket.create_connection((host, port), timeout=seconds) as plain,
        context.wrap_socket(plain, server_hostname=host) as secured,
    ):
        shown = secured.getpeercert(binary_form=True)
    return x509.load_der_x509_certificate(shown or b"").not_valid_after_utc

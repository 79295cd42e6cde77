"""Sentences about failed calls, for the owner, beside the field that is to be changed."""

import difflib
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp
from django.utils.translation import gettext, gettext_noop

from core.lib.safe_fetch import RefusedAddressError
from core.providers import addresses
from core.providers.base import ProviderError
from core.providers.redaction import hide

CLOSE_NAMES = 3
LEAST_CLOSE = 0.4  # of difflib's ratio
BUSY = "base_url", gettext_noop("The provider answers, but is busy now. Test again in a minute.")
# By code of failures.KINDS, for a provider that is just being set up: field, sentence.
SENTENCES = {
    "quota": ("key", gettext_noop("The key works, but its account has no credit left.")),
    "no_model_server": (
        "base_url",
        gettext_noop("A web page or another service answers there, not a model server."),
    ),
    "rate_limited": BUSY,
    "overloaded": BUSY,
    "not_found": ("base_url", gettext_noop("Nothing is found at this address.")),
}
UNREACHED = {"unreachable", "timeout", "silence", "cut"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence; ``field``: of ModelProvider (``key``: its secret), or ``name``,
    ``context_tokens``, ``can_call_tools`` and ``can_see_images`` of LanguageModel.
    """

    field: str
    text: str
    is_error: bool = True


def refused(error: ProviderError, *, key: str, model: str, names: list[str]) -> Finding:
    """Return the finding of a server's refusal. ``names``: the models that it offers."""
    words = hide(error.reason, key)
    if error.code == "unauthorised":
        text = gettext("The provider refuses the key.")
        if not key:
            text = gettext("The provider wants a key.")
        return Finding("key", sentence(text, words))
    if error.code == "setup":
        return Finding("base_url", gettext(words or str(error)))
    if error.code in UNREACHED:
        return Finding("base_url", gettext(str(error)))
    if error.code == "not_found" and names:
        return Finding("name", sentence(unknown(model, names), words))
    if error.code == "not_found" and model:
        text = gettext("The server knows no such model, or the address is wrong.")
        return Finding("name", sentence(text, words))
    where, text = SENTENCES.get(error.code, ("name" if names else "base_url", str(error)))
    return Finding(where, sentence(gettext(text), words))


def unknown(model: str, names: list[str]) -> str:
    """Return that a model is not known, with the names that are close to it."""
    close = [each for each in names if model.lower() in each.lower()]
    close = close or difflib.get_close_matches(model, names, CLOSE_NAMES, LEAST_CLOSE)
    none = gettext("The provider knows no model of this name.")
    if not close:
        return none
    which = gettext("Close to it: {names}.").format(names=", ".join(close[:CLOSE_NAMES]))
    return f"{none} {which}"


def unreached(error: Exception, host: str) -> str:
    """Return why no server was reached at ``host``."""
    match error:
        case RefusedAddressError():
            return str(error)
        case aiohttp.ClientConnectorDNSError():
            said = gettext("The name in the address does not resolve: {host}")
        case aiohttp.ClientConnectorCertificateError():
            said = gettext("The certificate of {host} is not valid for this name, or not trusted.")
            said += " " + gettext(
                "For a certificate authority of your own, start the gateway with SSL_CERT_FILE."
            )
        case aiohttp.ClientSSLError():
            said = gettext("{host} does not speak HTTPS: should the address begin with http://?")
        case aiohttp.ClientConnectorError():
            said = gettext(
                "Nothing answers at {host}: is the server running, and does it listen on this "
                "address?"
            )
            if urlsplit(f"//{host}").hostname in addresses.LOCAL:
                said += " " + gettext(
                    "For a gateway in a container this address is the container itself; that of "
                    "its machine is host.docker.internal."
                )
        case TimeoutError():
            said = gettext("{host} does not answer in time.")
        case aiohttp.InvalidURL():
            said = gettext("This is not an address.")
        case _:
            said = gettext("The server at {host} is not a model server.")
    return said.format(host=host)


def sentence(text: str, words: str) -> str:
    """Return a sentence with the server's own words."""
    return f"{text} {gettext('The server says: {words}').format(words=words)}" if words else text

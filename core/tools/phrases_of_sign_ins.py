"""Sentences about an MCP server: why it, or the sign-in of a person there, did not work."""

from django.utils.translation import gettext_noop

SENTENCES = (
    gettext_noop("It does not accept the key."),
    gettext_noop("There is no MCP server at this address."),
    gettext_noop("It answers: too many requests."),
    gettext_noop("It fails (HTTP {0})."),
    gettext_noop("It refuses the request (HTTP {0})."),
    gettext_noop("It lists more than {0} tools, or without an end."),
    gettext_noop("It did not answer within {0} seconds."),
    gettext_noop("It was still sending after {0} seconds and was cut off."),
    gettext_noop("It is not known whether the call was carried out."),
    gettext_noop("It answers with an error: {0}"),
    gettext_noop("It cannot be reached: is it running, and is the address right?"),
    gettext_noop("The connection broke off."),
    gettext_noop("Its answer does not follow the protocol."),
    gettext_noop("Something went wrong on the way to it."),
    gettext_noop("It wanted more than {0} requests for a call."),
    gettext_noop("Its address is inside the network, and its settings do not allow that."),
    gettext_noop("It sent the gateway on to another server ({0}), which was not asked."),
    gettext_noop("It sent more than {0}, and the rest was not read."),
    gettext_noop("Its secrets cannot be opened: the gateway's own key was changed."),
    gettext_noop(
        "Its client id and secret belong to another authorization server than the one that it "
        "names now: enter the secret again, or another client id, if that is right."
    ),
    gettext_noop(
        "The sign-in came back from another authorization server than the one it went to."
    ),
    gettext_noop("It names another server as the one to sign in to."),
    gettext_noop("Its authorization server fails (HTTP {0})."),
    gettext_noop("It does not say where people sign in (no metadata of OAuth)."),
    gettext_noop("The metadata of its authorization server is that of another one (issuer)."),
    gettext_noop("Its authorization server does not support PKCE, which is required."),
    gettext_noop("It wants people to sign in without encryption ({0})."),
    gettext_noop("An address for the sign-in has a name or password in it."),
    gettext_noop(
        "Its authorization server registers no clients: enter a client id and its secret."
    ),
    gettext_noop("Its authorization server did not register the gateway."),
    gettext_noop("Its authorization server wants clients to prove themselves in another way."),
    gettext_noop("Its authorization server refuses the sign-in ({0})."),
    gettext_noop("Its authorization server gives no token ({0})."),
    gettext_noop("The answer of its authorization server has no usable token."),
    gettext_noop("Its authorization server cannot be reached."),
    gettext_noop("Its answers about the sign-in do not follow the protocol."),
)

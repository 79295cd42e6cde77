"""Whether a person has a page of the gateway in view.

The socket of a page that is visible listens to a key of its person in the broker, which counts who
receives what is published there: no row and no clock, and it ends with the process of the socket.
"""

from core.signals import pubsub


def key_of(user_id: int) -> str:
    """Return the pub/sub key that visible pages of a person listen to."""
    return f"visible:{user_id}"


def is_visible(user_id: int) -> bool:
    """Return whether the person has a visible page; False without the broker. May block briefly."""
    return pubsub.publish([{"keys": [key_of(user_id)], "kind": "visible"}]) > 0

"""From the webhook to the answer in the chat, through real processes ([C3], [C4], [D6])."""

from tests.channels_app.telegram.people import Bots, message
from tests.servers import wait_until


def test_c3_a_message_is_answered_as_a_reply_and_its_reaction_is_removed(bots: Bots) -> None:
    sent = bots.say("hello there", user=556)
    wait_until(lambda: "hello there" in bots.texts(556))
    answer = bots.api.shown(bots.tokens["main"], 556)[-1]
    assert answer.reply_to == sent
    place = (bots.tokens["main"], 556, sent)
    wait_until(lambda: len(bots.api.of("setMessageReaction", 556)) >= 2)
    wait_until(lambda: place not in bots.api.reactions)
    assert bots.api.of("sendChatAction", 556)


def test_rw1_rw2_rw4_a_wrong_secret_or_path_is_refused(bots: Bots) -> None:
    update = message("nobody hears this", user=557)
    assert bots.post(update, secret=None) == 403
    assert bots.post(update, secret="wrong") == 403
    assert bots.post(update, account="nobody") == 404

"""The answer of a run that went on after a pause, where its request was answered long ago."""

from channels_app import registry
from channels_app.owner import notice_targets, notices
from channels_app.replies import outbound
from channels_app.schedules.places import WEB, note_of
from core.conversations.runs import Outcome
from core.models import Run
from core.tools import languages, phrases


def put_elsewhere(run: Run, outcome: Outcome) -> None:
    """Send the answer to the person's own chat as well, if the request came from a program: that
    has its response already. In the transaction that ends the run.

    The conversation has the answer besides, for programs that read it.
    """
    account, paused = run.session.account, run.options.get("continues")
    if not paused or account.channel == WEB or registry.get(account.channel):
        return
    if account.channel in registry.installed().broken:  # it gets the answer when it can be loaded
        return
    if run.options.get("resumed_by_client") == paused:  # the program follows this run
        return
    for target in notice_targets.of(run.user)[:1]:
        note = phrases.in_language(note_of(account), languages.of_request(run.text))
        blocks = target.channel.outbound.render(f"_{note}_\n\n{outbound.final_text(run, outcome)}")
        blocks = outbound.with_attachments(target.channel, blocks, outcome)
        for index, block in enumerate(blocks):
            key = f"run:{run.id}:elsewhere:{index}"
            # With the run, which has its images.
            notices.put(target, key=key, payload=block, run_id=run.id, block_index=index)

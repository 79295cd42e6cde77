"""An example of a channel plugin: a notebook. Every answer becomes a line of a text file.

A plugin is one object with an id, a config, a gateway and an outbound side; see
``channels_app/base.py`` for every method. This one can only send, so it declares nothing else.
"""

from pathlib import Path

from channels_app.base import Account, Block, Capability, ChannelError, Field, Health, Pace, Target


class NotebookConfig:
    """An account needs to know its file."""

    fields = (Field("path", "File", "Where the lines go.", required=True),)

    def problems(self, account: Account) -> list[str]:
        """An account without a path cannot be enabled."""
        return [] if account.config.get("path") else ["path is missing."]


class NotebookGateway:
    """A notebook says nothing, so nothing comes in."""

    async def prepare(self, account: Account, *, base_url: str) -> str:
        """Nobody is to be told where we are."""
        return "writing"

    async def retire(self, account: Account) -> None:
        """Nothing to undo."""

    async def check(self, account: Account) -> Health:
        """Well, when the folder is there."""
        folder = Path(str(account.config["path"])).parent
        return Health() if folder.is_dir() else Health(problem=f"{folder} is no folder")

    async def test(self, account: Account) -> str:
        """Who we are there."""
        return str(account.config["path"])

    async def close(self) -> None:
        """No connections."""


class NotebookOutbound:
    """One line a block."""

    def render(self, text: str) -> list[Block]:
        """Paragraphs, as they are."""
        return [{"text": part} for part in text.split("\n\n") if part.strip()]

    async def send_text(self, *, account: Account, target: Target, block: Block, key: str) -> str:
        """Append the line; the number of bytes before it is the message's id."""
        path = Path(str(account.config["path"]))
        try:
            with path.open("a", encoding="utf-8") as notebook:
                position = notebook.tell()
                notebook.write(f"{target.chat}: {block['text']}\n")
        except OSError as error:
            raise ChannelError(f"{error.strerror}") from error
        return str(position)

    async def reply_text(self, *, account: Account, target: Target, block: Block, key: str) -> str:
        """A notebook has no replies."""
        return await self.send_text(account=account, target=target, block=block, key=key)


class Notebook:
    """The plugin."""

    id = "notebook"
    name = "Notebook"
    description = "Appends answers to a text file."
    idempotent = False
    pace = Pace()
    capabilities: frozenset[Capability] = frozenset()
    config = NotebookConfig()
    gateway = NotebookGateway()
    outbound = NotebookOutbound()

    def is_group(self, chat: str) -> bool:
        """Nobody else reads it."""
        return False


CHANNEL = Notebook()

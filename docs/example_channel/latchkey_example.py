"""An example of a channel plugin: a notebook. Every answer becomes a line of a text file.

A plugin is one object with an id, a config, a gateway and an outbound side; see
``channels_app/base.py`` for every method. This one can only send, so it declares nothing else.
"""

from pathlib import Path

from channels_app.base import Account, Block, Capability, ChannelError, Field, Health, Pace, Target


class NotebookConfig:
    """The settings of an account: the path of its file."""

    fields = (Field("path", "File", "Where the lines go.", required=True),)

    def problems(self, account: Account) -> list[str]:
        """Return what keeps an account from being enabled: a missing path."""
        return [] if account.config.get("path") else ["path is missing."]


class NotebookGateway:
    """A notebook sends no messages, so nothing is received."""

    async def prepare(self, account: Account, *, base_url: str) -> str:
        """Return a status; there is no platform to register with."""
        return "writing"

    async def retire(self, account: Account) -> None:
        """Do nothing: there is nothing to undo."""

    async def check(self, account: Account) -> Health:
        """Report a problem if the folder does not exist."""
        folder = Path(str(account.config["path"])).parent
        return Health() if folder.is_dir() else Health(problem=f"{folder} is no folder")

    async def test(self, account: Account) -> str:
        """Return the name of the account: the file's path."""
        return str(account.config["path"])

    async def close(self) -> None:
        """Do nothing: there are no connections."""


class NotebookOutbound:
    """Writes one line per block."""

    def render(self, text: str) -> list[Block]:
        """Return the paragraphs, unchanged."""
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
        """Append the line: a notebook has no replies."""
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
        """Return False: a notebook has no groups."""
        return False


CHANNEL = Notebook()

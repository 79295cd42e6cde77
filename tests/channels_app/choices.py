"""Assistants and models for tests of choosing, in a gateway or in this process."""

from tests.gateways import Gateway

# ``coder`` and ``small`` are offered to all people, ``poet`` to one, the others to the owner alone.
MAKE = """
from core.models import Assistant, AssistantModel, AssistantVersion
from core.models import LanguageModel, ModelProvider, User
from core.providers import catalogue
catalogue.current()
scripted = LanguageModel.objects.get(provider__from_environment=True)
other = ModelProvider.objects.create(
    name="Other", kind="openai-compatible", base_url="{url}", allow_private=True
)
for name, offered in (("small", True), ("large", False)):
    LanguageModel.objects.create(provider=other, name=name, label=name.title(), offered=offered)
for slug, offered in (("coder", "everybody"), ("poet", "listed"), ("hidden", "nobody")):
    made = Assistant.objects.create(
        name=slug.title(), slug=slug, offered=offered, instructions=f"You are the {{slug}}, v1."
    )
    AssistantVersion.objects.create(assistant=made, number=1, instructions=made.instructions)
    AssistantModel.objects.create(assistant=made, model=scripted)
    if offered == "listed":
        made.people.set(User.objects.filter(username="{listed}"))
"""


def make_here(*, listed: str) -> None:
    """Make them in this process's database; ``listed``: the username that may choose ``poet``."""
    exec(MAKE.format(listed=listed, url=""))  # noqa: S102 - ours


def make_in(gateway: Gateway, *, listed: str, url: str) -> None:
    """Make them in a running gateway; ``url``: of the server of the other models."""
    gateway.manage("shell", "-v", "0", "-c", MAKE.format(listed=listed, url=url))


EDIT = """
from core.models import Assistant, AssistantVersion
row = Assistant.objects.get(slug="{slug}")
row.version += 1
row.instructions = f"You are the {slug}, v{{row.version}}."
AssistantVersion.objects.create(assistant=row, number=row.version, instructions=row.instructions)
row.save()
"""


def edit(gateway: Gateway, slug: str) -> None:
    """Edit the instructions of an assistant in a running gateway, as the admin does."""
    gateway.manage("shell", "-v", "0", "-c", EDIT.format(slug=slug))


def offer(gateway: Gateway, slug: str, offered: str) -> None:
    """Change to whom an assistant is offered in a running gateway."""
    code = f"""
from core.models import Assistant
row = Assistant.objects.get(slug={slug!r})
row.offered = {offered!r}
row.save()
"""
    gateway.manage("shell", "-v", "0", "-c", code)


def names(answer: str) -> list[str]:
    """Return the slugs or names in an answer to ``/assistant`` or ``/model``."""
    lines = answer.split("\n\n")[1].splitlines() if "\n\n" in answer else []
    return [line.partition(" — ")[0].removesuffix(" (now)") for line in lines]

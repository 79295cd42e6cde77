"""Use a skill of the owner: run its script as a job, or return its instructions to the model."""

from typing import Annotated, Any

from core.database.transactions import in_thread
from core.jobs_worker import skills
from core.tools import waiting
from core.tools.arguments import text_of
from core.tools.base import ToolContext, ToolError, ToolResult
from core.tools.typed import Field, TypedTool


class RunSkill(TypedTool):
    """Uses a skill that the owner installed. Call it with skill “list” to see which there are and
    what each does.
    """

    def progress(self, arguments: dict[str, Any]) -> str:
        name = text_of(arguments.get("skill"))
        return running(name) if name != "list" else ""

    async def call(
        self,
        context: ToolContext,
        skill: str,
        input_: Annotated[
            dict[str, Any] | None, Field("What the skill's instructions ask for.")
        ] = None,
    ) -> ToolResult | str:
        """Return a script's result for the user, or instructions for the model. Raises
        ToolError.
        """
        known = await in_thread(skills.switched_on)
        found = known.get(skill)
        if found is None:
            listed = "\n".join(f"- {each.name}: {each.description}" for each in known.values())
            if skill == "list":
                return listed or "No skill is switched on."
            if error := (await in_thread(skills.switched_on_but_broken)).get(skill):
                raise ToolError(f"The skill {skill} is broken; the owner should fix it: {error}")
            raise ToolError(f"There is no such skill. There are:\n{listed or 'none'}")
        if found.script is None:
            return found.instructions
        return await waiting.outcome(
            context=context,
            tool=self.name,
            parameters={"skill": skill, "input": input_ or {}},
            line=running(skill),
        )


def running(skill: str) -> str:
    """Return the line that is shown while a skill runs."""
    return f"Running {skill[:60]}…"


TOOL = RunSkill()

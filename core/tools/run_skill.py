"""Use a skill of the owner: run its script as a job, or return its instructions to the model."""

from typing import Any

from core.database.transactions import in_thread
from core.jobs_worker import skills
from core.tools import waiting
from core.tools.base import Tool, ToolContext, ToolError, ToolResult


class RunSkill(Tool):
    """One tool for all enabled skills."""

    name = "run_skill"
    description = (
        "Uses a skill that the owner installed. Call it with skill “list” to see which there are "
        "and what each does."
    )
    parameters: dict[str, Any] = {
        "type": "object",
        "properties": {
            "skill": {"type": "string"},
            "input": {"type": "object", "description": "What the skill's instructions ask for."},
        },
        "required": ["skill"],
        "additionalProperties": False,
    }

    def progress(self, arguments: dict[str, Any]) -> str:
        name = str(arguments.get("skill", ""))
        return f"Running {name[:60]}…" if name != "list" else ""

    async def run(self, context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        """Return a script's result for the user, or instructions for the model. Raises
        ToolError.
        """
        known = await in_thread(skills.switched_on)
        name = str(arguments.get("skill", ""))
        skill = known.get(name)
        if skill is None:
            listed = "\n".join(f"- {each.name}: {each.description}" for each in known.values())
            if name == "list":
                return ToolResult(listed or "No skill is switched on.")
            if error := (await in_thread(skills.switched_on_but_broken)).get(name):
                raise ToolError(f"The skill {name} is broken; the owner should fix it: {error}")
            raise ToolError(f"There is no such skill. There are:\n{listed or 'none'}")
        if skill.script is None:
            return ToolResult(skill.instructions)
        given = arguments.get("input")
        return await waiting.outcome(
            context=context,
            tool=self.name,
            parameters={"skill": name, "input": given if isinstance(given, dict) else {}},
            line=self.progress(arguments),
        )


TOOL = RunSkill()

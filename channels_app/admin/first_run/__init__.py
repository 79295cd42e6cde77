"""The owner's first run in the browser: a model, a first message, a messenger on the phone."""

"""``/v1/chat/completions``, with the options and errors of OpenAI that others use, too."""

"""Media as text ([C6]): descriptions of a voice message, image or video for a text-only model."""

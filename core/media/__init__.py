"""Media as text ([C6]): what a model that only reads gets to know about a voice, image or video."""

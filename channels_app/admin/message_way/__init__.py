"""The page “What happened to this message?”: the rows of a message, and a sentence about them."""

"""The page that shows what a run did: where the links of other clients lead."""

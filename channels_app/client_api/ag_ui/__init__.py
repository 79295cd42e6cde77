"""AG-UI 1.0, the protocol of CopilotKit and other agent front ends (decision 204)."""

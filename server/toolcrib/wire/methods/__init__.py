"""What toolcrib answers besides tools: resources, prompts, and the methods of the extension for skills."""

"""Methods besides tools: resources, prompts, and those of the skills extension."""

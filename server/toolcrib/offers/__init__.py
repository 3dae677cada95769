"""What servers offer besides tools: resources, templates of resources, prompts and completions."""

"""Offers of servers besides tools: resources, resource templates, prompts and completions."""

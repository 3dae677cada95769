"""What servers offer: their tools, resources and prompts, indexed, searched, and filtered by caller."""

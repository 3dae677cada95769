"""Agent hosts from npm as clients of toolcrib, each with a scripted model on loopback."""

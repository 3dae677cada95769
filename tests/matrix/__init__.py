"""What passes through toolcrib: servers and clients of several makers, each feature beside a direct call."""

"""Reading what strangers wrote."""

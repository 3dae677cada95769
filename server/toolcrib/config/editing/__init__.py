"""Config files changed in place: comments, order and formatting stay."""

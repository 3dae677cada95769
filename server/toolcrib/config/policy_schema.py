"""The shape of ``toolcrib.policy``: every key, its type, its bounds and its default.

Knows names and ranges only; never knows a caller or a tool.
The text under each key is its row in docs/configuration.md.
"""

from toolcrib.config.values import OneOrMore, Section, Strings


class WhenSection(Section):
    """The facts that a visibility rule asks of the caller; all given ones must hold."""

    tenant_id: OneOrMore | None = None
    """The caller's tenant is one of these."""
    project_id: OneOrMore | None = None
    """The caller's project is one of these."""
    profile: OneOrMore | None = None
    """The caller's profile is one of these."""


class VisibilitySection(Section):
    """One visibility rule."""

    when: WhenSection
    """The callers that the rule is about."""
    allow: Strings | None = None
    """Globs that take the place of `policy.allow` for them; null: they do not."""
    deny: Strings = ()
    """Globs added to `policy.deny` for them."""


class PolicySection(Section):
    """Who may use what: case-sensitive globs; a deny wins."""

    allow: Strings = ("*",)
    """Tools, resources and prompts that may be used: globs of `server.name`, or of `server.URI`."""
    deny: Strings = ()
    """What does not exist for anyone: globs of `server.name` or of the bare name, or of a URI."""
    visibility: tuple[VisibilitySection, ...] = ()
    """Rules for some callers only."""

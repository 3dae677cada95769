"""The shape of ``toolcrib.policy``: every key, its type, its bounds and its default.

Knows names and ranges only; never knows a caller or a tool.
The text under each key is its row in docs/configuration.md.
"""

from typing import Literal

from toolcrib.config.values import OneOrMore, Section, Strings


class WhenSection(Section):
    """The condition of a visibility rule; all given keys must match."""

    tenant_id: OneOrMore | None = None
    """The caller's tenant is one of these."""
    project_id: OneOrMore | None = None
    """The caller's project is one of these."""
    profile: OneOrMore | None = None
    """The caller's profile is one of these."""


class VisibilitySection(Section):
    """One visibility rule."""

    when: WhenSection
    """The callers that the rule applies to."""
    allow: Strings | None = None
    """Globs that replace `policy.allow` for them; null: `policy.allow` applies."""
    deny: Strings = ()
    """Globs added to `policy.deny` for them."""


Effect = Literal["destructive", "external", "write"]
"""What a tool may do to the world, as far as a person may want to be asked first."""


class ConfirmSection(Section):
    """What needs a person's approval. If the client cannot ask, it is refused until it is allowed."""

    tools: Strings = ()
    """Tools: globs of `server.name`, or of the bare name."""
    effects: tuple[Effect, ...] = ()
    """Tools with one of these effects, by `servers.NAME.side_effects`, else by what their servers declare; a tool of
    which nothing is declared has all of them."""


class PolicySection(Section):
    """Who may use what: case-sensitive globs; a deny wins."""

    allow: Strings = ("*",)
    """Tools, resources and prompts that may be used: globs of `server.name`, or of `server.URI`."""
    deny: Strings = ()
    """What is denied to everyone: globs of `server.name` or of the bare name, or of a URI."""
    visibility: tuple[VisibilitySection, ...] = ()
    """Rules for some callers only."""
    confirm: ConfirmSection = ConfirmSection()
    """What needs a person's approval."""

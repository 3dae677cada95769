"""Whether a server over HTTP has forgotten our session, and how often that is believed.

A server should answer 404 then (2025-11-25 basic/transports, section Session Management). Servers that were restarted,
and proxies in front of them, answer with about any other status, or with the error of an answer.
"""

import math
import re
from collections.abc import Callable

PING_S = 3.0
"""How long a ping in a session may take that is in doubt."""

SESSION_NOT_FOUND = -32_001
"""The code with which servers of the TypeScript SDK, and what copies them, say that they do not know a session."""

_RENEWED_AGAIN_S = 30.0
_READ_MAX = 2000
"""How much of an answer is looked at: one that names a session says little else."""

# The phrase begins what is said, or a part of it: of a "browser session" or a "database session" it is not known that
# it has to do with ours.
_NAMED = re.compile(
    r"""
    (?: ^ | ["':.>(\[] ) \s*
    (?:
        (?: (?: the|your|this|that|our|an?|requested|given|current|mcp|http|client|server|streamable ) [\s_-]+ )*
        session (?!s) (?: [\s_-]? ids? \b )?
        (?: [\s:=_-]+ (?: "[^"\n]{1,80}" | [^\s"<]{1,80} ) ){0,4}? [\s_-]+
        (?: not[\s_-](?:be[\s_-])?(?:found|known|valid|exist|recogni[sz]ed|active|initiali[sz]ed)
          | does\ ?n['\u2019]?t\ exist | unknown | expired | invalid | no\ longer | terminated | ended | closed
          | deleted | gone | lost | missing | timed\ out | required ) \b
      | (?: there\ is\ | request\ for\ )?
        (?: no | not\ an? | unknown | invalid | expired | missing | stale | bad | could\ not\ find | cannot\ find
          | can['\u2019]t\ find | unrecogni[sz]ed )
        (?: [\s,]+ (?: or | and | the | an? | such | valid | active | known | open | existing | missing | unknown
                     | invalid | expired | transport | found | for | with | this | that | your ) )*
        [\s_-]+ (?: ["'`(]? mcp [\s_-]+ )? ["'`(]? session (?!s) (?! \s+ (?: name | type | mode | kind ) \b )
      | server\ (?:is\ )?not\ initiali[sz]ed
    )
    """,
    re.IGNORECASE | re.VERBOSE,
)


def names_lost_session(text: str) -> bool:
    """Return whether an answer says that the session is gone in which it was requested."""
    return _NAMED.search(text[:_READ_MAX]) is not None


class Renewal:
    """When a session may be given up by what a server says in other ways than the specified one: once in 30 s.

    ``now`` is a clock in seconds that never jumps.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._due = -math.inf

    @property
    def pause_s(self) -> float:
        """Seconds until a session may be given up; not more than 0 where it may be now."""
        return self._due - self._now()

    def note(self) -> None:
        """Note that one is given up now."""
        self._due = self._now() + _RENEWED_AGAIN_S

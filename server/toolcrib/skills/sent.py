"""What a session has been sent, so that the same text need not be sent to it again (R177).

Knows texts by their digests; never knows what they say.
"""

from toolcrib.access.sessions import Session
from toolcrib.skills.requests import GetAnswer, GetRequest, GivenSkill

_SENT_MAX = 1000


def was_sent(session: Session, given: GivenSkill, request: GetRequest, share: int) -> bool:
    """Return whether the session has this text of the skill already, with at least as large a budget and share of it.

    What was shortened for the sake of others is sent once more to one who asks for it alone.
    """
    budget, had = session.sent_skills.get(_sent_key(given, request), (0, 0))
    return budget >= request.max_tokens and had >= share


def remember(session: Session, answer: GetAnswer, request: GetRequest) -> None:
    """Note which skills the session has now, so that they need not be sent again."""
    sent = session.sent_skills
    for given in answer.skills:
        if given.share:
            key = _sent_key(given, request)
            budget, had = sent.pop(key, (0, 0))
            sent[key] = max(budget, request.max_tokens), max(had, given.share)
            if len(sent) > _SENT_MAX:
                del sent[next(iter(sent))]


def _sent_key(given: GivenSkill, request: GetRequest) -> tuple[str, str, str]:
    return given.skill.id, given.digest, request.format

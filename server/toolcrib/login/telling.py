"""A login as shown to people and programs: account, issuer, expiry.

Knows which of its fields are not secret; never knows where it is shown.
"""

from datetime import datetime

from toolcrib.base.model import JsonObject
from toolcrib.login.records import Record


def login_json(record: Record) -> JsonObject | None:
    """Return the public facts of a login as a JSON object; None if there is none."""
    if not record.has_tokens:
        return None
    until = None if record.expires_at is None else datetime.fromtimestamp(record.expires_at).astimezone()
    return {
        "as": record.account or None,
        "by": record.issuer or None,
        "scope": record.scope or None,
        "until": until and until.isoformat(timespec="seconds"),
        "renews": record.can_renew,
    }


def login_text(login: JsonObject) -> str:
    """Return the facts of a valid login as the end of a sentence that begins with ``logged in``."""
    who = f" as {login['as']}" if login["as"] else ""
    by = f" by {login['by']}" if login["by"] else ""
    until = f", until {login['until'][:16].replace('T', ' ')}" if login["until"] else ""
    return f"{who}{by}{until}{', refreshed automatically' if login['renews'] else ''}"

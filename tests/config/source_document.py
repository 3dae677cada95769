"""The blocks of the document that toolcrib was built after, as a person pastes them into a config."""

from typing import Any

SOURCE_SECTION: dict[str, Any] = {
    "tool_search": {
        "enabled": True,
        "cache_dir": ".penguiflow",
        "default_loading_mode": "deferred",
        "always_loaded_patterns": ["tasks.*"],
        "activation_scope": "run",
        "preferred_namespaces": [],
        "fts_fallback_to_regex": True,
        "enable_incremental_index": True,
        "rebuild_cache_on_init": False,
        "max_search_results": 10,
        "include_search_tool": True,
    },
    "tool_examples": {"enabled": True, "max_examples_per_tool": 3, "include_descriptions": True},
    "skills": {
        "enabled": False,
        "cache_dir": ".penguiflow",
        "max_tokens": 2000,
        "summarize": False,
        "redact_pii": True,
        "scope_mode": "project",
        "fts_fallback_to_regex": True,
        "skill_packs": [
            {
                "name": "core",
                "path": "packs/core",
                "format": None,
                "scope_mode": "project",
                "enabled": True,
                "update_existing_pack_skills": True,
                "pinned_skill_names": [],
            }
        ],
        "directory": {
            "enabled": True,
            "max_entries": 30,
            "include_fields": ["name", "title", "trigger"],
            "selection_strategy": "pinned_then_recent",
        },
    },
}

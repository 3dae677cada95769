"""Opens the skills of one config, beside what is known of its servers."""

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

from toolcrib.config.settings import SKILL_CACHE
from toolcrib.events.kinds import IndexRebuilt
from toolcrib.gateway.offline import Offline, report_replaced_file, search_settings
from toolcrib.gateway.runtime import Runtime
from toolcrib.skills.catalog import SkillCatalog
from toolcrib.skills.index import SKILL_TEXTS, SKILLS_SCHEMA, SkillIndex
from toolcrib.skills.penalties import ReportedOutcomes
from toolcrib.skills.search import SkillSearcher
from toolcrib.skills.use_cases import SkillDependencies, SkillRuntime, SkillUseCases
from toolcrib.storage.store import Store
from toolcrib.storage.vectors import VectorCache


@contextmanager
def open_skills(offline: Offline, runtime: Runtime, skill_runtime: SkillRuntime) -> Generator[SkillUseCases]:
    """Open the skills as of their last scan; nothing is scanned yet. Blocks.

    Raises:
        StoreError: the index of skills can neither be read nor replaced.

    """
    settings, section = offline.settings, offline.settings.toolcrib
    with Store(
        settings.stored(settings.skill_cache),
        SKILLS_SCHEMA,
        fts=section.tool_search.fts,
        clock=runtime.lasting_clock,
        on_replaced=partial(report_replaced_file, offline.events, IndexRebuilt, SKILL_CACHE),
    ) as store:
        # Beside the other files: the status names those that were rebuilt.
        offline.stores[SKILL_CACHE] = store
        index = SkillIndex(store)
        search = search_settings(settings, runtime, offline.model, VectorCache(store, SKILL_TEXTS))
        yield SkillUseCases(
            SkillDependencies(
                settings=settings,
                catalog=SkillCatalog(
                    settings,
                    index,
                    offline.state.skills,
                    runtime.lasting_clock,
                    embed=search.semantic.fill if search.semantic else None,
                ),
                searcher=SkillSearcher(index, search),
                outcomes=ReportedOutcomes(
                    offline.state.outcomes, runtime.lasting_clock, enabled=section.skills.outcomes
                ),
                gate=offline.gate,
                indexer=offline.indexer,
                offer_gate=offline.offer_gate,
                views=offline.views,
                events=offline.events,
                confirmations=offline.confirmations,
                runtime=skill_runtime,
            )
        )

import type { OpsHandlerContext } from '../access.ts';
import { found } from '../api/answers.ts';
import { rowId } from '../api/query.ts';
import type { OpsContext } from '../context.ts';
import { codeWords, count, figure, kindPlural } from '../words.ts';
import type { Content } from './layout.tsx';
import { Facts, Instant, State } from './pieces.tsx';
import { DifferencesDetails, Running, tookWords } from './syncs.tsx';

export async function syncPage({ store, facts }: OpsContext, c: OpsHandlerContext): Promise<Content> {
  const { data: id = 0 } = rowId.safeParse(c.req.param('id'));
  const syncRun = found(await store.show('sync_runs', id), 'There is no full sync of this number.');
  const { kind, started_at, finished_at, outcome, error } = syncRun;
  const about: Facts = [
    ['Why', codeWords(syncRun.reason)],
    ['Began', <Instant at={started_at} precise />],
    ['Ended', <Instant at={finished_at} precise otherwise="not yet" />],
    finished_at !== null && ['Took', tookWords(syncRun)],
    ['Outcome', <State state={outcome ?? ''} words={codeWords(outcome ?? 'under way')} />],
    error !== null && ['Error', <span class="warn">{error}</span>],
    ['Read', `${count(syncRun.seen, 'record')} on ${count(syncRun.pages, 'page')}`],
    [
      'Wrote',
      `${figure(syncRun.inserted)} new, ${figure(syncRun.updated)} changed, ${figure(syncRun.deleted)} deleted; ${figure(syncRun.unchanged)} unchanged`,
    ],
  ];
  return {
    title: `Sync ${id} of the ${kindPlural(kind)}`,
    current: 'Syncs',
    body: (
      <>
        <Running syncRuns={facts().running.filter((each) => each.id === id)} />
        <Facts facts={about} />
        <h2>Differences</h2>
        <p class="lead">What differed although no event had announced it.</p>
        <DifferencesDetails kind={kind} differences={syncRun.differences} />
      </>
    ),
  };
}

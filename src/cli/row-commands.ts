import { Command } from 'commander';
import { answered, at, found } from '../ops/api/client.ts';
import type { Differences } from '../ops/api/schemas.ts';
import type {
  AuditReport,
  GapReport,
  QuarantineReport,
  RejectionReport,
  SyncRunReport,
} from '../store/reports.ts';
import type { Cli } from './cli.ts';
import { describeDifferences } from './full-sync.ts';
import { type Columns, changeOne, listing, showing, type Thing } from './lists.ts';
import { rowId, timed } from './options.ts';
import { renderPairs } from './table.ts';

// Commands over rows that have a number and are listed newest first: audit, rejections, quarantine, gaps, sync-runs.

const AUDIT: Columns<AuditReport> = {
  ID: 'id',
  AT: 'at',
  ACTOR: 'actor',
  ACTION: 'action',
  OUTCOME: 'outcome',
  TARGET: 'target',
};

export function auditCommand(cli: Cli): Command {
  const audit = new Command('audit').description('who changed what, signed in, or was turned down: list');
  listing(cli, timed(audit.command('list')).description('entries, newest first'), AUDIT, (api, query) =>
    answered(api.audit.$get({ query })),
  );
  return audit;
}

const REJECTIONS: Columns<RejectionReport> = {
  ID: 'id',
  AT: 'at',
  REASON: 'reason',
  ADDRESS: 'address',
  COUNT: 'times',
  BYTES: 'bytes',
  T: 't',
};

export function rejectionsCommand(cli: Cli): Command {
  const rejections = new Command('rejections').description(
    'deliveries that were rejected, by reason and sender: list, show',
  );
  listing(
    cli,
    timed(rejections.command('list')).description(
      'rejected deliveries, newest first; COUNT: how many of its minute each stands for',
    ),
    REJECTIONS,
    (api, query) => answered(api.rejections.$get({ query })),
  );
  showing(
    cli,
    rejections
      .command('show')
      .description('one rejected delivery with its body, as far as it was kept; "doctor" explains it')
      .addArgument(rowId()),
    { group: 'rejections', missing: (id) => `no rejected delivery with the id ${id} is kept` },
    (api, id: number) => found(api.rejections[':id'].$get(at(id))),
  );
  return rejections;
}

const QUARANTINE: Columns<QuarantineReport> = {
  ID: 'id',
  RECEIVED: 'received_at',
  REASON: 'reason',
  RELEASED: 'released_at',
  T: 't',
  'SHA-256': 'body_sha256',
};
const QUARANTINED: Thing<[number]> = {
  noun: 'delivery',
  group: 'quarantine',
  missing: (id) => `no delivery with the id ${id} is in quarantine`,
};

export function quarantineCommand(cli: Cli): Command {
  const quarantine = new Command('quarantine').description(
    'deliveries that were rightly signed and could not be used: list, show, release',
  );
  listing(
    cli,
    timed(quarantine.command('list')).description('quarantined deliveries, newest first'),
    QUARANTINE,
    (api, query) => answered(api.quarantine.$get({ query })),
  );
  showing(
    cli,
    quarantine.command('show').description('one quarantined delivery with its body').addArgument(rowId()),
    QUARANTINED,
    (api, id) => found(api.quarantine[':id'].$get(at(id))),
  );
  quarantine
    .command('release')
    .description('mark a quarantined delivery as seen to, and have what it was about read from the API')
    .addArgument(rowId())
    .action((id: number) =>
      changeOne(cli, QUARANTINED, id, 'released', (api) => api.quarantine[':id'].release.$post(at(id))),
    );
  return quarantine;
}

const GAPS: Columns<GapReport> = {
  ID: 'id',
  REASON: 'reason',
  KIND: 'kind',
  RECORD: 'record_id',
  OPENED: 'opened_at',
  RESOLVED: 'resolved_at',
  TIMES: 'attempts',
  ERROR: 'error',
};
const GAP: Thing<[number]> = {
  noun: 'gap',
  group: 'gaps',
  missing: (id) => `no gap with the id ${id}`,
};

export function gapsCommand(cli: Cli): Command {
  const gaps = new Command('gaps').description(
    'what may have been missed, and whether it is mended: list, show, resolve',
  );
  listing(
    cli,
    timed(gaps.command('list')).description('gaps, newest first').option('--open', 'only those not resolved'),
    GAPS,
    (api, query, { open }: { open?: true }) =>
      answered(api.gaps.$get({ query: { ...query, ...(open ? { open: 'true' } : {}) } })),
  );
  showing(cli, gaps.command('show').description('one gap').addArgument(rowId()), GAP, async (api, id) => {
    // The list runs from the newest id down, so the row, if there is one, is the first after its successor's key.
    const query = { limit: 1, after: String(id + 1) };
    const gap = (await answered(api.gaps.$get({ query }))).items[0];
    return gap?.id === id ? gap : null;
  });
  gaps
    .command('resolve')
    .description('say that nothing is missing any more, of a gap that only a person can end (restored)')
    .addArgument(rowId())
    .action((id: number) =>
      changeOne(cli, GAP, id, 'resolved', (api) => api.gaps[':id'].resolve.$post(at(id))),
    );
  return gaps;
}

const SYNC_RUNS: Columns<SyncRunReport> = {
  ID: 'id',
  KIND: 'kind',
  STARTED: 'started_at',
  OUTCOME: (syncRun) => syncRun.outcome ?? 'running',
  INSERTED: 'inserted',
  UPDATED: 'updated',
  DELETED: 'deleted',
  SEEN: 'seen',
  REASON: 'reason',
  PAGES: 'pages',
  ERROR: 'error',
};

export function syncRunsCommand(cli: Cli): Command {
  const syncRuns = new Command('sync-runs').description('full syncs, and what each did: list, show');
  listing(
    cli,
    timed(syncRuns.command('list')).description('full syncs, newest first'),
    SYNC_RUNS,
    (api, query) => answered(api['sync-runs'].$get({ query })),
  );
  showing(
    cli,
    syncRuns.command('show').description('one full sync').addArgument(rowId('number of the full sync')),
    { group: 'sync-runs', missing: (id) => `no full sync with the id ${id}` },
    (api, id: number) => found(api['sync-runs'][':id'].$get(at(id))),
    (_, { differences, ...figures }) => {
      cli.out.write(renderPairs(Object.entries(figures)));
      if (differences !== null)
        cli.out.write(describeDifferences('differences', differences as unknown as Differences));
    },
  );
  return syncRuns;
}

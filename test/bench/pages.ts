import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { askOperators, type Mirror, stopMirror } from './processes.ts';
import { median } from './statistics.ts';
import { type Size, startStored } from './stored.ts';

/**
 * What each page and each list of the API costs with ten to five hundred times as much stored: a section of `npm run bench`.
 * Both services run side by side and are asked in turn, so that whatever else the machine does meets both.
 */
const SMALL: Size = { events: 10_000, records: 1_000 };
const MOST = 2;
const ROUNDS = 25;
/** A page's cost is made of milliseconds; below this, a ratio is noise. */
const FLOOR_MS = 1;

/** What these show is read anew once a second, and kept until then: asked more often, nothing would be measured. */
const KEPT = new Set(['/', '/metrics', '/api/status', '/syncs']);
const KEPT_MS = 1_100;
const KEPT_ROUNDS = 9;

const LAST_EVENT = (events: number) => `evt_${String(events - 1).padStart(9, '0')}`;

const paths = ({ events, records }: Size): string[] => {
  const event = LAST_EVENT(events);
  const record = `ven_${String(Math.floor(records / 6)).padStart(7, '0')}`;
  const half = Math.floor(events / 2);
  const plain = ['/', '/metrics', '/api/status', '/sign-in', '/openapi.json', '/syncs', '/audit'];
  const numbered = ['/syncs/9', '/deliveries/rejection:9'];
  const lists = ['problems', 'problems?state=resolved', 'syncs', 'syncs/9', 'audit'];
  const filters = [
    ...[
      '',
      'state=failed',
      'state=processed',
      'state=pending',
      'state=ignored',
      'state=dismissed',
      'kind=policy',
    ],
    // What no event fits, or one of the oldest, is the dearest to look for.
    ...[
      'type=rare.type',
      'type=nobody',
      'type=vendor.updated&state=processed',
      'type=rare.type&state=failed',
    ],
    ...['kind=policy&type=nobody', 'kind=policy&state=ignored', 'kind=vendor&state=failed&type=nobody'],
    ...[`record_id=${record}`, `record_id=${record}&state=failed`, `record_id=${record}&type=nobody`],
    ...['', '&type=nobody', '&kind=policy&state=dismissed'].map((more) => `after=${half}.0.0.0.0${more}`),
  ];
  const deliveries = [
    ...['', 'outcome=accepted', 'outcome=rejected', 'outcome=quarantined', 'type=vendor.updated'],
    ...[
      `search=${event}`,
      `search=${record}`,
      'search=nobody',
      'type=nobody',
      'outcome=accepted&search=nobody',
    ],
    ...[
      'since=2026-10-01T00:00:00Z',
      'until=2026-09-22T00:00:00Z',
      'until=2026-09-22T00:00:00Z&search=nobody',
    ],
  ];
  const records_ = [
    ...[
      '',
      'search=Vendor',
      'search=ven_00005',
      'deleted=yes',
      'deleted=no',
      'unverified=yes',
      'unverified=no',
    ],
    ...[`after=${record}`, `after=${record}&deleted=yes`, 'search=vendor&deleted=yes'],
    ...['search=endor', 'search=nowhere', 'status=approved', 'field=owner=nobody'],
    ...['search=vendor&unverified=yes', 'search=ven_0&deleted=yes', 'deleted=yes&unverified=yes'],
  ];
  return [
    ...plain,
    ...numbered,
    ...lists.map((list) => `/api/${list}`),
    ...['', '/api'].flatMap((side) =>
      [...filters, ...deliveries].map((filter) => `${side}/deliveries?${filter}`),
    ),
    ...['', '/api'].flatMap((side) => [`${side}/deliveries/${event}`, `${side}/records/vendor/${record}`]),
    ...records_.map((filter) => `/records/vendor?${filter}`),
    ...[`/api/records/vendor/${record}/history`, '/api/records/policy?search=policy+1'],
    ...['/api/changes?after=0', `/api/changes?after=${half}`, '/api/snapshot', '/api/snapshot?kind=vendor'],
  ];
};

export async function measurePages({
  size,
  say,
}: {
  /** Events stored; of ten of them each is a record. */
  size: number;
  say: (line: string) => void;
}): Promise<void> {
  const sizes: Size = { events: size, records: size / 10 };
  const folder = mkdtempSync(join(tmpdir(), 'mirror-pages-'));
  const started: Mirror[] = [];
  try {
    say(`Pages: ${describeSize(SMALL)} beside ${describeSize(sizes)}; medians, milliseconds.\n`);
    const small = await startStored(folder, 'small', SMALL);
    started.push(small);
    const large = await startStored(folder, 'large', sizes);
    started.push(large);
    const tooDear: string[] = [];
    const largePaths = paths(sizes);
    for (const [index, path] of paths(SMALL).entries()) {
      const times: [number[], number[]] = [[], []];
      for (let round = 0; round < (KEPT.has(path) ? KEPT_ROUNDS : ROUNDS); round += 1) {
        if (KEPT.has(path)) await setTimeout(KEPT_MS);
        times[0].push(await timed(small, path));
        times[1].push(await timed(large, largePaths[index]!));
      }
      const [before, after] = times.map(median) as [number, number];
      const ratio = Math.max(after, FLOOR_MS) / Math.max(before, FLOOR_MS);
      if (ratio > MOST) tooDear.push(path);
      say(
        `${before.toFixed(1).padStart(8)} ms ${after.toFixed(1).padStart(8)} ms  ×${ratio.toFixed(2)}  ${path}`,
      );
    }
    say(tooDear.length === 0 ? `No page costs more than ×${MOST}.` : `Too dear: ${tooDear.join(', ')}`);
  } finally {
    await Promise.all(started.map(stopMirror));
    rmSync(folder, { recursive: true, force: true });
  }
}

const describeSize = ({ events, records }: Size) =>
  `${events.toLocaleString('en-US')} events and ${records.toLocaleString('en-US')} records`;

async function timed(mirror: Mirror, path: string): Promise<number> {
  const started = performance.now();
  await (await askOperators(mirror, path)).text();
  return performance.now() - started;
}

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openStore } from '../../src/store/open.ts';
import type { IncomingEvent, ProvisionalRules, Store } from '../../src/store/store.ts';
import { median } from './statistics.ts';
import { fillStored, type Size } from './stored.ts';

/** What an event costs where little is stored, and where much is: about a record that is known, and about a new one. */

const SMALL: Size = { events: 10_000, records: 1_000 };
const GROUP = 256;
const GROUPS = 21;
const TIMING = { settleMs: 10_000 };
const POINTERS = { policy: ['policyId'], risk_assessment: ['id'], vendor: ['vendorId'] };
const RULES: ProvisionalRules = {
  eventsOnly: false,
  toleranceMs: 300_000,
  guardPercent: 20,
  pointers: POINTERS,
  timing: TIMING,
};
const STEPS = ['accept', 'process', 'read'] as const;

type Costs = Record<(typeof STEPS)[number], number>;

export async function measureGrowth({
  size,
  say,
}: {
  size: number;
  say: (line: string) => void;
}): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'mirror-growth-'));
  try {
    const small = await costs(folder, 'small', SMALL);
    const large = await costs(folder, 'large', { events: size, records: size / 10 });
    say(
      `\nOne event among ${SMALL.events} stored, and among ${size}; medians of groups of ${GROUP}, µs each:`,
    );
    for (const about of ['known', 'new'] as const) {
      for (const step of STEPS) {
        const [before, after] = [small[about][step], large[about][step]];
        say(
          `  ${`${step}, ${about} records`.padEnd(24)}${before.toFixed(1).padStart(8)}${after.toFixed(1).padStart(8)}  ×${(after / before).toFixed(2)}`,
        );
      }
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function costs(folder: string, name: string, size: Size): Promise<Record<'known' | 'new', Costs>> {
  const store = await openStore(`file:${await fillStored(folder, name, size)}`);
  // As many in both, wherever they stand: how many records are in use costs memory, and is no history.
  const [known, inUse] = [Math.ceil(size.records / 3), Math.ceil(SMALL.records / 3)];
  const knownId = (n: number) => (n % inUse) * Math.floor(known / inUse);
  try {
    return {
      known: await measured(store, 'known', (n) => `ven_${String(knownId(n)).padStart(7, '0')}`),
      new: await measured(store, 'new', (n) => `ven_new_${n}`),
    };
  } finally {
    await store.close();
  }
}

async function measured(store: Store, run: string, idOf: (n: number) => string): Promise<Costs> {
  const times: Record<keyof Costs, number[]> = { accept: [], process: [], read: [] };
  for (let group = 0; group < GROUPS; group += 1) {
    const events = Array.from({ length: GROUP }, (_, at) => eventAbout(run, group * GROUP + at, idOf));
    const now = { wall: Date.now(), steady: performance.now() };
    const timed = async (step: keyof Costs, work: () => Promise<unknown>) => {
      const started = performance.now();
      await work();
      times[step].push(((performance.now() - started) * 1_000) / GROUP);
    };
    await timed('accept', () => store.accept({ events, unusable: [] }, now, TIMING));
    await timed('process', async () => {
      const turn = { limit: GROUP, rules: RULES, retryDelaysMs: [] };
      while ((await store.processPending(turn, now)).isFull) {
        // Until nothing is pending.
      }
    });
    const objects = [...new Set(events.map(({ recordId }) => recordId!))].map((id) => ({
      id,
      json: JSON.stringify({ vendorId: id, name: `As read ${group}`, status: 'approved' }),
    }));
    const read = {
      number: await store.currentNumber(),
      beganAt: now.steady + 60_000,
      endedAt: now.steady + 60_001,
      endedWall: now.wall + 60_001,
    };
    await timed('read', () =>
      store.applyReads('vendor', objects, read, {
        cause: { cause: 'refetch', causeId: null },
        syncRunId: null,
        timing: TIMING,
        pointers: POINTERS,
      }),
    );
  }
  return { accept: median(times.accept), process: median(times.process), read: median(times.read) };
}

function eventAbout(run: string, n: number, idOf: (n: number) => string): IncomingEvent {
  const recordId = idOf(n);
  const id = `evt_${run}_${n}`;
  const created = new Date().toISOString();
  const data = { vendorId: recordId, name: `Vendor ${n}`, status: 'draft', summary: 'x'.repeat(300) };
  return {
    id,
    type: 'vendor.updated',
    created,
    createdMs: Date.parse(created),
    t: '1',
    kind: 'vendor',
    recordId,
    known: true,
    body: JSON.stringify({ id, type: 'vendor.updated', created, data }),
  };
}

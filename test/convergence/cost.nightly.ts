import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import { startIndependentUpstream } from '../support/independent-upstream.ts';
import { fill } from '../support/independent-upstream-records.ts';
import { createSender, eventAbout } from '../support/independent-upstream-sender.ts';
import { compare } from './compare.ts';
import { randomOf } from './random.ts';
import { createService, eventually } from './service.ts';

const EVENTS = 5_000;
const TOUCHED = 200;
/** Long enough to send all events within one of it, on most machines. */
const SETTLE_SECONDS = 12;
/** The promise is for events within one SETTLE: after this much of it a slow machine has sent what it can … */
const SENDING_MS = SETTLE_SECONDS * 800;
/** … and at least these, several for each vendor: fewer would show nothing. */
const ENOUGH_EVENTS = 1_000;
const CONNECTIONS = 32;

function unverified(database: string): number {
  const db = new Database(database, { readonly: true });
  try {
    const sql = 'SELECT count(*) FROM vendors WHERE unverified_since IS NOT NULL';
    return db.prepare(sql).pluck().get() as number;
  } finally {
    db.close();
  }
}

it.each([
  { held: 200, atMost: 6 },
  { held: 20_000, atMost: 240 },
])(
  `${EVENTS} events on ${TOUCHED} vendors, or as many as can be sent within one SETTLE, cost at most $atMost requests where $held vendors are held`,
  async ({ held, atMost }) => {
    const upstream = await startIndependentUpstream();
    fill(upstream.records, { policies: 0, assessments: 0, vendors: held });
    const service = await createService(upstream, {
      SYNC_SETTLE_SECONDS: String(SETTLE_SECONDS),
      COMPLIANCE_REQUESTS_PER_MINUTE: '6000',
      LOG_LEVEL: 'error',
    });
    const sender = createSender(service.webhookUrl, CONNECTIONS);
    try {
      await service.start();
      await eventually('the full syncs of the start', async () => {
        const { items } = await service.get<{ items: { outcome: string | null }[] }>('/api/syncs');
        return items.filter(({ outcome }) => outcome === 'complete').length === 3;
      });
      const random = randomOf(1);

      async function sendAll(): Promise<number> {
        const began = performance.now();
        const numbers = Array.from({ length: EVENTS }, (_, index) => index).values();
        await Promise.all(
          Array.from({ length: CONNECTIONS }, async () => {
            for (const number of numbers) {
              if (number >= ENOUGH_EVENTS && performance.now() - began > SENDING_MS) break;
              // Scattered, so that the last event of one vendor comes long before that of another.
              const id = `ven-${number < TOUCHED ? number : Math.floor(random() * TOUCHED)}`;
              const record = { ...upstream.records.find('vendors', id)!, name: `Renamed ${random()}` };
              upstream.records.put('vendors', record);
              expect(await sender.attempt(eventAbout('vendor.updated', 'vendors', record))).toBe(202);
            }
          }),
        );
        return performance.now() - began;
      }

      // Even so few may have taken too long while something else had the machine.
      for (let tries = 1; ; tries += 1) {
        upstream.seen.length = 0;
        const sentWithinMs = await sendAll();
        // To compare them all at each look would take the machine from the mirror.
        const isEqual = () =>
          unverified(service.database) === 0 &&
          compare(service.database, upstream.records, new Set()).differences.length === 0;
        await eventually('equality', isEqual, SETTLE_SECONDS * 8_000);
        if (sentWithinMs < SETTLE_SECONDS * 1000) break;
        expect(tries, 'sent within one SETTLE').toBeLessThan(5);
      }
      // While nothing is to be read, the service also asks every few seconds whether the API answers.
      const asked = upstream.seen.filter(({ path }) => path.includes('/vendors')).length;
      expect(asked).toBeGreaterThan(0);
      expect(asked).toBeLessThanOrEqual(atMost);
    } finally {
      sender.close();
      await service.end();
      await upstream.close();
    }
  },
  600_000,
);

it('a first full sync that waits for the budget has asked for no assessment of RISK_IDS_FILE twice, and delays no live repair', async () => {
  const upstream = await startIndependentUpstream();
  fill(upstream.records, { policies: 0, assessments: 200, vendors: 1 });
  const folder = mkdtempSync(join(tmpdir(), 'compliance-mirror-cost-'));
  const file = join(folder, 'risk-ids');
  writeFileSync(file, upstream.records.ids('assessments').join('\n'));
  const service = await createService(upstream, {
    SYNC_SETTLE_SECONDS: '1',
    COMPLIANCE_REQUESTS_PER_MINUTE: '120',
    RISK_IDS_FILE: file,
    LOG_LEVEL: 'error',
  });
  const sender = createSender(service.webhookUrl, 1);
  const asked = () =>
    upstream.seen.map(({ path }) => path).filter((path) => path.includes('/risk-assessments/'));
  try {
    await service.start();
    await eventually('full syncs that have used their part of the budget', () => upstream.seen.length >= 90);
    // A real change: a read that shows what was there before it is repeated for a while.
    const vendor = { ...upstream.records.all('vendors')[0]!, name: 'Renamed' };
    upstream.records.put('vendors', vendor);
    expect(await sender.attempt(eventAbout('vendor.updated', 'vendors', vendor))).toBe(202);
    await eventually('the vendor is verified', () => unverified(service.database) === 0, 20_000);
    expect(asked().length).toBe(new Set(asked()).size);
  } finally {
    sender.close();
    await service.end();
    await upstream.close();
    rmSync(folder, { recursive: true });
  }
}, 120_000);
